"""Checks that a DataFrame has the weights that the estimates need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spillway.errors import SpillwayError, invalid, unknown
from spillway.spark.tuples import WEIGHT_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spillway.estimate.shared_draws import Coin


def check(df: DataFrame, weight: str = "weight") -> DataFrame:
    """Return the DataFrame unchanged if it has weights, or raise: ``df.transform(est.check)``.

    Spark itself refuses an estimate if the column is missing. This check says why. It also finds a column of that
    name that was not added by shedding, and the weights of two shed inputs, which a join has.
    """
    if not isinstance(weight, str) or not weight:
        raise invalid("weight", weight, "a column name")
    marked = _marked(df)
    if len(marked) > 1:
        raise SpillwayError(
            f"weight = {weight!r} is not all: the DataFrame has the weights {_listed(marked)}.",
            hint=_of_join(marked),
        )
    meant = f"did you mean weight={marked[0]!r}?" if marked and weight not in marked else None
    if weight not in df.columns:
        raise SpillwayError(
            f"the DataFrame has no column {weight!r} with weights, so nothing can be said of what was shed.",
            hint=meant or "estimate after shed.tuples or shed.groups, and keep the column up to there",
        )
    _require_number(df, weight, meant)
    if meant is not None:
        raise SpillwayError(
            f"weight = {weight!r} is not the column of weights that shedding added.", hint=meant
        )
    return df


def check_shared(df: DataFrame, coins: Sequence[Coin]) -> DataFrame:
    """Return the DataFrame unchanged if it has the keys and weights of these draws and no other weights, or raise."""
    marked = _marked(df)
    for coin in coins:
        for name in coin.key:
            if isinstance(name, str) and name.partition(".")[0] not in df.columns:
                raise unknown(coin.field, name, df.columns)
        if isinstance(coin.weight, str):
            if coin.weight not in df.columns:
                raise unknown(coin.weight_field, coin.weight, marked or df.columns)
            _require_number(df, coin.weight, None, coin.weight_field)
    named = [coin.weight for coin in coins if isinstance(coin.weight, str)]
    extra = [name for name in marked if name not in named]
    if extra and len(named) == len(coins):
        raise SpillwayError(
            f"the DataFrame has weights that these estimates leave out: {_listed(extra)}.",
            hint=_of_join(marked),
        )
    return df


def _marked(df: DataFrame) -> list[str]:
    """Return the weight columns that shedding added, or raise if their names are the same."""
    if not hasattr(df, "schema"):
        raise invalid("df", df, "a DataFrame")
    marked = [field.name for field in df.schema.fields if (field.metadata or {}).get(WEIGHT_MARK)]
    for name in marked:
        if df.columns.count(name) > 1:
            raise SpillwayError(
                f"the DataFrame has several columns {name!r}.",
                hint='name the weights apart when shedding: weight="left_weight" and weight="right_weight"',
            )
    return marked


def _of_join(marked: Sequence[str]) -> str:
    if len(marked) != 2:
        return "multiply the weights of stages in a row; est.joined takes those of two inputs of a join"
    left, right = marked
    sides = f"left_weight={left!r}, right=..., right_weight={right!r}"
    return f"after a join of two shed inputs est.joined(left=..., {sides}); of stages in a row, multiply them"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _require_number(df: DataFrame, weight: str, meant: str | None, field: str = "weight") -> None:
    kind = df.schema[weight].dataType
    if not isinstance(kind, T.NumericType):
        raise SpillwayError(
            f"{field} = {weight!r} has type {kind.simpleString()}: expected a number.", hint=meant
        )
