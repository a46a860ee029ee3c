"""The Spark suite's figures from made-up bursts, and which parts belong to a run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benchmarks import Request
from benchmarks.spark import neighbour_bursts, restart
from benchmarks.spark import suite as spark
from benchmarks.spark.restart import Restart, RestartPlan
from benchmarks.spark.restart_reference import Costs, Timed
from spillway.demo import burst_session
from tests.core.demo.bursts import burst, play

RESTART = Restart(
    plan=RestartPlan(),
    costs=Costs(0.5, 2e-6, 52e-6),
    after=(Timed(1_000_000, 9_000, 3.0),),
    within_target=1.0,
    decisions_changed=0,
)


@pytest.fixture
def three():
    both = burst()
    return replace(both, runs={**both.runs, "capped": replace(play("plain"), variant="capped")})


@pytest.fixture
def played(three, monkeypatch):
    """Parts that are done at once; what was asked for is noted."""
    asked = []

    def play(_):
        asked.append("burst")
        return three

    @contextmanager
    def started(_, **__):
        asked.append("session")
        yield SimpleNamespace(capacity=three.capacity, play=play, spark=None, folder=None)

    monkeypatch.setattr(spark, "measure_added_ms", lambda *_, **__: asked.append("added") or 20.0)
    monkeypatch.setattr(burst_session, "started", started)
    monkeypatch.setattr(
        neighbour_bursts, "run", lambda *_, **__: asked.append("neighbours") or {"before": three}
    )
    monkeypatch.setattr(restart, "run", lambda *_, **__: asked.append("restart") or RESTART)
    return asked


def test_the_full_run_has_all_parts(played):
    results = spark.run(Request())
    assert played == ["session", "burst", "added", "neighbours", "restart"]
    for name in (
        "delivered_over_best.spillway",
        "delivered_over_best.deadline",
        "loss_over_minimum.spillway",
        "spark.added_ms_per_batch",
        "neighbours.loss_over_minimum",
        "neighbours.within_target",
        "neighbours.delivered_over_best",
        "restart.kept_over_reference",
        "restart.within_target",
        "restart.decisions_changed",
    ):
        assert name in results.metrics
    assert results.to_json()


def test_the_quick_run_has_only_the_burst(played):
    assert not [name for name in spark.run(Request(quick=True)).metrics if name.startswith(("neigh", "rest"))]
    assert played == ["session", "burst"]


def test_a_part_runs_alone(played):
    assert set(spark.run(Request(parts=("neighbours",))).metrics) == {
        "neighbours.loss_over_minimum",
        "neighbours.within_target",
        "neighbours.delivered_over_best",
    }
    spark.run(Request(parts=("restart",)))
    assert played == ["neighbours", "session", "restart"]


def test_the_metrics_are_those_of_the_worst_profile(three):
    shed = three.runs["spillway"]
    fewer = tuple(
        replace(batch, kept_rows=None if batch.kept_rows is None else batch.kept_rows // 2)
        for batch in shed.batches
    )
    worse = replace(three, runs={**three.runs, "spillway": replace(shed, batches=fewer)})
    metrics = neighbour_bursts.metrics({"before": three, "middle": worse})
    assert metrics["neighbours.loss_over_minimum"] == worse.loss_over_minimum > three.loss_over_minimum
    assert metrics["neighbours.delivered_over_best"] == worse.delivered_over_best("spillway")
    assert metrics["neighbours.within_target"] == pytest.approx(shed.within_target, abs=0.01)
    assert set(neighbour_bursts.profiles({"before": three})) == {"before"}
