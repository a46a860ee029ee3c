"""Whole windows on Spark, case by case: times, silences, delays, aggregates and plans that are not the usual ones.

What is delivered is held to brute force in Python, or to Spark's own windows over the same rows as a table, and where
Spark drops late rows to the same query without shedding.
"""

from __future__ import annotations

import contextlib
import datetime
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

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
from tests.spark.orders import PAST, PATIENCE_S, orders, play
from tests.spark.test_windows import Answer, check, decided, keeping, totals, windowed

Clock = Callable[[Any], Any]  # the event time of an order in µs; takes and gives numbers or columns
SECOND = 1_000_000
NOW = int(PAST.timestamp()) * SECOND
ROWS, PER_BATCH = 4_800, 960


def micros(*when: int) -> int:
    return int(datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()) * SECOND


def in_order(order: Any) -> Any:
    """48 seconds of orders, 10 ms apart."""
    return order * 10_000 + NOW


def steady(order: Any) -> Any:
    """The same, out of order by up to 1.5 s."""
    return in_order(order) - order * 7_919 % 1_500 * 1_000


def live(
    spark: SparkSession, clock: Clock = steady, *, delay: str = "2 seconds", per_batch: int = PER_BATCH
) -> DataFrame:
    """Return the orders as a stream."""
    return (
        play(spark, ROWS, per_batch)
        .withColumn("ts", F.timestamp_micros(clock(F.col("id"))))
        .withWatermark("ts", delay)
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


def brute(
    window: Window, clock: Clock = steady, *, until: int | None = None, of: Iterable[int] = range(ROWS)
) -> Answer:
    """Return sum and number of the orders in each window that has closed by the time ``until``."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for order in of:
        at = clock(order)
        last = at // window.slide * window.slide
        for begin in range(last, at - window.size, -window.slide):
            found[begin].append(order)
    return {
        (begin, begin + window.size): (sum(ids), len(ids))
        for begin, ids in found.items()
        if until is None or begin + window.size <= until
    }


def latest(clock: Clock = steady) -> int:
    return max(clock(order) for order in range(ROWS))


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
        ("America/New_York", tumbling("1 day"), micros(2026, 10, 10), 600 * SECOND),
    ],
    indirect=["zone"],
    ids=str,
)
def test_time_zones_and_changes_of_the_clock_do_not_matter(
    spark: SparkSession, tmp_path: Path, window: Window, begin: int, step: int
) -> None:
    def clock(order: Any) -> Any:
        return order * step + begin

    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = shed.windows(live(spark, clock, delay="1 minute"), window, time="ts", max_gap=3)
        found = run(totals(rows), tmp_path, shed)
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
        rows = shed.windows(live(spark, in_order), tumbling("1 hour"), time="ts", max_gap=3)
        assert run(totals(rows), tmp_path, shed) == {}
        assert sum(shed.history()["dropped_rows"].to_pylist()) == 0, "the window that has begun is kept"


def test_windows_much_longer_than_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    def clock(order: Any) -> Any:
        return order * 100_000 + NOW

    window = sliding("90 seconds", "30 seconds")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = live(spark, clock, per_batch=400)
        found = run(totals(shed.windows(rows, window, time="ts", max_gap=2)), tmp_path, shed)
    check(brute(window, clock, until=latest(clock) - 2 * SECOND), found, 2)


@pytest.mark.parametrize("delay_s", [0, 15])
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


def many_kinds(df: DataFrame) -> DataFrame:
    value = F.col("id") * 7_919 % 1_000
    return df.groupBy("window").agg(
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
    )


def test_aggregates_of_many_kinds(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    rows = in_micros(many_kinds(windowed(window)(table(spark)))).collect()
    until = latest() - 2 * SECOND
    exact = {key: value for key, value in answer(rows).items() if key[1] <= until}
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        found = run(many_kinds(shed.windows(live(spark), window, time="ts", max_gap=3)), tmp_path, shed)
    check(exact, found, 3)


@F.pandas_udf(T.DoubleType())
def median_of(lists: pd.Series) -> pd.Series:
    return lists.map(lambda values: float(pd.Series(values).median()))


@F.pandas_udf(T.DoubleType())
def median(values: pd.Series) -> float:
    return float(values.median())


def test_lists_of_a_window_in_pandas(spark: SparkSession, tmp_path: Path) -> None:
    window = tumbling("2 seconds")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        rows = shed.windows(live(spark), window, time="ts", max_gap=3).groupBy("window")
        lists = rows.agg(F.collect_list("id").alias("ids"))
        found = run(lists.select("window", median_of("ids")), tmp_path, shed)
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for order in range(ROWS):
        ids[steady(order) // window.size * window.size].append(order)
    exact = {key: (statistics.median(ids[key[0]]),) for key in brute(window, until=latest() - 2 * SECOND)}
    check(exact, found, 3)


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
@pytest.mark.parametrize("way", ["applyInPandasWithState", "transformWithStateInPandas"])
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


def test_odd_names_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    window = sliding("3 seconds", "1 second")
    rows = live(spark).withColumnRenamed("ts", "event.`time")
    with Spillway("w", 2.0, tmp_path, controller=keeping(0.4)) as shed:
        with pytest.raises(SpillwayError, match="rename"):
            shed.windows(rows.withColumn("window", F.col("tier")), window, time="event.`time", max_gap=3)
        found = run(totals(shed.windows(rows, window, time="event.`time", max_gap=3)), tmp_path, shed)
    check(brute(window, until=latest() - 2 * SECOND), found, 3)


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
    [(sliding("2 seconds", "1 second"), 10_000), (tumbling("1 minute"), SECOND)],
    ids=str,
)
def test_one_row_from_the_far_future(spark: SparkSession, tmp_path: Path, window: Window, step: int) -> None:
    def rows() -> DataFrame:
        at = F.col("id") * step + NOW
        return live(spark, lambda order: F.when(order == 2_500, micros(2100, 1, 1)).otherwise(at))

    exact = run(totals(windowed(window)(rows())), tmp_path / "exact")  # Spark takes all rows after it as late
    with Spillway("w", 2.0, tmp_path / "shed", controller=keeping(0.4)) as shed:
        found = run(totals(shed.windows(rows(), window, time="ts", max_gap=3)), tmp_path / "shed", shed)
    check(exact, found, 3)
    files = (tmp_path / "shed" / "spillway" / "decisions").iterdir()
    assert max(file.stat().st_size for file in files) < 1_000_000


def in_two_runs(
    spark: SparkSession,
    checkpoint: Path,
    gaps: tuple[int, int],
    harm: Callable[[Path], object],
    then: Literal["enforce", "observe"] = "enforce",
) -> Answer:
    """Run with one max_gap until batch 5 has been decided on, do harm to the folder, go on with another."""
    window = sliding("6 seconds", "1 second")
    found: Answer = {}
    for gap, last, mode in ((gaps[0], 5, "enforce"), (gaps[1], None, then)):
        with Spillway("w", 2.0, checkpoint, controller=keeping(0.1), mode=mode) as shed:  # type: ignore[arg-type]
            rows = totals(shed.windows(live(spark, per_batch=400), window, time="ts", max_gap=gap))

            def each(frame: DataFrame, batch: int, last: int | None = last, shed: Spillway = shed) -> None:
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
            with contextlib.suppress(PySparkException):
                assert query.awaitTermination(PATIENCE_S)
        if last is not None:
            harm(checkpoint / "spillway")
    check(brute(window, until=latest() - 2 * SECOND), found, gaps[0])
    return found


def test_a_smaller_gap_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    in_two_runs(spark, tmp_path, (8, 2), lambda _: None)


def test_a_window_that_was_dropped_does_not_open_again_while_observing(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = in_two_runs(spark, tmp_path, (8, 8), lambda _: None, then="observe")
    delivered = sorted(found)
    later = [
        key
        for key in brute(sliding("6 seconds", "1 second"), until=latest() - 2 * SECOND)
        if key > delivered[-8]
    ]
    assert set(later) <= set(found), "what has begun since is all there"


def test_a_decision_that_cannot_be_read_opens_no_window_that_was_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    torn = '{"version": 1, "batch": 6, "keep'
    in_two_runs(spark, tmp_path, (8, 8), lambda folder: (folder / "decisions" / "6.json").write_text(torn))


def test_windows_of_rows_that_have_been_shed_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("w", 2.0, tmp_path) as shed:
        rows = shed.tuples(live(spark))
        with pytest.raises(SpillwayError, match="weight"):
            shed.windows(rows, tumbling("1 second"), time="ts", max_gap=3)
