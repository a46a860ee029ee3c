"""The join by definition: nested loops over plain Python values, written without looking at the code under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = tuple[float | None, Any]  # time, value
Pair = tuple[int, int, float]


def weights_of(value: Any) -> dict[Any, float]:
    """Any value as items with weights: a single one, a list, a list of (item, weight), or a dict."""
    if isinstance(value, dict):
        value = list(value.items())
    if not isinstance(value, list):
        return {value: 1.0}
    found: dict[Any, float] = {}
    for entry in value:
        pair = (entry["item"], entry["weight"]) if isinstance(entry, dict) else entry
        item, weight = pair if isinstance(pair, tuple) else (pair, None)
        if item is None:
            continue
        if isinstance(pair, tuple):
            found[item] = found.get(item, 0.0) + (weight or 0.0)
        else:
            found[item] = 1.0
    return found


def score(kind: str, at_least: float, left: Any, right: Any) -> float | None:
    """The score of two values that match, None if they do not."""
    if left is None or right is None:
        return None
    a, b = weights_of(left), weights_of(right)
    common = set(a) & set(b)
    if kind == "inner_product":
        product = sum(a[item] * b[item] for item in common)
        return product if product >= at_least else None
    holds: dict[str, Callable[[], bool]] = {
        "equality": lambda: set(a) == set(b),
        "subset": lambda: set(a) <= set(b),
        "superset": lambda: set(a) >= set(b),
        "overlap": lambda: len(common) >= at_least,
    }
    return float(len(common)) if holds[kind]() else None


def join(
    left: list[Row], right: list[Row], kind: str, at_least: float, within: tuple[float, float]
) -> list[Pair]:
    """All pairs in the order in which they come about.

    Rows are processed by time, left before right, each side in its own order. A row meets the rows of the other
    side that have been processed and are not older than that side's window; it meets the older ones first.
    """
    events = [(time, 0, number) for number, (time, _) in enumerate(left) if time is not None]
    events += [(time, 1, number) for number, (time, _) in enumerate(right) if time is not None]
    seen: tuple[list[int], list[int]] = ([], [])
    found: list[Pair] = []
    sides = (left, right)
    for time, side, number in sorted(events):
        for other in seen[1 - side]:
            other_time = sides[1 - side][other][0]
            assert other_time is not None
            if time - other_time <= within[1 - side]:
                pair = (number, other) if side == 0 else (other, number)
                how_much = score(kind, at_least, left[pair[0]][1], right[pair[1]][1])
                if how_much is not None:
                    found.append((*pair, how_much))
        seen[side].append(number)
    return found
