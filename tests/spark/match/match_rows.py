"""A stream of calls of rides for the tests of patterns: some at the same time, out of order, some values null."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway.core.cep import PatternConfig
from spillway.core.cep.language import parse
from spillway.replay import Rates, stream
from spillway.spark.match import plan as on_spark
from tests.core.cep import oracle
from tests.spark.orders import PAST

PAST_MS = int(PAST.timestamp() * 1000)
STEP_MS, DELAY_MS = 20, 1_000
KINDS = pa.schema(
    {
        "id": pa.int64(),
        "type": pa.string(),
        "bike": pa.int32(),
        "user": pa.int64(),
        "v": pa.float64(),
        "place": pa.struct({"city": pa.string(), "zip": pa.int32()}),
    }
)


def interpreted() -> AbstractContextManager[Any]:
    """Let queries be interpreted: for a few hundred rows that is faster than to compile them."""
    return mock.patch.object(on_spark, "PatternConfig", partial(PatternConfig, compile=False))


def event(number: int) -> dict[str, Any]:
    """Event i, whatever range it is read in; a bike is a ``bike`` to some types and a ``user`` to others."""
    chance = random.Random(number)
    bike = None if number % 31 == 0 else chance.randrange(3)
    kind = chance.choice("AABBCCDX")
    return {
        "id": number,
        "type": None if number % 37 == 0 else kind,
        "bike": bike if kind in "AB" else -1,
        "user": bike if kind in "CD" else -2,
        "v": None if number % 29 == 0 else chance.choice((-0.0, 0.0, 1.0, 2.0)),
        "place": {"city": f"city {number % 5}", "zip": number % 7},
    }


def calls(first: int, rows: int) -> pa.Table:
    """Events as a table."""
    return pa.Table.from_pylist([event(n) for n in range(first, first + rows)], schema=KINDS)


def moment_ms(number: Any) -> Any:
    """Return the time of event i, a number or a column: two at a time, out of order by less than the delay."""
    even = number - number % 2
    return even * STEP_MS - even * 7_919 % 48 * STEP_MS + PAST_MS


def events(spark: SparkSession, rows: int, per_batch: int) -> DataFrame:
    """Return the events as a stream that lies in the past, in batches of a fixed size."""
    trace = Rates((float(rows),), (1.0,))
    source = stream(
        spark, trace, generator="tests.spark.match.match_rows:calls", start=PAST, max_rows_per_batch=per_batch
    )
    at: Column = F.timestamp_millis(moment_ms(F.col("id")).cast("bigint"))
    return source.withColumn("ts", at).withWatermark("ts", f"{DELAY_MS} milliseconds")


def expected(query: str, rows: int) -> set[oracle.Match]:
    """Return the matches by definition, as far as the watermark has come at the end.

    Events of the same time are in the order of their numbers. A match whose pattern ends with a negated element has
    to wait for its window to pass.
    """
    tree = parse(query)
    table = [{**event(n), "ts": moment_ms(n) * 1_000} for n in range(rows)]
    until = max(row["ts"] for row in table) - DELAY_MS * 1_000
    waits = tree.elements[-1].negated
    found = set()
    for match in oracle.matches(tree, table):
        ends = [part if isinstance(part, tuple) else (part,) for part in match]
        last = table[ends[0][0]]["ts"] + tree.within_us if waits else table[ends[-1][-1]]["ts"]
        if last <= until:
            found.add(match)
    return found
