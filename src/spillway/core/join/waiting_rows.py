"""Rows that have arrived but are not processed yet, because earlier rows may still arrive.

On a stream rows are out of order within some bound, and a watermark says up to which time no more rows are expected.
Rows up to the watermark are processed, in the order of time; later rows wait, as part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Ints
from spillway.core.join.item_sets import Rows


class Waiting:
    """Rows of one side that wait, in the order of time; of the same time, in the order in which they came."""

    def __init__(self) -> None:
        self.rows = no_rows()

    def let_through(self, rows: Rows, until: int | None) -> Rows:
        """Add rows, and return those that are not later than ``until``; all if it is None."""
        if len(self.rows):
            rows = together(self.rows, rows)
            rows = picked(rows, np.argsort(rows.times, kind="stable"))
        if until is None:
            self.rows = no_rows()
            return rows
        ready = int(np.searchsorted(rows.times, until, side="right"))
        self.rows = picked(rows, np.arange(ready, len(rows)))
        return picked(rows, np.arange(ready))

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return dict(vars(self.rows))

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        self.rows = Rows(**state)


def no_rows() -> Rows:
    """Return zero rows."""
    none = np.empty(0, np.int64)
    return Rows(none, none, none, np.zeros(1, np.int64), none, np.empty(0))


def together(first: Rows, second: Rows) -> Rows:
    """Return the first rows followed by the second."""
    parts = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("numbers", "times", "types", "items", "weights")
    }
    return Rows(starts=np.concatenate([first.starts, second.starts[1:] + first.starts[-1]]), **parts)


def picked(rows: Rows, order: Ints) -> Rows:
    """Return the rows at given places.

    >>> some = Rows(*(np.array([7, 8]) for _ in range(3)), np.array([0, 2, 3]), np.array([5, 6, 9]), np.empty(0))
    >>> swapped = picked(some, np.array([1, 0]))
    >>> swapped.numbers.tolist(), swapped.starts.tolist(), swapped.items.tolist()
    ([8, 7], [0, 1, 3], [9, 5, 6])
    """
    lengths = np.diff(rows.starts)[order]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    items = np.repeat(rows.starts[:-1][order] - starts[:-1], lengths) + np.arange(starts[-1])
    weights = rows.weights[items] if len(rows.weights) else rows.weights
    return Rows(rows.numbers[order], rows.times[order], rows.types[order], starts, rows.items[items], weights)
