"""Whole windows on Spark: what is delivered is exact, and never more than max_gap in a row are missing.

The exact answers are worked out in Python, row by row, with the rows that Spark takes as late left out.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spillway import Spillway, SpillwayError, sliding, tumbling
from spillway.core import control
from spillway.core import windows as core_windows
from spillway.core.control import Controller
from spillway.core.windows import Window
from spillway.loop.decision import BatchDecision
from tests.spark.orders import PAST, PATIENCE_S, play

Answer = dict[tuple[Any, ...], tuple[Any, ...]]
Stage = Callable[[DataFrame], DataFrame]
ROWS, PER_BATCH = 11_000, 2_000
DELAY_MS = 2_000


def keeping(share: float) -> Controller:
    return control.make("fixed", target_delay_s=2.0, keep_ratio=share)


def moment(order: Any, late_ms: int = 9_000) -> Any:
    """Return the event time of an order in µs: 2 ms apart, out of order by up to 1.5 s, some far too late.

    Takes and gives a number or a column.
    """
    behind_ms = order * 7_919 % 1_500
    if isinstance(order, int):
        behind_ms = late_ms if order % 100 == 37 else behind_ms
    else:
        behind_ms = F.when(order % 100 == 37, late_ms).otherwise(behind_ms)
    return order * 2_000 - behind_ms * 1_000 + int(PAST.timestamp()) * 1_000_000


def orders(spark: SparkSession, late_ms: int = 9_000, rows: int = ROWS) -> DataFrame:
    """22 seconds of orders, 4 seconds a batch; the watermark waits 2 s."""
    at = F.timestamp_micros(moment(F.col("id"), late_ms))
    return play(spark, rows, PER_BATCH).withColumn("ts", at).withWatermark("ts", f"{DELAY_MS} milliseconds")


def batches(late_ms: int = 9_000, rows: int = ROWS) -> Iterator[list[tuple[int, int]]]:
    """Yield (order, event time) batch by batch."""
    for first in range(0, rows, PER_BATCH):
        yield [(order, moment(order, late_ms)) for order in range(first, min(first + PER_BATCH, rows))]


def holding(window: Window, at: int) -> range:
    """Return the starts of the windows that contain a time."""
    return range(at // window.slide * window.slide, at - window.size, -window.slide)


def expected(window: Window, late_ms: int = 9_000, rows: int = ROWS, *, tiers: bool = False) -> Answer:
    """Return what Spark alone gives: a window that the watermark of the batch before has passed takes no rows."""
    found: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    passed = watermark = 0
    for batch in batches(late_ms, rows):
        for order, at in batch:
            for begin in holding(window, at):
                if begin + window.size > passed * 1000:
                    found[begin, order * 31 % 5 if tiers else None].append(order)
        passed, watermark = watermark, max(watermark, max(at for _, at in batch) // 1000 - DELAY_MS)
    return {
        (as_time(begin), as_time(begin + window.size), tier): (sum(ids), len(ids))
        for (begin, tier), ids in found.items()
        if begin + window.size <= watermark * 1000
    }


def as_time(micros: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(micros // 1_000_000, datetime.UTC).replace(
        microsecond=micros % 1_000_000, tzinfo=None
    )


def windowed(of: Window, time: str = "ts") -> Stage:
    """Return Spark's own windows, without any shedding."""
    at = F.window_time("window") if time == "window" else F.col(time)
    size, slide = f"{of.size} microseconds", f"{of.slide} microseconds"
    return lambda df: (
        df.withColumn("_", F.window(at, size, slide)).drop("window").withColumnRenamed("_", "window")
    )


def totals(df: DataFrame, *by: str, value: str = "id") -> DataFrame:
    return df.groupBy("window", *by).agg(F.sum(value).alias("id"), F.count("*").alias("n"))


class Run:
    """A query that has been started, and value by window and group when it has come to its end or to ``last``."""

    def __init__(self, df: DataFrame, checkpoint: Path, shed: Spillway, *, last: int | None = None) -> None:
        self._found: list[Row] = []
        self._shed, self._last = shed, last
        self._query: StreamingQuery = (
            df.writeStream.foreachBatch(self._each)
            .outputMode("append")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def _each(self, frame: DataFrame, batch: int) -> None:
        assert self._shed.wait_for_batch(batch - 1)
        if self._last is not None and batch > self._last:
            raise RuntimeError("enough")
        self._found.extend(frame.collect())

    def answer(self) -> Answer:
        """Wait for the end."""
        if self._last is None:
            assert self._query.awaitTermination(PATIENCE_S), "the query did not finish"
        else:
            with pytest.raises(Exception, match="enough"):
                self._query.awaitTermination(PATIENCE_S)
        rows = [row.asDict(recursive=True) for row in self._found]
        return {
            (row["window"]["start"], row["window"]["end"], row.get("tier")): (row["id"], row["n"])
            for row in rows
        }


def told(checkpoint: Path) -> dict[int, BatchDecision]:
    """Return what each batch was told."""
    files = (checkpoint / "spillway" / "decisions").glob("*.json")
    found = {int(file.stem): BatchDecision.from_json(file.read_text()) for file in files}
    return dict(sorted(found.items()))


def decided(checkpoint: Path) -> dict[int, bool]:
    """Return the last word on each window of the drop; one that nothing was decided about is kept."""
    kept: dict[int, bool] = {}
    for decision in told(checkpoint).values():
        windows = decision.windows_of(0)
        assert windows is not None
        kept.update({number: bit == "1" for number, bit in enumerate(windows.kept, start=windows.first)})
    return {number: kept.get(number, True) for number in range(min(kept) - 100, max(kept) + 100)}


def early_drops(checkpoint: Path, window: Window) -> list[int]:
    """Return how many rows of each batch have no open window, by what the batch was told."""
    found = []
    for rows, decision in zip(batches(), told(checkpoint).values(), strict=False):
        windows = decision.windows_of(0)
        assert windows is not None
        gone = {windows.first + place for place, bit in enumerate(windows.kept) if bit == "0"}
        found.append(
            sum(all(begin // window.slide in gone for begin in holding(window, at)) for _, at in rows)
        )
    return found


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


def test_delivered_windows_are_exact_and_gaps_are_bounded(spark: SparkSession, tmp_path: Path) -> None:
    gaps = {tumbling("1 second"): 2, sliding("3 seconds", "1 second"): 5, sliding("2500 ms", "1 second"): 1}
    runs = {}
    with ExitStack() as stack:
        for window, max_gap in gaps.items():
            place = tmp_path / str(len(runs))
            shed = stack.enter_context(Spillway("w", 2.0, place, controller=keeping(0.4)))
            rows = shed.windows(
                orders(spark), window, time="TS", max_gap=max_gap
            )  # Spark does not mind the case
            runs[window] = shed, place, Run(totals(rows, "tier"), place, shed)
        for window, (shed, place, run) in runs.items():
            check(expected(window, tiers=True), run.answer(), gaps[window])
            assert shed.status().problems == ()
            history = shed.history().to_pylist()
            early = [entry["early_dropped_rows"] for entry in history]
            assert early[: ROWS // PER_BATCH + 1] == early_drops(place, window)
            assert (sum(early) > 0) is ((gaps[window] + 1) * window.slide > window.size)
            assert all(entry["early_dropped_rows"] <= entry["dropped_rows"] for entry in history)
            last = list(told(place).values())[-1].windows_of(0)
            assert last is not None
            assert last.state is not None
            missing = [n for n, kept in decided(place).items() if not kept and n < last.state["next"]]
            assert sum(entry["windows_dropped"] for entry in history) == len(missing) > 0


def test_a_pipeline_in_append_mode_gives_what_the_reference_engine_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    inner, outer = sliding("2 seconds", "1 second"), sliding("6 seconds", "3 seconds")
    nested, alike = inner >> outer, sliding("2000 ms", "1000 ms") >> sliding("0.1 minutes", "3 seconds")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        first = totals(shed.windows(orders(spark, late_ms=0), nested, time="ts", max_gap=2))
        second = totals(shed.windows(first, alike, time="window", max_gap=2, level=(0, 0)))
        found = Run(second, tmp_path, shed).answer()

    ids: defaultdict[int, int] = defaultdict(int)
    rows = [row for batch in batches(late_ms=0) for row in batch]
    for order, at in rows:
        for begin in holding(inner, at):
            ids[begin] += order
    outers: defaultdict[int, list[int]] = defaultdict(list)
    for begin, total in ids.items():
        for start in holding(outer, begin + inner.size - 1):
            outers[start].append(total)
    until = max(at for _, at in rows) // 1000 * 1000 - DELAY_MS * 1000
    closed = {start: sums for start, sums in outers.items() if start + outer.size <= until}
    exact = {
        (as_time(start), as_time(start + outer.size), None): (sum(sums), len(sums))
        for start, sums in closed.items()
    }
    check(exact, found, 2)

    rows.sort(key=lambda row: row[1])
    times = pa.array([at for _, at in rows], pa.timestamp("us", "UTC"))
    by_engine = core_windows.run(
        pa.table({"ts": times, "id": [order for order, _ in rows]}),
        nested,
        time="ts",
        value="id",
        aggregate=["sum", "sum"],
        stamp="end",
        decided=decided(tmp_path),
    ).to_pylist()
    starts = {as_time(start) for start in closed}
    by_start = {(row["start"].replace(tzinfo=None), row["value"]) for row in by_engine}
    assert {(key[0], value[0]) for key, value in found.items()} == {
        each for each in by_start if each[0] in starts
    }


def test_branches_of_a_fan_out_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tumbling("1 second"), tumbling("2 seconds")
    rows = orders(spark)
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        branches = [
            totals(shed.windows(rows, one | two, time="ts", max_gap=6, level=branch)) for branch in (0, 1)
        ]
        found = Run(branches[0].union(branches[1]), tmp_path, shed).answer()
    for window in (one, two):
        length = datetime.timedelta(microseconds=window.size)
        check(expected(window), {k: v for k, v in found.items() if k[1] - k[0] == length}, 6)


def test_a_query_that_is_stopped_goes_on_with_the_same_windows(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    found: Answer = {}
    for last in (2, 4, None):
        with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
            rows = totals(shed.windows(orders(spark), window, time="ts", max_gap=3))
            found |= Run(rows, tmp_path, shed, last=last).answer()
    check(expected(window), found, 3)


def test_observing_drops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    window = tumbling("1 second")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.1), mode="observe") as shed:
        rows = totals(shed.windows(orders(spark, rows=10_000), window, time="ts", max_gap=3))
        assert Run(rows, tmp_path, shed).answer() == expected(window, rows=10_000), "as Spark alone gives it"
        assert sum(shed.history()["would_drop_rows"].to_pylist()) > 0


def test_errors_at_the_call(spark: SparkSession, tmp_path: Path) -> None:
    rows = orders(spark)
    nested = tumbling("1 second") >> tumbling("3 seconds")
    with Spillway("w", 2.0) as shed, pytest.raises(SpillwayError, match="only with a checkpoint"):
        shed.windows(rows, nested, time="ts", max_gap=3)
    with Spillway("w", 2.0, tmp_path) as shed:
        for message, call in {
            "no watermark": lambda: shed.windows(rows, tumbling("1 second"), time="timestamp", max_gap=3),
            "10,000 years": lambda: shed.windows(rows, tumbling("40000000 days"), time="ts", max_gap=3),
            "rename yours": lambda: shed.windows(
                rows.withColumnRenamed("tier", "Window"), tumbling("1 second"), time="ts", max_gap=3
            ),
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
