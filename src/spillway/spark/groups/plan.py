"""Sheds rows by group on a stream, with the keep probabilities of groups in a table of the control row.

The plan that is added::

    rows -> cross join with the control row -> look the group's limit up -> observe -> filter: hash <= limit
         -> weight -> the user's groupBy(...).agg(est.mean(...), ...)

Where the user names a window in which no group should be missing, independent random draws are not enough. There each
task counts the rows that it has and draws an exact number of them (task_portion.py), in place of ``hash <= limit``.
Everything else is native. A batch whose size is not known is also bounded, regardless of the groups of its rows
(position_bound.py). The inputs of a join are not bounded, because their weights describe how many rows of a key are
kept on both sides, and not the probabilities of single rows.

``observe`` reports the most frequent groups of the batch (``approx_top_k``, a sketch of bounded size) and, for the
variance rule, the values of a few rows that are chosen by hash. From these follow the keep probabilities of the next
batches (core/groups/census.py). The weight is 1 / the inclusion probability that was really used, regardless of how
the groups have changed since the sketch was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spillway.core.groups.accuracy import Accuracy, accuracy_of
from spillway.core.groups.census import Ration
from spillway.core.groups.limit_table import Lookup
from spillway.core.groups.rates import Rule
from spillway.core.random import threshold
from spillway.durations import Duration, seconds
from spillway.errors import invalid, unknown
from spillway.loop.decision import BatchDecision
from spillway.loop.kinds.groups import GroupSpec
from spillway.spark.columns import key_columns, require_batch, require_stream, resolve
from spillway.spark.control_row import BOUND, PREFIX, ControlRow, check_executors, control_frame
from spillway.spark.counted_sources import rows_are_counted
from spillway.spark.groups.task_portion import portions
from spillway.spark.position_bound import (
    KEEP,
    bound_metrics,
    bound_weight,
    check_numbers,
    with_bound,
    with_numbers,
)
from spillway.spark.tuples import WEIGHT_MARK, has_weight

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPS = (
    f"{BOUND}, {PREFIX}salt bigint not null, "
    f"{PREFIX}keys array<bigint> not null, {PREFIX}limits array<bigint> not null, "
    f"{PREFIX}places bigint not null, {PREFIX}rest bigint not null, {PREFIX}sampled bigint not null, "
    f"{PREFIX}share double not null, {PREFIX}note string"
)
AT_LEAST = 8
TOP = 2_000  # groups that a batch reports
_TRACKED = 20_000  # groups that its sketch follows
_SAMPLE_ROWS = 1_000
KEY, HASH, LIMIT = (f"{PREFIX}{name}" for name in ("key", "hash", "limit"))
ALL = 2**63 - 1  # no hash is above it
_WEIGHT = f"{PREFIX}weight"
_CHOSEN = f"{PREFIX}chosen"


@dataclass(frozen=True)
class GroupRow(ControlRow):
    """The control row of a stage that sheds groups."""

    schema: ClassVar[str] = GROUPS

    def row(self, decision: BatchDecision | None, note: str) -> dict[str, Any]:
        """Return the control row's values: the lookup table of limits by group."""
        told = None if decision is None else decision.ration_of(self.stage)
        ration = Ration() if told is None else told
        table = Lookup.of(
            ration.keys, [threshold(chance) for chance in ration.chances], threshold(ration.rest)
        )
        rows = None if decision is None else decision.expected_rows or decision.bound_rows
        return {
            f"{PREFIX}salt": 0 if decision is None else decision.salt_of(self.stage),
            f"{PREFIX}keys": list(table.keys),
            f"{PREFIX}limits": list(table.values),
            f"{PREFIX}places": len(table.keys) - 1,
            f"{PREFIX}rest": table.default,
            f"{PREFIX}sampled": threshold(min(1.0, _SAMPLE_ROWS / rows) if rows else 0.0),
            f"{PREFIX}share": 1.0 if told is None or decision is None else decision.cuts[self.stage].at,
            f"{PREFIX}note": note or None,
            **self.bound(decision),
        }


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """The arguments of ``Spillway.groups``, checked against a DataFrame."""

    df: DataFrame
    by: list[Column]
    value: Column | None
    time: Column | None
    arrival: Column | None
    key: list[Column]
    weight: str
    chained: bool
    spec: GroupSpec

    @classmethod
    def check(
        cls,
        df: DataFrame,
        *,
        by: str | Sequence[str] | None,
        value: str | Column | None,
        time: str | Column | None,
        window: Duration | None,
        rule: Rule,
        at_least: int,
        accuracy: str | Accuracy | None,
        join: str | None,
        key: str | Sequence[str] | None,
        weight: str,
        arrival: str | None,
        batch: int | None,
    ) -> GroupPlan:
        """Check the arguments when the call is made; raise for those that cannot work."""
        if batch is None:
            require_stream(df, "spillway.core.groups.shed", within_batch="batch=its number")
        else:
            require_batch(df, batch)
        if rule not in get_args(Rule):
            raise unknown("rule", rule, get_args(Rule))
        if isinstance(at_least, bool) or not isinstance(at_least, int) or not 1 <= at_least <= 10_000:
            raise invalid("at_least", at_least, "a whole number from 1 to 10000")
        if join is not None and (not isinstance(join, str) or not join):
            raise invalid("join", join, "a name that both inputs of a join are given")
        if join is not None and (
            rule != "variance" or at_least != AT_LEAST or accuracy is not None or by is None
        ):
            raise invalid(
                "join",
                join,
                "with by=, and without rule=, at_least= or accuracy=",
                hint="keys share by their results",
            )
        if by is not None and not isinstance(by, str) and not by:
            raise invalid("by", by, "a column, several, or None for a query without groups")
        if accuracy is not None and value is None:
            raise invalid("value", value, "the number whose mean is to be so accurate")
        if time is not None and window is None:
            raise invalid("window", window, "the length of the window in which no group should be missing")
        moment = (T.TimestampType, T.TimestampNTZType)
        return cls(
            df=df,
            by=[F.lit(0)] if by is None else key_columns(df, by, field="by"),
            value=None if value is None else resolve(df, "value", value, (T.NumericType,), "a number"),
            time=None if time is None else resolve(df, "time", time, moment, "timestamp"),
            arrival=None if arrival is None else resolve(df, "arrival", arrival, moment, "timestamp"),
            key=key_columns(df, key),
            weight=weight,
            chained=has_weight(df, weight),
            spec=GroupSpec(
                rule=rule,
                at_least=at_least,
                window_s=None if window is None else seconds("window", window),
                join=join,
                accuracy=None if accuracy is None else accuracy_of(accuracy),
                of=f"{[by] if isinstance(by, str) else by}: {value}",
            ),
        )

    def build(self, control: GroupRow, observation: str, *, enforce: bool) -> DataFrame:
        """Return the DataFrame with the shedding stage in it."""
        frame = control_frame(self.df.sparkSession, control)
        spec = self.spec
        drawn = spec.window_s is not None and spec.join is None and spec.accuracy is None
        first = control.stage == 0 or not self.chained
        bounded = spec.join is None and first and not rows_are_counted(self.df)
        (check_numbers if bounded else check_executors)(frame)
        df = self.draw(frame) if drawn else self.mark(frame, control.stage)
        weight = F.col(_WEIGHT) if drawn else _one_over_chance()
        metrics = self.metrics(enforce=enforce)
        if bounded:
            df = with_bound(with_numbers(df.withColumnRenamed(KEEP, _CHOSEN)), F.col(_CHOSEN), self.key)
            weight = weight * bound_weight()
            metrics += bound_metrics()
        return self.keep(df.observe(observation, *metrics), enforce=enforce, weight=weight)

    def draw(self, control: DataFrame) -> DataFrame:
        """Add columns that say whether the task draws a row, and with which weight."""
        df = self.df.crossJoin(F.broadcast(control))
        df = df.select("*", F.xxhash64(*self.by).alias(KEY))
        limit = looked_up(f"{PREFIX}limits", F.lit(None).cast("bigint"))
        df = df.select("*", limit.alias(LIMIT), F.xxhash64(*self.key, f"{PREFIX}salt").alias(HASH))
        df = df.drop(f"{PREFIX}keys", f"{PREFIX}limits")  # before rows are copied
        df = df.select("*", portions(KEY, HASH, LIMIT, f"{PREFIX}share").alias(_WEIGHT))
        return df.select("*", (F.col(_WEIGHT) > 0.0).alias(KEEP))

    def mark(self, control: DataFrame, stage: int) -> DataFrame:
        """Add the column that says whether a row is kept: whether its hash is within the limit of its group."""
        df = self.df.crossJoin(F.broadcast(control))
        key = F.xxhash64(*self.by)
        if self.spec.join is not None:  # null equals nothing: such a key must differ on the two sides
            missing = reduce(or_, [column.isNull() for column in self.by])
            key = F.when(missing, F.xxhash64(*self.by, F.lit(stage))).otherwise(key)
        df = df.select("*", key.alias(KEY))
        limit = looked_up(f"{PREFIX}limits", F.col(f"{PREFIX}rest"))
        df = df.select("*", limit.alias(LIMIT), F.xxhash64(*self.key, f"{PREFIX}salt").alias(HASH))
        df = df.drop(f"{PREFIX}keys", f"{PREFIX}limits")  # before rows are copied
        return df.select("*", (F.col(HASH) <= F.col(LIMIT)).alias(KEEP))

    def keep(self, df: DataFrame, *, enforce: bool, weight: Column | None = None) -> DataFrame:
        """Drop the rows that are not kept, and add the weight; by default it is 1 / the keep probability."""
        if enforce:
            df = df.where(F.col(KEEP))
        weight = F.lit(1.0) if not enforce else _one_over_chance() if weight is None else weight
        if self.chained:
            weight = F.col(self.weight) * weight
        df = df.withColumn(self.weight, weight.alias(self.weight, metadata={WEIGHT_MARK: True}))
        return df.drop(*[name for name in df.columns if name.startswith(PREFIX)])

    def metrics(self, *, enforce: bool, learn: bool = True) -> list[Column]:
        """Return the metrics of each batch; with ``learn`` also those from which the next batches are decided."""
        metrics = [
            F.count(F.lit(1)).alias("arrived"),
            F.count_if(F.col(KEEP)).alias("kept"),
            F.max(f"{PREFIX}note").alias("note"),
        ]
        if learn:
            metrics += self._concept()
        if self.arrival is not None:
            at = self.arrival.cast("timestamp").cast("double")
            if enforce:
                at = F.when(F.col(KEEP), at)
            metrics += [
                F.min(at).alias("first_arrival"),
                F.avg(at).alias("mean_arrival"),
                F.count_if(self.arrival.isNull()).alias("arrival_missing"),
            ]
        return metrics

    def _concept(self) -> list[Column]:
        """Return the groups' frequencies, how their values vary, and the pace of time."""
        metrics = [F.expr(f"approx_top_k({KEY}, {TOP}, {_TRACKED})").alias("groups")]
        if self.value is not None:
            # Only rows that are kept: the hash is below both limits. A group's variance does not depend on hashes.
            seen = F.col(KEEP) & (F.col(HASH) <= F.col(f"{PREFIX}sampled"))
            value = self.value.cast("double")
            known = seen & value.isNotNull() & ~F.isnan(value)
            metrics.append(_some(F.when(known, F.struct(F.col(KEY), value))).alias("sample"))
        if self.time is not None:
            some = F.col(HASH) <= F.col(f"{PREFIX}sampled")
            at = self.time.cast("timestamp").cast("double")
            metrics.append(_some(F.when(some, at)).alias("times"))
        return metrics


def _some(values: Column) -> Column:
    """Return the values of the sampled rows; there is a bound on them, even for an unexpectedly large batch."""
    return F.slice(F.collect_list(values), 1, 20 * _SAMPLE_ROWS)


def looked_up(values: str, otherwise: Column) -> Column:
    """Return the table's value for the row's group, from one of two places; ``otherwise`` if it is at neither."""
    key, places, found = F.col(KEY), F.col(f"{PREFIX}places"), otherwise
    for place in (F.shiftrightunsigned(key, 32).bitwiseAND(places), key.bitwiseAND(places)):
        at = place.cast("int")
        found = F.when(F.get(f"{PREFIX}keys", at) == key, F.get(values, at)).otherwise(found)
    return found


def _one_over_chance() -> Column:
    """Return 1 / the share of all hashes that are within the limit."""
    limit = F.col(LIMIT)
    return F.when(limit >= ALL, F.lit(1.0)).otherwise(
        F.lit(2.0**64) / (limit.cast("double") + F.lit(2.0**63 + 1.0))
    )
