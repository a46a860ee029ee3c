"""Queries on Spark Connect, in a process of their own: a session is either classic or Connect, not both.

Run as ``python -m tests.spark.connecting CHECKPOINT``; prints what was kept as JSON. Windows are shed by a second
query, in two runs: when the second begins, the first has been reported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError, equality, sliding
from spillway.core import control
from spillway.replay import Rates, stream
from tests.spark.orders import PATIENCE_S, play
from tests.spark.window_rows import PER_BATCH, ROWS, live, write

WINDOW, MAX_GAP = sliding("3 seconds", "1 second"), 3


def main(checkpoint: Path) -> None:
    """Run the queries to their end and report."""
    session = (
        SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    )
    report = {**rows(session, checkpoint), "windows": whole_windows(session, checkpoint.parent)}
    report["told"] = what_is_wrong(session, checkpoint.parent)
    report["join"] = join(session, checkpoint.parent)
    report["match"] = match(session, checkpoint.parent)
    print(json.dumps(report))  # noqa: T201  the parent reads it
    session.stop()


def what_is_wrong(session: SparkSession, folder: Path) -> str | None:
    """Give a path where there is nothing, which only the server can see."""
    try:
        stream(session, Rates((1.0,), (1.0,)), rows=folder / "missing")
    except SpillwayError as error:
        return error.hint
    return None


def rows(session: SparkSession, checkpoint: Path) -> dict[str, Any]:
    """Shed single rows."""
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=0.3)
    with Spillway("connect", 2.0, checkpoint, controller=controller, arrival="timestamp") as shed:
        frame = shed.tuples(play(session), utility="score", never="vip", floor=0.02, key="id")
        query = (
            frame.select("id", "weight")
            .writeStream.format("parquet")
            .option("path", str(checkpoint.parent / "out"))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        history = shed.history()
        return {
            "arrived": history["arrived_rows"].to_pylist(),
            "kept": history["kept_rows"].to_pylist(),
            "delays": history["worst_delay_s"].to_pylist(),
            "problems": list(shed.status().problems),
        }


def join(session: SparkSession, folder: Path) -> dict[str, Any]:
    """Join orders with themselves, by what tells them apart."""
    checkpoint = folder / "join checkpoint"
    with Spillway("connect join", "1 hour", checkpoint, arrival="timestamp") as shed:
        sides = [play(session, 400, 200).withWatermark("timestamp", "0 seconds") for _ in range(2)]
        pairs = shed.join(*sides, on=equality("id"), within="1 ms", time="timestamp")
        query = (
            pairs.select("id_left", "id_right", "score")
            .writeStream.format("parquet")
            .option("path", str(folder / "pairs"))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        return {
            "pairs": shed.history()["pairs"].to_pylist(),
            "problems": list(shed.status().problems),
        }


def match(session: SparkSession, folder: Path) -> dict[str, Any]:
    """Find orders of three tiers one after the other, in shops that have five orders each."""
    checkpoint = folder / "match checkpoint"
    with Spillway("connect match", "1 hour", checkpoint, arrival="timestamp") as shed:
        calls = play(session, 400, 200).withColumn("shop", F.expr("id div 5"))
        found = shed.match(
            calls.withWatermark("timestamp", "0 seconds"),
            "PATTERN SEQ('0' a, '1' b, '4' c) WHERE [shop] WITHIN 1 s",
            time="timestamp",
            type="tier",
            columns=["id"],
        )
        query = (
            found.select("a.id", F.col("c.id").alias("last"))
            .writeStream.format("parquet")
            .option("path", str(folder / "matches"))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        return {
            "matches": shed.history()["matches"].to_pylist(),
            "problems": list(shed.status().problems),
        }


def whole_windows(session: SparkSession, folder: Path) -> dict[str, Any]:
    """Shed whole windows of orders."""
    orders = folder / "orders"
    orders.mkdir()
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=0.4)
    with Spillway("connect", 2.0, folder / "windows", controller=controller) as shed:
        stream = live(session, folder=orders)
        found = shed.windows(stream, WINDOW, time="ts", max_gap=MAX_GAP).groupBy("window")
        totals = found.agg(F.sum("id").alias("id"), F.count("*").alias("n"))
        for first, last in ((0, 2 * PER_BATCH), (2 * PER_BATCH, ROWS)):
            write(orders, first, last)
            query = (
                totals.withColumn("window", F.unix_micros("window.start"))
                .writeStream.format("parquet")
                .option("path", str(folder / "totals"))
                .option("checkpointLocation", str(folder / "windows"))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(PATIENCE_S)
            history = shed.history()
        return {
            "dropped": sum(history["windows_dropped"].to_pylist()),
            "problems": list(shed.status().problems),
        }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
