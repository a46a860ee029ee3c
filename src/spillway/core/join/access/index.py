"""The index of a join, in either of its two kinds: its tables and buffers, and when rows are listed and removed.

A row is listed when it is processed, right before the opposite window is searched, so that an index holds exactly the
rows that may be met. The kernels stop when a table is more than half full or when the buffers for matches might be
too small; these are enlarged, and the kernel continues where it stopped.

The lists are those of :mod:`spillway.core.join.access.time_index`, in the order of time, or those of
:mod:`spillway.core.join.access.identifier_index`. Compiled code that takes functions as arguments cannot be cached,
so a flag says which of the two to use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spillway.core.inlined import inlined, lent
from spillway.core.join.access import identifier_index, time_index
from spillway.core.join.access.hash_table import empty_table, larger
from spillway.core.join.access.index_matches import report, report_all
from spillway.core.join.access.matches import Matches, Matching
from spillway.core.join.meetings import Meetings
from spillway.core.join.predicates import WITHIN_ARRIVING, WITHIN_STORED
from spillway.core.join.selection.range_selection import Ranges
from spillway.core.join.window_store import Store
from spillway.core.join.work import LOOKUP, MATCH
from spillway.core.kernel import kernel

Stores = tuple[Store, Store]


@inlined
def _insert(in_time: bool, view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    if in_time:
        return time_index.insert(view, row, window, by_window, table)
    return identifier_index.insert(view, row, window, by_window, table)


@inlined
def _expire(in_time: bool, view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    if in_time:
        return time_index.expire(view, row, window, by_window, table)
    return identifier_index.expire(view, row, window, by_window, table)


@kernel
def _insert_all(
    in_time: bool, view: Any, times: Any, low: int, high: int, length: int, by_window: bool, table: Any,
    used: Any, s: int,
) -> int:  # fmt: skip
    """List rows until the table is too full; return the first row that is not listed."""
    starts, first = view[1], view[6]
    for row in range(low, high):
        if used[s] + 2 * (starts[row - first + 1] - starts[row - first]) > len(table) // 2:
            return row
        used[s] += _insert(in_time, view, row, times[row - first] // length, by_window, table)
    return high


@kernel
def _expire_all(
    in_time: bool, view: Any, times: Any, low: int, high: int, length: int, by_window: bool, table: Any,
    used: Any, s: int,
) -> None:  # fmt: skip
    for row in range(low, high):
        used[s] -= _expire(in_time, view, row, times[row - view[6]] // length, by_window, table)


@kernel
def _search(
    in_time: bool, meetings: Any, ranges: Any, left: Any, right: Any, times: Any, rules: Any, at_least: float,
    length: int, by_window: Any, tables: Any, used: Any, listed: Any, scratch: Any, nodes: Any, query: Any,
    found: Any, since: int, written: int, work: Any,
) -> Any:  # fmt: skip
    """Process rows from ``since`` on; return the first row without room, and how many matches are written."""
    meetings, ranges, left, right, times = lent(meetings), lent(ranges), lent(left), lent(right), lent(times)
    tables, scratch, nodes, query, found = lent(tables), lent(scratch), lent(nodes), lent(query), lent(found)
    side, rows, _, low, high = meetings
    begins, ends, taken, parts = ranges
    common, sums, met = scratch
    for k in range(since, len(side)):
        s, row, total = side[k], rows[k], taken[k]
        own, other = (left, right) if s == 0 else (right, left)
        own_times, other_times = (times[0], times[1]) if s == 0 else (times[1], times[0])
        own_table, table = (tables[0], tables[1]) if s == 0 else (tables[1], tables[0])
        at = row - own[6]
        items = own[1][at + 1] - own[1][at]
        if written + total > len(found[1]) or used[s] + 2 * items > len(own_table) // 2:
            return k, written
        found[0][k] = written
        used[s] += _insert(in_time, own, row, own_times[at] // length, by_window[s], own_table)
        for gone in range(listed[1 - s], low[k]):
            window = other_times[gone - other[6]] // length
            used[1 - s] -= _expire(in_time, other, gone, window, by_window[1 - s], table)
        listed[1 - s] = max(listed[1 - s], low[k])
        if total == 0:
            continue
        rule, size = rules[s], own[0][at]
        if size == 0 and rule == WITHIN_STORED:
            written = report_all(parts, begins[k], ends[k], found, written)
            work[1] += total
            continue
        extra = 1 if rule == WITHIN_ARRIVING and size else 0  # empty sets are within every set
        if in_time:
            count, lookups, postings = time_index.probe(
                *(
                    k,
                    at,
                    extra,
                    high[k],
                    rule,
                    ranges,
                    own,
                    other,
                    other_times,
                    length,
                    by_window[1 - s],
                    table,
                ),
                *(scratch, nodes, query),
            )
        else:
            count, lookups, postings = identifier_index.probe(
                *(
                    k,
                    at,
                    extra,
                    ranges,
                    own,
                    other,
                    other_times,
                    length,
                    by_window[1 - s],
                    table,
                    scratch,
                    nodes,
                )
            )
        before = written
        written = report(rule, at_least, size, other, common, sums, met, count, found, written)
        work[0] += lookups
        work[1] += postings
        if total == high[k] - low[k]:
            work[2] += LOOKUP * lookups + postings + MATCH * (written - before)
            work[3] += total
    return len(side), written


class Index:
    """The index of both windows, with lists in the order of time or sorted by identifier_index."""

    indexed = True

    def __init__(self, length: int, *, cut: bool, in_time: bool) -> None:
        """``length`` is that of basic windows, and ``cut`` whether windows are searched by basic window."""
        self._length, self._cut, self._in_time = length, cut, in_time
        self._tables = [empty_table(), empty_table()]
        self._used = np.zeros(2, np.int64)
        self._listed = np.zeros(2, np.int64)  # by side: the first row that is still listed
        self._most_items = 0
        self._scratch = np.zeros(0, np.int64), np.zeros(0), np.empty(0, np.int64)
        self._nodes, self._query = np.empty(0, np.int64), np.empty(0)

    def added(self, stores: Stores, new: tuple[int, int]) -> None:
        """Make room for the links of new rows; they are listed when they are processed."""
        for store, count in zip(stores, new, strict=True):
            if len(store.links) != len(store.items):
                store.use_links(True)
            lengths = np.diff(store.starts[store.end - count - store.first : store.end - store.first + 1])
            self._most_items = max(self._most_items, int(lengths.max(initial=0)))
        self._widen(max(len(store.times) for store in stores))

    def snapshot(self) -> dict[str, Any]:
        """Return how many keys there are: the index is rebuilt from the rows, with room for that many."""
        return {"used": self._used}

    def restored(self, stores: Stores, matching: Matching, state: Mapping[str, Any]) -> None:
        """List all rows, which have all been processed."""
        for s, keys in enumerate(state["used"].tolist()):
            self._tables[s] = empty_table(keys)
        self.added(stores, (len(stores[0]), len(stores[1])))
        for s, store in enumerate(stores):
            row = store.head
            while row < store.end:
                self._enlarge()
                row = _insert_all(
                    *(self._in_time, store.view(), store.times, row, store.end, self._length),
                    *(self._by_window(s, matching), self._tables[s], self._used, s),
                )
            self._listed[s] = store.head

    def find(self, stores: Stores, meetings: Meetings, ranges: Ranges, matching: Matching) -> Matches:
        """Process rows: list each, and search for its matches within its ranges."""
        left, right = stores
        matches, work, done = Matches(meetings, ranges), np.zeros(4, np.int64), 0
        by_window = np.array([self._by_window(0, matching), self._by_window(1, matching)])
        while True:
            done, matches.written = _search(
                *(self._in_time, meetings.columns, ranges.columns, left.view(), right.view()),
                *((left.times, right.times), matching.rules, matching.at_least, self._length, by_window),
                *(tuple(self._tables), self._used, self._listed, self._scratch, self._nodes, self._query),
                *(matches.found, done, matches.written, work),
            )
            if done == len(meetings):
                lookups, postings, units, comparisons = work.tolist()
                return matches.done(lookups=lookups, postings=postings, whole=(units, comparisons))
            self._enlarge()
            matches.make_room(done)

    def expired(self, stores: Stores, matching: Matching) -> None:
        """Remove rows that have left their window while no row of the other side was processed."""
        for s, store in enumerate(stores):
            low = int(self._listed[s])
            if low < store.head:
                _expire_all(
                    *(self._in_time, store.view(), store.times, low, store.head, self._length),
                    *(self._by_window(s, matching), self._tables[s], self._used, s),
                )
                self._listed[s] = store.head

    def _by_window(self, side: int, matching: Matching) -> bool:
        return self._cut and not matching.single_sides[side]

    def _enlarge(self) -> None:
        """Make sure that one more row of any size has room in the tables."""
        for s in (0, 1):
            while 2 * (self._used[s] + 2 * self._most_items) > len(self._tables[s]):
                self._tables[s] = larger(self._tables[s])

    def _widen(self, rows: int) -> None:
        """Make room to add up what each row has in common with a query, and for a position in each of its lists."""
        if len(self._scratch[0]) < rows:
            self._scratch = np.zeros(rows, np.int64), np.zeros(rows), np.empty(rows, np.int64)
        places = max(self._most_items, 0 if self._in_time else rows) + 1
        if len(self._nodes) < places:
            self._nodes, self._query = np.empty(2 * places, np.int64), np.empty(2 * places)
