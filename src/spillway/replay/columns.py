"""The types of a replay's columns: from those of Arrow and Parquet to those that Spark reads from Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from spillway.errors import invalid

_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def fitting(schema: pa.Schema, *, field: str) -> pa.Schema:
    """Return the columns in the types that Spark reads from Arrow, all of them nullable.

    Unsigned integers become the next larger signed ones (64 bits: a decimal), as when Spark reads Parquet
    itself; dictionaries become their values; timestamps get a resolution of one microsecond (finer digits are
    cut off) and stay with or without a time zone (then ``timestamp_ntz``) as they were.

    >>> fitting(pa.schema({"n": pa.uint16(), "at": pa.timestamp("ns", "UTC")}), field="rows").types
    [DataType(int32), TimestampType(timestamp[us, tz=UTC])]
    """
    fields = []
    for column in schema:
        try:
            spark_type = from_arrow_type(_WIDER.get(column.type, column.type))
            fields.append(pa.field(column.name, to_arrow_type(spark_type, timezone="UTC")))
        except PySparkTypeError as error:
            raise invalid(
                f"{field}: column {column.name!r}",
                str(column.type),
                "a type that Spark knows",
                hint="cast it first",
            ) from error
    lower = [name.lower() for name in schema.names]
    double = sorted({name for name in lower if lower.count(name) > 1})
    if double:
        raise invalid(
            f"{field}: columns", double, "distinct names (Spark does not tell upper from lower case)"
        )
    return pa.schema(fields)


def cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table in the types of :func:`fitting`; columns that fit already are not copied."""
    if table.schema.equals(schema):
        return table
    columns = [
        column if column.type == to.type else column.cast(to.type, safe=False)
        for column, to in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)
