"""What the two indexes have in common: tables, room, and when rows are listed and taken out.

A row is listed when it is processed, right before the opposite window is searched, so that an index holds exactly the
rows that may be met. The kernels stop when a table is more than half full or the buffers for matches might not do;
they are enlarged, and the kernel goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spillway.core.join.choosing import Ranges
from spillway.core.join.matches import Matches, Matching
from spillway.core.join.sliding import Meetings
from spillway.core.join.store import Store
from spillway.core.join.table import empty_table, larger

Stores = tuple[Store, Store]


class Index:
    """The index of both windows. What its lists are is up to three kernels."""

    indexed = True
    search: Callable[..., Any]
    insert_all: Callable[..., Any]
    expire_all: Callable[..., Any]

    def __init__(self, length: int, cut: bool) -> None:
        """``length`` is that of basic windows, and ``cut`` whether windows are searched by them."""
        self._length, self._cut = length, cut
        self._tables = [empty_table(), empty_table()]
        self._used = np.zeros(2, np.int64)
        self._listed = np.zeros(2, np.int64)  # from which row on rows are listed
        self._scratch = np.zeros(0, np.int64), np.zeros(0), np.empty(0, np.int64)

    def added(self, stores: Stores, new: tuple[int, int]) -> None:
        """Make room for the links of new rows; they are listed when they are processed."""
        del new
        for store in stores:
            if len(store.links) != len(store.items):
                store.use_links(True)

    def snapshot(self) -> dict[str, Any]:
        """Return nothing: an index is made anew from the rows."""
        return {}

    def restored(self, stores: Stores, matching: Matching, state: Mapping[str, Any]) -> None:
        """List all rows, which have all been processed."""
        del state
        self.added(stores, (0, 0))
        for i, store in enumerate(stores):
            row = store.head
            while row < store.end:
                self._enlarge(i, store)
                used, at = self._used[i : i + 1], (row, store.end, self._length, self._by_window(i, matching))
                row = self.insert_all(store.view(), store.times, *at, self._tables[i], used)
            self._listed[i] = store.head

    def find(self, stores: Stores, meetings: Meetings, ranges: Ranges, matching: Matching) -> Matches:
        """Process rows: list each, and search for its matches within its ranges."""
        left, right = stores
        self._widen(max(len(left.times), len(right.times)))
        matches, work, done = Matches(meetings, ranges), np.zeros(2, np.int64), 0
        by_window = np.array([self._by_window(0, matching), self._by_window(1, matching)])
        rows = meetings.side, meetings.row, meetings.low, meetings.high
        while True:
            done, matches.written = self.search(
                *(rows, ranges.columns, left.view(), right.view(), (left.times, right.times)),
                *(matching.rules, matching.at_least, self._length, by_window, tuple(self._tables)),
                *(self._used, self._listed, self._scratch, matches.found, done, matches.written, work),
            )
            if done == len(meetings):
                return matches.done(lookups=int(work[0]), postings=int(work[1]))
            self._enlarge(0, left)
            self._enlarge(1, right)
            matches.make_room(done)

    def expired(self, stores: Stores, matching: Matching) -> None:
        """Take out rows that have left the windows without a row of the other side coming by."""
        for i, store in enumerate(stores):
            used, low = self._used[i : i + 1], int(self._listed[i])
            at = (low, store.head, self._length, self._by_window(i, matching))
            self.expire_all(store.view(), store.times, *at, self._tables[i], used)
            self._listed[i] = max(low, store.head)

    def _by_window(self, side: int, matching: Matching) -> bool:
        return self._cut and not matching.single_sides[side]

    def _enlarge(self, side: int, store: Store) -> None:
        """Make sure that one more row of any size has room in the table."""
        live = store.starts[store.head - store.first : store.end - store.first + 1]
        most = int(np.diff(live).max(initial=0))
        while 2 * (self._used[side] + 2 * most) > len(self._tables[side]):
            self._tables[side] = larger(self._tables[side])

    def _widen(self, room: int) -> None:
        if len(self._scratch[0]) < room:
            self._scratch = np.zeros(room, np.int64), np.zeros(room), np.empty(room, np.int64)
