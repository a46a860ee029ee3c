"""The queries whose checkpoints lie in ``tests/data/checkpoints``: what they read, what they shed, how they run.

A stored checkpoint belongs to exactly this query: rows, options and order of calls may not change without making the
checkpoints anew (``tests/data/make_checkpoints.py``). All read the built-in rows ``web_requests``, whose name is part
of the stored offsets, so that no module of the tests is.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, overlap, sliding
from spillway.core import control
from spillway.replay import Rates, stream
from tests.spark.match.match_rows import interpreted
from tests.spark.orders import PATIENCE_S

CHECKPOINTS = Path(__file__).resolve().parents[1] / "data" / "checkpoints"
ROWS, PER_BATCH = 2_000, 400
STOPPED_IN = 2  # the batch that has a decision and no commit
START = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
STEP_MS = 10
PATTERN = "PATTERN SEQ(A a, B+ b[], C c) WHERE [shop] AND a.priority <= c.priority WITHIN 800 ms"
BUDGETS = {"join": 7_000.0, "match": 700.0}  # units of work of a batch: less than all of it takes

Rows = list[list[Any]]


class StoppedError(Exception):
    """Takes a query down between its decision and its commit."""


@dataclass(frozen=True)
class Outcome:
    """What a query delivered batch by batch, and what its Spillway had to say at the end."""

    rows: dict[int, Rows]
    history: list[int]
    problems: tuple[str, ...]


def requests(spark: SparkSession) -> DataFrame:
    """Return 2,000 requests of the past, 400 a batch, with an event time that is out of order by up to 1.5 s."""
    source = stream(
        spark,
        Rates((float(ROWS),), (1.0,)),
        generator="web_requests",
        start=START,
        max_rows_per_batch=PER_BATCH,
    )
    return source.drop("payload").withColumn("ts", _moment(F.col("id"))).withWatermark("ts", "2 seconds")


def _moment(number: Column) -> Column:
    behind_ms = number * 7_919 % 1_500
    return F.timestamp_millis(number * STEP_MS - behind_ms + int(START.timestamp()) * 1_000)


def tuples(spark: SparkSession, shed: Spillway) -> DataFrame:
    """Return requests by their priority, as (id, weight)."""
    kept = shed.tuples(requests(spark), utility="priority", never="vip", floor=0.1, key="id")
    return kept.select("id", "weight")


def groups(spark: SparkSession, shed: Spillway) -> DataFrame:
    """Return some requests of each route, as (id, route, weight)."""
    kept = shed.groups(requests(spark), by="route", value="priority", time="ts", window="4 seconds", key="id")
    return kept.select("id", "route", "weight")


def windows(spark: SparkSession, shed: Spillway) -> DataFrame:
    """Return the requests of each window, as (start in µs, sum of ids, number)."""
    kept = shed.windows(requests(spark), sliding("3 seconds", "1 second"), time="ts", max_gap=3)
    totals = kept.groupBy("window").agg(F.sum("id"), F.count("*"))
    return totals.withColumn("window", F.unix_micros("window.start"))


def join(spark: SparkSession, shed: Spillway) -> DataFrame:
    """Return requests of the same time that have two words in common, as (id, id)."""
    words = F.array(
        F.col("route"),
        F.concat(F.lit("user "), F.col("user") % 8),
        F.concat(F.lit("priority "), F.col("priority")),
    )
    left, right = (requests(spark).select("id", "ts", words.alias("words")) for _ in range(2))
    pairs = shed.join(left, right, on=overlap("words", at_least=2), within="300 ms", time="ts", shards=2)
    return pairs.select("id_left", "id_right")


def match(spark: SparkSession, shed: Spillway) -> DataFrame:
    """Return what users did one after the other in a shop, as (a, list of b, c, whether all of it came)."""
    kind = F.element_at(F.array(*map(F.lit, "ABCD")), (F.col("user") % 4 + 1).cast("int"))
    events = requests(spark).select(
        "id", "ts", "priority", kind.alias("kind"), (F.col("user") % 5).alias("shop")
    )
    with interpreted():
        found = shed.match(
            events, PATTERN, time="ts", type="kind", columns=["id"], timeouts="whole", shards=2
        )
    return found.select("a.id", F.col("b.id").alias("repeated"), F.col("c.id").alias("last"), "whole")


def counted(spark: SparkSession, shed: Spillway) -> DataFrame:
    """Return all requests: groups are counted and shed within each batch (:func:`shed_batch`)."""
    del shed
    return requests(spark).select("id", "route", "priority")


def shed_batch(shed: Spillway, frame: DataFrame, batch: int) -> DataFrame:
    """Return some requests of each route of a batch, as (id, route, weight)."""
    kept = shed.groups(frame, by="route", value="priority", key="id", batch=batch)
    return kept.select("id", "route", "weight")


QUERIES: dict[str, Callable[[SparkSession, Spillway], DataFrame]] = {
    "tuples": tuples,
    "groups": groups,
    "windows": windows,
    "join": join,
    "match": match,
    "counted": counted,
}


def run(spark: SparkSession, kind: str, checkpoint: Path, *, stop_in: int | None = None) -> Outcome:
    """Run a query on a checkpoint to its end, or until it is taken down in a batch."""
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=0.4, work_budget=BUDGETS.get(kind, 0.0))
    arrival = "timestamp" if kind in ("tuples", "groups", "windows") else None  # where there is such a column
    rows: dict[int, Rows] = {}
    with Spillway("stored", 2.0, checkpoint, controller=controller, arrival=arrival) as shed:

        def take(frame: DataFrame, batch: int) -> None:
            assert shed.wait_for_batch(batch - 1)
            rows[batch] = plain(shed_batch(shed, frame, batch) if kind == "counted" else frame)
            if batch == stop_in:
                raise StoppedError

        writer = QUERIES[kind](spark, shed).writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        if stop_in is None:
            assert query.awaitTermination(PATIENCE_S), "the query did not finish"
        else:
            with pytest.raises(StreamingQueryException, match=StoppedError.__name__):
                query.awaitTermination(PATIENCE_S)
        problems = shed.status().problems
        return Outcome(rows, shed.history()["batch"].to_pylist(), problems)


def plain(frame: DataFrame) -> Rows:
    """Return rows as JSON has them, in an order that does not depend on the tasks."""
    rows = [list(row) for row in frame.collect()]
    return sorted(json.loads(json.dumps(rows)), key=json.dumps)
