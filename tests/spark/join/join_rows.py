"""Two streams of articles for the tests of joins: sets of words, weights, single keys; some null, some empty."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway.replay import Rates, stream
from tests.core.join import oracle
from tests.spark.orders import PAST

PAST_MS = int(PAST.timestamp() * 1000)
DELAY_MS = 1_000


def article(number: int) -> dict[str, Any]:
    """Article i, whatever range it is read in."""
    chance = random.Random(number)
    words = [f"word {chance.randrange(25)}" for _ in range(chance.choice((3, 4, 5)))]
    if number % 31 == 0:
        words.append(None)  # type: ignore[arg-type]
    return {
        "id": number,
        "words": None if number % 23 == 0 else [] if number % 29 == 0 else words,
        "weights": [(word, chance.choice((0.5, 1.0, 2.0))) for word in dict.fromkeys(words) if word],
        "tag": None if number % 17 == 0 else chance.randrange(40),
        "price": Decimal(number) / 4,
        "origin": {"city": f"city {number % 5}", "zip": number % 7},
    }


KINDS = pa.schema(
    {
        "id": pa.int64(),
        "words": pa.list_(pa.string()),
        "weights": pa.map_(pa.string(), pa.float64()),
        "tag": pa.int32(),
        "price": pa.decimal128(12, 2),
        "origin": pa.struct({"city": pa.string(), "zip": pa.int32()}),
    }
)


def left(first: int, rows: int) -> pa.Table:
    """Even articles."""
    return pa.Table.from_pylist([article(2 * n) for n in range(first, first + rows)], schema=KINDS)


def right(first: int, rows: int) -> pa.Table:
    """Odd ones."""
    return pa.Table.from_pylist([article(2 * n + 1) for n in range(first, first + rows)], schema=KINDS)


def moment_ms(number: Any, step: int) -> Any:
    """Return the time of article i, a number or a column: some ms apart, out of order by less than a second."""
    return number * step - number * 7_919 % 900 + PAST_MS


def articles(spark: SparkSession, side: str, rows: int, per_batch: int, step_ms: int) -> DataFrame:
    """Return a side as a stream that lies in the past, in batches of a fixed size."""
    trace = Rates((float(rows),), (1.0,))
    source = stream(
        spark, trace, generator=f"tests.spark.join.join_rows:{side}", start=PAST, max_rows_per_batch=per_batch
    )
    at: Column = F.timestamp_millis(moment_ms(F.col("id"), step_ms))
    return source.withColumn("ts", at).withWatermark("ts", f"{DELAY_MS} milliseconds")


def values(side: str, rows: int, step_ms: int, column: str) -> list[oracle.Row]:
    """Return times in ms and values of a side, for the oracle."""
    found = {"left": left, "right": right}[side](0, rows).to_pylist()
    return [(moment_ms(row["id"], step_ms), row[column]) for row in found]


def expected(
    on: Any, sides: tuple[list[oracle.Row], list[oracle.Row]], within_ms: tuple[int, int]
) -> set[oracle.Pair]:
    """Return the pairs by their articles' numbers, as far as the watermark has come at the end."""
    until = min(max(time or 0 for time, _ in side) for side in sides) - DELAY_MS
    pairs = oracle.join(*sides, on.kind, on.at_least, within_ms)
    return {
        (2 * left, 2 * right + 1, score)
        for left, right, score in pairs
        if max(sides[0][left][0] or 0, sides[1][right][0] or 0) <= until
    }
