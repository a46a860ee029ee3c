"""Whatever is wrong with a call is said at the call: field, value, what is allowed, what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError
from spillway.errors import CheckpointInUseError
from tests.spark.orders import play, run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": ""}, "name = ''"),
        ({"name": "a/b"}, "name = 'a/b'"),
        ({"target_delay": "2 secnds"}, "did you mean 'second'"),
        ({"target_delay": "-2 seconds"}, "target_delay"),
        ({"target_delay": 0}, "target_delay = 0"),
        ({"target_delay": None}, "target_delay = None"),
        ({"target_delay": "nan seconds"}, "target_delay"),
        ({"controller": "dedline"}, "did you mean 'deadline'"),
        ({"controller": 5}, "controller = 5"),
        ({"mode": "obsrve"}, "did you mean 'observe'"),
        ({"checkpoint": "s3://bucket/rides"}, "mount it"),
        ({"checkpoint": 3}, "checkpoint = 3"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said.replace("(", r"\(")):
        Spillway(**{"name": "bad", "target_delay": "2 seconds", **options})


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return play(spark).withColumn("tags", F.create_map(F.lit("a"), F.col("customer")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"utility": "teir"}, "did you mean 'tier'"),
        ({"utility": "customer"}, "utility = customer has type string: expected a number"),
        ({"utility": lambda: F.col("nosuch") + 1}, "nosuch"),
        ({"utility": 3}, "utility = 3"),
        ({"never": "vpi"}, "did you mean 'vip'"),
        ({"never": "tier"}, "never = tier has type int: expected boolean"),
        ({"key": "custmer"}, "did you mean 'customer'"),
        ({"key": []}, "key = "),
        ({"key": [3]}, "key = 3"),
        ({"key": "tags"}, "cannot hash"),
        ({"floor": 0.1}, "floor = 0.1"),
        ({"utility": "tier", "floor": 1.5}, "floor = 1.5"),
        ({"utility": "tier", "floor": True}, "floor = True"),
        ({"weight": "tier"}, "weight = 'tier'"),
        ({"weight": "Tier"}, "weight = 'Tier'"),
        ({"weight": ""}, "weight = ''"),
    ],
)
def test_bad_calls(stream: DataFrame, options: dict[str, Any], said: str) -> None:
    made = {name: value() if callable(value) else value for name, value in options.items()}
    with Spillway("bad", 2.0) as shed, pytest.raises(SpillwayError, match=said):
        shed.tuples(stream, **made)


@pytest.mark.parametrize(
    ("arrival", "said"), [("timestmp", "did you mean 'timestamp'"), ("tier", "expected timestamp")]
)
def test_a_bad_arrival_column(stream: DataFrame, arrival: str, said: str) -> None:
    with Spillway("bad", 2.0, arrival=arrival) as shed, pytest.raises(SpillwayError, match=said):
        shed.tuples(stream)


def test_a_table_is_not_a_stream(spark: SparkSession) -> None:
    with Spillway("bad", 2.0) as shed, pytest.raises(SpillwayError, match="not a streaming DataFrame"):
        shed.tuples(spark.range(3).toDF("id"))


def test_a_key_of_a_type_without_hash_is_left_out(stream: DataFrame, tmp_path: Path) -> None:
    with Spillway("maps", 2.0, tmp_path, controller="none") as shed:
        kept = run(shed.tuples(stream), tmp_path)
    assert sum(len(rows) for rows in kept.values()) == 12_000


def test_two_spillways_on_one_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    first = Spillway("one", 2.0, tmp_path)
    frame = first.tuples(play(spark, rows=60, per_batch=20))
    second = Spillway("two", 2.0, tmp_path)  # the first has no query yet: a cell that is run again
    with pytest.raises(SpillwayError, match="closed"):
        first.tuples(play(spark))
    query = (
        second.tuples(play(spark))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    second.wait_for_batch(0, limit_s=60)
    with pytest.raises(CheckpointInUseError, match="stop that query first"):
        Spillway("three", 2.0, tmp_path)
    query.stop()
    second.close()
    Spillway("four", 2.0, tmp_path).close()
    assert frame.isStreaming


def test_a_query_on_another_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("one", 2.0, tmp_path / "mine") as shed:
        frame = shed.tuples(play(spark, rows=60, per_batch=20))
        run(frame, tmp_path / "mine")
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "other")).start()
        with pytest.raises(Exception, match="one Spillway serves one query"):
            query.awaitTermination(60)
