"""Checks the columns that a pattern reads and outputs when the call is made, and hashes the key of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from spillway.core.cep.language import Correlation
from spillway.core.cep.language.syntax import Query
from spillway.errors import SpillwayError, invalid
from spillway.spark.columns import (
    quoted,
    require_column,
    require_distinct_names,
    require_stream,
    resolve,
    watermark_delay_us,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FRACTION = (T.FloatType, T.DoubleType, T.DecimalType)
_TYPES = (T.StringType, *_WHOLE)
_DAY_US = 86_400_000_000


def require_events(df: DataFrame) -> None:
    """Refuse a DataFrame that is not a stream, and column names that are reserved or repeated."""
    require_stream(df, "spillway.core.cep.run")
    require_distinct_names("df", df)


def delay_of(df: DataFrame, time: str) -> int:
    """Return the delay of the watermark on the time column, in microseconds."""
    if not isinstance(time, str):
        raise invalid("time", time, "the name of a timestamp column")
    return watermark_delay_us(df, "df", time)


def require_type(df: DataFrame, type_: str) -> None:
    """Refuse a column that cannot hold the types of rows."""
    if not isinstance(type_, str):
        raise invalid("type", type_, "the name of a column")
    resolve(df, "type", type_, _TYPES, "string or whole numbers")


def require_order(df: DataFrame, order: str | None) -> None:
    """Refuse a column that cannot order rows of the same time."""
    if order is not None:
        if not isinstance(order, str):
            raise invalid("order", order, "the name of a column, or None")
        resolve(df, "order", order, _WHOLE, "whole numbers")


def chosen_columns(df: DataFrame, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that a match has for each of its rows."""
    if columns is None:
        return tuple(df.columns)
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise invalid("columns", columns, "a list of one or more columns, or None for all")
    for name in columns:
        if not isinstance(name, str):
            raise invalid("columns", name, "names of columns", hint="add the expression as a column first")
        require_column("columns", name, df.columns)
        if list(columns).count(name) > 1:
            raise invalid("columns", list(columns), f"each column once; {name!r} is there twice")
    return tuple(columns)


def require_names(query: Query, times: Any, complete: Any = None) -> tuple[str, str]:
    """Return the names of a match's first and last time; refuse names that Spark could not distinguish.

    ``complete`` is the name of the column that is true for matches and false for timeouts, None if there is none.
    """
    if (
        not isinstance(times, Sequence)
        or isinstance(times, str)
        or len(times) != 2
        or not all(isinstance(name, str) and name for name in times)
    ):
        raise invalid("times", times, "two names, for the first and the last time of a match")
    if complete is not None and not (isinstance(complete, str) and complete):
        raise invalid("timeouts", complete, "the name of a column to add, or None")
    seen: set[str] = set()
    variables = [element.variable for element in query.elements if not element.negated]
    for name in (*variables, *times, *(() if complete is None else (complete,))):
        if name.lower() in seen:
            raise SpillwayError(
                f"a match would have two columns named {name!r}; Spark does not tell upper from lower case.",
                hint="rename the variable, or name the others by times= and timeouts=",
            )
        seen.add(name.lower())
    return times[0], times[1]


def arrow_schema(df: DataFrame) -> pa.Schema:
    """Return the schema in Arrow types. A column whose type Arrow does not have cannot be used in a condition."""
    return pa.schema([(field.name, _arrow_type(field.dataType)) for field in df.schema.fields])


def _arrow_type(kind: T.DataType) -> pa.DataType:
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkException:
        return pa.null()


def usable(query: Query, key: Correlation | None, df: DataFrame, time: str, type_: str) -> Column:
    """Return whether a row can be in a match, or can forbid or break one; other rows are not needed.

    Under the policy ``strict`` every row with a time matters, because it may stand between two other rows.
    """
    timed = quoted(time).isNotNull()
    if query.policy == "strict":
        return timed
    names = list(dict.fromkeys(name for element in query.elements for name in element.types))
    named = F.coalesce(quoted(type_).cast("string").isin(names), F.lit(False))
    return timed & named if key is None else timed & named & ~key_hash(df, key, type_).isNull()


def key_hash(df: DataFrame, key: Correlation, type_: str) -> Column:
    """Return a hash of the key of a row, by the attributes of its type.

    It is null if one of them is null and the row can then be in no match.

    Values that are equal to the engine have equal hashes, even if the widths of their columns differ: whole numbers
    are hashed as 64 bits, fractions as doubles without a sign of zero, days as microseconds. For a decimal, the hash
    and the engine both use the nearest double.
    """
    kind = quoted(type_).cast("string")
    found = F.lit(None).cast("bigint")
    for name, attributes in key.by.items():
        parts = [_value(df, attribute) for attribute in attributes]
        known = parts[0].isNotNull()
        for part in parts[1:]:
            known &= part.isNotNull()
        hashed = F.xxhash64(*parts, F.lit(0).cast("bigint"))  # as in spillway.core.row_hash.row_hashes
        found = F.when((kind == name) & known, hashed).otherwise(found)
    return F.coalesce(found, F.lit(0).cast("bigint")) if key.alone else found


def _value(df: DataFrame, name: str) -> Column:
    kind, column = df.schema[name].dataType, quoted(name)
    if isinstance(kind, _WHOLE):
        return column.cast("bigint")
    if isinstance(kind, _FRACTION):
        number = column.cast("double")
        return F.when(number == 0.0, F.lit(0.0)).when(~F.isnan(number), number)
    if isinstance(kind, T.DateType):
        return F.unix_date(column).cast("bigint") * F.lit(_DAY_US)
    return column


def output_schema(
    df: DataFrame,
    query: Query,
    columns: tuple[str, ...],
    time: str,
    times: tuple[str, str],
    complete: str | None = None,
) -> T.StructType:
    """Return the schema of matches: a struct or an array of structs for each variable, two times, and a flag."""
    row = T.StructType([T.StructField(name, df.schema[name].dataType, True) for name in columns])
    fields = [
        T.StructField(element.variable, T.ArrayType(row, True) if element.repeated else row, True)
        for element in query.elements
        if not element.negated
    ]
    at = df.schema[time].dataType
    flags = [] if complete is None else [T.StructField(complete, T.BooleanType(), True)]
    return T.StructType([*fields, *(T.StructField(name, at, True) for name in times), *flags])
