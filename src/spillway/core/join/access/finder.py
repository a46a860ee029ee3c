"""The access paths: a scan or one of two indexes finds the matches within the selected ranges.

All of them find the same matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from spillway.core.arrays import Array
from spillway.core.join.access.index import Index
from spillway.core.join.access.matches import Matches, Matching
from spillway.core.join.access.scan import scan
from spillway.core.join.access.signatures import Signatures
from spillway.core.join.adaptations import shedding_of
from spillway.core.join.config import JoinConfig
from spillway.core.join.meetings import Meetings
from spillway.core.join.selection.range_selection import Ranges
from spillway.core.join.window_store import Store

Stores = tuple[Store, Store]


class Finder(Protocol):
    """An access path: keeps its own structures beside the stores, and finds matches."""

    indexed: bool

    def added(self, stores: Stores, new: tuple[int, int]) -> None:
        """Note that rows were added at the end of the stores, before any of them is processed."""

    def find(self, stores: Stores, meetings: Meetings, ranges: Ranges, matching: Matching) -> Matches:
        """Return the matches of rows within their ranges. Rows are given in order, each row once."""

    def expired(self, stores: Stores, matching: Matching) -> None:
        """Note that rows below the stores' heads have expired."""

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that belong to the state."""

    def restored(self, stores: Stores, matching: Matching, state: Mapping[str, Array]) -> None:
        """Take over stores whose rows have all been processed."""


class Scanning:
    """Compares a row with all rows of its ranges, with the help of bit sets."""

    indexed = False

    def __init__(self, words: int | None = None) -> None:
        self._signatures = Signatures(words)

    def added(self, stores: Stores, new: tuple[int, int]) -> None:
        """Write the bit sets of new rows."""
        self._signatures.write(stores, new)

    def find(self, stores: Stores, meetings: Meetings, ranges: Ranges, matching: Matching) -> Matches:
        """Scan the ranges."""
        return scan(stores, meetings, ranges, matching, self._signatures)

    def expired(self, stores: Stores, matching: Matching) -> None:
        """Nothing is kept beside the rows."""

    def snapshot(self) -> dict[str, Array]:
        """Return which items have which bit."""
        return self._signatures.snapshot()

    def restored(self, stores: Stores, matching: Matching, state: Mapping[str, Array]) -> None:
        """Write the bit sets of all rows."""
        del matching
        self._signatures.restore(state, stores)


def finder_of(config: JoinConfig) -> Finder:
    """Return the access path that a config names."""
    if config.access == "scan":
        return Scanning()
    cut = shedding_of(config.shedding).time_correlation
    return Index(config.length, cut=cut, in_time=config.access == "index")
