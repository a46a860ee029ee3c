"""Draws the rows that are processed in full, and counts the comparisons that the others would make.

A hash picks a share γr of the rows, to learn from. They may take half of the budget at most: once the drawn rows
make that many comparisons, later ones are processed like all others. For the others the comparisons with the whole
opposite window are added up by window i and by the arriving row's type z; the fractions r_(i,z) are computed from
these sums:

    F          comparisons of the rows processed in full
    D_(i,z)    comparisons that all others would make
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from spillway.core.arrays import Bools, Floats
from spillway.core.join.meetings import Meetings
from spillway.core.join.selection.row_draws import hashed
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel
from spillway.core.random import threshold

Stores = tuple[Store, Store]


@kernel
def _sample(
    side: Any, row: Any, low: Any, high: Any, numbers: Any, other_numbers: Any, first: int, other_first: int,
    types: Any, other_types: Any, salt: int, other_salt: int, highest: int, most: float, full: Any, demand: Any,
) -> float:  # fmt: skip
    drawn, taken = 0, 0
    for k in range(len(side)):
        size = high[k] - low[k]
        if side[k] == 0:
            hash_, kind = hashed(numbers[row[k] - first], salt), types[row[k] - first]
        else:
            at = row[k] - other_first
            hash_, kind = hashed(other_numbers[at], other_salt), other_types[at]
        if hash_ <= highest:
            drawn += size
            if drawn <= most:
                full[k] = True
                taken += size
                continue
        demand[1 - side[k], kind] += size
    return float(taken)


def sampled(
    stores: Stores, meetings: Meetings, probability: float, *, most: float, salts: tuple[int, int], types: int
) -> tuple[Bools, float, Floats]:
    """Draw rows with a probability, as long as their comparisons are not more than ``most``.

    Return which rows are processed in full, their comparisons F, and the demand D_(i,z) of the others.
    ``salts`` has one salt for the rows of each side, and ``types`` is the number of types.
    """
    left, right = stores
    full, demand = np.zeros(len(meetings), np.bool_), np.zeros((2, types))
    arrays: tuple[Any, ...] = (
        *(meetings.side, meetings.row, meetings.low, meetings.high),
        *(left.numbers, right.numbers, left.first, right.first, left.types, right.types),
    )
    drawing = (*salts, threshold(probability), most if probability > 0.0 else -1.0)
    return full, cast(Any, _sample)(*arrays, *drawing, full, demand), demand
