"""Whole windows on Spark, case by case: times, silences, delays, aggregates and plans that are not the usual ones.

What is delivered is held to brute force in Python, or to Spark's own windows over the same rows as a table, and where
Spark drops late rows to the same query without shedding.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spillway import Spillway, SpillwayError, sliding, tumbling
from spillway.core.control import Decision, Sample
from spillway.core.windows import Window
from spillway.spark.facade import Mode
from spillway.spark.windows import _floor
from tests.spark.orders import PATIENCE_S, orders, play
from tests.spark.test_windows import Answer, check, decided, keeping, told, totals, windowed
from tests.spark.window_rows import (
    NOW,
    PER_BATCH,
    ROWS,
    SECOND,
    Clock,
    brute,
    in_order,
    latest,
    live,
    micros,
    steady,
)


def table(spark: SparkSession, clock: Clock = steady) -> DataFrame:
    """Return the same orders at rest."""
    return spark.createDataFrame(orders(0, ROWS)).withColumn("ts", F.timestamp_micros(clock(F.col("id"))))


def answer(rows: Iterable[Row], by: tuple[str, ...] = ()) -> Answer:
    """Return value by window and group; a window that comes twice has to come with the same value."""
    found: Answer = {}
    for row in rows:
        values = row.asDict()
        key = tuple(values.pop(name) for name in ("start", "end", *by))
        assert found.setdefault(key, tuple(values.values())) == tuple(values.values())
    return found


def in_micros(df: DataFrame) -> DataFrame:
    """Return windows as numbers: moments of Python are ambiguous where clocks go back."""
    if "window" not in df.columns:
        return df
    start, end = F.unix_micros("window.start"), F.unix_micros("window.end")
    return df.select(start.alias("start"), end.alias("end"), "*").drop("window")


def each_batch(
    df: DataFrame, checkpoint: Path, shed: Spillway | None = None, mode: str = "append"
) -> dict[int, list[Row]]:
    """Run to the end; Spillway has heard of all batches but the last when it decides on one."""
    found: dict[int, list[Row]] = {}

    def each(frame: DataFrame, batch: int) -> None:
        if shed is not None:
            assert shed.wait_for_batch(batch - 1)
        found[batch] = in_micros(frame).collect()

    query = (
        df.writeStream.foreachBatch(each)
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S), "the query did not finish"
    return found


def run(df: DataFrame, checkpoint: Path, shed: Spillway | None = None, *, by: tuple[str, ...] = ()) -> Answer:
    return answer((row for rows in each_batch(df, checkpoint, shed).values() for row in rows), by)


def longest_run(kept: dict[int, bool]) -> int:
    """Return how many windows in a row are dropped on the time line, whether they have rows or not."""
    bits = "".join("1" if kept[number] else "0" for number in sorted(kept))
    return max(map(len, bits.split("1")))


# Times


@pytest.fixture
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("zone", "window", "begin", "step"),
    [
        ("Europe/Berlin", sliding("90 minutes", "1 hour"), micros(2026, 3, 27, 20), 50 * SECOND),
        pytest.param(
            "America/New_York",
            tumbling("1 day"),
            micros(2026, 10, 10),
            600 * SECOND,
            marks=pytest.mark.long,
        ),
    ],
    indirect=["zone"],
    ids=str,
)
def test_time_zones_and_odd_names_do_not_matter(
    spark: SparkSession, tmp_path: Path, window: Window, begin: int, step: int
) -> None:
    def clock(order: Any) -> Any:
        return order * step + begin

    odd = "event.`time"
    rows = live(spark, clock, delay="1 minute").withColumnRenamed("ts", odd)
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        with pytest.raises(SpillwayError, match="rename"):
            shed.windows(rows.withColumn("window", F.col("tier")), window, time=odd, max_gap=3)
        found = run(totals(shed.windows(rows, window, time=odd, max_gap=3)), tmp_path, shed)
    check(brute(window, clock, until=latest(clock) - 60 * SECOND), found, 3)


def test_times_before_1970(spark: SparkSession, tmp_path: Path) -> None:
    def clock(order: Any) -> Any:
        return steady(order) - NOW - 12 * SECOND

    window = sliding("2500 ms", "1 second")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = shed.windows(live(spark, clock), window, time="ts", max_gap=3)
        found = run(totals(rows), tmp_path, shed)
    exact = brute(window, clock, until=latest(clock) - 2 * SECOND)
    # Spark's watermark begins in 1970: what ends before is late from the start
    check({key: value for key, value in exact.items() if key[1] > 0}, found, 3)
    assert any(begin < 0 for begin, _ in found)


def test_times_without_a_zone_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = play(spark).withColumn("ts", F.col("timestamp").cast("timestamp_ntz"))
    with pytest.raises(PySparkException, match="EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"):
        _ = rows.withWatermark("ts", "2 seconds").schema
    with Spillway("w", 2.0, tmp_path) as shed, pytest.raises(SpillwayError, match="expected timestamp"):
        shed.windows(rows, tumbling("1 second"), time="ts", max_gap=3)


def test_numbers_of_windows_are_exact_however_far_away(spark: SparkSession) -> None:
    far, step = [2**60 + 1, -(2**60) - 1, 2**53 + 1, -1, 0, 8], 3
    row = spark.range(1).select(*[_floor(F.lit(micros), step) for micros in far]).first()
    assert row is not None
    assert list(row) == [micros // step for micros in far]


def test_silences(spark: SparkSession, tmp_path: Path) -> None:
    def clock(order: Any) -> Any:
        return steady(order) + (order - order % 700) * 50_000

    window = sliding("3 seconds", "1 second")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        found = run(totals(shed.windows(live(spark, clock), window, time="ts", max_gap=3)), tmp_path, shed)
    exact = brute(window, clock, until=latest(clock) - 2 * SECOND)
    assert found.items() <= exact.items()
    assert 0 < len(found) < len(exact)
    begins = sorted(begin for begin, _ in exact)
    assert max(b - a for a, b in pairwise(begins)) > 30 * SECOND, "a silence of many windows"
    assert longest_run(decided(tmp_path)) <= 3, "on the time line; a kept window may be an empty one"


def test_a_stream_that_begins_late_and_has_rows_without_a_time(spark: SparkSession, tmp_path: Path) -> None:
    window = tumbling("1 second")
    begun, timed = F.col("id") >= 1_700, F.col("id") % 10 != 3
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = live(spark, lambda order: F.when(timed, steady(order))).where(begun)
        found = run(totals(shed.windows(rows, window, time="ts", max_gap=3)), tmp_path, shed)
        assert shed.status().problems == ()
    those = [order for order in range(1_700, ROWS) if order % 10 != 3]
    check(brute(window, until=max(map(steady, those)) - 2 * SECOND, of=those), found, 3)


def test_windows_longer_than_the_whole_run(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.1)) as shed:
        rows = shed.windows(live(spark, in_order, per_batch=1_920), tumbling("1 hour"), time="ts", max_gap=3)
        assert run(totals(rows), tmp_path, shed) == {}
        assert sum(shed.history()["dropped_rows"].to_pylist()) == 0, "the window that has begun is kept"


def test_windows_much_longer_than_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    def clock(order: Any) -> Any:
        return order * 100_000 + NOW

    window = sliding("90 seconds", "30 seconds")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = live(spark, clock, per_batch=480)
        found = run(totals(shed.windows(rows, window, time="ts", max_gap=2)), tmp_path, shed)
    check(brute(window, clock, until=latest(clock) - 2 * SECOND), found, 2)


@pytest.mark.parametrize("delay_s", [pytest.param(0, marks=pytest.mark.long), 15])
def test_watermarks_without_delay_and_with_a_long_one(
    spark: SparkSession, tmp_path: Path, delay_s: int
) -> None:
    window = sliding("2 seconds", "1 second")

    def clock(order: Any) -> Any:
        return in_order(order) - (order * 7_919 % 12_000 * 1_000 if delay_s else 0)

    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = live(spark, clock, delay=f"{delay_s} seconds")
        found = run(totals(shed.windows(rows, window, time="ts", max_gap=3)), tmp_path, shed)
    check(brute(window, clock, until=latest(clock) - delay_s * SECOND), found, 3)


# Aggregates


@F.pandas_udf(T.DoubleType())
def median_of(lists: pd.Series) -> pd.Series:
    return lists.map(lambda values: float(pd.Series(values).median()))


def many_kinds(df: DataFrame) -> DataFrame:
    value = F.col("id") * 7_919 % 1_000
    found = df.groupBy("window").agg(
        F.min(value),
        F.max(value),
        F.round(F.stddev(value), 6),
        F.round(F.skewness(value), 6),
        F.percentile_approx(value, [0.1, 0.5, 0.9], 10_000).alias("ranks"),
        F.percentile(value, F.lit(0.3)),
        F.approx_count_distinct(value),
        F.sort_array(F.collect_set(value % 20)),
        F.max_by("customer", "id"),
        F.bit_xor("id"),
        F.count_if(F.col("vip")),
        F.hll_sketch_estimate(F.hll_sketch_agg("tier")),
        F.collect_list("id").alias("ids"),
    )
    return found.withColumn("ids", median_of("ids"))


def test_aggregates_of_many_kinds(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    rows = in_micros(many_kinds(windowed(window)(table(spark)))).collect()
    until = latest() - 2 * SECOND
    exact = {key: value for key, value in answer(rows).items() if key[1] <= until}
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        found = run(many_kinds(shed.windows(live(spark), window, time="ts", max_gap=3)), tmp_path, shed)
    check(exact, found, 3)
    for (begin, end), value in found.items():
        assert value[-1] == statistics.median(n for n in range(ROWS) if begin <= steady(n) < end)


@F.pandas_udf(T.DoubleType())
def median(values: pd.Series) -> float:
    return float(values.median())


@pytest.mark.long  # it tells when Spark has learned it
def test_spark_has_no_aggregates_in_pandas_on_streams(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("w", 2.0, tmp_path) as shed:
        rows = shed.windows(live(spark), tumbling("2 seconds"), time="ts", max_gap=3).groupBy("window")
        with pytest.raises(PySparkException, match="doesn't support group aggregate pandas UDF"):
            run(rows.agg(median("id")), tmp_path)


def add_up(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Sum and number of a window's orders, when it has closed."""
    *_, start, end = key
    total, number = state.get if state.exists else (0, 0)
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"start": [start], "end": [end], "id": [total], "n": [number]})
        return
    for frame in frames:
        total, number = total + int(frame["id"].sum()), number + len(frame)
    state.update((total, number))
    state.setTimeoutTimestamp(int(end) // 1000)


class AddUp(StatefulProcessor):
    """The same for transformWithState."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the state."""
        self.handle = handle
        self.state = handle.getValueState("totals", "id long, n long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Add a batch's rows."""
        if not self.state.exists():
            self.handle.registerTimer(int(key[-1]) // 1000)
        total, number = self.state.get() if self.state.exists() else (0, 0)
        for frame in rows:
            total, number = total + int(frame["id"].sum()), number + len(frame)
        self.state.update((total, number))
        yield from ()

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: ARG002
        expiredTimerInfo: Any,  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        """Give the totals of a window that has closed."""
        total, number = self.state.get()
        self.state.clear()
        yield pd.DataFrame({"start": [key[-2]], "end": [key[-1]], "id": [total], "n": [number]})

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def _rocks(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("_rocks")
@pytest.mark.parametrize(
    "way",
    [pytest.param("applyInPandasWithState", marks=pytest.mark.long), "transformWithStateInPandas"],
)
def test_a_state_of_ones_own_in_pandas(spark: SparkSession, tmp_path: Path, way: str) -> None:
    window, schema = tumbling("2 seconds"), "start long, end long, id long, n long"
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        # "ts" goes: Spark takes one event-time column per stateful operator, and "window" is one
        rows = shed.windows(live(spark), window, time="ts", max_gap=3).drop("ts")
        rows = rows.withColumn("start", F.unix_micros("window.start"))
        groups = rows.withColumn("end", F.unix_micros("window.end")).groupBy("window", "start", "end")
        if way == "applyInPandasWithState":
            timeout = GroupStateTimeout.EventTimeTimeout
            results = groups.applyInPandasWithState(add_up, schema, "id long, n long", "append", timeout)
        else:
            results = groups.transformWithStateInPandas(AddUp(), schema, "Append", "EventTime")
        found = run(results, tmp_path, shed)
    check(brute(window, until=latest() - 2 * SECOND), found, 3)


# Plans


def test_sparse_groups_behind_a_filter_and_a_join(spark: SparkSession, tmp_path: Path) -> None:
    window, by = tumbling("2 seconds"), ("customer", "label")
    labels = spark.createDataFrame([(tier, f"tier {tier}") for tier in range(4)], "tier int, label string")

    def behind(df: DataFrame) -> DataFrame:
        return totals(df.where("score > 100").join(labels, "tier"), *by)

    rows = in_micros(behind(windowed(window)(table(spark)))).collect()
    exact = {key: value for key, value in answer(rows, by).items() if key[1] <= latest() - 2 * SECOND}
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        found = run(behind(shed.windows(live(spark), window, time="ts", max_gap=3)), tmp_path, shed, by=by)
    check(exact, found, 3)
    begins = {key[0] for key in found}
    assert {key for key in exact if key[0] in begins} == set(found), "all groups of a window or none"


def test_update_mode_ends_with_the_exact_values(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = totals(shed.windows(live(spark), window, time="ts", max_gap=3))
        batches = each_batch(rows, tmp_path, shed, mode="update")
    found: Answer = {}
    for batch in sorted(batches):
        found |= answer(batches[batch])
    check(brute(window), found, 3)


def test_two_arrangements_of_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    rows = live(spark)
    gaps = {tumbling("1 second"): 3, sliding("4 seconds", "2 seconds"): 1}
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        one, two = (
            totals(shed.windows(rows, window, time="ts", max_gap=gap)) for window, gap in gaps.items()
        )
        found = run(one.union(two), tmp_path, shed)
    for window, gap in gaps.items():
        part = {key: value for key, value in found.items() if key[1] - key[0] == window.size}
        check(brute(window, until=latest() - 2 * SECOND), part, gap)


class Swinging:
    """A controller that keeps all, a fifth, and all again."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, sample: Sample) -> Decision:  # noqa: ARG002
        """Go through the shares batch by batch."""
        self.steps += 1
        return Decision(keep_ratio=0.2 if 3 <= self.steps <= 5 else 1.0, reason="it swings")


def test_a_share_that_changes_from_batch_to_batch(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    with Spillway("w", 2.0, tmp_path, controller=Swinging()) as shed:
        rows = live(spark, per_batch=480)
        found = run(totals(shed.windows(rows, window, time="ts", max_gap=2)), tmp_path, shed)
    exact = brute(window, until=latest() - 2 * SECOND)
    check(exact, found, 2)
    missing = sorted(begin - NOW for begin, _ in exact.keys() - found.keys())
    assert missing[0] > 9 * SECOND
    assert missing[-1] < 38 * SECOND, "nothing is missing before and after the squeeze"


def test_a_batch_that_runs_again_gives_the_same_windows(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")

    def go(keep: float) -> dict[int, list[Row]]:
        with Spillway("w", 2.0, tmp_path, controller=keeping(keep)) as shed:
            rows = totals(shed.windows(live(spark), window, time="ts", max_gap=3))
            return each_batch(rows, tmp_path, shed)

    first = go(0.3)
    last = max(first)
    for lost in (f"offsets/{last}", f"commits/{last}", f"commits/{last - 1}"):
        (tmp_path / lost).unlink()
        (tmp_path / lost).with_name(f".{Path(lost).name}.crc").unlink(missing_ok=True)
    again = go(0.9)
    assert sorted(again) == [last - 1, last]
    assert all(sorted(again[batch]) == sorted(first[batch]) != [] for batch in again)
    found = answer(row for batches in (first, again) for rows in batches.values() for row in rows)
    check(brute(window, until=latest() - 2 * SECOND), found, 3)


@pytest.mark.parametrize(
    ("window", "step"),
    [
        (sliding("2 seconds", "1 second"), 10_000),
        pytest.param(tumbling("1 minute"), SECOND, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_one_row_from_the_far_future(spark: SparkSession, tmp_path: Path, window: Window, step: int) -> None:
    def clock(order: Any) -> Any:
        at = order * step + NOW
        return at if isinstance(order, int) else F.when(order == 2_500, micros(2100, 1, 1)).otherwise(at)

    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        found = run(totals(shed.windows(live(spark, clock), window, time="ts", max_gap=3)), tmp_path, shed)
    # it comes in the third batch; Spark closes all windows in the next, and takes what comes then as late
    check(brute(window, clock, of=[order for order in range(4 * PER_BATCH) if order != 2_500]), found, 3)
    files = (tmp_path / "spillway" / "decisions").iterdir()
    assert max(file.stat().st_size for file in files) < 1_000_000


# Restarts

SIXES = sliding("6 seconds", "1 second")


def go_on(
    spark: SparkSession, checkpoint: Path, gap: int, *, last: int | None = None, mode: Mode = "enforce"
) -> Answer:
    """Run up to batch ``last``, or to the end; the batch after it has been decided on and is not delivered."""
    found: Answer = {}
    with Spillway("w", 2.0, checkpoint, controller=keeping(0.1), mode=mode) as shed:
        rows = totals(shed.windows(live(spark, per_batch=480), SIXES, time="ts", max_gap=gap))

        def each(frame: DataFrame, batch: int) -> None:
            assert shed.wait_for_batch(batch - 1)
            if last is not None and batch > last:
                raise RuntimeError("enough")
            found.update(answer(in_micros(frame).collect()))

        query = (
            rows.writeStream.foreachBatch(each)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        with contextlib.nullcontext() if last is None else pytest.raises(PySparkException, match="enough"):
            assert query.awaitTermination(PATIENCE_S)
    return found


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """A query that has been stopped after batch 3 of 11, and what it has delivered."""
    checkpoint = tmp_path_factory.mktemp("begun") / "checkpoint"
    return checkpoint, go_on(spark, checkpoint, 8, last=3)


def resumed(begun: tuple[Path, Answer], folder: Path) -> tuple[Path, Answer]:
    """Return a copy of that checkpoint to go on from, and the same."""
    checkpoint = folder / "checkpoint"
    shutil.copytree(begun[0], checkpoint)
    return checkpoint, dict(begun[1])


def first_open(checkpoint: Path, batch: int) -> int:
    """Return the start of the first window that a batch had a say in."""
    windows = told(checkpoint)[batch].windows_of(0)
    assert windows is not None
    assert windows.state is not None
    return int(windows.state["next"]) * SIXES.slide


def test_a_smaller_gap_after_a_restart(
    spark: SparkSession, tmp_path: Path, begun: tuple[Path, Answer]
) -> None:
    checkpoint, found = resumed(begun, tmp_path)
    found |= go_on(spark, checkpoint, 2)
    exact = brute(SIXES, until=latest() - 2 * SECOND)
    check(exact, found, 8)
    since = first_open(checkpoint, 5)
    check(
        {key: value for key, value in exact.items() if key[0] >= since},
        {key: value for key, value in found.items() if key[0] >= since},
        2,
    )


def test_a_window_that_was_dropped_does_not_open_again_while_observing(
    spark: SparkSession, tmp_path: Path, begun: tuple[Path, Answer]
) -> None:
    checkpoint, found = resumed(begun, tmp_path)
    found |= go_on(spark, checkpoint, 8, last=5, mode="observe")
    found |= go_on(spark, checkpoint, 8)
    exact = brute(SIXES, until=latest() - 2 * SECOND)
    check(exact, found, 8)
    observing, enforcing = first_open(checkpoint, 5), first_open(checkpoint, 7)
    assert {key for key in exact if observing <= key[0] < enforcing} <= found.keys()
    assert not {key for key in exact if key[0] >= enforcing} <= found.keys(), "and then they are shed again"


def test_a_decision_that_cannot_be_read_opens_no_window_that_was_dropped(
    spark: SparkSession, tmp_path: Path, begun: tuple[Path, Answer]
) -> None:
    checkpoint, found = resumed(begun, tmp_path)
    (checkpoint / "spillway" / "decisions" / "4.json").write_text('{"version": 1, "batch": 4, "keep')
    found |= go_on(spark, checkpoint, 8)
    check(brute(SIXES, until=latest() - 2 * SECOND), found, 8)


def test_windows_of_rows_that_have_been_shed_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("w", 2.0, tmp_path) as shed:
        rows = shed.tuples(live(spark))
        with pytest.raises(SpillwayError, match="weight"):
            shed.windows(rows, tumbling("1 second"), time="ts", max_gap=3)
