"""Computes the row hashes behind every random choice, so that choices can be repeated in a replay and outside Spark.

Every random choice is a hash of (row key, salt). ``row_hashes`` computes bit for bit what Spark's
``xxhash64(columns..., salt)`` computes: a choice made on a pyarrow Table here and the same choice made by a native
filter in a query select the same rows. The hash is XXH64 chained over the columns: the hash of one column seeds the
next, the first seed is 42, and a null leaves the hash unchanged. A row is selected with probability p if its hash,
signed, is at most ``random.threshold(p)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.kernel import kernel
from spillway.errors import SpillwayError

SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(11400714785074694791),
    np.uint64(14029467366897019727),
    np.uint64(1609587929392839161),
    np.uint64(9650029242287828579),
    np.uint64(2870177450012600261),
)
_LOW32 = np.uint64(0xFFFFFFFF)
_AS_INT32 = {pa.bool_(), pa.int8(), pa.int16(), pa.date32()}

Hashes = npt.NDArray[np.int64]


@kernel
def _rotl(x: Any, r: int) -> Any:
    return (x << np.uint64(r)) | (x >> np.uint64(64 - r))


@kernel
def _avalanche(h: Any) -> Any:
    h ^= h >> np.uint64(33)
    h *= _P2
    h ^= h >> np.uint64(29)
    h *= _P3
    return h ^ (h >> np.uint64(32))


@kernel
def _round(acc: Any, word: Any) -> Any:
    return _rotl(acc + word * _P2, 31) * _P1


@kernel
def _hash_words(words: Any, valid: Any, hashes: Any) -> None:
    """Fold 8-byte values into the hashes."""
    for i in range(len(words)):
        if valid[i]:
            h = hashes[i] + _P5 + np.uint64(8)
            h ^= _round(np.uint64(0), words[i])
            hashes[i] = _avalanche(_rotl(h, 27) * _P1 + _P4)


@kernel
def _hash_halves(halves: Any, valid: Any, hashes: Any) -> None:
    """Fold 4-byte values into the hashes."""
    for i in range(len(halves)):
        if valid[i]:
            h = hashes[i] + _P5 + np.uint64(4)
            h ^= (np.uint64(halves[i]) & _LOW32) * _P1
            hashes[i] = _avalanche(_rotl(h, 23) * _P2 + _P3)


@kernel
def _word(data: Any, at: int, size: int) -> Any:
    word = np.uint64(0)
    for k in range(size):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


@kernel
def _hash_bytes(data: Any, starts: Any, valid: Any, hashes: Any) -> None:
    """Fold byte strings, row i being data[starts[i]:starts[i + 1]], into the hashes."""
    for i in range(len(hashes)):
        if not valid[i]:
            continue
        at, end, seed = starts[i], starts[i + 1], hashes[i]
        size = end - at
        if size >= 32:
            v1, v2, v3, v4 = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
            while at <= end - 32:
                v1 = _round(v1, _word(data, at, 8))
                v2 = _round(v2, _word(data, at + 8, 8))
                v3 = _round(v3, _word(data, at + 16, 8))
                v4 = _round(v4, _word(data, at + 24, 8))
                at += 32
            h = _rotl(v1, 1) + _rotl(v2, 7) + _rotl(v3, 12) + _rotl(v4, 18)
            for v in (v1, v2, v3, v4):
                h = (h ^ _round(np.uint64(0), v)) * _P1 + _P4
        else:
            h = seed + _P5
        h += np.uint64(size)
        while at <= end - 8:
            h = _rotl(h ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
            at += 8
        if at <= end - 4:
            h = _rotl(h ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        while at < end:
            h = _rotl(h ^ (np.uint64(data[at]) * _P5), 11) * _P1
            at += 1
        hashes[i] = _avalanche(h)


def row_hashes(columns: list[pa.ChunkedArray | pa.Array], salt: int, rows: int) -> Hashes:
    """Return one hash per row, the same as Spark's ``xxhash64(columns..., lit(salt))`` with a bigint salt.

    >>> row_hashes([pa.array([1, 2, None])], salt=7, rows=3)
    array([ 9148010362968143645,   538740968392105321, -2864211556195259663])
    """
    hashes = np.full(rows, SEED, dtype=np.uint64)
    for column in columns:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        _fold(array, hashes)
    _fold(pa.array(np.full(rows, salt, dtype=np.int64)), hashes)
    return hashes.view(np.int64)


def _fold(array: pa.Array, hashes: npt.NDArray[np.uint64]) -> None:
    kind = array.type
    valid = np.asarray(array.is_valid())
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())  # Spark's unit
    elif kind in _AS_INT32:
        array = array.cast(pa.int32())
    kind = array.type
    if pa.types.is_int64(kind):
        _hash_words(_numbers(array, np.int64).view(np.uint64), valid, hashes)
    elif pa.types.is_int32(kind):
        _hash_halves(_numbers(array, np.int32).view(np.uint32), valid, hashes)
    elif pa.types.is_float64(kind):
        _hash_words(_plain_floats(_numbers(array, np.float64)).view(np.uint64), valid, hashes)
    elif pa.types.is_float32(kind):
        _hash_halves(_plain_floats(_numbers(array, np.float32)).view(np.uint32), valid, hashes)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, offsets, data = array.buffers()
        starts = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
        raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
        _hash_bytes(raw, starts.astype(np.int64), valid, hashes)
    elif pa.types.is_null(kind):
        return
    else:
        raise SpillwayError(
            f"a column of type {kind} cannot be a row key outside Spark.",
            hint="name a key of integers, floats, strings, binary, booleans, dates or timestamps",
        )


def _numbers(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    filled = pc.fill_null(array, 0) if array.null_count else array
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False), dtype=dtype)


def _plain_floats(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Fold -0.0 into 0.0 and all NaNs into one, as Spark does before it hashes."""
    numbers = numbers + numbers.dtype.type(0.0)
    numbers[np.isnan(numbers)] = np.nan
    return numbers
