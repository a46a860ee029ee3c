"""An inverted index whose lists are in the order of time (Section 4.2.2), which for single values is a hash index.

For each item there is a list of the rows that have it, newest first. It is linked through the items' own positions
in the store: a node is the position of an item, it belongs to one row, and it knows the node before it. A table
finds the newest node of an item in the whole window and, where rows are sets, in each basic window.

    insert    the new node points to what was the newest, and takes its place: constant time
    expire    nodes go from the old end, in the order of the rows; a key goes with its newest node: constant time
    search    from the newest node of the part that is asked for, back in time, until older than the part

For each row that is met in the lists of the query's items the common items, or their products, are added up. That
takes the place of the paper's merge with a heap: it needs one addition per node instead of a step in the heap. The
rows with enough in common are sorted, so that matches come in the order of time as in a scan.

A part is a range of rows and may span several basic windows, of which an item may be missing in some: they are looked
up from the newest on until one has the item, and from there the links lead through the others. A part that reaches up
to the present begins at the newest node of all. With single values all parts are found on one way back through the
one list: probing costs one lookup, however the window is cut.

**Work.** A lookup in the table and a node that is read are one unit each.

**Empty sets** are listed under an item of their own. An empty query that is contained in everything matches its whole
range; that is scanned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.join.index import Index
from spillway.core.join.predicates import PRODUCT, WITHIN_ARRIVING, WITHIN_STORED
from spillway.core.join.scan import judge
from spillway.core.join.table import WHOLE, place, remove
from spillway.core.join.values import EMPTY, sort_items
from spillway.core.kernel import kernel

BEFORE, ROW = 0, 1  # columns of the links: the node before, and the row that a node belongs to


@kernel
def _put(table: Any, window: int, item: int, node: int) -> Any:
    """Make a node the newest of its list; return what was the newest, and whether the key is new."""
    slot = place(table, window, item)
    if table[slot, 3]:
        before = table[slot, 2]
        table[slot, 2] = node
        return before, 0
    table[slot, 0], table[slot, 1], table[slot, 2], table[slot, 3] = window, item, node, 1
    return np.int64(-1), 1


@kernel
def _take(table: Any, window: int, item: int, node: int) -> Any:
    """Drop a key if this is the newest node of its list; return how many keys went."""
    slot = place(table, window, item)
    if table[slot, 3] and table[slot, 2] == node:
        remove(table, slot)
        return 1
    return 0


@kernel
def insert(view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    """List a row under each of its items; return how many keys are new."""
    _, starts, items, _, _, links, first, first_item = view
    keys = 0
    for node in range(starts[row - first], starts[row - first + 1]):
        at = node - first_item
        before, new = _put(table, WHOLE, items[at], node)
        links[at, BEFORE], links[at, ROW] = before, row
        keys += new
        if by_window:
            _, new = _put(table, window, items[at], node)
            keys += new
    return keys


@kernel
def expire(view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    """Take a row out; it must be the oldest. Return how many keys went."""
    _, starts, items, _, _, _, first, first_item = view
    keys = 0
    for node in range(starts[row - first], starts[row - first + 1]):
        keys += _take(table, WHOLE, items[node - first_item], node)
        if by_window:
            keys += _take(table, window, items[node - first_item], node)
    return keys


@kernel
def _entry(
    table: Any,
    item: int,
    low: int,
    high: int,
    seen: int,
    times: Any,
    first: int,
    length: int,
    by_window: bool,
) -> Any:
    """Return the newest node of an item in rows [low, high), perhaps a newer one, and how many lookups it took."""
    if high == seen or not by_window:
        slot = place(table, WHOLE, item)
        return (table[slot, 2] if table[slot, 3] else np.int64(-1)), 1
    newest, oldest = times[high - 1 - first] // length, times[low - first] // length
    lookups = 0
    for window in range(newest, oldest - 1, -1):
        slot = place(table, window, item)
        lookups += 1
        if table[slot, 3]:
            return table[slot, 2], lookups
    return np.int64(-1), lookups


@kernel
def _walk(
    nodes: Any, query: Any, parts: Any, began: int, end: int, other: Any, common: Any, sums: Any, met: Any,
    count: int,
) -> Any:  # fmt: skip
    """Go back in time through lists, and add up what rows of the ranges have in common with the query.

    The lists are read in turns: a step in one need not wait for the memory that a step in another has asked for.
    """
    _, starts, _, weights, _, links, first, first_item = other
    read, left, weighted = 0, len(nodes), len(weights) > 0
    oldest, newest = starts[parts[began, 0] - first], parts[end - 1, 0]
    while left:
        turn = 0
        while turn < left:
            node = nodes[turn]
            if node < oldest:
                left -= 1
                nodes[turn], query[turn] = nodes[left], query[left]
                continue
            at = node - first_item
            read += 1
            row, nodes[turn] = links[at, ROW], links[at, BEFORE]
            p = end - 1
            if row < newest:
                while row < parts[p, 0]:
                    p -= 1
            if row < parts[p, 1]:
                if common[row - first] == 0:
                    met[count] = row
                    count += 1
                common[row - first] += 1
                if weighted:
                    sums[row - first] += query[turn] * weights[at]
            turn += 1
    return count, read


@kernel
def report(
    k: int, rule: int, at_least: float, size: int, other: Any, common: Any, sums: Any, met: Any, count: int,
    found: Any, written: int,
) -> Any:  # fmt: skip
    """Write the matches among rows that were met, oldest first, and forget what was added up."""
    keys, partners, scores = found
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
        keys[written], partners[written] = k, met[i]
        scores[written] = sums[at] if rule == PRODUCT else (common[at] if other[0][at] and size else 0)
        written += 1
        common[at] = 0
        sums[at] = 0.0
    return written


@kernel
def report_all(k: int, parts: Any, began: int, end: int, found: Any, written: int) -> int:
    """Write every row of the ranges as a match: the empty set is contained in all."""
    keys, partners, scores = found
    for p in range(began, end):
        for row in range(parts[p, 0], parts[p, 1]):
            keys[written], partners[written], scores[written] = k, row, 0.0
            written += 1
    return written


@kernel
def _search(
    meetings: Any, ranges: Any, left: Any, right: Any, times: Any, rules: Any, at_least: float, length: int,
    by_window: Any, tables: Any, used: Any, live: Any, scratch: Any, found: Any, since: int, written: int,
    work: Any,
) -> Any:  # fmt: skip
    side, row, low, high = meetings
    begins, ends, taken, parts = ranges
    common, sums, met = scratch
    nodes, query = np.empty(16, np.int64), np.empty(16)
    for k in range(since, len(side)):
        s = side[k]
        own, other = (left, right) if s == 0 else (right, left)
        own_table, table = (tables[0], tables[1]) if s == 0 else (tables[1], tables[0])
        own_times, other_times = (times[0], times[1]) if s == 0 else (times[1], times[0])
        sizes, starts, items, weights, _, _, first, first_item = own
        at = row[k] - first
        began, total = begins[k], taken[k]
        if (
            written + total > len(found[0])
            or used[s] + 2 * (starts[at + 1] - starts[at]) > len(own_table) // 2
        ):
            return k, written
        used[s] += insert(own, row[k], own_times[at] // length, by_window[s], own_table)
        while live[1 - s] < low[k]:
            gone = live[1 - s]
            window = other_times[gone - other[6]] // length
            used[1 - s] -= expire(other, gone, window, by_window[1 - s], table)
            live[1 - s] += 1
        if total == 0:
            continue
        rule, size = rules[s], sizes[at]
        if size == 0 and rule == WITHIN_STORED:
            written = report_all(k, parts, began, ends[k], found, written)
            work[1] += total
            continue
        count, items_here = 0, starts[at + 1] - starts[at]
        lists = items_here + (1 if rule == WITHIN_ARRIVING and size else 0)  # empty sets are within every set
        if lists > len(nodes):
            nodes, query = np.empty(2 * lists, np.int64), np.empty(2 * lists)
        apart = by_window[1 - s]
        for p in range(began if apart else ends[k] - 1, ends[k]):
            begin = p if apart else began
            for n in range(lists):
                item = items[starts[at] - first_item + n] if n < items_here else EMPTY
                query[n] = weights[starts[at] - first_item + n] if n < items_here and len(weights) else 0.0
                nodes[n], lookups = _entry(
                    table, item, parts[begin, 0], parts[p, 1], high[k], other_times, other[6], length, apart
                )
                work[0] += lookups
            # sums are to be added in the order of the items, as a merge does: then one list after the other
            together = 1 if rule == PRODUCT else lists
            for n in range(0, lists, together):
                count, read = _walk(
                    *(nodes[n : n + together], query[n : n + together], parts, begin, p + 1),
                    *(other, common, sums, met, count),
                )
                work[1] += read
        written = report(k, rule, at_least, size, other, common, sums, met, count, found, written)
    return len(side), written


@kernel
def _insert_all(
    view: Any, times: Any, low: int, high: int, length: int, by_window: bool, table: Any, used: Any
) -> int:
    """List rows until the table is too full; return the first that is not listed."""
    first = view[6]
    for row in range(low, high):
        items = view[1][row - first + 1] - view[1][row - first]
        if used[0] + 2 * items > len(table) // 2:
            return row
        used[0] += insert(view, row, times[row - first] // length, by_window, table)
    return high


@kernel
def _expire_all(
    view: Any, times: Any, low: int, high: int, length: int, by_window: bool, table: Any, used: Any
) -> None:
    for row in range(low, high):
        used[0] -= expire(view, row, times[row - view[6]] // length, by_window, table)


class TimeOrdered(Index):
    """The index of both windows, with lists in the order of time."""

    search, insert_all, expire_all = (
        staticmethod(_search),
        staticmethod(_insert_all),
        staticmethod(_expire_all),
    )
