"""The baseline: drops rows at random from both inputs, and joins the rest in full.

A row is kept with probability q. If all rows of a period were kept, they would make c comparisons with rows that are
already in the windows, and a comparisons among each other. Of the latter only a share q² is left, of the former q:

    q c + q² a = B,     q = (-c + √(c² + 4 a B)) / 2a

In the long run, when all rows in the windows have been thinned out alike, this is q² D = B: to make a fraction r of
the comparisons, √r of the rows are kept, and a fraction r of the matches is found, whatever their distribution.

>>> round(keep_ratio(40.0, old=0.0, new=1000.0), 6), keep_ratio(2000.0, old=500.0, new=500.0)
(0.2, 1.0)
"""

from __future__ import annotations

import math

import numpy as np

from spillway.core.arrays import Ints
from spillway.core.join.item_sets import Rows
from spillway.core.join.window_store import Store


def keep_ratio(budget: float, *, old: float, new: float) -> float:
    """Return q for a budget; ``old`` and ``new`` are the comparisons with stored rows and with new rows."""
    if budget >= old + new:
        return 1.0
    if budget <= 0.0:
        return 0.0
    return min(1.0, 2.0 * budget / (old + math.hypot(old, 2.0 * math.sqrt(new) * math.sqrt(budget))))


def encounters(
    stores: tuple[Store, Store], rows: tuple[Rows, Rows], w: tuple[int, int]
) -> tuple[float, float]:
    """Return how many comparisons new rows would make with stored rows, and among each other."""
    old = sum(_met(rows[1 - i].times, stores[i].times[stores[i].live], w[i]) for i in (0, 1))
    left, right = rows[0].times, rows[1].times
    low = np.searchsorted(left, right - w[0], side="left")
    high = np.searchsorted(left, right + w[1], side="right")
    return float(old), float((high - low).sum())


def _met(times: Ints, stored: Ints, window: int) -> int:
    return int((len(stored) - np.searchsorted(stored, times - window, side="left")).sum())
