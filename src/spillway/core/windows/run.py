"""Windows in memory: what ``Spillway.windows`` does to a stream, done to a pyarrow Table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.windows.arrangement import Arrangement, Window
from spillway.core.windows.decisions import DropConfig
from spillway.core.windows.engine import Engine
from spillway.core.windows.filled import filled
from spillway.core.windows.functions import Function
from spillway.core.windows.operators import Tuple
from spillway.core.windows.plan import (
    Drop,
    Plan,
    arrangement_of,
    in_rows,
    numbered,
    plan_of,
    with_drop,
    with_drops,
)
from spillway.core.windows.reach import Stamp
from spillway.errors import SpillwayError, invalid, unknown


def run(
    table: pa.Table,
    arrangement: Arrangement,
    *,
    time: str | None,
    drop_probability: float = 0.0,
    max_gap: int | Sequence[int] = 1,
    aggregate: Function | list[Function] = "count",
    salt: int = 0,
    value: str | None = None,
    group: str | None = None,
    stamp: Stamp = "start",
    decided: Mapping[int, bool] | None = None,
) -> pa.Table:
    """Run windowed aggregates over a table, drop whole windows, and return one row per window that is delivered.

    The rows are those that the exact answer has for the same windows: ``start``, ``end`` and ``value`` of the
    last level, with ``branch`` (the number of the leaf, from left to right) if the arrangement has several and
    with the column ``group`` if one is named. An empty window has no row.

    - ``time`` is a timestamp column if the arrangement is in durations, a number column if not. With None windows are
      count-based: sizes are in rows, and only full windows are delivered. Rows without a time are left out.
    - ``drop_probability`` is limited to what ``max_gap`` allows, max_gap / (max_gap + 1). ``max_gap`` is how many
      windows of a leaf may be missing in a row: one number, or one for each leaf. The drop stands at the input; only
      where one window of the common drop is more than a leaf may miss does each branch get a drop of its own.
    - ``aggregate`` is a name (``"count"``, ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"first"``, ``"last"``,
      ``"list"``), three functions (init, incr, final), or one function of a window's values; a list has one a level.
    - ``value`` names what is aggregated. By default it is the one column that is left beside time and group; with
      several, functions of your own get each row as a dict.
    - ``stamp`` is the time of a result that the next level reads: the ``"start"`` of its window as in the paper, or
      its ``"end"`` (the last unit inside) as Spark has it.
    - ``decided`` replays decisions, by number of the drop's window; what is not in it is dropped.

    Gaps are counted in windows that have a result in the exact answer, for each leaf.

    >>> from spillway.core.windows import tumbling
    >>> rows = pa.table({"ts": range(12), "v": range(12)})
    >>> run(rows, tumbling(3), time="ts", aggregate="sum").to_pydict()
    {'start': [0, 3, 6, 9], 'end': [3, 6, 9, 12], 'value': [3, 12, 21, 30]}
    >>> run(rows, tumbling(3), time="ts", aggregate="sum", drop_probability=0.5, salt=1).to_pydict()
    {'start': [0, 6], 'end': [3, 9], 'value': [3, 21]}
    """
    if not isinstance(arrangement, Arrangement):
        raise invalid(
            "arrangement", arrangement, "windows such as tumbling(5) or sliding('1 hour', '5 minutes')"
        )
    for field, name in (("time", time), ("value", value), ("group", group)):
        if name is not None and name not in table.column_names:
            raise unknown(field, name, table.column_names)
    times = None if time is None else _times(table, time, arrangement)
    if times is not None:
        kept = np.flatnonzero([at is not None for at in times])
        order = kept[np.argsort(np.asarray([times[row] for row in kept]), kind="stable")]
        table = table.take(pa.array(order))
        times = [times[row] for row in order]
    values = _values(table, [time, group], value, aggregate)
    groups = [None] * table.num_rows if group is None else table[group].to_pylist()
    counted = times is None
    if times is None:
        arrangement = in_rows(arrangement)
        stream = list(numbered(zip(groups, values, strict=True)))
    else:
        stream = [Tuple(*each) for each in zip(times, values, groups, strict=True)]
    gaps, paths = arrangement.gaps(max_gap), arrangement.paths()

    def drop(part: Plan, leaves: range) -> Drop:
        allowed = [gaps[leaf] for leaf in leaves]
        known = decided
        if known is None and times is not None:
            behind = arrangement_of(part)
            assert behind is not None
            drops = DropConfig(max_gap=behind.drop_gap(allowed), salt=salt).build()
            _, slide = behind.drop_units()
            rows = filled([paths[leaf] for leaf in leaves], times, slide=slide, stamp=stamp)
            known = drops.decide_filled(rows, drop_probability)
        return Drop(drop_probability, allowed, salt, decided=known)

    plan = plan_of(arrangement, aggregate, counted=counted)
    plan = with_drops(plan, gaps, drop) if decided is None else with_drop(plan, drop(plan, range(len(gaps))))
    results = Engine(plan, stamp=stamp, counted=counted).run(stream)
    kind = pa.timestamp("us", table.schema.field(time).type.tz) if time and arrangement.timed else None
    parts = [
        _rows(found, leaf, kind, branch if len(results) > 1 else None, group, stamp)
        for branch, (found, leaf) in enumerate(zip(results, arrangement.leaves(), strict=True))
    ]
    return pa.concat_tables(parts, promote_options="permissive")


def _times(table: pa.Table, name: str, arrangement: Arrangement) -> list[Any]:
    """Return the time column in units of the arrangement."""
    kind = table.schema.field(name).type
    if arrangement.timed:
        if not pa.types.is_timestamp(kind):
            raise SpillwayError(
                f"time = {name!r} has type {kind}, and {arrangement!r} is in durations: expected timestamps.",
                hint="cast the column to a timestamp, or give sizes as numbers",
            )
        micros = table[name].cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return list(micros.to_pylist())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        hint = "give sizes as durations such as '5 minutes'" if pa.types.is_timestamp(kind) else None
        raise SpillwayError(
            f"time = {name!r} has type {kind}, and {arrangement!r} is in numbers: expected numbers.",
            hint=hint,
        )
    if pa.types.is_floating(kind) and not np.isfinite(table[name].drop_null()).all():
        raise SpillwayError(f"time = {name!r} holds a value that is not finite.", hint="filter such rows out")
    unit = arrangement.unit
    assert not isinstance(unit, str)
    if unit == 1:
        return list(table[name].to_pylist())
    return [None if at is None else _in_units(at, unit) for at in table[name].to_pylist()]


def _in_units(at: float, unit: float) -> float:
    """Divide a time by the unit; 0.3 in units of 0.1 is 3, not a little less."""
    units = at / unit
    near = round(units)
    return near if abs(units - near) <= 4.0 * math.ulp(units) else units


def _values(table: pa.Table, taken: list[str | None], value: str | None, aggregate: Any) -> list[Any]:
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


def _rows(
    results: list[Tuple], leaf: Window, kind: Any, branch: int | None, group: str | None, stamp: Stamp
) -> pa.Table:
    shift = leaf.size - 1 if stamp == "end" else 0
    results = sorted(results, key=lambda result: result.time) if group is not None else results
    starts = [result.time - shift for result in results]
    scale = 1 if kind is not None or isinstance(leaf.unit, str) else leaf.unit
    bound = kind or (pa.int64() if isinstance(scale, int) else pa.float64())
    columns = {
        "start": pa.array([at * scale for at in starts], bound),
        "end": pa.array([(at + leaf.size) * scale for at in starts], bound),
        "value": pa.array([result.value for result in results]),
    }
    if group is not None:
        columns = {group: pa.array([result.group for result in results]), **columns}
    if branch is not None:
        columns = {"branch": pa.array([branch] * len(results), pa.int64()), **columns}
    return pa.table(columns)
