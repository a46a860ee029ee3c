"""The demo on real Spark, small: the workload, the recorder, a burst of a few seconds, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spillway.demo.playback import Recorder, play, source, workload
from spillway.demo.workload import enrich, per_route, pseudonym
from spillway.errors import SpillwayError
from spillway.replay import Rates, web_requests

LONG_AGO = "2020-01-01T00:00:00+00:00"
ROWS = 3_000


def test_every_event_is_understood(spark: SparkSession) -> None:
    events = spark.createDataFrame(web_requests(0, ROWS).to_pandas()).withColumn("weight", F.lit(1.0))
    rows = enrich(events.select("*")).cache()
    first = rows.select([F.count_if(F.col(name).isNull()).alias(name) for name in rows.columns]).first()
    assert first is not None
    assert set(first.asDict().values()) == {0}
    devices = {row["device"] for row in rows.select("device").distinct().collect()}
    assert devices == {"app", "phone", "mac", "windows", "linux"}
    assert {row["arm"] for row in rows.select("arm").distinct().collect()} == {0, 1}
    bounds = rows.agg(F.min("score"), F.max("score"), F.min("distance_km"), F.max("distance_km")).first()
    assert bounds is not None
    assert 0.0 <= bounds[0] <= bounds[1] <= 1.0
    assert 0.0 <= bounds[2] <= bounds[3] <= 20_100.0
    same = web_requests(0, ROWS).to_pandas()
    assert set(rows.select("path").distinct().toPandas()["path"]) == set(same["route"])


def test_totals_are_weighted(spark: SparkSession) -> None:
    events = spark.createDataFrame(web_requests(0, ROWS).to_pandas())
    plain = per_route(events).agg(F.sum("requests"), F.sum("bytes")).first()
    twice = per_route(events.withColumn("weight", F.lit(2.0))).agg(F.sum("requests"), F.sum("bytes")).first()
    assert plain is not None
    assert twice is not None
    lowest = sum(priority == 1 for priority in web_requests(0, ROWS).column("priority").to_pylist())
    assert plain[0] == ROWS + 3 * lowest, "one in four of the lowest priority is logged"
    assert twice[0] == 2 * plain[0]
    assert twice[1] == 2 * plain[1]


def test_a_pseudonym_tells_values_apart_and_repeats(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("10.0.0.1",), ("10.0.0.1",), ("10.0.0.2",)], "ip string")
    one, same, other = [row[0] for row in frame.select(pseudonym(F.col("ip"))).collect()]
    assert one == same != other
    assert len(one) == 128


def test_a_short_burst_is_recorded_to_the_row(spark: SparkSession, tmp_path: Path) -> None:
    trace = Rates((500.0, 5000.0, 500.0), (1.0, 1.0, 1.0))
    seen: list[float] = []
    run = play(
        spark,
        tmp_path,
        trace,
        "spillway",
        target_s=20.0,
        patience_s=120.0,
        watch=lambda live: seen.append(live.now_s),
    )
    assert [batch.first_row for batch in run.batches[1:]] == [batch.last_row for batch in run.batches[:-1]]
    assert run.batches[0].first_row == 0
    assert run.batches[-1].last_row == trace.total
    assert run.kept_rows + run.dropped_rows == pytest.approx(trace.total)
    assert run.waiting_rows == 0
    assert {entry["batch"] for entry in run.history} >= {batch.number for batch in run.batches}
    assert all(batch.kept_rows is not None for batch in run.batches)
    # Both clocks agree: what Spillway measured in the plan is what follows from trace and offsets.
    worst = {entry["batch"]: entry["worst_delay_s"] for entry in run.history}
    for batch in run.batches:
        if batch.kept_rows == batch.rows:
            first_s = float(trace.times(batch.first_row, batch.first_row + 1)[0])
            assert worst[batch.number] == pytest.approx(batch.ended_s - first_s, abs=0.01)
    assert seen


def test_a_plain_run_is_cut_off_when_patience_ends(spark: SparkSession, tmp_path: Path) -> None:
    run = play(
        spark,
        tmp_path,
        Rates((2000.0,), (1.0,)),
        "capped",
        target_s=1.0,
        patience_s=0.1,
        max_rows_per_batch=10,
    )
    assert run.waiting_rows > 0
    assert run.oldest_waiting_s > 0.0
    assert all(batch.rows <= 10 for batch in run.batches)
    assert all(batch.kept_rows is None for batch in run.batches)


def test_waiting_for_batches_that_do_not_come_ends(spark: SparkSession, tmp_path: Path) -> None:
    events = source(spark, Rates((10.0,), (1.0,)), start=LONG_AGO)
    with (
        Recorder(spark, workload(events, None), tmp_path / "check") as recorder,
        pytest.raises(SpillwayError, match="batches"),
    ):
        recorder.wait_for(5, limit_s=0.5)


def test_a_query_that_fails_is_not_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    events = source(spark, Rates((10.0,), (1.0,)), start=LONG_AGO)
    error = F.raise_error(F.lit("broken on purpose")).cast("string")
    broken = workload(events.withColumn("payload", F.when(F.col("id") >= 0, error).otherwise("")), None)
    with (
        Recorder(spark, broken, tmp_path / "check") as recorder,
        pytest.raises(Exception, match="broken on purpose"),
    ):
        recorder.wait_for(1, limit_s=120.0)


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    """Interrupt the real command as a terminal does, while Spark is at work, and look for what is left."""
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", "import sys; from spillway.cli import main; sys.exit(main())"]
    process = subprocess.Popen(
        [*command, "demo", "--quick", "--out", str(tmp_path / "out")],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "warming up" in line:  # the JVM is up, and a query is about to start
                break
        give_up = time.monotonic() + 120.0
        while len(members(process.pid)) < 4 and time.monotonic() < give_up:
            process.poll()
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=120.0)
        left = members(process.pid)
    finally:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert "Stopped" in said
    assert "Traceback" not in said
    assert left == []
    assert list((tmp_path / "out").iterdir()) == []
    assert [path for path in (tmp_path / "tmp").iterdir() if path.name.startswith("spillway-")] == []


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
