"""Converts a column to arrays: every value to a sorted set of 64-bit items.

========================================  =============================================
column                                    each value is read as
========================================  =============================================
integer, string                           a set of one item
list of integers or strings               a set; an item that comes twice counts once
map from item to number                   a weighted set
list of structs of two fields             a weighted set: the first field is the item,
                                          the second its weight
========================================  =============================================

Items are integers; strings get integer codes from a :class:`~spillway.core.data.vocabulary.Vocabulary`. All sets are
in one array, one after the other: row i has ``items[starts[i]:starts[i + 1]]``, in ascending order. The empty set is
stored as the one item ``EMPTY``, so that indexes can list it. A null item is skipped, a null weight counts as 0, and
weights of an item that comes twice are added. Rows without a value or a time are left out: they match nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.data.tables import array_of, filled, is_present, plain_type, require_column
from spillway.core.data.times import times_of
from spillway.core.data.vocabulary import EMPTY
from spillway.core.kernel import kernel
from spillway.errors import SpillwayError

ItemType = Literal["integer", "string"]


@dataclass(frozen=True)
class Shape:
    """What a column holds: single values or sets, the type of the items, and whether they have weights."""

    single: bool
    item: ItemType
    weighted: bool


@dataclass
class Rows:
    """Rows of one side in the order of time: their numbers, times, types and sets."""

    numbers: Ints
    times: Ints
    types: Ints
    starts: Ints
    items: Ints
    weights: Floats

    def __len__(self) -> int:
        return len(self.times)


def shape_of(table: pa.Table, column: str, side: str) -> Shape:
    """Return what a column holds, or raise if the join cannot read it."""
    require_column(table, f"on, {side} column", column)
    kind = plain_type(table.schema.field(column).type)
    if pa.types.is_map(kind) and _is_number(kind.item_type):
        return Shape(False, _item(kind.key_type, column, side), True)
    if _is_list(kind):
        inner = kind.value_type
        if pa.types.is_struct(inner) and inner.num_fields == 2 and _is_number(inner.field(1).type):
            return Shape(False, _item(inner.field(0).type, column, side), True)
        return Shape(False, _item(inner, column, side), False)
    return Shape(True, _item(kind, column, side), False)


def rows_of(
    table: pa.Table,
    *,
    column: str,
    time: str,
    shape: Shape,
    weighted: bool,
    first_number: int,
    types: Ints,
    encode: Callable[[pa.Array], Ints],
) -> Rows:
    """Read the rows of one side. ``encode`` gives codes to strings; the table begins at row ``first_number``."""
    times, timed = times_of(table, time)
    values = array_of(table, "on, column", column)
    usable = np.nonzero(timed & is_present(values))[0]
    order = usable[np.argsort(times[usable], kind="stable")]
    if len(order) < len(values) or (order[1:] < order[:-1]).any():
        values = values.take(pa.array(order))
    has_weights = weighted and shape.weighted
    starts, items, weights = tidy(*_flat(values, shape, has_weights, encode), has_weights)
    if weighted and not has_weights:
        weights = np.where(items == EMPTY, 0.0, 1.0)
    return Rows(order + first_number, times[order], types[order], starts, items, weights)


def _flat(
    values: pa.Array, shape: Shape, weighted: bool, encode: Callable[[pa.Array], Ints]
) -> tuple[Ints, Ints, Floats]:
    """Return starts, items and weights as they were read: unsorted, and an item may occur twice."""
    rows = len(values)
    if shape.single:
        return np.arange(rows + 1), _items(values, shape, encode), np.empty(0)
    if pa.types.is_fixed_size_list(values.type):
        starts = np.arange(rows + 1) * values.type.list_size
    else:
        offsets = values.offsets.to_numpy().astype(np.int64) if rows else np.zeros(1, np.int64)
        starts = offsets - offsets[0]
    numbers = None
    if pa.types.is_map(values.type):
        inner, numbers = (part.slice(offsets[0], starts[-1]) for part in (values.keys, values.items))
    else:
        inner = values.flatten()
        if shape.weighted:
            inner, numbers = inner.flatten()
    if inner.null_count:
        present = is_present(inner)
        kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(present)])
        starts, inner = kept[starts], inner.filter(pa.array(present))
        numbers = None if numbers is None else numbers.filter(pa.array(present))
    weights = _weights(numbers) if weighted else np.empty(0)
    return starts, _items(inner, shape, encode), weights


def _items(inner: pa.Array, shape: Shape, encode: Callable[[pa.Array], Ints]) -> Ints:
    if shape.item == "string":
        return encode(inner)
    try:
        items = np.array(inner.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
    except pa.ArrowInvalid as error:
        raise SpillwayError(f"an item does not fit into 64 bits with a sign: {error}.") from error
    if (items == EMPTY).any():
        raise SpillwayError(f"the item {EMPTY} is reserved.", hint="use other numbers, or strings")
    return items


def _weights(numbers: pa.Array) -> Floats:
    weights = filled(numbers.cast(pa.float64()), 0.0)
    if not np.isfinite(weights).all():
        raise SpillwayError("a weight is not finite.", hint="filter such rows out")
    return np.asarray(weights, dtype=np.float64)


@kernel
def sort_items(items: Any, weights: Any, low: int, high: int, weighted: bool) -> None:
    """Sort a range of items together with their weights (Shell sort: short, and as fast for small sets)."""
    gap = 1
    while 3 * gap + 1 < high - low:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            item, at = items[i], i
            weight = weights[i] if weighted else 0.0
            while at - gap >= low and items[at - gap] > item:
                items[at] = items[at - gap]
                if weighted:
                    weights[at] = weights[at - gap]
                at -= gap
            items[at] = item
            if weighted:
                weights[at] = weight
        gap //= 3


@kernel
def _tidy(starts: Any, items: Any, weights: Any, weighted: bool, out: Any, sets: Any, numbers: Any) -> int:
    written = 0
    for row in range(len(starts) - 1):
        low, high = starts[row], starts[row + 1]
        sort_items(items, weights, low, high, weighted)
        out[row] = written
        for i in range(low, high):
            if i > low and items[i] == items[i - 1]:
                if weighted:
                    numbers[written - 1] += weights[i]
                continue
            sets[written] = items[i]
            if weighted:
                numbers[written] = weights[i]
            written += 1
        if low == high:
            sets[written] = EMPTY
            if weighted:
                numbers[written] = 0.0
            written += 1
    out[len(starts) - 1] = written
    return written


def tidy(starts: Ints, items: Ints, weights: Floats, weighted: bool) -> tuple[Ints, Ints, Floats]:
    """Sort each set, merge items that occur twice, and write the empty set as EMPTY.

    >>> starts, items, weights = tidy(np.array([0, 3, 3]), np.array([7, 5, 7]), np.array([1.0, 2.0, 3.0]), True)
    >>> starts.tolist(), items.tolist()[:2], bool(items[2] == EMPTY), weights.tolist()
    ([0, 2, 3], [5, 7], True, [2.0, 4.0, 0.0])
    """
    room = len(items) + len(starts)
    out, sets = np.empty(len(starts), np.int64), np.empty(room, np.int64)
    numbers = np.empty(room if weighted else 0)
    written = _tidy(starts, items.copy(), weights.copy(), weighted, out, sets, numbers)
    return out, sets[:written].copy(), numbers[:written].copy()


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _item(kind: pa.DataType, column: str, side: str) -> ItemType:
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    raise SpillwayError(
        f"on: {side} column {column!r} has items of type {kind}: expected integers or strings, single, in lists, "
        "as keys of maps, or as the first of two fields of structs in lists.",
        hint="cast the items to strings",
    )
