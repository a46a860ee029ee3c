"""Input-triggered semantics: in which order rows are processed, and which stored rows each may meet.

Rows of both sides are processed one after the other, by time; at the same time left ones come before right ones,
and rows of one side in the order in which they came. A row that is processed enters its own window and then meets
the rows of the opposite one, which were processed before it and are not older than that window's length:

    row t of one side meets t' of the other   if   t' came first   and   T(t) - T(t') <= w of t'

So each pair is considered once, by the later of the two, and for the whole join

    left row l and right row r are a pair   if   -w_right <= T(r) - T(l) <= w_left   and they match,

whatever the order at equal times. Stored rows lie in the order of time, so that what a row meets is a range [low,
high) of row numbers, and both ends only ever move up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.join.store import Store
from spillway.core.join.values import Ints
from spillway.core.kernel import kernel


@kernel
def _meetings(
    left: Any, right: Any, from_left: int, from_right: int, w_left: int, w_right: int, out: Any
) -> None:
    """Merge the new parts of two arrays of times; ``out`` has rows of (side, index, time, low, high)."""
    at_left, at_right, low_left, low_right = from_left, from_right, 0, 0
    for k in range(len(out)):
        if at_right == len(right) or (at_left < len(left) and left[at_left] <= right[at_right]):
            time = left[at_left]
            while low_right < at_right and right[low_right] < time - w_right:
                low_right += 1
            out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4] = 0, at_left, time, low_right, at_right
            at_left += 1
        else:
            time = right[at_right]
            while low_left < at_left and left[low_left] < time - w_left:
                low_left += 1
            out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4] = 1, at_right, time, low_left, at_left
            at_right += 1


class Meetings:
    """The rows to process, in order: ``side``, ``row``, ``time``, and the range ``low`` to ``high`` each meets."""

    def __init__(self, side: Ints, row: Ints, time: Ints, low: Ints, high: Ints) -> None:
        self.side, self.row, self.time, self.low, self.high = side, row, time, low, high

    def __len__(self) -> int:
        return len(self.side)

    def part(self, low: int, high: int) -> Meetings:
        """Return those of a range."""
        at = slice(low, high)
        return Meetings(self.side[at], self.row[at], self.time[at], self.low[at], self.high[at])


def meetings(stores: tuple[Store, Store], new: tuple[int, int], w: tuple[int, int]) -> Meetings:
    """Return the last ``new`` rows of each side in the order of processing, with what they meet."""
    out = np.empty((new[0] + new[1], 5), np.int64)
    left, right = (store.times[store.live] for store in stores)
    _meetings(left, right, len(left) - new[0], len(right) - new[1], w[0], w[1], out)
    own = np.where(out[:, 0] == 0, stores[0].head, stores[1].head)
    opposite = np.where(out[:, 0] == 0, stores[1].head, stores[0].head)
    return Meetings(
        out[:, 0].copy(),
        out[:, 1] + own,
        out[:, 2].copy(),
        out[:, 3] + opposite,
        out[:, 4] + opposite,
    )
