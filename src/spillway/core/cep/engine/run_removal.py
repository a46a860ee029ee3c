"""Counts and drops runs in place, in one pass over a store.

A run whose window has passed may still be in the store. It no longer counts as a run, and it is removed without being
counted when others are dropped. So the counts of runs do not depend on when the store was last swept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.cep.engine.run_counters import chosen
from spillway.core.cep.engine.run_store import BUCKETS, COUNT, EARLIEST, LIVE, NEVER, START
from spillway.core.kernel import kernel


@kernel
def slice_of(first: int, now: int, within: int, slices: int) -> Any:
    """Return the time slice that a run is in, -1 if its window has passed."""
    age = max(0, now - first)
    return -1 if age >= within else age * slices // within


@kernel
def tally(ints: Any, buckets: Any, meta: Any, now: int, within: int, table: Any) -> None:
    """Count the runs of a store by [class, slice]."""
    slices = table.shape[1]
    for bucket in range(meta[BUCKETS]):
        start = buckets[bucket, START]
        for i in range(start, start + buckets[bucket, COUNT]):
            at = slice_of(ints[0, i], now, within, slices)
            if at >= 0:
                table[ints[2, i], at] += 1


@kernel
def drop(
    ints: Any,
    floats: Any,
    buckets: Any,
    meta: Any,
    now: int,
    within: int,
    limits: Any,
    salts: Any,
    spare: int,
    gone: Any,
) -> Any:
    """Drop the chosen runs of a store by [class, slice]; write their serial numbers, return how many."""
    slices, dropped, expired = limits.shape[1], 0, 0
    for bucket in range(meta[BUCKETS]):
        start, kept, earliest = buckets[bucket, START], 0, NEVER
        for i in range(start, start + buckets[bucket, COUNT]):
            age = slice_of(ints[0, i], now, within, slices)
            if age < 0:
                expired += 1
                continue
            if chosen(salts, spare, limits[ints[2, i], age], ints[1, i]):
                gone[dropped] = ints[1, i]
                dropped += 1
                continue
            at = start + kept
            if at < i:
                for column in range(ints.shape[0]):
                    ints[column, at] = ints[column, i]
                for column in range(floats.shape[0]):
                    floats[column, at] = floats[column, i]
            earliest = min(earliest, ints[0, at])
            kept += 1
        buckets[bucket, COUNT] = kept
        buckets[bucket, EARLIEST] = earliest
    meta[LIVE] -= dropped + expired
    return dropped


def distinct(parts: list[Any]) -> int:
    """Return how many different runs are in lists of serial numbers, each list without repeats."""
    return len(parts[0]) if len(parts) == 1 else len(np.unique(np.concatenate(parts)))
