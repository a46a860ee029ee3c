"""Checks the columns of both sides of a join when the call is made, and names the columns of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spillway.core.join.predicates import Predicate
from spillway.errors import SpillwayError, invalid
from spillway.spark.columns import (
    quoted,
    require_arrow_types,
    require_column,
    require_distinct_names,
    require_free_names,
    require_plain_names,
    watermark_delay_us,
)
from spillway.spark.join.shard import Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIDES = ("left", "right")
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_RESERVED = -(2**63)
Item = Literal["bigint", "string"]


@dataclass(frozen=True)
class Values:
    """The column that one side is joined on: its items, their type, and whether a weight is not finite (``odd``)."""

    items: Column
    item: Item
    odd: Column | None

    def usable(self, on: Predicate) -> Column:
        """Return whether a row can match any row: it needs a value, and enough items."""
        usable = self.items.isNotNull()
        if self.item == "bigint":
            usable &= ~F.array_contains(self.items, F.lit(_RESERVED).cast("bigint"))
        if self.odd is not None and on.weighted:
            usable &= ~self.odd
        if not on.sees_empty:
            usable &= F.size(self.items) >= (int(on.at_least) if on.kind == "overlap" else 1)
        return usable


def require_side(side: str, df: DataFrame) -> None:
    """Refuse a DataFrame that is not a stream, and column names that are reserved or repeated."""
    if not isinstance(getattr(df, "isStreaming", None), bool):
        raise invalid(side, df, "a streaming DataFrame")
    if not df.isStreaming:
        raise SpillwayError(
            f"{side} is not a streaming DataFrame.",
            hint="read it with spark.readStream; for tables in memory use spillway.core.join.run, and a table "
            "that does not change is joined by Spark's own join",
        )
    require_free_names(df, side)
    require_plain_names(side, df.columns)
    require_distinct_names(side, df)
    require_arrow_types(side, df, df.columns)


def delay_of(side: str, df: DataFrame, time: str) -> int:
    """Return the delay of the watermark on a side's time column, in microseconds."""
    return watermark_delay_us(df, side, time, field=f"time ({side})", of=f" of the {side} side")


def values_of(side: str, df: DataFrame, name: str) -> Values:
    """Return the column that a side is joined on, as an array of distinct items."""
    require_column(f"on, {side} column", name, df.columns)
    kind, column = df.schema[name].dataType, quoted(name)
    if isinstance(kind, T.MapType) and isinstance(kind.valueType, T.NumericType):
        item = _item(kind.keyType)
        return _values(side, name, kind, item, F.map_keys(column), _odd(F.map_values(column)))
    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        if (
            isinstance(inner, T.StructType)
            and len(inner) == 2
            and isinstance(inner[1].dataType, T.NumericType)
        ):
            first, second = inner.names
            keys = F.transform(column, lambda entry: entry[first])
            return _values(
                side,
                name,
                kind,
                _item(inner[0].dataType),
                keys,
                _odd(F.transform(column, lambda e: e[second])),
            )
        return _values(side, name, kind, _item(inner), column, None)
    single = F.when(column.isNotNull(), F.array(column))
    return _values(side, name, kind, _item(kind), single, None)


def _values(
    side: str, name: str, kind: T.DataType, item: Item | None, items: Column, odd: Column | None
) -> Values:
    if item is None:
        raise SpillwayError(
            f"on: {side} column {name!r} has type {kind.simpleString()}: expected integers or strings, single, in "
            "arrays, as keys of maps to numbers, or as the first of two fields of structs in arrays.",
            hint="cast the items to strings",
        )
    return Values(F.array_distinct(F.array_compact(items.cast(f"array<{item}>"))), item, odd)


def _item(kind: T.DataType) -> Item | None:
    return "bigint" if isinstance(kind, _WHOLE) else "string" if isinstance(kind, T.StringType) else None


def _odd(weights: Column) -> Column:
    """Return whether a weight is not finite."""
    infinite = float("inf")
    return F.exists(
        weights.cast("array<double>"), lambda w: F.coalesce(F.isnan(w) | (F.abs(w) == infinite), F.lit(False))
    )


def output_of(left: DataFrame, right: DataFrame, suffixes: Any, score: Any) -> Output:
    """Return the names of a pair's columns: a name that both sides have gets a suffix."""
    if (
        not isinstance(suffixes, Sequence)
        or isinstance(suffixes, str)
        or len(suffixes) != 2
        or not all(isinstance(suffix, str) for suffix in suffixes)
        or suffixes[0] == suffixes[1]
    ):
        raise invalid("suffixes", suffixes, "two texts that differ, for the left and the right side")
    if not isinstance(score, str) or not score:
        raise invalid("score", score, "the name of a column")
    lower = [{name.lower() for name in df.columns} for df in (left, right)]
    names = [
        tuple(name + suffix if name.lower() in other else name for name in df.columns)
        for df, other, suffix in ((left, lower[1], suffixes[0]), (right, lower[0], suffixes[1]))
    ]
    seen: set[str] = set()
    for name in (*names[0], *names[1], score):
        if name.lower() in seen:
            what = "score" if name == score else "suffixes"
            raise invalid(
                what, name if name == score else suffixes, f"names that are free; {name!r} is taken"
            )
        seen.add(name.lower())
    return Output(names[0], names[1], score)


def output_schema(left: DataFrame, right: DataFrame, output: Output) -> T.StructType:
    """Return the schema of pairs."""
    fields = [
        T.StructField(name, field.dataType, True)
        for df, names in ((left, output.left), (right, output.right))
        for name, field in zip(names, df.schema.fields, strict=True)
    ]
    return T.StructType([*fields, T.StructField(output.score, T.DoubleType(), True)])
