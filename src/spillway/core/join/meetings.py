"""The order in which rows are processed, and the stored rows that each one meets (input-triggered semantics).

Rows of both sides are processed one after the other, in the order of time. At equal times left rows come before right
rows, and rows of one side are in their order of arrival. A processed row first enters its own window. Then it meets
the rows of the opposite window, which were processed before it and are not older than that window's length:

    row t of one side meets t' of the other   if   t' came first   and   T(t) - T(t') <= w of t'

So each pair is considered once, when its later row is processed. For the whole join this means

    left row l and right row r are a pair   if   -w_right <= T(r) - T(l) <= w_left   and they match,

whatever the order at equal times. Stored rows are in the order of time, so the rows that a row meets are a range
[low, high) of row numbers, and both ends only increase.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.arrays import Ints
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel


@kernel
def _meetings(
    left: Any, right: Any, from_left: int, from_right: int, w_left: int, w_right: int, head: int,
    other_head: int, out: Any,
) -> int:  # fmt: skip
    """Merge the new parts of two arrays of times, which begin at the heads, into five columns."""
    comparisons = 0
    side, row, when, low, high = out[0], out[1], out[2], out[3], out[4]
    at_left, at_right, low_left, low_right = from_left, from_right, 0, 0
    for k in range(out.shape[1]):
        if at_right == len(right) or (at_left < len(left) and left[at_left] <= right[at_right]):
            time = left[at_left]
            while low_right < at_right and right[low_right] < time - w_right:
                low_right += 1
            side[k], row[k], when[k] = 0, at_left + head, time
            low[k], high[k] = low_right + other_head, at_right + other_head
            at_left += 1
        else:
            time = right[at_right]
            while low_left < at_left and left[low_left] < time - w_left:
                low_left += 1
            side[k], row[k], when[k] = 1, at_right + other_head, time
            low[k], high[k] = low_left + head, at_left + head
            at_right += 1
        comparisons += high[k] - low[k]
    return comparisons


class Meetings:
    """The rows to process, in order: ``side``, ``row``, ``time``, and the range ``low`` to ``high`` that each meets.

    ``comparisons`` is the number of comparisons if each row is compared with all rows that it meets.
    """

    def __init__(self, columns: tuple[Ints, ...], comparisons: int) -> None:
        self.columns, self.comparisons = columns, comparisons
        self.side, self.row, self.time, self.low, self.high = columns

    def __len__(self) -> int:
        return len(self.side)

    def cut(self, before: int) -> tuple[Meetings, Meetings | None]:
        """Return the rows before a time, and the rows from that time on (None if there are none)."""
        if self.time[-1] < before:
            return self, None
        at = int(np.searchsorted(self.time, before))
        comparisons = int((self.high[:at] - self.low[:at]).sum())
        return (
            Meetings(tuple(column[:at] for column in self.columns), comparisons),
            Meetings(tuple(column[at:] for column in self.columns), self.comparisons - comparisons),
        )


def meetings(stores: tuple[Store, Store], new: tuple[int, int], w: tuple[int, int]) -> Meetings:
    """Return the last ``new`` rows of each side in the order of processing, with the ranges that they meet."""
    out = np.empty((5, new[0] + new[1]), np.int64)
    left, right = (store.times[store.live] for store in stores)
    olds, heads = (len(left) - new[0], len(right) - new[1]), (stores[0].head, stores[1].head)
    comparisons = _meetings(left, right, *olds, *w, *heads, out)
    return Meetings(tuple(out), comparisons)
