"""Computes the random order in which rows are drawn: a hash of (salt, row key), different for each row.

The first k rows in this order are a simple random sample of size k, for any k: so a sample can be extended, cut
and merged, and a replay draws the same rows. The hash is that of :mod:`spillway.core.row_hash`.

Rows with equal keys would have equal hashes, and would be drawn together. Each repetition is therefore
hashed again with the number of its occurrence. If no key is given, all columns that can be hashed are the key.

>>> draws(pa.table({"id": [1, 2, 1]}), None, salt=7)
array([9148010362968143645,  538740968392105321, 4321162827048416340])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.core.arrays import Ints
from spillway.core.groups.strata import names_of
from spillway.errors import invalid

Draw = Literal["even", "random"]
"""How the rows of a group are drawn: evenly over time (even_sample.py), or at random (stratified.py)."""

_MASK = 2**64 - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def draws(table: pa.Table, key: str | Sequence[str] | None, *, salt: int) -> Ints:
    """Return each row's place in the random order, as a signed 64-bit hash."""
    names = table.column_names if key is None else names_of("key", key, table)
    columns = [_plain(table[name]) for name in names]
    if key is None:
        columns = [column for column in columns if _can_be_hashed(column.type)]
    return _hashed(columns, salt, table.num_rows)


def group_draws(labels: pa.Table, *, salt: int) -> Ints:
    """Return each group's place in the random order, by its key; columns that cannot be hashed are used as text.

    >>> group_draws(pa.table({"route": ["a", "b"]}), salt=7)
    array([ 6906419324712428799, -5102814268411407333])
    """
    columns = [_plain(column) for column in labels.columns]
    texts = [column if _can_be_hashed(column.type) else column.cast(pa.string()) for column in columns]
    return _hashed(texts, salt, labels.num_rows)


def _hashed(columns: list[pa.ChunkedArray], salt: int, rows: int) -> Ints:
    if isinstance(salt, bool) or not isinstance(salt, int | np.integer) or not -(2**63) <= salt < 2**63:
        raise invalid("salt", salt, "a whole number of 64 bits")
    # Numba takes a third of a second to load, which every Python process of Spark would pay.
    from spillway.core.row_hash import row_hashes  # noqa: PLC0415

    return told_apart(row_hashes(columns, int(salt), rows))


def told_apart(hashes: Ints) -> Ints:
    """Give each repetition of a hash a new hash: the second, third, ... in the order of rows."""
    sorted_ = np.sort(hashes)  # far faster than an argsort, which is rarely needed
    if not (sorted_[1:] == sorted_[:-1]).any():
        return hashes
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    fresh = np.ones(len(hashes), dtype=np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    at = np.arange(len(hashes))
    occurrence = at - np.maximum.accumulate(np.where(fresh, at, 0))
    apart = hashes.copy()
    apart[order] = np.where(fresh, ordered, mixed(ordered, occurrence))
    return apart


def mixed(hashes: Ints, numbers: Ints | int) -> Ints:
    """Fold a number into each hash (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        z = hashes.view(np.uint64) + np.asarray(numbers, dtype=np.int64).astype(np.uint64) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _M1
        z = (z ^ (z >> np.uint64(27))) * _M2
        z = z ^ (z >> np.uint64(31))
    found: npt.NDArray[np.int64] = z.view(np.int64)
    return found


def coins(number: int) -> Callable[[int], int]:
    """Return a function that folds ``number`` into one hash at a time: the random numbers of a window's rows."""
    step, m1, m2, mask = number * int(_GOLDEN), int(_M1), int(_M2), _MASK

    def coin(hashed: int) -> int:
        z = (hashed + step) & mask
        z = ((z ^ (z >> 30)) * m1) & mask
        z = ((z ^ (z >> 27)) * m2) & mask
        z ^= z >> 31
        return z - 2**64 if z >= 2**63 else z

    return coin


_finished, _STEP = coins(0), int(_GOLDEN)


def mixed_one(number: int, hashed: int) -> int:
    """Fold a number into one hash, as :func:`mixed` does.

    >>> mixed_one(-3, 42) == int(mixed(np.array([42]), -3)[0])
    True
    """
    return _finished(hashed + number * _STEP)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type that the hash supports, if there is one for its values."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_unsigned_integer(kind):
        return column.cast(pa.int64(), safe=False)
    return column


def _can_be_hashed(kind: pa.DataType) -> bool:
    types = pa.types
    checks = (types.is_signed_integer, types.is_float32, types.is_float64, types.is_string, types.is_binary)
    others = (types.is_boolean, types.is_date32, types.is_timestamp, types.is_null)
    return any(check(kind) for check in (*checks, *others))
