"""Sheds single rows on Spark: the cut of core/tuples as native columns.

The plan that is added, all of it code-generated except the two small nodes that fetch the control row and count::

    source -> cross join with the control row (broadcast) -> observe -> filter -> the user's plan

``keep`` is  protected  or  hash <= limit,  where the limit depends on whether the utility is above, at or below the
cut. A batch whose size is not known is also bounded by the position of a row in its task (position_bound.py). The
weight is 1 / the inclusion probability that was really used, so weighted counts and sums are unbiased where the floor
is above zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spillway.core.tuples.cut import GRID
from spillway.errors import invalid
from spillway.spark.columns import key_columns, require_stream, resolve
from spillway.spark.control_row import PREFIX, ControlRow, check_executors, control_frame
from spillway.spark.counted_sources import rows_are_counted
from spillway.spark.position_bound import (
    COLUMNS,
    KEEP,
    bound_metrics,
    bound_weight,
    check_numbers,
    with_bound,
    with_numbers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WEIGHT_MARK = "spillway.weight"
_SKETCH_ACCURACY = 2000
_ARRIVED_AT = f"{PREFIX}arrived_at"
_ALL = 2**63 - 1  # no hash is above it


@dataclass(frozen=True, kw_only=True)
class TuplePlan:
    """The arguments of ``Spillway.tuples``, checked against a DataFrame."""

    df: DataFrame
    utility: Column | None
    protected: Column | None
    arrival: Column | None
    key: list[Column]
    weight: str
    chained: bool
    floor: float

    @classmethod
    def check(
        cls,
        df: DataFrame,
        *,
        utility: str | Column | None,
        never: str | Column | None,
        floor: float,
        key: str | Sequence[str] | None,
        weight: str,
        arrival: str | None,
    ) -> TuplePlan:
        """Check the arguments when the call is made; raise for those that cannot work."""
        require_stream(df, "spillway.core.tuples.shed")
        if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0.0 <= floor <= 1.0:
            raise invalid("floor", floor, "a number from 0 to 1")
        if floor and utility is None:
            raise invalid("floor", floor, "0 without a utility", hint="uniform shedding starves no class")
        numeric = (T.NumericType,)
        moment = (T.TimestampType, T.TimestampNTZType)
        return cls(
            df=df,
            utility=None if utility is None else resolve(df, "utility", utility, numeric, "a number"),
            protected=None
            if never is None
            else F.coalesce(resolve(df, "never", never, (T.BooleanType,), "boolean"), F.lit(False)),
            arrival=None if arrival is None else resolve(df, "arrival", arrival, moment, "timestamp"),
            key=key_columns(df, key),
            weight=weight,
            chained=has_weight(df, weight),
            floor=float(floor),
        )

    def build(self, control: ControlRow, observation: str, *, enforce: bool) -> DataFrame:
        """Return the DataFrame with the shedding stage in it."""
        first = control.stage == 0 or not self.chained  # once per chain, at its first stage
        bounded = first and not rows_are_counted(self.df)
        columns = self._control_columns(enforce=enforce, bounded=bounded)
        control_row = control_frame(self.df.sparkSession, control, *columns)
        (check_numbers if bounded else check_executors)(control_row)
        df = self.df.crossJoin(F.broadcast(control_row))
        if bounded:
            df = with_numbers(df)
        if looked_at := self._looked_at():
            df = df.select("*", *looked_at)
        protected = None if self.protected is None else F.col(f"{PREFIX}protected")
        if bounded:
            df = with_bound(df, self._keep(), self.key, protected=protected)
        else:
            df = df.select("*", self._keep().alias(KEEP))
        if self.arrival is not None:
            df = df.select("*", self._arrived_at(enforce=enforce).alias(_ARRIVED_AT))
        df = df.observe(observation, *self._metrics(), *(bound_metrics() if bounded else []))
        if enforce:
            df = df.where(F.col(KEEP))
        df = df.withColumn(self.weight, self._weight(enforce=enforce, bounded=bounded))
        return df.drop(*[name for name in df.columns if name.startswith(PREFIX)])

    def _control_columns(self, *, enforce: bool, bounded: bool) -> list[str]:
        """Return the columns of the control row that the plan uses."""
        names = ["salt", "at_limit", "note", *(COLUMNS if bounded else ())]
        if self.utility is not None:
            names += ["cut", "below_limit"]
        if enforce:
            names += ["at_weight"] if self.utility is None else ["at_weight", "below_weight"]
        return [f"{PREFIX}{name}" for name in names]

    def _arrived_at(self, *, enforce: bool) -> Column:
        """Return when a row arrived, in seconds since the epoch; null for rows that are dropped."""
        assert self.arrival is not None
        moment = self.arrival.cast("timestamp").cast("double")
        return F.when(F.col(KEEP), moment) if enforce else moment

    def _looked_at(self) -> list[Column]:
        """Return the columns that are computed once per row and then used in several places."""
        found = []
        if self.protected is not None:
            found.append(self.protected.alias(f"{PREFIX}protected"))
        if self.utility is not None:
            u = self.utility.cast("double")
            found.append(F.when(_missing(u), F.lit(float("-inf"))).otherwise(u).alias(f"{PREFIX}u"))
        return found

    def _keep(self) -> Column:
        limit = F.col(f"{PREFIX}at_limit")
        if self.utility is not None:
            limit = self._by_side(_ALL, limit, F.col(f"{PREFIX}below_limit"))
        # While everything is kept no row is hashed: "or" does not evaluate its right side then.
        keep = (limit >= _ALL) | (F.xxhash64(*self.key, F.col(f"{PREFIX}salt")) <= limit)
        return keep if self.protected is None else F.col(f"{PREFIX}protected") | keep

    def _by_side(self, above: float, at: Column, below: Column) -> Column:
        u, cut = F.col(f"{PREFIX}u"), F.col(f"{PREFIX}cut")
        return F.when(u > cut, F.lit(above)).when(u == cut, at).otherwise(below)

    def _weight(self, *, enforce: bool, bounded: bool) -> Column:
        if not enforce:
            weight = F.lit(1.0)
        else:
            at, below = F.col(f"{PREFIX}at_weight"), F.col(f"{PREFIX}below_weight")
            ordinary = at if self.utility is None else self._by_side(1.0, at, below)
            if bounded:
                ordinary = ordinary * bound_weight()
            weight = ordinary
            if self.protected is not None:
                weight = F.when(F.col(f"{PREFIX}protected"), F.lit(1.0)).otherwise(ordinary)
        if self.chained:
            weight = F.col(self.weight) * weight
        return weight.alias(self.weight, metadata={WEIGHT_MARK: True})

    def _metrics(self) -> list[Column]:
        """Return the metrics, in as few and as simple expressions as possible.

        Every task of every batch generates code for them. It takes 2 ms of a core less if values that can be computed
        before are columns, and if rows are counted without ``count_if``, which Spark has to rewrite first.
        """
        metrics = [
            F.count(F.lit(1)).alias("arrived"),
            _number_where(F.col(KEEP)).alias("kept"),
            F.max(f"{PREFIX}note").alias("note"),
        ]
        if self.protected is not None:
            metrics.append(_number_where(F.col(f"{PREFIX}protected")).alias("protected"))
        if self.arrival is not None:
            metrics += [
                F.min(_ARRIVED_AT).alias("first_arrival"),
                F.avg(_ARRIVED_AT).alias("mean_arrival"),
                _number_where(self.arrival.isNull()).alias("arrival_missing"),
            ]
        if self.utility is not None:
            u = F.col(f"{PREFIX}u")
            ordinary = u if self.protected is None else F.when(~F.col(f"{PREFIX}protected"), u)
            metrics += [
                F.percentile_approx(ordinary, list(GRID), _SKETCH_ACCURACY).alias("quantiles"),
                _number_where(_missing(self.utility.cast("double"))).alias("utility_missing"),
            ]
        return metrics


def _number_where(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _missing(utility: Column) -> Column:
    return utility.isNull() | F.isnan(utility)


def has_weight(df: DataFrame, weight: str) -> bool:
    """Return whether the DataFrame has weights of an earlier stage; a user's own column of that name is refused."""
    if not isinstance(weight, str) or not weight:
        raise invalid("weight", weight, "a column name")
    same = [name for name in df.columns if name.lower() == weight.lower()]  # as Spark compares them
    if not same:
        return False
    if weight not in same or not df.schema[weight].metadata.get(WEIGHT_MARK):
        raise invalid("weight", weight, "a name that is not yet a column", hint="pass weight= another name")
    return True
