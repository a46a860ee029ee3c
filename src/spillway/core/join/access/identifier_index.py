"""An inverted index whose lists are sorted by identifier (Section 4.2.1), to compare the time-ordered index with.

There is a list for each basic window and item: a binary search tree over hashes of the rows' numbers. The hashes
stand for identifiers that are unrelated to time. Because they are random, the trees stay shallow without balancing.

    insert    down the tree, logarithmic time
    expire    down the tree, logarithmic time
    search    all of the tree: its rows are not in the order of time, so a part of a basic window costs as
              much as all of it

Everything else is as in :mod:`spillway.core.join.access.time_index`, and the matches are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.data.vocabulary import EMPTY
from spillway.core.inlined import inlined
from spillway.core.join.access.hash_table import WHOLE, place, remove

LESS, MORE, ROW = 0, 1, 2  # columns of the links: the two subtrees, and the row that a node belongs to


@inlined
def _identifier(row: int) -> Any:
    z = np.uint64(row) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return z ^ (z >> np.uint64(32))


@inlined
def insert(view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    """List a row under each of its items; return how many keys are new."""
    _, starts, items, _, _, links, first, first_item = view
    keys, mine = 0, _identifier(row)
    for node in range(starts[row - first], starts[row - first + 1]):
        item = items[node - first_item]
        links[node - first_item, LESS], links[node - first_item, MORE] = -1, -1
        links[node - first_item, ROW] = row
        slot = place(table, window if by_window else WHOLE, item)
        if not table[slot, 3]:
            table[slot, 0], table[slot, 1] = window if by_window else WHOLE, item
            table[slot, 2], table[slot, 3] = node, 1
            keys += 1
            continue
        at = table[slot, 2]
        while True:
            way = LESS if mine < _identifier(links[at - first_item, ROW]) else MORE
            if links[at - first_item, way] < 0:
                links[at - first_item, way] = node
                break
            at = links[at - first_item, way]
    return keys


@inlined
def _without(links: Any, first_item: int, node: int) -> Any:
    """Return the node that takes the place of a removed node."""
    less, more = links[node - first_item, LESS], links[node - first_item, MORE]
    if less < 0:
        return more
    if more < 0:
        return less
    above, heir = np.int64(-1), more
    while links[heir - first_item, LESS] >= 0:
        above = heir
        heir = links[heir - first_item, LESS]
    if above >= 0:
        links[above - first_item, LESS] = links[heir - first_item, MORE]
        links[heir - first_item, MORE] = more
    links[heir - first_item, LESS] = less
    return heir


@inlined
def expire(view: Any, row: int, window: int, by_window: bool, table: Any) -> Any:
    """Remove a row; return how many keys were removed."""
    _, starts, items, _, _, links, first, first_item = view
    keys, mine = 0, _identifier(row)
    for node in range(starts[row - first], starts[row - first + 1]):
        slot = place(table, window if by_window else WHOLE, items[node - first_item])
        at, above, way = table[slot, 2], np.int64(-1), LESS
        while at != node:
            above = at
            way = LESS if mine < _identifier(links[at - first_item, ROW]) else MORE
            at = links[at - first_item, way]
        heir = _without(links, first_item, node)
        if above >= 0:
            links[above - first_item, way] = heir
        elif heir >= 0:
            table[slot, 2] = heir
        else:
            remove(table, slot)
            keys += 1
    return keys


@inlined
def _traverse(
    root: int, low: int, high: int, weight: float, other: Any, common: Any, sums: Any, met: Any, count: int,
    stack: Any,
) -> Any:  # fmt: skip
    """Read a whole list, and add up what rows in [low, high) have in common with the query."""
    _, _, _, weights, _, links, first, first_item = other
    read, depth, weighted = 0, 1, len(weights) > 0
    stack[0] = root
    while depth:
        depth -= 1
        at = stack[depth] - first_item
        read += 1
        row = links[at, ROW]
        if low <= row < high:
            if common[row - first] == 0:
                met[count] = row
                count += 1
            common[row - first] += 1
            if weighted:
                sums[row - first] += weight * weights[at]
        for way in (LESS, MORE):
            if links[at, way] >= 0:
                stack[depth] = links[at, way]
                depth += 1
    return count, read


@inlined
def probe(
    k: int, at: int, extra: int, ranges: Any, own: Any, other: Any, other_times: Any, length: int, apart: bool,
    table: Any, scratch: Any, stack: Any,
) -> Any:  # fmt: skip
    """Find the rows that share items with a given row; return how many, and the lookups and postings it took."""
    _, starts, items, weights, _, _, _, first_item = own
    begins, ends, _, parts = ranges
    common, sums, met = scratch
    count, lookups, postings, items_here = 0, 0, 0, starts[at + 1] - starts[at]
    for n in range(items_here + extra):
        item = items[starts[at] - first_item + n] if n < items_here else EMPTY
        weight = weights[starts[at] - first_item + n] if n < items_here and len(weights) else 0.0
        for p in range(begins[k], ends[k]):
            newest = other_times[parts[p, 1] - 1 - other[6]] // length
            oldest = other_times[parts[p, 0] - other[6]] // length
            for window in range(oldest if apart else newest, newest + 1):
                slot = place(table, window if apart else WHOLE, item)
                lookups += 1
                if table[slot, 3]:
                    count, read = _traverse(
                        *(table[slot, 2], parts[p, 0], parts[p, 1], weight),
                        *(other, common, sums, met, count, stack),
                    )
                    postings += read
    return count, lookups, postings
