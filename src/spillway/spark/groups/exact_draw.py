"""Draws an exact number of rows of each group on Spark: those with the smallest hashes (core/groups/quota.py).

This needs a table, which can be read more than once::

    count      rows, mean, variance and smallest hash of each group           -> census -> quota
    limits     hashes below the bounds, a few more than are drawn, by group   -> the n-th smallest of each
    draw       look limit and weight up -> filter: hash <= limit

Only keys and hashes are shuffled between tasks, and only the few hashes below the bounds. The exception are the rows
of groups that do not fit into the lookup table and have more rows than may be kept: they are shuffled and ranked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from spillway.core.groups.census import MOST_GROUPS, Census
from spillway.core.groups.limit_table import Lookup
from spillway.core.groups.quota import MOST_RANKED, Drawn, Quota
from spillway.spark.control_row import PREFIX
from spillway.spark.groups.plan import ALL, HASH, KEY, LIMIT, GroupPlan, looked_up
from spillway.spark.position_bound import KEEP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_SALT, _KEYS, _PLACES, _LIMITS, _WEIGHTS, _BOUNDS, _ROWS, _NOTE = (
    f"{PREFIX}{name}" for name in ("salt", "keys", "places", "limits", "weights", "bounds", "rows", "note")
)
WEIGHT = f"{PREFIX}weight"
_TABLE = f"{_SALT} bigint not null, {_KEYS} array<bigint> not null, {_PLACES} bigint not null"
_PLANNED = f"{_TABLE}, {_BOUNDS} array<bigint> not null, {_ROWS} array<bigint> not null"
_DRAWN = f"{_TABLE}, {_LIMITS} array<bigint> not null, {_WEIGHTS} array<double> not null, {_NOTE} string"


@dataclass(frozen=True)
class Counted:
    """The groups of a table: the census, the smallest hash of each of its groups, and the number of all groups."""

    census: Census
    smallest: tuple[int, ...]
    groups: int


def count_groups(plan: GroupPlan, salt: int) -> Counted:
    """Count the rows of each group, and compute the variance of its values and its smallest hash."""
    value = F.lit(None).cast("double") if plan.value is None else plan.value.cast("double")
    value = F.when(~F.isnan(value), value)
    rows = plan.df.select(
        F.xxhash64(*plan.by).alias("key"),
        F.xxhash64(*plan.key, F.lit(salt).cast("bigint")).alias("hash"),
        value.alias("value"),
    )
    counted = rows.groupBy("key").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min("hash").alias("smallest"),
        F.count("value").alias("values"),
        F.avg("value").alias("mean"),
        F.var_pop("value").alias("variance"),
    )
    found = counted.orderBy(F.desc("rows"), "key").limit(MOST_GROUPS + 1).collect()
    groups, total = len(found), sum(row["rows"] for row in found)
    if groups > MOST_GROUPS:
        ((groups, total),) = counted.agg(F.count(F.lit(1)), F.sum("rows")).collect()
        found = found[:MOST_GROUPS]
    census = Census.counted(
        rows=total,
        keys=[row["key"] for row in found],
        counts=[row["rows"] for row in found],
        moments=[] if plan.value is None else [_moments(row) for row in found],
    )
    return Counted(census, tuple(row["smallest"] for row in found), groups)


def find_limits(plan: GroupPlan, planned: Quota, salt: int) -> dict[int, tuple[int, int]]:
    """Return for each listed group the hash of its last drawn row, and how many rows have no larger hash."""
    if not planned.keys:
        return {}
    told = dict(zip(planned.keys, zip(planned.bounds, planned.rows, strict=True), strict=True))
    table = _table(salt, told, (0, 0))
    row = {**table.row, _BOUNDS: [bound for bound, _ in table.values], _ROWS: [n for _, n in table.values]}
    rows = plan.df.select(
        F.xxhash64(*plan.by).alias(KEY), F.xxhash64(*plan.key, F.lit(salt).cast("bigint")).alias(HASH)
    )
    rows = rows.crossJoin(F.broadcast(plan.df.sparkSession.createDataFrame([row], _PLANNED)))
    rows = rows.select("*", looked_up(_BOUNDS, F.lit(None)).alias("bound")).where(
        F.col(HASH) <= F.col("bound")
    )
    rows = rows.select(KEY, HASH, "bound", looked_up(_ROWS, F.lit(None)).alias("n"))
    near = rows.groupBy(KEY, "bound", "n").agg(
        F.count(F.lit(1)).alias("within"),
        F.sort_array(F.collect_list(F.when(F.col("n") < MOST_RANKED, F.col(HASH)))).alias("hashes"),
    )
    last = F.get("hashes", F.least(F.col("n").cast("int"), F.size("hashes")) - 1)
    found = near.select(KEY, "within", "bound", "hashes", last.alias("last")).select(
        KEY,
        F.coalesce("last", "bound").alias("limit"),
        F.when(F.col("last").isNull(), F.col("within"))
        .otherwise(F.size(F.filter("hashes", lambda hashed: hashed <= F.col("last"))))
        .alias("within"),
    )
    return {row[KEY]: (row["limit"], row["within"]) for row in found.collect()}


def mark_drawn(plan: GroupPlan, drawn: Drawn, *, salt: int, note: str) -> DataFrame:
    """Add columns that say whether each row is drawn, and with which weight."""
    told = dict(zip(drawn.keys, zip(drawn.limits, drawn.weights, strict=True), strict=True))
    table = _table(salt, told, (ALL, 1.0))
    row = {
        **table.row,
        _LIMITS: [limit for limit, _ in table.values],
        _WEIGHTS: [weight for _, weight in table.values],
        _NOTE: note or None,
    }
    df = plan.df.crossJoin(F.broadcast(plan.df.sparkSession.createDataFrame([row], _DRAWN)))
    df = df.select("*", F.xxhash64(*plan.by).alias(KEY), F.xxhash64(*plan.key, _SALT).alias(HASH))
    df = df.select(
        "*",
        looked_up(_LIMITS, F.lit(None)).alias(LIMIT),
        looked_up(_WEIGHTS, F.lit(1.0)).alias(WEIGHT),
    ).drop(_KEYS, _LIMITS, _WEIGHTS)  # before rows are copied
    listed = df.select("*", (F.col(HASH) <= F.coalesce(LIMIT, F.lit(ALL))).alias(KEEP))
    if drawn.others is None:
        return listed
    others = df.where(F.col(LIMIT).isNull()).drop(WEIGHT)
    return listed.where(F.col(LIMIT).isNotNull()).unionByName(_ranked(others, drawn.others))


def _ranked(df: DataFrame, rows: int) -> DataFrame:
    """Draw this many rows of each group, and the rows with the same hash as the last of them."""
    group = Window.partitionBy(KEY)
    df = df.select("*", (F.rank().over(group.orderBy(HASH)) <= rows).alias(KEEP))
    size, drawn = (F.count_if(condition).over(group) for condition in (F.lit(True), F.col(KEEP)))
    return df.select("*", (size / drawn).alias(WEIGHT))


@dataclass(frozen=True)
class _Table:
    """The part of a control row that all lookup tables have, and the values at the places of the table."""

    row: dict[str, Any]
    values: tuple[tuple[Any, Any], ...]


def _table(salt: int, told: dict[int, tuple[Any, Any]], nothing: tuple[Any, Any]) -> _Table:
    table = Lookup.of(list(told), list(told.values()), nothing)
    return _Table({_SALT: salt, _KEYS: list(table.keys), _PLACES: len(table.keys) - 1}, table.values)


def _moments(row: Row) -> tuple[int, float, float]:
    """Return number, mean and variance of a group's values; zeros if they are not finite."""
    mean, variance = row["mean"], row["variance"]
    if mean is None or not math.isfinite(mean) or not math.isfinite(variance):
        return 0, 0.0, 0.0
    return row["values"], mean, variance
