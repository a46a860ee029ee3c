"""The replay source in real queries: pace, restart, replay after a crash, admission control.

No test sleeps: most traces lie wholly in the past, and the others are checked against the clock from both sides.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spillway.errors import SpillwayError
from spillway.replay import Rates, Times, stream

pytestmark = pytest.mark.spark

PAST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
BURST = Rates((100.0, 1000.0), (1.0, 0.2))  # 300 rows


class Batches(dict[int, list[Row]]):
    """The rows of each batch by its number."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def collect(self, frame: DataFrame, batch: int) -> None:
        rows = frame.collect()
        with self._changed:
            self[batch] = rows
            self._changed.notify_all()

    def await_rows(self, batch: int) -> None:
        """Return when this batch or a later one has brought rows."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(rows for at, rows in self.items() if at >= batch), 120)


def run(frame: DataFrame, checkpoint: Path) -> Batches:
    """Process what there is, and return the rows of each batch."""
    batches = Batches()
    query = begin(frame, checkpoint, batches, availableNow=True)
    query.awaitTermination()
    return batches


def begin(frame: DataFrame, checkpoint: Path, batches: Batches, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(batches.collect)
    return (writer.trigger(**trigger) if trigger else writer).start()


def offsets(checkpoint: Path) -> list[dict[str, Any]]:
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[2]) for path in files]


def uncommit(checkpoint: Path, batch: int) -> None:
    """Make it look as if Spark had crashed between the sink and the commit."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def ids(rows: list[Row]) -> list[int]:
    return sorted(row.id for row in rows)


def evens(first: int, rows: int) -> pa.Table:
    """A row generator of the user's own."""
    return pa.table({"id": pa.array(range(2 * first, 2 * (first + rows), 2), pa.int64())})


def test_rows_have_the_arrival_times_of_the_trace(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream(spark, BURST, start=PAST, speed=0.5, arrival="at")
    assert frame.isStreaming
    assert frame.columns == ["at", "id", "payload", "route", "user", "priority", "vip"]
    batches = run(frame.select("id", F.unix_micros("at").alias("us"), "payload"), tmp_path)
    found = sorted(
        (row.id, row.us - int(PAST.timestamp() * 1e6)) for rows in batches.values() for row in rows
    )
    slow = [10_000 * 2 * (i + 1) for i in range(100)] + [2_000_000 + 2_000 * (i + 1) for i in range(200)]
    assert found == list(enumerate(slow))
    assert offsets(tmp_path)[-1]["rows"] == 300


def test_the_number_of_rows_follows_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    trace = Rates((50.0,), (1e6,))
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=60)
    frame = stream(spark, trace, start=start).select("id")
    for _ in range(2):
        before = time.time()
        run(frame, tmp_path)
        rows = offsets(tmp_path)[-1]["rows"]
        assert trace.count(before - start.timestamp()) <= rows <= trace.count(time.time() - start.timestamp())


def test_a_restarted_query_goes_on_with_its_epoch_and_finds_what_arrived_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches()
    seen: list[dict[str, Any]] = []
    for _ in range(2):
        planned = len(offsets(tmp_path))
        query = begin(stream(spark, Rates((1000.0,), (3600.0,))).select("id"), tmp_path, batches)
        batches.await_rows(planned)
        query.stop()
        seen.append(offsets(tmp_path)[-1])
    first, second = seen
    assert 0 < first["rows"] < second["rows"]
    assert first["epoch_us"] == second["epoch_us"]
    assert abs(first["epoch_us"] / 1e6 - time.time()) < 600
    # What was planned and cut short by stop() is in the offset log, and perhaps not among the batches.
    found = ids([row for rows in batches.values() for row in rows])
    assert found == list(range(len(found)))


def test_a_batch_that_was_not_committed_comes_again_to_the_last_byte(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = run(stream(spark, BURST, start=PAST, max_rows_per_batch=120), tmp_path)
    assert [len(first[batch]) for batch in sorted(first)] == [120, 120, 60]
    uncommit(tmp_path, 2)
    # Another number of tasks and another limit: the batch stays as it was planned.
    again = run(stream(spark, BURST, start=PAST, max_rows_per_batch=7, partitions=5), tmp_path)
    assert list(again) == [2]
    assert sorted(again[2]) == sorted(first[2])


def test_so_does_the_first_one_whose_epoch_was_the_present(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream(spark, Times([0.0] * 50))
    first = Batches()
    query = begin(frame, tmp_path, first)
    first.await_rows(0)
    query.processAllAvailable()
    query.stop()
    assert len(first[0]) == 50
    uncommit(tmp_path, 0)
    assert {batch: sorted(rows) for batch, rows in run(frame, tmp_path).items()} == {0: sorted(first[0])}


def test_admission_control_caps_each_batch_and_the_backlog_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches()
    frame = stream(spark, BURST, start=PAST, max_rows_per_batch=100).select("id")
    query = begin(frame, tmp_path, batches, availableNow=True)
    query.awaitTermination()
    assert {batch: ids(rows) for batch, rows in batches.items()} == {
        batch: list(range(100 * batch, 100 * batch + 100)) for batch in range(3)
    }
    progress = [json.loads(one.json)["sources"][0] for one in query.recentProgress if one.numInputRows]
    assert [one["latestOffset"]["rows"] - one["endOffset"]["rows"] for one in progress] == [200, 100, 0]
    assert [one["numInputRows"] for one in progress] == [100, 100, 100]


def test_a_batch_is_spread_over_contiguous_ranges(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream(spark, BURST, start=PAST, partitions=4, row_number="n")
    (rows,) = run(frame.select("n", F.spark_partition_id().alias("part")), tmp_path).values()
    parts = [sorted(row.n for row in rows if row.part == part) for part in range(4)]
    assert parts == [list(range(75 * part, 75 * part + 75)) for part in range(4)]


def test_a_trace_that_has_ended_leaves_the_query_idle(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches()
    query = begin(stream(spark, Times([0.0, 0.5]), start=PAST).select("id"), tmp_path, batches)
    query.processAllAvailable()
    query.processAllAvailable()
    assert query.isActive
    assert not query.status["isDataAvailable"]
    assert {batch: ids(rows) for batch, rows in batches.items()} == {0: [0, 1]}


def test_parquet_rows_are_those_that_spark_reads_itself(spark: SparkSession, tmp_path: Path) -> None:
    noon = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "byte": pa.array([1, None], pa.int8()),
            "unsigned": pa.array([2**32 - 1, 0], pa.uint32()),
            "double": [0.5, float("nan")],
            "word": pa.array(["ä", None]),
            "binary": [b"\0", b""],
            "day": [noon.date(), None],
            "utc": pa.array([noon, None], pa.timestamp("ms", "UTC")),
            "wall": pa.array([noon.replace(tzinfo=None), None], pa.timestamp("us")),
            "money": pa.array([decimal.Decimal("1.20"), None], pa.decimal128(10, 2)),
            "list": pa.array([[1, None], None], pa.list_(pa.int32())),
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "pair": pa.array([{"x": 1.5, "y": ["z"]}, None]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = stream(spark, Times([0.0, 1.0, 2.0]), rows=tmp_path / "rows.parquet", start=PAST, row_number="n")
    (rows,) = run(frame, tmp_path / "checkpoint").values()
    itself = spark.read.parquet(str(tmp_path / "rows.parquet"))
    assert frame.drop("timestamp", "n").schema == itself.schema
    found = [tuple(row)[2:] for row in sorted(rows, key=lambda row: row.n)]
    expected = [tuple(row) for row in itself.collect()]
    assert repr(found) == repr([expected[0], expected[1], expected[0]])


def test_a_generator_of_ones_own_and_times_from_a_file(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [1.0, 2.0, 3.0], "size": [5, 6, 7]}), tmp_path / "times.parquet")
    frame = stream(spark, tmp_path / "times.parquet", times_column="t", generator=evens, start=PAST)
    (rows,) = run(frame, tmp_path / "checkpoint").values()
    assert [(row.id, row.timestamp.second) for row in sorted(rows)] == [(0, 1), (2, 2), (4, 3)]


def test_a_stateful_query_with_a_watermark_on_the_arrival_column(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream(spark, Rates((100.0,), (10.0,)), start=PAST, max_rows_per_batch=250)
    counts = frame.withWatermark("timestamp", "0 seconds").groupBy(F.window("timestamp", "1 second")).count()
    rows = [row for batch in run(counts, tmp_path).values() for row in batch]
    # Row i arrives at (i + 1) / 100 s, so the last row of each second opens the next window.
    assert sorted(row["count"] for row in rows) == [99] + [100] * 9


def test_what_is_wrong_is_told_at_the_call(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SpillwayError, match="nothing at this path") as error:
        stream(spark, BURST, rows=tmp_path / "missing.parquet")
    assert error.value.hint == "there is nothing at this path"
    with pytest.raises(SpillwayError, match="did you mean 'web_requests'"):
        stream(spark, BURST, generator="web_request")
    with pytest.raises(SpillwayError, match="arrival = 'Route'"):
        stream(spark, BURST, arrival="Route")
    with pytest.raises(SpillwayError, match="No module named 'nowhere'"):
        stream(spark, BURST, generator="nowhere:rows")
    with pytest.raises(AnalysisException, match="did you mean 'speed'"):
        spark.readStream.format("replay").option("rates", BURST.to_json()).option("spede", "2").load()
    with pytest.raises(AnalysisException, match="option = 'path'"):
        spark.readStream.format("replay").option("rates", BURST.to_json()).load(str(tmp_path))


def test_a_checkpoint_of_another_replay_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    run(stream(spark, BURST, start=PAST), tmp_path)
    with pytest.raises(StreamingQueryException, match="another trace, other rows or another speed"):
        run(stream(spark, BURST, start=PAST, speed=2.0), tmp_path)


@pytest.mark.long  # test_connect.py has a replay, too
def test_it_runs_on_spark_connect(tmp_path: Path) -> None:
    program = """
        import sys
        from pyspark.sql import SparkSession
        from spillway.errors import SpillwayError
        from spillway.replay import Rates, stream

        folder, trace = sys.argv[1], Rates((100.0, 1000.0), (1.0, 0.2))
        spark = (
            SparkSession.builder.remote("local[2]")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.connect.grpc.binding.address", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
        try:
            stream(spark, trace, rows=folder + "/missing")
        except SpillwayError as error:
            print("told:", error.hint)
        frame = stream(spark, trace, start="2026-01-01T00:00:00Z", max_rows_per_batch=120)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
        query = writer.trigger(availableNow=True).start(folder + "/rows")
        query.awaitTermination()
        print("rows:", [progress.numInputRows for progress in query.recentProgress])
        spark.stop()
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_TESTING": "1",  # takes any free port
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "told: there is nothing at this path" in ran.stdout
    assert "rows: [120, 120, 60]" in ran.stdout
    assert sorted(pq.read_table(tmp_path / "rows").column("id").to_pylist()) == list(range(300))
