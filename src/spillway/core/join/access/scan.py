"""Nested loops: a row is compared with every row of the ranges chosen for it.

Stored rows are read in blocks. For a block the common bits of all rows are counted at once, which the compiler turns
into vector instructions; then the predicate's rule is applied to each count. Where bits only bound the number of
common items, or where weights matter, the rows that pass are compared by a merge of their sorted items. Single values
need no bits: their one item is compared.

Matches are written in the order of processing, and for one row in the order of time. Their buffers are filled until
the matches of one more row might not fit; then the caller enlarges them and continues.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.inlined import inlined, lent
from spillway.core.join.access.matches import Matches, Matching
from spillway.core.join.access.signatures import Signatures, popcount
from spillway.core.join.meetings import Meetings
from spillway.core.join.predicates import AT_LEAST, PRODUCT, SAME, WITHIN_ARRIVING
from spillway.core.join.selection.range_selection import Ranges
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel

BLOCK = 256


@inlined
def _merge(
    items: Any, weights: Any, low: int, high: int, others: Any, other_weights: Any, starts: Any, first_item: int,
    rows: Any, count: int, commons: Any, products: Any,
) -> None:  # fmt: skip
    """Write how many items a sorted set shares with each of some rows, and their inner products (or 0)."""
    weighted = len(weights) > 0
    for c in range(count):
        mine, start, stop = low, starts[rows[c]] - first_item, starts[rows[c] + 1] - first_item
        common, product = 0, 0.0
        while mine < high and start < stop:
            if items[mine] < others[start]:
                mine += 1
            elif items[mine] > others[start]:
                start += 1
            else:
                common += 1
                if weighted:
                    product += weights[mine] * other_weights[start]
                mine += 1
                start += 1
        commons[c], products[c] = common, product


@inlined
def judge(rule: int, at_least: float, common: Any, product: float, size: int, other_size: int) -> Any:
    """Return whether an arriving row of ``size`` items and a stored one match."""
    if rule == AT_LEAST:
        return common >= at_least
    if rule == SAME:
        return common == size and size == other_size
    if rule == PRODUCT:
        return product >= at_least
    if rule == WITHIN_ARRIVING:
        return common == other_size
    return common == size


@kernel
def _scan_single(
    meetings: Any, ranges: Any, left: Any, right: Any, found: Any, since: int, written: int
) -> Any:
    side, row = lent(meetings)
    begins, ends, taken, parts = lent(ranges)
    firsts, partners, scores = lent(found)
    left, right = lent(left), lent(right)
    for k in range(since, len(side)):
        own, other = (left, right) if side[k] == 0 else (right, left)
        items, others, shift = own[2], other[2], other[7]
        if written + taken[k] > len(partners):
            return k, written
        firsts[k] = written
        item = items[row[k] - own[7]]
        for p in range(begins[k], ends[k]):
            for first in range(parts[p, 0], parts[p, 1], BLOCK):
                last = min(first + BLOCK, parts[p, 1])
                hits = 0
                for other_row in range(first - shift, last - shift):
                    hits += others[other_row] == item
                if hits:
                    for other_row in range(first, last):
                        if others[other_row - shift] == item:
                            partners[written], scores[written] = other_row, 1.0
                            written += 1
    return len(side), written


@inlined
def _set_bits(words: Any, at: int, query: Any) -> Any:
    """Copy the words of a row and count their bits."""
    bits = np.uint64(0)
    for word in range(len(query)):
        query[word] = words[word, at]
        bits += popcount(query[word])
    return np.int64(bits)


@inlined
def _common_bits(query: Any, words: Any, base: int, length: int, counts: Any) -> None:
    for j in range(length):
        counts[j] = 0
    for word in range(len(query)):
        mine, stored = query[word], words[word]
        for j in range(length):
            counts[j] += popcount(stored[base + j] & mine)


@inlined
def _pass(counts: Any, least: Any, base: int, length: int, candidates: Any) -> int:
    passed = 0
    for j in range(length):
        if counts[j] >= least:
            candidates[passed] = base + j
            passed += 1
    return passed


@inlined
def _pass_own(counts: Any, sizes: Any, base: int, length: int, hidden: Any, candidates: Any) -> int:
    passed = 0
    for j in range(length):
        if np.int64(counts[j]) + hidden >= sizes[base + j]:
            candidates[passed] = base + j
            passed += 1
    return passed


@kernel
def _scan(
    meetings: Any, ranges: Any, left: Any, right: Any, rules: Any, at_least: float, exact: bool,
    found: Any, since: int, written: int,
) -> Any:  # fmt: skip
    side, row = lent(meetings)
    begins, ends, taken, parts = lent(ranges)
    firsts, partners, scores = lent(found)
    left, right = lent(left), lent(right)
    counts, candidates = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    commons, products = np.empty(BLOCK, np.int64), np.empty(BLOCK)
    query = np.empty(len(left[4]), np.uint64)
    for k in range(since, len(side)):
        own, other = (left, right) if side[k] == 0 else (right, left)
        sizes, starts, items, weights, words, _, own_first, own_first_item = own
        o_sizes, o_starts, o_items, o_weights, o_words, _, first, first_item = other
        if written + taken[k] > len(partners):
            return k, written
        firsts[k] = written
        at = row[k] - own_first
        rule, size = rules[side[k]], sizes[at]
        low, high = starts[at] - own_first_item, starts[at + 1] - own_first_item
        hidden = size - _set_bits(words, at, query)
        counted = exact and rule != PRODUCT
        least = np.int64(at_least) if rule == AT_LEAST else (1 if rule == PRODUCT else size)
        for p in range(begins[k], ends[k]):
            for begin in range(parts[p, 0], parts[p, 1], BLOCK):
                base, length = begin - first, min(BLOCK, parts[p, 1] - begin)
                _common_bits(query, o_words, base, length, counts)
                if rule == WITHIN_ARRIVING:
                    passed = _pass_own(counts, o_sizes, base, length, hidden, candidates)
                else:
                    passed = _pass(counts, np.uint64(max(0, least - hidden)), base, length, candidates)
                if counted or size == 0:
                    for c in range(passed):
                        commons[c], products[c] = counts[candidates[c] - base], 0.0
                else:
                    _merge(
                        *(items, weights, low, high, o_items, o_weights, o_starts, first_item),
                        *(candidates, passed, commons, products),
                    )
                for c in range(passed):
                    if judge(rule, at_least, commons[c], products[c], size, o_sizes[candidates[c]]):
                        partners[written] = candidates[c] + first
                        scores[written] = products[c] if rule == PRODUCT else commons[c]
                        written += 1
    return len(side), written


def scan(
    stores: tuple[Store, Store],
    meetings: Meetings,
    ranges: Ranges,
    matching: Matching,
    signatures: Signatures,
) -> Matches:
    """Return the matches of rows within their ranges."""
    sides, chosen = (meetings.side, meetings.row), ranges.columns
    views = stores[0].view(), stores[1].view()
    matches = Matches(meetings, ranges)
    if matching.single and not matching.possible_single:
        return matches.none()
    done = 0
    while done < len(meetings):
        if matching.single:
            done, matches.written = _scan_single(sides, chosen, *views, matches.found, done, matches.written)
        else:
            rules, least = matching.rules, matching.at_least
            done, matches.written = _scan(
                *(sides, chosen, *views, rules, least, signatures.exact, matches.found, done, matches.written)
            )
        if done < len(meetings):
            matches.make_room(done)
    return matches.done()
