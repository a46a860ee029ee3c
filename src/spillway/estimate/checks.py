"""Whether a DataFrame has the weights that the estimates need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spillway.errors import SpillwayError, invalid
from spillway.spark.tuples import WEIGHT_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check(df: DataFrame, weight: str = "weight") -> DataFrame:
    """Return the DataFrame as it is if it has weights, or raise: ``df.transform(est.check)``.

    Spark itself refuses an estimate without the column; this says why, and also finds a column of that name that
    is not the one which shedding added.
    """
    if not isinstance(weight, str) or not weight:
        raise invalid("weight", weight, "a column name")
    if not hasattr(df, "schema"):
        raise invalid("df", df, "a DataFrame")
    marked = [field.name for field in df.schema.fields if (field.metadata or {}).get(WEIGHT_MARK)]
    meant = f"did you mean weight={marked[0]!r}?" if marked and weight not in marked else None
    if weight not in df.columns:
        raise SpillwayError(
            f"the DataFrame has no column {weight!r} with weights, so nothing can be said of what was shed.",
            hint=meant or "estimate after shed.tuples or shed.groups, and keep the column up to there",
        )
    kind = df.schema[weight].dataType
    if not isinstance(kind, T.NumericType):
        raise SpillwayError(
            f"weight = {weight!r} has type {kind.simpleString()}: expected a number.", hint=meant
        )
    if meant is not None:
        raise SpillwayError(
            f"weight = {weight!r} is not the column of weights that shedding added.", hint=meant
        )
    return df
