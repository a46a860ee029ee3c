"""Turns what an index has added up for the rows that it met into matches."""

from __future__ import annotations

from typing import Any

from spillway.core.inlined import inlined
from spillway.core.join.access.scan import judge
from spillway.core.join.item_sets import sort_items
from spillway.core.join.predicates import PRODUCT


@inlined
def report(
    rule: int, at_least: float, size: int, other: Any, common: Any, sums: Any, met: Any, count: int,
    found: Any, written: int,
) -> Any:  # fmt: skip
    """Write the matches among rows that were met, oldest first, and reset what was added up."""
    _, partners, scores = found
    matching = 0
    for i in range(count):
        at = met[i] - other[6]
        shared = common[at] if other[0][at] and size else 0
        if judge(rule, at_least, shared, sums[at], size, other[0][at]):
            met[matching] = met[i]
            matching += 1
        else:
            common[at] = 0
            sums[at] = 0.0
    sort_items(met, sums, 0, matching, False)
    for i in range(matching):
        at = met[i] - other[6]
        partners[written] = met[i]
        scores[written] = sums[at] if rule == PRODUCT else (common[at] if other[0][at] and size else 0)
        written += 1
        common[at] = 0
        sums[at] = 0.0
    return written


@inlined
def report_all(parts: Any, began: int, end: int, found: Any, written: int) -> int:
    """Write every row of the ranges as a match: the empty set is contained in all."""
    _, partners, scores = found
    for p in range(began, end):
        for row in range(parts[p, 0], parts[p, 1]):
            partners[written], scores[written] = row, 0.0
            written += 1
    return written
