"""Converts tables to plain columns: one way to represent a value instead of the many that Arrow has.

=================================  ==========================
Arrow's                            becomes
=================================  ==========================
dictionary, run-end encoded        the values
string view, binary view           string, binary
list view, large list view         list, large list
extension                          its storage type
=================================  ==========================

This also applies within lists, maps and structs. Many of Arrow's functions do not support views, and report so in
messages that differ from ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Bools
from spillway.errors import SpillwayError, invalid, unknown


def table_of(field: str, given: Any) -> pa.Table:
    """Return a table with plain columns; raise if the value is not a table.

    >>> table_of("table", pa.table({"tag": pa.array(["p", "q", "p"]).dictionary_encode()})).schema.types
    [DataType(string)]
    """
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if not isinstance(given, pa.Table):
        frame = hasattr(given, "columns") and hasattr(given, "index")
        hint = "pa.Table.from_pandas(...) makes one" if frame else None
        raise invalid(field, type(given).__name__, "a pyarrow Table", hint=hint)
    if given.schema.types == [plain_type(kind) for kind in given.schema.types]:
        return given
    names = given.column_names
    columns = [_plain(column, name) for name, column in zip(names, given.columns, strict=True)]
    return pa.table(columns, names=names)


def require_column(table: pa.Table, field: str, name: str) -> None:
    """Raise if a column does not exist, or exists more than once.

    >>> require_column(pa.table([[1], [2]], names=["id", "id"]), "attribute", "id")
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: attribute = 'id': 2 columns have that name. Hint: rename all but one of them
    """
    require_name(table.column_names, field, name)


def require_name(names: list[str], field: str, name: str) -> None:
    """Raise if no column has the name, or more than one."""
    if name not in names:
        raise unknown(field, name, names)
    if names.count(name) > 1:
        raise SpillwayError(
            f"{field} = {name!r}: {names.count(name)} columns have that name.",
            hint="rename all but one of them",
        )


def array_of(table: pa.Table, field: str, name: str) -> pa.Array:
    """Return a column of a table as one plain array."""
    require_column(table, field, name)
    column = _plain(table[name], name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that a table has after its conversion to plain columns."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the plain type for the same values.

    >>> plain_type(pa.list_view(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: string>)
    """
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return pa.string() if types.is_string_view(kind) else pa.binary()
    if types.is_list_view(kind) or types.is_large_list_view(kind) or _nested(kind):
        return _of_plain(kind)
    return kind


def _of_plain(kind: pa.DataType) -> pa.DataType:
    """Return the same list, map or struct type with plain types inside."""
    types = pa.types
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind.fields])
    if types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type), kind.list_size)
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(plain_type(kind.value_type))
    return pa.list_(plain_type(kind.value_type))


def _nested(kind: pa.DataType) -> bool:
    """Return whether a type inside is not plain; if all are, names and marks of fields stay as they are."""
    inner = [kind.field(n).type for n in range(kind.num_fields)]
    known = pa.types.is_nested(kind) and not pa.types.is_union(kind)
    return known and inner != [plain_type(each) for each in inner]


def _plain(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    try:
        found = pa.chunked_array([_array(chunk, kind) for chunk in column.chunks], kind)
        found.validate()
        return found
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise SpillwayError(
            f"column {name!r} has type {column.type}, which cannot be read as {kind}: {error}.",
            hint=f"cast the column to {kind}, or leave it out",
        ) from error


def _array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array with plain values; an encoded array is converted before it is decoded."""
    types = pa.types
    if types.is_dictionary(array.type):
        values = _array(array.dictionary, kind)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if types.is_run_end_encoded(array.type):
        at = pc.run_end_decode(
            pa.RunEndEncodedArray.from_arrays(array.run_ends, pa.array(range(len(array.values))))
        )
        return _array(array.values, kind).take(at.slice(array.offset, len(array)))
    if isinstance(array, pa.ExtensionArray):
        return _array(array.storage, kind)
    if types.is_list_view(array.type) or types.is_large_list_view(array.type):
        return _listed(array, kind)
    return array.cast(kind)


def _listed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a list view as a plain list; Arrow's own cast leaves offsets that it refuses later."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    make, width = (
        (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(kind) else (pa.ListArray, pa.int32())
    )
    inner = _array(array.flatten(), kind.value_type)
    return make.from_arrays(
        pa.array(offsets, width), inner, mask=array.is_null() if array.null_count else None
    )


def is_present(array: pa.Array) -> Bools:
    """Return for each value whether it is there, and not null."""
    return np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)


def filled(array: pa.Array, value: float) -> Any:
    """Return the values as numbers, with one in place of nulls."""
    return (pc.fill_null(array, value) if array.null_count else array).to_numpy(zero_copy_only=False)
