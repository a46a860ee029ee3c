"""Batches whose size nobody knows before they run: what gets in is bounded, weighed, and the same on replay."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError
from spillway.core.control import Decision, Sample
from spillway.core.random import mix
from spillway.core.row_hash import row_hashes
from spillway.loop.history import Entry
from tests.spark.orders import PATIENCE_S, Sink, start, told
from tests.spark.test_tuples import forget
from tests.spark.versions import parts_of, read

LIMIT = 2_000
FLOOD = [60_000, 40_000]  # fifty times the limit, in two tasks


class Limit:
    """Lets so many rows into a batch, whatever it has measured."""

    def step(self, sample: Sample) -> Decision:  # noqa: ARG002
        return Decision(queue_limit_rows=LIMIT)


def run(frame: DataFrame, checkpoint: Path, shed: Spillway) -> Sink:
    """Process version after version, each when the loop has heard of the one before."""
    sink = Sink()

    def take(frame: DataFrame, batch: int) -> None:
        assert shed.wait_for_batch(batch - 1)
        sink.take(frame, batch)

    query = start(frame, checkpoint, take, processingTime="0 seconds")
    query.processAllAvailable()
    query.stop()
    assert query.awaitTermination(PATIENCE_S)
    return sink


def chosen(
    checkpoint: Path, batch: int, tasks: list[int], never: Callable[[int], bool] = lambda _: False
) -> dict[int, float]:
    """Return the rows that should be kept of a first batch and their weights, worked out row by row."""
    decision = told(checkpoint, batch)
    assert decision.bound_rows is not None
    found = {}
    for task, part in enumerate(parts_of([tasks], 0)):
        ids = range(part.first, part.first + part.rows)
        hashes = row_hashes([pa.array(ids, pa.int64())], mix(decision.salt, -1), part.rows).tolist()
        for number, (row, hashed) in enumerate(zip(ids, hashes, strict=True)):
            over = max(1.0, (number + 1) * max(decision.tasks, task + 1) / decision.bound_rows)
            weight = 1.0 if never(row) else over * over
            if (hashed + 2.0**63) * weight <= 2.0**64:
                found[row] = weight
    return found


def error_of(tasks: list[int], bound: float, expected_tasks: float) -> float:
    """Return the standard deviation of the sum of weights."""
    variance = 0.0
    for task, rows in enumerate(tasks):
        for number in range(rows):
            weight = max(1.0, (number + 1) * max(expected_tasks, task + 1) / bound) ** 2
            variance += weight - 1.0
    return math.sqrt(variance)


def test_a_first_batch_of_fifty_times_the_limit_is_bounded(spark: SparkSession, tmp_path: Path) -> None:
    def never(row: int) -> bool:
        return row % 1_000 == 999

    small = [300, 500, 200, 100]
    with Spillway("flood", 2.0, tmp_path, controller=Limit()) as shed:
        rows = shed.tuples(read(spark, FLOOD, small, small), never=F.col("id") % 1000 == 999, key="id")
        kept = run(rows, tmp_path, shed)
        history, status = shed.history().to_pylist(), shed.status()
    decision = told(tmp_path, 0)
    assert (decision.units, decision.expected_rows, decision.rows_known) == (None, None, False)
    assert (decision.bound_rows, decision.tasks, decision.keep_ratio) == (LIMIT, 2.0, 1.0)
    assert {row["id"]: row["weight"] for row in kept[0]} == chosen(tmp_path, 0, FLOOD, never)
    assert {row for row in range(sum(FLOOD)) if never(row)} <= set(kept.ids(0))
    assert 1.8 * LIMIT < len(kept[0]) - sum(FLOOD) // 1_000 < 2.2 * LIMIT
    assert sum(row["weight"] for row in kept[0]) == pytest.approx(
        sum(FLOOD), abs=4.0 * error_of(FLOOD, LIMIT, 2.0)
    )
    for batch in (1, 2):
        assert [row["weight"] for row in kept[batch]] == [1.0] * sum(small), "what fits is kept"
    assert [entry["bounded_rows"] for entry in history] == [sum(FLOOD) - len(kept[0]), 0, 0]
    assert [entry["dropped_rows"] for entry in history] == [sum(FLOOD) - len(kept[0]), 0, 0]
    assert told(tmp_path, 2).tasks == pytest.approx(2.0 + 0.3 * 2.0), "four are believed step by step"
    assert status.problems == ()
    said = str(replace(status, last=Entry(**history[0])))
    assert (
        f"its size was not known before it ran, so it was bounded: {history[0]['bounded_rows']:,} rows"
        in said
    )

    forget(tmp_path, 0)
    with Spillway("flood", 2.0, tmp_path, controller=Limit()) as shed:
        rows = shed.tuples(read(spark, FLOOD, small, small), never=F.col("id") % 1000 == 999, key="id")
        again = run(rows, tmp_path, shed)
    assert kept.ids(0) == again.ids(0)
    assert kept[0] == again[0], "in the same order with the same weights"


def test_a_task_more_than_expected_has_the_part_of_the_last_one(spark: SparkSession, tmp_path: Path) -> None:
    tasks = [25_000] * 8
    with Spillway("tasks", 2.0, tmp_path, controller=Limit()) as shed:
        kept = run(shed.tuples(read(spark, tasks), key="id"), tmp_path, shed)
    assert {row["id"]: row["weight"] for row in kept[0]} == chosen(tmp_path, 0, tasks)
    assert len(kept[0]) < 2 * (1 + math.log(4)) * LIMIT
    assert told(tmp_path, 0).tasks == 2.0


def test_weights_of_two_stages_in_a_row_have_the_bound_once(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("chain", 2.0, tmp_path, controller=Limit()) as shed:
        rows = shed.tuples(shed.tuples(read(spark, FLOOD), key="id"), key="id")
        kept = run(rows, tmp_path, shed)
    assert {row["id"]: row["weight"] for row in kept[0]} == chosen(tmp_path, 0, FLOOD)


def test_observing_drops_nothing_and_reports_what_the_bound_would(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Spillway("watch", 2.0, tmp_path, controller=Limit(), mode="observe") as shed:
        kept = run(shed.tuples(read(spark, FLOOD), key="id"), tmp_path, shed)
        entry, said = shed.history().to_pylist()[0], str(shed.status())
    assert len(kept[0]) == sum(FLOOD)
    assert {row["weight"] for row in kept[0]} == {1.0}
    would = sum(FLOOD) - len(chosen(tmp_path, 0, FLOOD))
    assert (entry["dropped_rows"], entry["would_drop_rows"], entry["bounded_rows"]) == (0, would, would)
    assert "would have been dropped by their place in their tasks" in said


@pytest.mark.parametrize("window", [None, "1 hour"])
def test_groups_are_bounded_too(spark: SparkSession, tmp_path: Path, window: str | None) -> None:
    with Spillway("groups", 2.0, tmp_path, controller=Limit()) as shed:
        rows = read(spark, FLOOD).withColumn("at", F.timestamp_seconds(F.col("id") / 1_000))
        timed = {} if window is None else {"time": "at", "window": window}
        kept = run(
            shed.groups(rows.withColumn("g", F.col("id") % 3), by="g", key="id", **timed), tmp_path, shed
        )
        entry = shed.history().to_pylist()[0]
    assert {row["id"]: row["weight"] for row in kept[0]} == pytest.approx(chosen(tmp_path, 0, FLOOD))
    assert entry["bounded_rows"] == sum(FLOOD) - len(kept[0])


def test_a_spark_that_does_not_number_rows_is_refused_at_the_call(
    spark: SparkSession, tmp_path: Path
) -> None:
    rule = "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowRelationSubquery"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    try:
        with (
            Spillway("no", 2.0, tmp_path) as shed,
            pytest.raises(SpillwayError, match="does not number") as raised,
        ):
            shed.tuples(read(spark, FLOOD), key="id")
        assert "excludedRules" in str(raised.value)
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")
