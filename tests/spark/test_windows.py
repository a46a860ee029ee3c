"""Whole windows on Spark: what is delivered is exact, and never more than max_gap in a row are missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError, sliding, tumbling
from spillway.core import control
from spillway.core import windows as core_windows
from spillway.core.control import Controller
from spillway.core.windows import Window
from spillway.replay import Rates, stream
from spillway.spark.decide import BatchDecision
from tests.spark.orders import PAST, PATIENCE_S, Sink, start

Answer = dict[tuple[Any, ...], tuple[Any, ...]]
Stage = Callable[[DataFrame], DataFrame]


def keeping(share: float) -> Controller:
    return control.make("fixed", target_delay_s=2.0, keep_ratio=share)


def orders(spark: SparkSession, seconds: int = 36, per_batch: int = 1_500, late_ms: int = 9_000) -> DataFrame:
    """500 orders a second, out of order by up to 1.5 s, one in a hundred far too late; the watermark waits 2 s."""
    trace = Rates((500.0,), (float(seconds),))
    rows = stream(
        spark, trace, generator="tests.spark.orders:orders", start=PAST, max_rows_per_batch=per_batch
    )
    behind_ms = F.when(F.col("id") % 100 == 37, late_ms).otherwise(F.pmod(F.hash("id"), F.lit(1_500)))
    at = F.timestamp_micros(F.unix_micros("timestamp") - behind_ms * 1000)
    return rows.withColumn("ts", at).withWatermark("ts", "2 seconds")


def windowed(of: Window, time: str = "ts") -> Stage:
    """Return Spark's own windows, without any shedding."""
    at = F.window_time("window") if time == "window" else F.col(time)
    size, slide = f"{of.size} microseconds", f"{of.slide} microseconds"
    return lambda df: (
        df.withColumn("_", F.window(at, size, slide)).drop("window").withColumnRenamed("_", "window")
    )


def totals(df: DataFrame, *by: str, value: str = "id") -> DataFrame:
    return df.groupBy("window", *by).agg(F.sum(value).alias("id"), F.count("*").alias("n"))


def run(df: DataFrame, checkpoint: Path, *, batches: int | None = None) -> Answer:
    """Run to the end, or stop in the middle, and return value by window and group."""
    found: list[Row] = []
    seen: set[int] = set()

    def each(frame: DataFrame, batch: int) -> None:
        if batches is not None and batch >= batches:
            raise RuntimeError("enough")
        found.extend(frame.collect())
        seen.add(batch)

    query = (
        df.writeStream.foreachBatch(each)
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    if batches is None:
        assert query.awaitTermination(PATIENCE_S), "the query did not finish"
    else:
        with pytest.raises(Exception, match="enough"):
            query.awaitTermination(PATIENCE_S)
    rows = [row.asDict(recursive=True) for row in found]
    return {
        (row["window"]["start"], row["window"]["end"], row.get("tier")): (row["id"], row["n"]) for row in rows
    }


def collected(df: DataFrame, checkpoint: Path) -> pa.Table:
    """Return all rows of a stream."""
    sink = Sink()
    assert start(df, checkpoint, sink.take).awaitTermination(PATIENCE_S)
    return pa.Table.from_pylist([row.asDict() for batch in sink.values() for row in batch])


def decided(checkpoint: Path) -> dict[int, bool]:
    """Return the last word on each window of the drop; one that nothing was decided about is kept."""
    kept: dict[int, bool] = {}
    files = (checkpoint / "spillway" / "decisions").glob("*.json")
    for file in sorted(files, key=lambda file: int(file.stem)):
        told = BatchDecision.from_json(file.read_text()).windows_of(0)
        assert told is not None
        kept.update({number: bit == "1" for number, bit in enumerate(told.kept, start=told.first)})
    return {number: kept.get(number, True) for number in range(min(kept) - 100, max(kept) + 100)}


def longest_gap(exact: Answer, found: Answer) -> int:
    run = longest = 0
    for begin in sorted({key[0] for key in exact}):
        run = 0 if any(key[0] == begin for key in found) else run + 1
        longest = max(longest, run)
    return longest


def check(exact: Answer, found: Answer, max_gap: int) -> None:
    wrong = {key: (value, exact.get(key)) for key, value in found.items() if exact.get(key) != value}
    assert not wrong, "every window that is delivered is what it would have been"
    assert 0 < len(found) < len(exact), "some are missing, not all"
    assert longest_gap(exact, found) <= max_gap


@pytest.mark.parametrize(
    ("window", "max_gap"),
    [(tumbling("1 second"), 2), (sliding("3 seconds", "1 second"), 5), (sliding("2500 ms", "1 second"), 1)],
    ids=str,
)
def test_delivered_windows_are_exact_and_gaps_are_bounded(
    spark: SparkSession, tmp_path: Path, window: Window, max_gap: int
) -> None:
    exact = run(totals(windowed(window)(orders(spark)), "tier"), tmp_path / "exact")
    with Spillway("w", 2.0, tmp_path / "shed", controller=keeping(0.4)) as shed:
        rows = shed.windows(orders(spark), window, time="ts", max_gap=max_gap)
        found = run(totals(rows, "tier"), tmp_path / "shed")
        history = shed.history().to_pylist()
        assert shed.status().problems == ()
    check(exact, found, max_gap)
    early = sum(entry["early_dropped_rows"] for entry in history)
    if (max_gap + 1) * window.slide > window.size:
        assert early > 500, "rows were dropped, not only windows"
    else:
        assert early == 0, "every row has a window that is open"
    assert all(0 <= entry["early_dropped_rows"] <= entry["dropped_rows"] for entry in history)


def test_a_pipeline_in_append_mode_gives_what_the_reference_engine_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    inner, outer = sliding("2 seconds", "1 second"), sliding("6 seconds", "3 seconds")
    nested = inner >> outer
    rows = orders(spark, late_ms=0)
    first = totals(windowed(inner)(rows))
    exact = run(totals(windowed(outer, "window")(first)), tmp_path / "exact")
    with Spillway("w", 2.0, tmp_path / "shed", controller=keeping(0.4)) as shed:
        first = totals(shed.windows(rows, nested, time="ts", max_gap=2))
        second = totals(shed.windows(first, nested, time="window", max_gap=2, level=(0, 0)))
        found = run(second, tmp_path / "shed")
    check(exact, found, 2)

    table = collected(rows.select("id", F.unix_micros("ts").alias("us")), tmp_path / "rows")
    table = pa.table({"ts": table["us"].cast(pa.timestamp("us", "UTC")), "id": table["id"]}).sort_by("ts")
    by_engine = core_windows.run(
        table,
        nested,
        time="ts",
        value="id",
        aggregate=["sum", "sum"],
        stamp="end",
        decided=decided(tmp_path / "shed"),
    )
    closed = {key[0].timestamp() for key in exact}
    assert {(key[0].timestamp(), value[0]) for key, value in found.items()} == {
        (row["start"].timestamp(), row["value"])
        for row in by_engine.to_pylist()
        if row["start"].timestamp() in closed
    }


def test_branches_of_a_fan_out_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tumbling("1 second"), tumbling("2 seconds")
    both = one | two
    exact = run(
        totals(windowed(one)(orders(spark))).union(totals(windowed(two)(orders(spark)))), tmp_path / "exact"
    )
    rows = orders(spark)
    with Spillway("w", 2.0, tmp_path / "shed", controller=keeping(0.4)) as shed:
        branches = [totals(shed.windows(rows, both, time="ts", max_gap=6, level=branch)) for branch in (0, 1)]
        found = run(branches[0].union(branches[1]), tmp_path / "shed")
    for length in (1, 2):
        sizes = [
            {k: v for k, v in answer.items() if (k[1] - k[0]).seconds == length} for answer in (exact, found)
        ]
        check(sizes[0], sizes[1], 6)


def test_a_query_that_is_stopped_goes_on_with_the_same_windows(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    exact = run(totals(windowed(window)(orders(spark))), tmp_path / "exact")
    found: Answer = {}
    for batches in (5, 8, None):
        with Spillway("w", 2.0, tmp_path / "shed", controller=keeping(0.4)) as shed:
            rows = totals(shed.windows(orders(spark), window, time="ts", max_gap=3))
            found |= run(rows, tmp_path / "shed", batches=batches)
    check(exact, found, 3)


def test_observing_drops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    window = tumbling("1 second")
    exact = run(totals(windowed(window)(orders(spark, 20))), tmp_path / "exact")
    with Spillway("w", 2.0, tmp_path / "shed", controller=keeping(0.1), mode="observe") as shed:
        rows = totals(shed.windows(orders(spark, 20), window, time="ts", max_gap=3))
        assert run(rows, tmp_path / "shed") == exact
        assert sum(shed.history()["would_drop_rows"].to_pylist()) > 0


def test_errors_at_the_call(spark: SparkSession, tmp_path: Path) -> None:
    rows = orders(spark)
    nested = tumbling("1 second") >> tumbling("3 seconds")
    with Spillway("w", 2.0) as shed, pytest.raises(SpillwayError, match="only with a checkpoint"):
        shed.windows(rows, nested, time="ts", max_gap=3)
    with Spillway("w", 2.0, tmp_path) as shed:
        for message, call in {
            "no watermark": lambda: shed.windows(rows, tumbling("1 second"), time="timestamp", max_gap=3),
            "did you mean 'ts'": lambda: shed.windows(rows, tumbling("1 second"), time="tss", max_gap=3),
            "expected timestamp": lambda: shed.windows(rows, tumbling("1 second"), time="id", max_gap=3),
            "max_gap": lambda: shed.windows(rows, tumbling("1 second"), time="ts", max_gap=0),
            "sizes as durations": lambda: shed.windows(rows, tumbling(3), time="ts", max_gap=3),
            "a position in": lambda: shed.windows(rows, nested, time="ts", max_gap=3, level=1),
            "is not the window column": lambda: shed.windows(
                totals(windowed(tumbling("1 second"))(rows)), nested, time="window", max_gap=3, level=(0, 0)
            ),
            "dropped together": lambda: shed.windows(
                rows, tumbling("1 second") | tumbling("5 seconds"), time="ts", max_gap=2
            ),
            "too fine": lambda: shed.windows(rows, sliding("10 seconds", "7 us"), time="ts", max_gap=3),
        }.items():
            with pytest.raises(SpillwayError, match=message):
                call()
