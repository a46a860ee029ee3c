"""Converts columns of a table to the values that the engine reads, and its results to a table.

Times become numbers in units of the arrangement: whole microseconds where sizes are durations, rounded down as
in Spark; exact where the time and the unit are whole numbers. All NaN values are one group, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from spillway.core.windows.arrangement import Arrangement, Window
from spillway.core.windows.paper.operators import Tuple
from spillway.core.windows.reach import Stamp
from spillway.errors import SpillwayError, invalid

OUTPUT = ("branch", "start", "end", "value")

_PER_MICROSECOND = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 10**3)}


def times_of(table: pa.Table, name: str, arrangement: Arrangement) -> list[Any]:
    """Return the time column in units of the arrangement, None where a row has no time."""
    kind = table.schema.field(name).type
    if arrangement.timed:
        if not pa.types.is_timestamp(kind):
            raise SpillwayError(
                f"time = {name!r} has type {kind}, and {arrangement!r} is in durations: expected timestamps.",
                hint="cast the column to a timestamp, or give sizes as numbers",
            )
        ratio = _PER_MICROSECOND[kind.unit]
        up, down = ratio.numerator, ratio.denominator
        return [None if at is None else at * up // down for at in table[name].cast(pa.int64()).to_pylist()]
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        hint = "give sizes as durations such as '5 minutes'" if pa.types.is_timestamp(kind) else None
        raise SpillwayError(
            f"time = {name!r} has type {kind}, and {arrangement!r} is in numbers: expected numbers.",
            hint=hint,
        )
    found = table[name].to_pylist()
    if pa.types.is_floating(kind) and not all(at is None or math.isfinite(at) for at in found):
        raise SpillwayError(f"time = {name!r} holds a value that is not finite.", hint="filter such rows out")
    unit = arrangement.unit
    assert not isinstance(unit, str)
    return found if unit == 1 else [None if at is None else _in_units(at, unit) for at in found]


def values_of(table: pa.Table, taken: Sequence[str | None], value: str | None, aggregate: Any) -> list[Any]:
    """Return the value to aggregate for each row."""
    if value is not None:
        return list(table[value].to_pylist())
    names = [name for name in table.column_names if name not in taken]
    if len(names) == 1:
        return list(table[names[0]].to_pylist())
    first = aggregate[0] if isinstance(aggregate, list) and aggregate else aggregate
    if isinstance(first, str) and first not in ("count", "list"):
        others = f"the table has {sorted(names)}" if names else "the table has no column beside its time"
        raise invalid("value", value, f"the name of the column that {first!r} reads", hint=others)
    return list(table.select(names).to_pylist()) if names else [None] * table.num_rows


def groups_of(table: pa.Table, name: str | None) -> list[Hashable]:
    """Return the group of each row; all rows are in one group if no column is named."""
    if name is None:
        return [None] * table.num_rows
    if name in OUTPUT:
        allowed = "a column whose name is none of " + ", ".join(map(repr, OUTPUT))
        raise invalid("group", name, allowed, hint="the answer has such a column already: rename yours")
    kind = table.schema.field(name).type
    if pa.types.is_nested(kind):
        raise SpillwayError(
            f"group = {name!r} has type {kind}: expected plain values.",
            hint="make a column of text or numbers of it",
        )
    # NaN values are never equal, but a dict finds the same NaN object again
    return [math.nan if isinstance(at, float) and math.isnan(at) else at for at in table[name].to_pylist()]


def answer_of(
    found: Sequence[Sequence[Tuple]],
    leaves: Sequence[Window],
    *,
    zone: str | None,
    group: pa.Field | None,
    stamp: Stamp,
) -> pa.Table:
    """Return the results of all leaves as one table, ordered by leaf and start."""
    parts = []
    for branch, (results, leaf) in enumerate(zip(found, leaves, strict=True)):
        rows = sorted(results, key=lambda result: result.time)
        columns: dict[str, pa.Array] = {}
        if len(leaves) > 1:
            columns["branch"] = pa.array([branch] * len(rows), pa.int64())
        if group is not None:
            columns[group.name] = _array(group.name, [row.group for row in rows], group.type)
        columns |= _bounds(rows, leaf, zone, stamp)
        columns["value"] = _array("value", [row.value for row in rows])
        parts.append(pa.table(columns))
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        kinds = ", ".join(f"{leaf!r}: {part['value'].type}" for leaf, part in zip(leaves, parts, strict=True))
        raise SpillwayError(
            f"the values of the leaves have no type in common ({kinds}).",
            hint="give all leaves functions with results of one type, or run each branch by itself",
        ) from error


def _bounds(rows: Sequence[Tuple], leaf: Window, zone: str | None, stamp: Stamp) -> dict[str, pa.Array]:
    shift = leaf.size - 1 if stamp == "end" else 0
    unit = leaf.unit
    if isinstance(unit, str):
        kind, scale = pa.timestamp("us", zone), 1.0
    else:
        kind, scale = (pa.int64() if isinstance(unit, int) else pa.float64()), unit
    whole = int(scale) if float(scale).is_integer() else scale
    starts = [row.time - shift for row in rows]
    return {
        "start": _array("start", [at * whole for at in starts], kind),
        "end": _array("end", [(at + leaf.size) * whole for at in starts], kind),
    }


def _array(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError) as error:
        if name in ("start", "end"):
            raise SpillwayError(
                f"a window has its {name} at {values[-1]!r}, which {kind} does not hold.",
                hint="filter out rows whose time is that far away",
            ) from error
        raise SpillwayError(
            f"the column {name!r} cannot be made of its values: {error}.",
            hint="whole numbers have to be below 2^63; make them floats or text, or let the function give one type",
        ) from error


def _in_units(at: float, unit: float) -> float | Fraction:
    """Divide a time by the unit; 0.3 in units of 0.1 is exactly 3, not a little less."""
    if isinstance(at, int) and isinstance(unit, int):
        exact = Fraction(at, unit)
        return exact.numerator if exact.denominator == 1 else exact
    units = at / unit
    near = round(units)
    return near if abs(units - near) <= 4.0 * math.ulp(units) else units
