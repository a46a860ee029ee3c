"""Stores runs in columns: an index maps each key to a stretch of one pool; stretches grow, shrink and are freed.

A store has one column per value of its runs. The runs of one key are in one stretch, in the order in which they were
made, so a row that looks up its key reads them one after the other, and removes expired ones on the way. A stretch
that is full moves to one of twice the size; free stretches are kept in lists by size and used again.

::

    slots    [ . 3 . . 1 2 . ]          hash of the key -> bucket
    buckets  [ start, count, room, earliest first row ]
    ints     [ first time | b0 b0 b0 . | b1 b1 | free | b2 b2 b2 . | -> end ]     and so on for each column

When a store is full it is swept: expired runs are removed, stretches are laid out again with room to grow, keys
without runs are deleted, and the pool is made larger or smaller so that it is about half full. So each run is moved a
bounded number of times, and memory is bounded by a multiple of the runs that are alive.

The first column is the time of the run's first row; a run has expired if this time is at most ``limit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from spillway.core.arrays import Array
from spillway.core.kernel import kernel

START, COUNT, ROOM, EARLIEST = range(4)
TOP, BUCKETS, LIVE, FREE = range(4)  # places in ``meta``; from FREE on the first free stretch of each size
NEVER = 2**63 - 1
_LEAST = 64
_SIZES = 48


class Shape(NamedTuple):
    """The number of whole-number columns, of fraction columns, and of parts of the key."""

    ints: int
    floats: int
    keys: int


class Arrays(NamedTuple):
    """The arrays that compiled code reads and writes."""

    ints: Array
    floats: Array
    slots: Array
    keys: Array
    buckets: Array
    meta: Array


def empty(shape: Shape, runs: int = 0, keys: int = 0) -> Arrays:
    """Return a store with room for about twice as many runs and keys. Without keys there is one bucket."""
    room, table = _power(4 * runs), _power(4 * keys if shape.keys else 0)
    meta = np.zeros(FREE + _SIZES, np.int64)
    meta[FREE:] = -1
    buckets = np.zeros((table // 2, 4), np.int64)
    if not shape.keys:
        buckets[0] = 0, 0, 0, NEVER
        meta[BUCKETS] = 1
    return Arrays(
        np.zeros((shape.ints, room), np.int64),
        np.zeros((shape.floats, room)),
        np.zeros(table, np.int32),
        np.zeros((table // 2, shape.keys), np.int64),
        buckets,
        meta,
    )


def _power(least: int) -> int:
    return max(_LEAST, 1 << (max(1, least) - 1).bit_length())


@kernel
def hash_of(key: Any) -> Any:
    """Return the hash of a key."""
    h = 0
    for part in range(len(key)):
        h = (h + key[part]) * 0x1E3779B97F4A7C15
        h ^= h >> 32
    return h


@kernel
def find(store: Any, key: Any) -> Any:
    """Return the bucket of a key, or -1."""
    slots, keys = store[2], store[3]
    at = hash_of(key)
    mask = len(slots) - 1
    while True:
        at &= mask
        bucket = np.int64(slots[at]) - 1
        if bucket < 0:
            return -1
        same = True
        for part in range(len(key)):
            same = same and keys[bucket, part] == key[part]
        if same:
            return bucket
        at += 1


@kernel
def locate(store: Any, key: Any) -> Any:
    """Return the bucket of a key; a missing bucket is created, or the result is -1 if there is no room for it."""
    _, _, slots, keys, buckets, meta = store
    at = hash_of(key)
    mask = len(slots) - 1
    while True:
        at &= mask
        bucket = np.int64(slots[at]) - 1
        if bucket < 0:
            break
        same = True
        for part in range(len(key)):
            same = same and keys[bucket, part] == key[part]
        if same:
            return bucket
        at += 1
    bucket = meta[BUCKETS]
    if bucket >= len(buckets):
        return -1
    meta[BUCKETS] += 1
    slots[at] = bucket + 1
    for part in range(len(key)):
        keys[bucket, part] = key[part]
    buckets[bucket, START] = buckets[bucket, COUNT] = buckets[bucket, ROOM] = 0
    buckets[bucket, EARLIEST] = NEVER
    return bucket


@kernel
def enlarge(store: Any, bucket: int) -> bool:
    """Move a bucket to a stretch of twice the size; return whether there was room for one."""
    ints, floats, _, _, buckets, meta = store
    room = buckets[bucket, ROOM]
    wanted, size = 4, 2
    while wanted <= room:
        wanted *= 2
        size += 1
    start = meta[FREE + size]
    if start >= 0:
        meta[FREE + size] = ints[0, start]
    else:
        start = meta[TOP]
        if start + wanted > ints.shape[1]:
            return False
        meta[TOP] = start + wanted
    old, count = buckets[bucket, START], buckets[bucket, COUNT]
    for column in range(ints.shape[0]):
        for i in range(count):
            ints[column, start + i] = ints[column, old + i]
    for column in range(floats.shape[0]):
        for i in range(count):
            floats[column, start + i] = floats[column, old + i]
    if room > 0:
        ints[0, old] = meta[FREE + size - 1]
        meta[FREE + size - 1] = old
    buckets[bucket, START] = start
    buckets[bucket, ROOM] = wanted
    return True


@kernel
def expire(store: Any, bucket: int, limit: int) -> int:
    """Remove expired runs from a bucket; return how many are left."""
    ints, floats, _, _, buckets, meta = store
    start, count = buckets[bucket, START], buckets[bucket, COUNT]
    kept, earliest = 0, NEVER
    for i in range(start, start + count):
        first = ints[0, i]
        if first <= limit:
            continue
        earliest = min(earliest, first)
        at = start + kept
        if at < i:
            for column in range(ints.shape[0]):
                ints[column, at] = ints[column, i]
            for column in range(floats.shape[0]):
                floats[column, at] = floats[column, i]
        kept += 1
    buckets[bucket, COUNT] = kept
    buckets[bucket, EARLIEST] = earliest
    meta[LIVE] -= count - kept
    return kept


@kernel
def close_gap(store: Any, bucket: int, low: int, high: int) -> None:
    """Remove the runs from ``low`` up to ``high`` from a bucket."""
    ints, floats, _, _, buckets, meta = store
    start, count = buckets[bucket, START], buckets[bucket, COUNT]
    for column in range(ints.shape[0]):
        for i in range(count - high):
            ints[column, start + low + i] = ints[column, start + high + i]
    for column in range(floats.shape[0]):
        for i in range(count - high):
            floats[column, start + low + i] = floats[column, start + high + i]
    buckets[bucket, COUNT] = count - (high - low)
    meta[LIVE] -= high - low


@kernel
def copy_column(ints: Any, column: int, start: int, count: int, out: Any, to: int, at: int) -> None:
    """Copy a column of runs that lie one after the other, as an assignment of slices would.

    Numba's own slice assignment takes two seconds to compile, because it contains the message for shapes that differ.
    """
    for i in range(count):
        out[to, at + i] = ints[column, start + i]


@kernel
def _lay_out(old: Any, order: Any, ints: Any, floats: Any, keys: Any, buckets: Any, meta: Any) -> None:
    """Copy the runs to keep, bucket by bucket, in the given order."""
    old_ints, old_floats, old_keys, old_buckets, keep = old
    made = 0
    for bucket in order:
        start, count = old_buckets[bucket, START], old_buckets[bucket, COUNT]
        kept = 0
        for i in range(start, start + count):
            kept += keep[i]
        room = 4
        while room < kept + kept // 2:
            room *= 2
        at, earliest = meta[TOP], NEVER
        for i in range(start, start + count):
            if keep[i]:
                for column in range(ints.shape[0]):
                    ints[column, at] = old_ints[column, i]
                for column in range(floats.shape[0]):
                    floats[column, at] = old_floats[column, i]
                earliest = min(earliest, old_ints[0, i])
                at += 1
        for part in range(keys.shape[1]):
            keys[made, part] = old_keys[bucket, part]
        buckets[made, START], buckets[made, COUNT] = meta[TOP], kept
        buckets[made, ROOM], buckets[made, EARLIEST] = room, earliest
        meta[TOP] += room
        meta[LIVE] += kept
        made += 1
    meta[BUCKETS] = made


@kernel
def _fill_slots(slots: Any, keys: Any, count: int) -> None:
    mask = len(slots) - 1
    for bucket in range(count):
        at = hash_of(keys[bucket]) & mask
        while slots[at]:
            at = (at + 1) & mask
        slots[at] = bucket + 1


def live(store: Arrays) -> Array:
    """Return the positions of all runs, bucket by bucket."""
    buckets = store.buckets[: store.meta[BUCKETS]]
    counts = buckets[:, COUNT]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(buckets[:, START] - (ends - counts), counts))


def sweep(store: Arrays, shape: Shape, limit: int) -> Arrays:
    """Return the store without expired runs."""
    places = live(store)
    kept = store.ints[0, places] > limit
    keep = np.zeros(store.ints.shape[1], np.bool_)
    keep[places[kept]] = True
    count = int(store.meta[BUCKETS])
    owner = np.repeat(np.arange(count), store.buckets[:count, COUNT])
    order = np.flatnonzero(np.bincount(owner[kept])) if shape.keys else np.zeros(1, np.int64)
    new = empty(shape, int(kept.sum()) + 2 * len(order), len(order) + 16)
    old = (store.ints, store.floats, store.keys, store.buckets, keep)
    _lay_out(old, order, new.ints, new.floats, new.keys, new.buckets, new.meta)
    if shape.keys:
        _fill_slots(new.slots, new.keys, int(new.meta[BUCKETS]))
    return new


def size_bytes(store: Arrays) -> int:
    """Return the memory that a store takes."""
    return sum(array.nbytes for array in store)


def snapshot(store: Arrays) -> dict[str, Array]:
    """Return the runs of a store, bucket by bucket."""
    places, count = live(store), int(store.meta[BUCKETS])
    return {
        "ints": store.ints[:, places],
        "floats": store.floats[:, places],
        "keys": store.keys[:count],
        "counts": store.buckets[:count, COUNT],
    }


def restore(state: Mapping[str, Array], shape: Shape) -> Arrays:
    """Return the store of a snapshot."""
    counts = state["counts"].astype(np.int64)
    if not len(counts):
        return empty(shape)
    ints = np.ascontiguousarray(state["ints"].astype(np.int64))
    floats = np.ascontiguousarray(state["floats"].astype(np.float64))
    buckets = np.zeros((len(counts), 4), np.int64)
    buckets[:, COUNT], buckets[:, START] = counts, np.cumsum(counts) - counts
    meta = np.zeros(FREE + _SIZES, np.int64)
    meta[BUCKETS] = len(counts)
    keys = np.ascontiguousarray(state["keys"].astype(np.int64).reshape(len(counts), shape.keys))
    return sweep(Arrays(ints, floats, np.zeros(0, np.int32), keys, buckets, meta), shape, -(2**63))
