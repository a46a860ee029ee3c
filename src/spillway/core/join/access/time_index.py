"""An inverted index whose lists are in the order of time (Section 4.2.2), which for single values is a hash index.

For each item there is a list of the rows that have it, newest first. It is linked through the items' own positions
in the store: a node is the position of an item, belongs to one row, and links to the next older node. A table finds
the newest node of an item in the whole window and, where rows are sets, in each basic window.

    insert    the new node links to the newest one so far, and takes its place: constant time
    expire    nodes are removed oldest first, in the order of the rows; a key is removed with its newest
              node: constant time
    search    from the newest node of the part that is searched, back in time, until nodes are older than the part

A row that arrives is the query. For each row in the lists of the query's items, the common items or their products
are added up. This replaces the paper's merge with a heap: it needs one addition per node instead of a step in the
heap. The rows with enough in common are sorted, so that matches are in the order of time as in a scan.

A part is a range of rows and may span several basic windows. An item may be missing in some of them: they are looked
up from the newest on until one has the item, and from there the links lead through the others. A part that reaches up
to the present begins at the newest node of the whole window. With single values one pass back through the one list
finds all parts: probing costs one lookup, however the window is cut.

**Work.** A lookup in the table and a node that is read are one unit each.

**Empty sets** are listed under an item of their own. An empty query that is contained in every set matches its whole
range; that range is scanned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.data.vocabulary import EMPTY
from spillway.core.inlined import inlined
from spillway.core.join.access.hash_table import WHOLE, place, remove
from spillway.core.join.predicates import PRODUCT

BEFORE, ROW = 0, 1  # columns of the links: the next older node, and the row that a node belongs to


@inlined
def _put(table: Any, window: int, item: int, node: int) -> Any:
    """Make a node the newest of its list; return the newest node before, and whether the key is new."""
    slot = place(table, window, item)
    if table[slot, 3]:
        before = table[slot, 2]
        table[slot, 2] = node
        return before, 0
    table[slot, 0], table[slot, 1], table[slot, 2], table[slot, 3] = window, item, node, 1
    return np.int64(-1), 1


@inlined
def _take(table: Any, window: int, item: int, node: int) -> Any:
    """Remove a key if this is the newest node of its list; return how many keys were removed."""
    slot = place(table, window, item)
    if table[slot, 3] and table[slot, 2] == node:
        remove(table, slot)
        return 1
    return 0


@inlined
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


@inlined
def expire(view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    """Remove a row, which must be the oldest; return how many keys were removed."""
    _, starts, items, _, _, _, first, first_item = view
    keys = 0
    for node in range(starts[row - first], starts[row - first + 1]):
        keys += _take(table, WHOLE, items[node - first_item], node)
        if by_window:
            keys += _take(table, window, items[node - first_item], node)
    return keys


@inlined
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
    """Return the newest node of an item in rows [low, high), or a newer node, and the number of lookups."""
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


@inlined
def _walk(
    nodes: Any, query: Any, parts: Any, began: int, end: int, other: Any, common: Any, sums: Any, met: Any,
    count: int,
) -> Any:  # fmt: skip
    """Go back in time through lists, and add up what rows of the ranges have in common with the query.

    The lists are read in turns, so that a step in one list does not wait for the memory access of another.
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


@inlined
def _enter(
    own: Any, at: int, extra: int, other: Any, other_times: Any, table: Any, length: int, apart: bool,
    seen: int, low: int, high: int, nodes: Any, query: Any,
) -> Any:  # fmt: skip
    """Find the newest nodes of a row's items, the empty set being an ``extra`` item; return the lookups."""
    _, starts, items, weights, _, _, _, first_item = own
    lookups, count, begin = 0, starts[at + 1] - starts[at], starts[at] - first_item
    for n in range(count + extra):
        item = items[begin + n] if n < count else EMPTY
        query[n] = weights[begin + n] if n < count and len(weights) else 0.0
        nodes[n], looked = _entry(table, item, low, high, seen, other_times, other[6], length, apart)
        lookups += looked
    return lookups


@inlined
def probe(
    k: int, at: int, extra: int, seen: int, rule: int, ranges: Any, own: Any, other: Any, other_times: Any,
    length: int, apart: bool, table: Any, scratch: Any, nodes: Any, query: Any,
) -> Any:  # fmt: skip
    """Find the rows that share items with a given row; return how many, and the lookups and postings it took."""
    begins, ends, _, parts = ranges
    common, sums, met = scratch
    lists = own[1][at + 1] - own[1][at] + extra
    count, lookups, postings = 0, 0, 0
    for p in range(begins[k] if apart else ends[k] - 1, ends[k]):
        begin = p if apart else begins[k]
        lookups += _enter(
            *(own, at, extra, other, other_times, table, length, apart, seen),
            *(parts[begin, 0], parts[p, 1], nodes, query),
        )
        # products must be added in the order of the items, as in a merge: then one list is read after the other
        together = 1 if rule == PRODUCT else lists
        for n in range(0, lists, together):
            count, read = _walk(
                *(nodes[n : n + together], query[n : n + together], parts, begin, p + 1),
                *(other, common, sums, met, count),
            )
            postings += read
    return count, lookups, postings
