"""Finds the groups of a table's rows: each row's group number, each group's size and key.

Two rows are in one group if all columns of ``by`` are equal. As in Spark's ``groupBy`` nulls are equal to each
other and so are NaNs, and 0.0 equals -0.0. Groups are numbered in the order in which they first appear.

>>> rows = pa.table({"route": ["a", "b", None, "a", None]})
>>> strata = strata_of(rows, "route")
>>> strata.codes, strata.sizes, strata.labels["route"].to_pylist()
(array([0, 1, 2, 0, 2]), array([2, 1, 2]), ['a', 'b', None])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Floats, Ints
from spillway.errors import SpillwayError, invalid, unknown


@dataclass(frozen=True, slots=True)
class Strata:
    """The groups of a table: ``codes`` has one number per row, ``sizes`` and ``labels`` one entry per group."""

    codes: Ints
    sizes: Ints
    labels: pa.Table

    def __len__(self) -> int:
        return len(self.sizes)


def strata_of(table: pa.Table, by: str | Sequence[str]) -> Strata:
    """Group a table's rows by one column or several.

    >>> strata_of(pa.table({"route": ["a"]}), "rout")
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: by = 'rout' is not allowed: ... did you mean 'route'?
    """
    names = names_of("by", by, table)
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in names:
        column = _codes(table, name)
        codes = codes * (int(column.max(initial=0)) + 1) + column
        codes = _numbered(pa.array(codes))
    sizes = np.bincount(codes)
    first = np.empty(len(sizes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return Strata(codes, sizes.astype(np.int64), table.select(names).take(pa.array(first)))


def names_of(field: str, given: str | Sequence[str], table: pa.Table) -> list[str]:
    """Return one or several column names as a list, or raise if the table does not have them."""
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise invalid(field, given, "the name of a column, or a list of names")
    for name in names:
        if name not in table.column_names:
            raise unknown(field, name, table.column_names)
    if len(set(names)) < len(names):
        raise invalid(field, given, "each name once")
    return names


def numbers_of(field: str, name: str, table: pa.Table) -> Floats:
    """Return a column of numbers as floats; null is NaN."""
    if name not in table.column_names:
        raise unknown(field, name, table.column_names)
    kind = table.schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SpillwayError(f"{field} = {name!r} has type {kind}: expected a number.")
    filled = pc.fill_null(table[name].cast(pa.float64(), safe=False), float("nan"))
    return np.asarray(filled.to_numpy(), dtype=np.float64)


def _codes(table: pa.Table, name: str) -> Ints:
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # a table without rows
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    refused = SpillwayError(
        f"by = {name!r} has type {kind}: rows cannot be grouped by that.",
        hint="group by numbers, strings, booleans, dates or timestamps",
    )
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    elif pa.types.is_floating(kind):
        column = pc.add(column.cast(pa.float64()), 0.0)
    if any(check(column.type) for check in _REFUSED):
        raise refused
    try:
        return _numbered(column)
    except pa.ArrowNotImplementedError:
        raise refused from None


def _numbered(column: pa.Array) -> Ints:
    indices = column.dictionary_encode(null_encoding="encode").indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int64)


# Groups with such keys could be numbered, but such columns cannot be taken from a table or hashed.
_REFUSED = (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_interval)
