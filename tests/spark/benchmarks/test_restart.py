"""The benchmark's restart and its neighbour on real Spark, as short as they get."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark.restart import RestartPlan, record
from spillway.demo.burst_plan import BurstPlan
from spillway.demo.burst_session import BurstSession
from spillway.demo.capacity import Capacity
from spillway.demo.machine_speed import SpeedLog
from spillway.demo.neighbour import Neighbour, throughout


def test_a_burst_is_played_beside_a_neighbour(spark: SparkSession, tmp_path: Path) -> None:
    plan = BurstPlan(target_s=20.0, lead_s=0.5, calm_s=0.5, burst_s=0.5, after_s=0.5, patience_s=120.0)
    with Neighbour() as neighbour, SpeedLog() as speed_log:
        ready = BurstSession(
            spark=spark,
            folder=tmp_path,
            plan=plan,
            capacity=Capacity(batch_rows=500, plain_s=(1.0,), spillway_s=(1.0,)),
            busy_rows_per_s=250.0,
            quiet_speed=None,
            speed_log=speed_log,
            neighbour=neighbour,
            tell=lambda _: None,
        )
        burst = ready.play(("spillway",), schedule=throughout())
        assert not neighbour.busy, "it is off between runs"
    run = burst.runs["spillway"]
    assert run.busy == ((0.0, run.until_s),)
    assert run.trace.rates == (250.0, 2500.0, 250.0)
    assert burst.least_lost_rows == run.least_lost_rows(250.0)
    assert burst.speeds == {}, "nothing to compare with"


def test_a_killed_query_goes_on_where_it_was() -> None:
    plan = RestartPlan(
        lead=((1.0, 0.5),), warm_s=0.0, warm_batches=1, kill_s=0.1, backlog_s=1.0, batches=1, fast_start=True
    )
    seen = record(plan, 200.0, tell=lambda _: None)
    assert seen.decisions_changed == 0
    assert seen.after[0]["number"] == seen.killed > seen.before[-1]["number"]
    assert seen.after[0]["first_row"] >= seen.before[-1]["last_row"]
    assert seen.after[0]["epoch_s"] == seen.before[0]["epoch_s"]
    assert len(seen.after) >= plan.batches + 1
    lives = list(dict.fromkeys(entry["run"] for entry in seen.history))
    assert len(lives) == 2
    assert {entry["batch"] for entry in seen.history if entry["run"] == lives[1]} >= {seen.killed}
