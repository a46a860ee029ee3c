"""Checks the columns that users name, when the call is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from spillway.errors import SpillwayError, invalid, unknown
from spillway.spark.control_row import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WATERMARK = "spark.watermarkDelayMs"
_TO_TIMESTAMP: dict[type[T.DataType], str] = {
    T.LongType: "F.timestamp_seconds({!r})",
    T.IntegerType: "F.timestamp_seconds({!r})",
    T.DoubleType: "F.timestamp_seconds({!r})",
    T.StringType: "F.to_timestamp({!r})",
}


def require_stream(df: DataFrame, in_memory: str, within_batch: str | None = None) -> None:
    """Refuse a DataFrame that is not a stream, and column names that are reserved for Spillway."""
    if not isinstance(getattr(df, "isStreaming", None), bool):
        raise invalid("df", df, "a streaming DataFrame")
    if not df.isStreaming:
        raise SpillwayError(
            "df is not a streaming DataFrame.",
            hint="read it with spark.readStream; "
            + (f"within foreachBatch also give {within_batch}; " if within_batch else "")
            + f"for tables in memory use {in_memory}",
        )
    require_free_names(df)


def require_batch(df: DataFrame, batch: int) -> None:
    """Refuse a stream instead of a batch's table, an invalid batch number, and reserved column names."""
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 0:
        raise invalid("batch", batch, "the number that foreachBatch gives to the function")
    if not isinstance(getattr(df, "isStreaming", None), bool) or df.isStreaming:
        raise invalid(
            "df",
            df,
            "the DataFrame that foreachBatch gives",
            hint="leave batch= out before a stream's aggregates",
        )
    require_free_names(df)


def require_column(field: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that no column has; the error suggests a name that differs only in case.

    >>> require_column("time", "TS", ["id", "ts"])
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: time = 'TS' is not allowed: expected one of 'id', 'ts'. Hint: did you mean 'ts'?
    """
    if name in names:
        return
    same = [known for known in names if known.lower() == name.lower()]
    if same:
        allowed = "one of " + ", ".join(map(repr, sorted(names)))
        raise invalid(field, name, allowed, hint=f"did you mean {same[0]!r}?")
    raise unknown(field, name, names)


def require_free_names(df: DataFrame, field: str = "df") -> None:
    """Refuse column names that are reserved for Spillway."""
    for name in df.columns:
        if name.startswith(PREFIX):
            raise invalid(field, name, f"columns that do not begin with {PREFIX!r}")


def require_distinct_names(field: str, df: DataFrame) -> None:
    """Refuse column names that Spark could not distinguish, because they differ only in case."""
    seen = set()
    for name in df.columns:
        if name.lower() in seen:
            raise invalid(field, name, "column names that differ", hint="rename one of them")
        seen.add(name.lower())


def require_plain_names(field: str, names: Iterable[str]) -> None:
    """Refuse names that Spark cannot pass to a function on Arrow batches."""
    for name in names:
        if "." in name or "`" in name:
            hint = (
                f"rename it: {field}.withColumnRenamed({name!r}, {name.replace('.', '_').replace('`', '')!r})"
            )
            raise invalid(field, name, "column names without dots and backticks", hint=hint)


def require_arrow_types(field: str, df: DataFrame, names: Iterable[str]) -> None:
    """Refuse columns whose values Spark cannot pass to a function on Arrow batches, such as months."""
    for name in names:
        kind = df.schema[name].dataType
        try:
            to_arrow_type(kind, timezone="UTC")
        except PySparkException as error:
            raise SpillwayError(
                f"{field}: column {name!r} has type {kind.simpleString()}, which Spark does not hand to Python.",
                hint=f"leave it out, or cast it: {field}.withColumn({name!r}, F.col({name!r}).cast('string'))",
            ) from error


def watermark_delay_us(df: DataFrame, frame: str, time: str, *, field: str = "time", of: str = "") -> int:
    """Return the delay of the watermark on a time column, in microseconds; refuse a column without a watermark.

    ``frame`` is the name of the DataFrame in messages, and ``of`` says there whose column it is.
    """
    require_column(field, time, df.columns)
    kind = df.schema[time].dataType
    if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
        made = _TO_TIMESTAMP.get(type(kind), "F.col({!r}).cast('timestamp')").format(time)
        raise SpillwayError(
            f"{field} = {time} has type {kind.simpleString()}: expected timestamp.",
            hint=f'{frame}.withColumn({time!r}, {made}).withWatermark({time!r}, "10 seconds") makes one',
        )
    delay = df.schema[time].metadata.get(WATERMARK)
    if delay is None:
        raise SpillwayError(
            f"time = {time!r}{of} has no watermark, so no row could ever be let go.",
            hint=f'call {frame}.withWatermark("{time}", "10 seconds") first, with the delay your rows may have',
        )
    return int(delay) * 1000


def resolve(
    df: DataFrame, field: str, named: str | Column, allowed: tuple[type[T.DataType], ...], what: str
) -> Column:
    """Return a column by name or expression after checking that it exists and has an allowed type."""
    if isinstance(named, str):
        require_column(field, named, df.columns)
        column = F.col(f"`{named.replace('`', '``')}`")
    elif isinstance(named, Column):
        column = named
    else:
        raise SpillwayError(f"{field} = {named!r} is not allowed: expected a column's name or a Column.")
    try:
        kind = df.select(column.alias("c")).schema["c"].dataType
    except PySparkException as error:
        raise SpillwayError(f"{field}: {error.getMessage() or error}") from error
    if not isinstance(kind, allowed):
        raise SpillwayError(f"{field} = {named!s} has type {kind.simpleString()}: expected {what}.")
    return column


def key_columns(df: DataFrame, key: str | Sequence[str] | None, field: str = "key") -> list[Column]:
    """Return the columns that are hashed: the named ones, or all that can be hashed."""
    if key is not None:
        names = [key] if isinstance(key, str) else list(key)
        if not names:
            raise SpillwayError(f"{field} = [] is not allowed: expected one or more columns.")
        for name in names:
            if not isinstance(name, str):
                raise invalid(field, name, "names of columns", hint="add the expression as a column first")
            require_column(field, name, df.columns)
            if not _hashable(df.schema[name].dataType):
                kind = df.schema[name].dataType.simpleString()
                raise SpillwayError(f"{field} = {name!r} has type {kind}, which Spark cannot hash.")
    else:
        names = [field.name for field in df.schema.fields if _hashable(field.dataType)]
        if not names:
            raise SpillwayError("no column can be hashed to pick rows.", hint="name a key= column")
    return [F.col(f"`{name.replace('`', '``')}`") for name in names]


def _hashable(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _hashable(kind.elementType)
    if isinstance(kind, T.StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    return not isinstance(kind, T.MapType | T.VariantType)


def quoted(name: str) -> Column:
    """Return a column by its exact name, quoted."""
    return F.col(f"`{name.replace('`', '``')}`")


def row_hash(df: DataFrame) -> Column:
    """Return a hash of all columns of a row that can be hashed; for a map its entries are hashed.

    For plain columns it equals ``spillway.core.row_hash.row_hashes`` with the salt 0.
    """
    columns = []
    for field in df.schema.fields:
        column, kind = quoted(field.name), field.dataType
        if isinstance(kind, T.MapType):
            column, kind = F.map_entries(column), T.StructType([T.StructField("v", kind.valueType)])
        if not _has(kind, (T.MapType, T.VariantType)):
            columns.append(column)
    return F.xxhash64(*columns, F.lit(0).cast("bigint"))


def _has(kind: T.DataType, unhashable: tuple[type[T.DataType], ...]) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has(kind.elementType, unhashable)
    if isinstance(kind, T.StructType):
        return any(_has(field.dataType, unhashable) for field in kind.fields)
    return isinstance(kind, unhashable)
