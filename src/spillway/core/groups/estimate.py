"""Estimates groups from a table of kept rows: one result row per group with a value and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.aggregates import Aggregate, Ratio, answer, require_aggregate
from spillway.core.groups.even_sample import places_along
from spillway.core.groups.intervals import Design, Estimates, Prior, Sampled, count, learned_rows, pooled
from spillway.core.groups.shed import group_chance
from spillway.core.groups.spread import Spread, group_keys
from spillway.core.groups.strata import numbers_of, strata_of
from spillway.core.groups.table_checks import require_table, taken
from spillway.errors import SpillwayError, unknown


def estimate(
    table: pa.Table,
    *,
    by: str | Sequence[str],
    aggregate: Aggregate = "mean",
    value: str | None = None,
    weight: str = "weight",
    level: float = 0.95,
    design: Design = "fixed",
    spread: Spread | None = None,
    along: str | None = None,
) -> pa.Table:
    """Return ``value``, ``low`` and ``high`` of each group, the ``rows`` it represents and the rows ``sampled``.

    ``table`` holds the rows that shedding kept, with their weights. ``spread`` is the groups' variation learned from
    other rows, such as a pilot; without it, groups of few rows learn from the other groups of the sample.
    ``along`` is the column along which rows were drawn evenly, if they were: then ``design`` is ``"even"``. Whether
    groups were dropped for lack of budget is read from the schema's metadata, where ``shed`` records it.

    >>> from spillway.core.groups import shed
    >>> n = np.arange(2000)
    >>> rides = pa.table({"id": n, "route": n % 2, "fare": n % 7})
    >>> kept = shed(rides, by="route", keep_ratio=0.05, value="fare")
    >>> for row in estimate(kept, by="route", value="fare").to_pylist():
    ...     print(row["route"], row["low"] < 3.0 < row["high"], row["rows"], row["sampled"])
    1 True 1000.0 47
    0 True 1000.0 53
    """
    require_table(table)
    if weight not in table.column_names:
        raise SpillwayError(
            f"weight = {weight!r} is not a column: rows without weights cannot be estimated from.",
            hint="shed first, or name the column of weights",
        ) from unknown("weight", weight, table.column_names)
    require_aggregate(aggregate, value)
    if along is not None:
        table, design = taken(table, places_along(along, table)), "even"
    strata = strata_of(table, by)
    weights = numbers_of("weight", weight, table)
    sampled = Sampled(strata.codes, weights, len(strata), level, design, group_chance(table))
    values = None if value is None else numbers_of("value", value, table)
    others = numbers_of("to", aggregate.to, table) if isinstance(aggregate, Ratio) else None
    prior = None if values is None else prior_of(sampled, values, group_keys(strata.labels), spread)
    found = answer(aggregate, sampled, values, others=others, prior=prior)
    return answered(strata.labels, found, count(sampled).value, strata.sizes)


@np.errstate(over="ignore", invalid="ignore")
def prior_of(sampled: Sampled, values: Floats, keys: Ints, spread: Spread | None) -> Prior:
    """Return the deviation that each group is expected to have, from earlier rows or from the sample itself.

    The deviation learned from earlier rows is relative to a group's mean. It would be next to nothing for a group
    whose kept values are all zero, as flags that are seldom set may be: such a group has at least the deviation
    within all groups together.
    """
    if spread is not None:
        there = ~np.isnan(values)
        codes, y = sampled.codes[there], values[there]
        n = np.bincount(codes, minlength=sampled.groups).astype(np.float64)
        m = np.bincount(codes, y, minlength=sampled.groups) / np.maximum(n, 1.0)
        if (known := spread.deviation(keys, rows=n, means=m)) is not None:
            deviation, seen = known
            zero = np.bincount(codes, y != 0.0, minlength=sampled.groups) == 0.0
            least = _within(spread, n, (y - m[codes]) ** 2) if zero.any() else 0.0
            return Prior(np.where(zero, np.maximum(deviation, least), deviation), learned_rows(seen))
    return pooled(sampled, values)


def _within(spread: Spread, n: Floats, squares: Floats) -> float:
    """Return the deviation within groups over all groups together, from earlier rows and from the sample."""
    S, dof = spread.within()
    S += float(squares[np.isfinite(squares)].sum())
    return math.sqrt(S / (dof + float(np.maximum(n - 1.0, 0.0).sum()))) if np.isfinite(S) else 0.0


def answered(labels: pa.Table, found: Estimates, rows: Floats | Ints, sampled: Ints) -> pa.Table:
    """Return groups and their estimates as a table; an unknown value is null."""
    columns = {"value": found.value, "low": found.low, "high": found.high}
    for name, numbers in columns.items():
        labels = _added(labels, name, pa.array(numbers, from_pandas=True))
    return _added(_added(labels, "rows", pa.array(rows)), "sampled", pa.array(sampled))


def _added(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    if name in table.column_names:
        raise SpillwayError(
            f"by has a column {name!r}, which is also a column of the answer.", hint="rename it before"
        )
    return table.append_column(name, column)
