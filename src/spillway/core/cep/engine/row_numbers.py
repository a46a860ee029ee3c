"""Maps places in the stream to row numbers, for as long as the window needs them.

Runs hold places: how many rows come before in the order of time. Matches are output with row numbers: how many rows
come before in the order of the tables. As long as rows arrive in the order of time the two differ by a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spillway.core.arrays import Ints


class Numbering:
    """The rows of the last window: their times and numbers."""

    def __init__(self) -> None:
        self.low = 0  # place of the first row that is kept here
        self._times: Ints = np.empty(0, np.int64)
        self._numbers: Ints = np.empty(0, np.int64)
        self._straight = True

    @property
    def next(self) -> int:
        """The place of the next row."""
        return self.low + len(self._times)

    def add(self, times: Ints, numbers: Ints) -> None:
        """Add rows in the order of time."""
        self._times = np.concatenate([self._times, times])
        self._numbers = np.concatenate([self._numbers, numbers])
        self._straighten()

    def _straighten(self) -> None:
        ends = self._numbers[-1] - self._numbers[0] + 1 if len(self._numbers) else 0
        self._straight = bool(ends == len(self._numbers) and (np.diff(self._numbers) == 1).all())

    def numbers(self, places: Ints) -> Ints:
        """Return the numbers of the rows at the given places."""
        if not self._straight:
            return self._numbers[places - self.low]
        offset = int(self._numbers[0]) - self.low if len(self._numbers) else 0
        return places + offset if offset else places

    def forget(self, limit: int) -> None:
        """Discard rows whose time is not later than ``limit``."""
        gone = int(np.searchsorted(self._times, limit, side="right"))
        if 2 * gone > len(self._times):
            self.low += gone
            self._times, self._numbers = self._times[gone:].copy(), self._numbers[gone:].copy()
            self._straighten()

    def oldest(self, limit: int) -> int | None:
        """Return the smallest number of a row whose time is later than ``limit``, or None."""
        gone = int(np.searchsorted(self._times, limit, side="right"))
        return int(self._numbers[gone:].min()) if gone < len(self._numbers) else None

    def snapshot(self) -> dict[str, Any]:
        """Return the state as arrays."""
        return {"times": self._times, "numbers": self._numbers, "low": np.array([self.low])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a snapshot."""
        self._times, self._numbers = state["times"], state["numbers"]
        self.low = int(state["low"][0])
        self._straighten()
