"""Sheds whole windows of a pyarrow Table in memory, as ``Spillway.windows`` does on a stream."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from spillway.core.windows.aggregate_functions import Function
from spillway.core.windows.arrangement import Arrangement, Path
from spillway.core.windows.decisions import DropConfig
from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.filled_windows import filled
from spillway.core.windows.paper.operators import Tuple
from spillway.core.windows.paper.plan import (
    Drop,
    Plan,
    arrangement_of,
    in_rows,
    numbered,
    plan_of,
    with_drop,
    with_drops,
)
from spillway.core.windows.paper.table_tuples import answer_of, groups_of, times_of, values_of
from spillway.core.windows.paper.windrop import own_salt
from spillway.core.windows.reach import Stamp
from spillway.errors import invalid, unknown


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
    own_coins: bool = False,
) -> pa.Table:
    """Run windowed aggregates over a table, drop whole windows, and return one row per delivered window.

    The rows are the same as in the exact answer for these windows: ``start``, ``end`` and ``value`` of the
    last level, with ``branch`` (the number of the leaf, from left to right) if the arrangement has several and
    with the column ``group`` if one is named. An empty window has no row.

    - ``time`` is a timestamp column if the arrangement is in durations, a number column if not. With None windows are
      count-based: sizes are in rows, and only full windows are delivered. Rows without a time are left out.
    - ``drop_probability`` is limited to what ``max_gap`` allows, max_gap / (max_gap + 1). ``max_gap`` is how many
      windows of a leaf may be missing in a row: one number, or one for each leaf. The drop is placed at the input. If
      one window of the common drop is more than a leaf may miss, each branch gets its own drop instead.
    - ``aggregate`` is a name (``"count"``, ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"first"``, ``"last"``,
      ``"list"``), three functions (init, incr, final), or one function of a window's values; a list has one for
      each level.
    - ``value`` names the column that is aggregated. By default it is the only column besides time and group; if there
      are several, your own functions get each row as a dict.
    - ``stamp`` is the time of a result that the next level reads: the ``"start"`` of its window as in the paper, or
      its ``"end"`` (the last unit inside) as Spark has it. Where rows are counted, results are counted too and have
      no stamp.
    - ``decided`` replays decisions, by number of the drop's window; all other windows are dropped.
    - ``own_coins`` makes separate decisions for each group, as in the paper.

    Gaps are counted in windows that have a result in the exact answer, for each leaf. All groups share the decisions:
    a window is delivered for all of them or for none, and a group that has no row in a window which ends a gap may
    miss more than ``max_gap`` of its own results in a row. With ``own_coins`` the bound holds for every group, but a
    window is delivered for some groups and not for others, so that sums over groups make no sense.

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
    if own_coins and (group is None or decided is not None):
        why = "False where no group is named" if group is None else "False beside decided="
        raise invalid("own_coins", own_coins, why)
    times = None if time is None else times_of(table, time, arrangement)
    if times is not None:
        order = sorted((row for row, at in enumerate(times) if at is not None), key=times.__getitem__)
        table = table.take(pa.array(order, pa.int64()))
        times = [times[row] for row in order]
    values, groups = values_of(table, [time, group], value, aggregate), groups_of(table, group)
    if stamp not in get_args(Stamp):
        raise unknown("stamp", stamp, get_args(Stamp))
    if times is None:
        arrangement, stamp = in_rows(arrangement), "start"
        stream = list(numbered(zip(groups, values, strict=True)))
    else:
        stream = [Tuple(*each) for each in zip(times, values, groups, strict=True)]
    gaps = arrangement.gaps(max_gap)

    def drop(part: Plan, leaves: range) -> Drop:
        allowed = [gaps[leaf] for leaf in leaves]
        known: Mapping[Any, Any] | None = decided
        if known is None and times is not None:
            paths = [arrangement.paths()[leaf] for leaf in leaves]
            known = _decided(part, paths, stream, allowed, drop_probability, salt, stamp, own_coins)
        return Drop(drop_probability, allowed, salt, own_coins, known)

    plan = plan_of(arrangement, aggregate, counted=times is None)
    plan = with_drops(plan, gaps, drop) if decided is None else with_drop(plan, drop(plan, range(len(gaps))))
    results = Engine(plan, stamp=stamp, counted=times is None).run(stream)
    zone = table.schema.field(time).type.tz if time and arrangement.timed else None
    by = None if group is None else table.schema.field(group)
    return answer_of(results, arrangement.leaves(), zone=zone, group=by, stamp=stamp)


def _decided(
    part: Plan,
    paths: Sequence[Path],
    stream: Sequence[Tuple],
    gaps: Sequence[int],
    drop_probability: float,
    salt: int,
    stamp: Stamp,
    own_coins: bool,
) -> Mapping[Any, Any]:
    """Decide the windows of a drop before a part of the plan, knowing which of them have results."""
    behind = arrangement_of(part)
    assert behind is not None
    _, slide = behind.drop_units()
    gap = behind.drop_gap(gaps)

    def decide(times: Iterable[float], salt: int) -> dict[int, bool]:
        rows = filled(paths, times, slide=slide, stamp=stamp)
        return DropConfig(max_gap=gap, salt=salt).build().decide_filled(rows, drop_probability)

    if not own_coins:
        return decide((each.time for each in stream), salt)
    times: dict[Hashable, list[float]] = {}
    for each in stream:
        times.setdefault(each.group, []).append(each.time)
    return {group: decide(of, own_salt(salt, group)) for group, of in times.items()}
