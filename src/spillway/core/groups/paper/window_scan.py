"""Selects the rows of a window to keep in one scan: evenly, at random, or each row by its own random draw.

A scan reads every row of a window once and stores only the rows that it keeps. It knows beforehand the rows of each
group, N_g (``sizes``), and how many are wanted, n_g. The random number ("coin") of a row is a hash of (salt, row key,
window): salt and window are one number, :func:`coin_number`.

    evenly       the places of the rows to keep are set when a group's first row comes; the scan counts up to them
    at random    a heap for each group: the n_g rows with the smallest random numbers
    by coins     rows whose random number is at most a limit; groups don't matter (Algorithm 1)

An even scan depends on the order in which rows arrive. It needs a random number for each row that it keeps and for
each group, not for every row.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise

from spillway.core.groups.paper.open_windows import Row
from spillway.core.groups.random_order import coins, mixed_one
from spillway.core.random import mix, threshold

Sizes = Mapping[Hashable, int]


def coin_number(salt: int, window: int) -> int:
    """Return the number folded into the hashes of a window's rows: windows and salts draw independently."""
    return mix(salt, window)


def scan_evenly(rows: Iterable[Row], *, number: int, sizes: Sizes, wanted: Sizes) -> list[Row]:
    """Return the rows that :func:`~spillway.core.groups.even_sample.evenly` keeps, given in the order of their time.

    >>> rows = [(time, "a", 0.0, 10 + time) for time in range(6)]
    >>> [row[0] for row in scan_evenly(rows, number=0, sizes={"a": 6}, wanted={"a": 3})]
    [0, 3, 4]
    """
    coin = coins(number)
    waits: dict[Hashable, int] = {}  # how many rows of a group to skip before one is kept
    gaps: dict[Hashable, list[int]] = {}  # the skips after that, the next one last
    kept: list[Row] = []
    for row in rows:
        group = row[1]
        wait = waits.get(group)
        if wait is None:
            gaps[group] = gaps_between(coin(row[3]), N=sizes[group], n=wanted[group])
            wait = gaps[group].pop()
        if wait:
            waits[group] = wait - 1
        else:
            kept.append(row)
            waits[group] = gaps[group].pop()
    return kept


def gaps_between(hashed: int, *, N: int, n: int) -> list[int]:
    """Return how many of N rows lie before, between and after the n kept ones, in reverse order.

    >>> gaps_between(10, N=6, n=3)
    [0, 0, 2, 1]
    """
    u = mixed_one(0, hashed) % 2**64 % N
    parts = [k * N // n for k in range(n + 1)] if n else []
    within = (mixed_one(k + 1, hashed) % 2**64 % (parts[k + 1] - parts[k]) for k in range(n))
    places = sorted((u + part + v) % N for part, v in zip(parts, within, strict=False))
    return [after - before - 1 for before, after in pairwise([-1, *places, N])][::-1]


def scan_at_random(rows: Iterable[Row], *, number: int, sizes: Sizes, wanted: Sizes) -> list[Row]:
    """Return the rows that :func:`~spillway.core.groups.stratified.stratified` keeps."""
    coin = coins(number)
    heaps: dict[Hashable, list[tuple[int, Row]]] = {group: [] for group in sizes}
    for row in rows:
        heap, most, drawn = (
            heaps[row[1]],
            wanted[row[1]],
            -coin(row[3]),
        )  # negated: the largest number is on top
        if len(heap) < most:
            heapq.heappush(heap, (drawn, row))
        elif most and drawn > heap[0][0]:
            heapq.heapreplace(heap, (drawn, row))
    return [row for heap in heaps.values() for _, row in heap]


def scan_by_coins(rows: Iterable[Row], *, number: int, keep_ratio: float) -> tuple[list[Row], int]:
    """Keep each row with the same probability; return the kept rows and how many rows arrived."""
    coin, arrived, kept = coins(number), 0, []
    limit = threshold(keep_ratio) if keep_ratio > 0.0 else -(2**63) - 1
    for arrived, row in enumerate(rows, 1):  # noqa: B007
        if coin(row[3]) <= limit:
            kept.append(row)
    return kept, arrived
