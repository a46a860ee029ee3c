"""The control suite: its workload with and without data, its ratios, and the paper's shapes in small."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.control import comparison, identification, robustness, suite
from benchmarks.control.runs import ENTRY, FLOORS, SHED, metric_ratio, minimum, play, ratio
from benchmarks.control.workload import (
    BETAS,
    LOADS,
    Case,
    Workload,
    mean_rate,
    mild_case,
    pareto_case,
    workload,
)
from spillway.replay.costs import constant
from spillway.replay.traces import Rates
from spillway.sim import Metrics


@pytest.fixture
def recordings(tmp_path):
    """A data folder with names and rates that nobody has seen, one recording that is short and one that is none."""
    folder = tmp_path / "arrivals"
    folder.mkdir()
    rng = np.random.default_rng(5)
    long = np.cumsum(rng.exponential(np.repeat(rng.lognormal(-3.0, 0.5, 400), 1000)))
    pq.write_table(pa.table({"size": [1] * long.size, "when": long}), folder / "unseen.parquet")
    pq.write_table(pa.table({"t": np.arange(30_000) / 11.0}), folder / "short.parquet")
    pq.write_table(pa.table({"name": ["a"]}), folder / "broken.parquet")
    return tmp_path


@pytest.fixture
def small():
    return Workload((mild_case(), pareto_case(0.5, 0), pareto_case(1.5, 0)), {})


def test_every_recording_in_the_folder_is_used_or_named(recordings):
    work = workload(quick=True, folder=recordings)
    names = {case.name.partition("[")[0] for case in work.of("recorded")}
    assert names == {"unseen", "short"}
    assert list(work.unusable) == ["broken.parquet"]
    assert "no column of arrival times" in work.unusable["broken.parquet"]
    for case in work.of("recorded"):
        assert mean_rate(case.trace) / 190.0 == pytest.approx(
            min(LOADS, key=lambda x: abs(x * 190 - mean_rate(case.trace)))
        )
    for case in work.of("recorded"):
        assert case.trace.duration_s == pytest.approx(400.0) or case.name.startswith("short")
    assert len(workload(quick=False, folder=recordings).cases) > len(work.cases)


def test_without_data_the_made_up_arrivals_remain_and_the_results_say_so(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("SPILLWAY_DATA", str(tmp_path / "empty"))
    work = workload(quick=True)
    assert {case.kind for case in work.cases} == {"pareto"}
    assert work.web is mild_case()
    assert suite._config(work, quick=True)["recorded"].startswith("absent: no arrivals/*.parquet")


def test_the_loads_take_turns():
    rates = {round(mean_rate(pareto_case(beta, 0).trace)) for beta in BETAS}
    assert rates == {round(load * 190) for load in LOADS}


def test_floors_only_draw_ratios_towards_one():
    for field, floor in FLOORS.items():
        assert ratio(field, 5 * floor, 0.0) == pytest.approx(5.0)
        assert ratio(field, 0.0, 5 * floor) == pytest.approx(0.2)
        assert ratio(field, floor / 10, floor / 1000) == 1.0
        assert hasattr(Metrics(1, 1, 0.0, 0, 0.0, 0.0, 0.0), field)


def test_a_run_is_only_made_once():
    assert play(mild_case(), "ctrl") is play(mild_case(), "ctrl")
    assert play(mild_case(), "ctrl") is not play(mild_case(), "ctrl", lag_periods=1)


def test_the_headline_holds_on_a_small_workload(small):
    metrics = suite.headline(small.cases)
    assert metrics["acc_violation.aurora_over_ctrl"] >= 10.0
    assert metrics["acc_violation.ctrl_over_deadline"] >= 20.0
    assert metrics["late_tuples.ctrl_over_deadline"] > 1.0
    assert metrics["overshoot.ctrl_over_deadline"] > 1.0
    assert 0.99 < metrics["loss.deadline_over_minimum"] <= 1.05
    assert 0.9 < metrics["loss.aurora_over_ctrl"] < 1.05
    assert metrics["step_us.deadline"] > 0.0
    assert metrics["entry.acc_violation.aurora_over_ctrl"] > 1.0
    assert metrics["entry.loss.deadline_over_minimum"] <= 1.05


def poisson(rates, step_s, rng):
    """Return arrival times with a rate for each step."""
    rows = rng.poisson(np.asarray(rates) * step_s)
    return np.sort(np.repeat(np.arange(rows.size), rows) + rng.random(rows.sum())) * step_s


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    """Arrivals that nothing here was made for: flat, two states that take turns, spikes, and a slow sine."""
    folder = tmp_path_factory.mktemp("unseen")
    (folder / "arrivals").mkdir()
    rng = np.random.default_rng(11)
    at = np.arange(0.0, 1500.0, 0.1)
    busy = np.cumsum(rng.exponential(np.tile([10.0, 4.0], 200)))
    spikes = np.full(at.size, 150.0)
    for start in rng.uniform(0.0, 1500.0, 30):
        spikes[(at >= start) & (at < start + rng.uniform(1.0, 4.0))] = 900.0
    rates = {
        "flat": np.full(at.size, 200.0),
        "mmpp": np.where(np.searchsorted(busy, at) % 2, 450.0, 100.0),
        "spikes": spikes,
        "sine": 200.0 * (1.0 + 0.8 * np.sin(2.0 * np.pi * at / 120.0)),
    }
    for name, values in rates.items():
        pq.write_table(pa.table({"t": poisson(values, 0.1, rng)}), folder / "arrivals" / f"{name}.parquet")
    return workload(quick=True, folder=folder)


def test_the_headline_holds_on_arrivals_not_seen_before(unseen):
    assert len(unseen.of("recorded")) == 8
    metrics = suite.compared(unseen.cases, SHED)
    assert metrics["acc_violation.aurora_over_ctrl"] >= 10.0
    assert metrics["acc_violation.ctrl_over_deadline"] >= 20.0
    assert metrics["loss.deadline_over_minimum"] <= 1.05


def test_aurora_needs_bursts_or_noise_to_run_away(unseen):
    """Where the rate changes slowly its forecast is right, and in a lull its queue runs empty: it starts anew."""
    by_kind = {
        name: suite.compared(tuple(case for case in unseen.cases if case.name.startswith(f"{name}[")), SHED)[
            "acc_violation.aurora_over_ctrl"
        ]
        for name in ("mmpp", "spikes", "sine")
    }
    assert by_kind["sine"] < 3.0 < min(by_kind["mmpp"], by_kind["spikes"]), by_kind


def test_the_headline_is_of_the_papers_own_actuator_and_the_other_stands_beside_it(small):
    metrics, case = suite.headline(small.cases[:1]), small.cases[0]
    name = "acc_violation.aurora_over_ctrl"
    assert SHED == "queue"
    assert metrics[name] == pytest.approx(
        metric_ratio(case, "acc_violation_s", "aurora", "ctrl", shed="queue")
    )
    assert metrics[f"entry.{name}"] == pytest.approx(
        metric_ratio(case, "acc_violation_s", "aurora", "ctrl", shed="entry")
    )
    assert play(case, "aurora", shed="queue").metrics == play(case, "aurora", shed="entry").metrics
    assert (
        play(case, "ctrl").metrics.acc_violation_s < play(case, "ctrl", shed="entry").metrics.acc_violation_s
    )


def test_no_controller_delivers_more_in_time_than_the_omniscient_one(small):
    for case in small.cases:
        for name in suite.CONTROLLERS:
            found = play(case, name).metrics
            in_time = found.delivered_rows - found.late_rows
            assert (
                in_time <= minimum(case).delivered_rows * 1.01
            )  # rows differ in work; it knows only their mean


def test_the_engine_is_identified_as_in_the_paper():
    for figure in (
        identification.figure_5(None),
        identification.figure_6(None),
        identification.figure_7(None),
    ):
        assert figure.holds, figure.ours
    for figure in (identification.figure_6(None), identification.figure_7(None)):
        assert figure.numbers["fitted_headroom"] == pytest.approx(0.97, abs=0.01)
        assert figure.numbers["fitted_rms_error_s"] <= min(figure.numbers["rms_error_s"].values())


def test_the_papers_shapes_hold_on_a_small_workload(small, tmp_path):
    figures = {
        "12": comparison.figure_12(small, None),
        "15": comparison.figure_15(small, None),
        "16": comparison.figure_16(small, None),
        "18": robustness.figure_18(small, tmp_path),
    }
    differs = {
        name: {claim for claim, found in figure.numbers["checks"].items() if not found}
        for name, figure in figures.items()
    }
    assert differs == {
        "12": {
            "baseline_worse.acc_violation_s",
            "baseline_worse.late_rows",
            "baseline_worse.overshoot_s",
            "same_loss_within_5_percent",  # AURORA loses less than that on one of these three
        },
        "15": {"baseline_peaks_higher"},
        "16": {"pareto_without_violation", "pareto_loses_more"},
        # The bursts of this trace move the delay by more than 10 %; see the flat one below.
        "18": {"ctrl_settles_within_15_s", "baseline_takes_twice_as_long"},
    }
    for name, figure in figures.items():
        assert figure.holds == (not differs[name])
        json.dumps(figure.numbers, allow_nan=False)
    assert [file.name for file in sorted(tmp_path.iterdir())] == list(figures["18"].files)


def test_every_claim_of_figure_12_counts():
    """A figure of which one half is inverted does not hold."""
    as_printed = {
        "acc_violation_s": {"aurora": 205.0, "baseline": 23.0},
        "late_rows": {"aurora": 50.0, "baseline": 5.0},
        "overshoot_s": {"aurora": 20.0, "baseline": 4.0},
        "loss_ratio": {"aurora": 0.986, "baseline": 1.0},
    }
    assert all(comparison.checks_12({"recorded": as_printed, "pareto": as_printed}).values())
    for field, name, value in (
        ("acc_violation_s", "baseline", 0.78),
        ("acc_violation_s", "aurora", 9.0),
        ("late_rows", "aurora", 0.9),
        ("overshoot_s", "baseline", 30.0),
        ("loss_ratio", "aurora", 1.01),
        ("loss_ratio", "baseline", 0.9),
    ):
        turned = {**as_printed, field: {**as_printed[field], name: value}}
        assert not all(comparison.checks_12({"recorded": as_printed, "pareto": turned}).values())


def test_a_target_that_is_only_passed_by_is_not_settled_at():
    ends = np.arange(1.0, 61.0)
    passing = np.linspace(0.0, 12.0, 60)
    assert robustness.settling_s(ends, passing, 0.0, 60.0, 3.0) is None
    swinging = 3.0 + 3.0 * 0.9 ** np.arange(60) * np.cos(0.4 * np.arange(60))
    first_crossing = ends[np.abs(swinging - 3.0) <= 0.3][0]
    settled = robustness.settling_s(ends, swinging, 0.0, 60.0, 3.0)
    assert settled > first_crossing
    spiked = np.where(ends == 20.0, 9.0, 3.0)
    assert robustness.settling_s(ends, spiked, 0.0, 60.0, 3.0) == 1.0, "one outlier is no new start"
    leaving = np.where(ends <= 40.0, 1.0, 3.0)
    assert robustness.settling_s(ends, leaving, 0.0, 40.0, 3.0) is None, (
        "the next target's periods are not its own"
    )
    assert robustness.settling_s(ends, leaving, 30.0, 60.0, 3.0) == 11.0
    assert robustness.settling_s(ends, np.full(60, np.nan), 0.0, 60.0, 3.0) is None


def test_ctrl_settles_at_new_targets_where_nothing_else_moves_the_delay():
    flat = Case("flat", "recorded", Rates((300.0,), (400.0,)), constant(), seed=0)
    figure = robustness.figure_18(Workload((flat,), {}), None)
    assert figure.numbers["checks"]["ctrl_settles_within_15_s"], figure.ours
    assert figure.numbers["checks"]["aurora_does_not_respond"]
    assert all(figure.numbers["settled_after_s"]["ctrl"][at] > 2.0 for at in ("150", "300"))


def test_short_periods_are_worse_where_rows_are_only_refused_at_the_entry(small, monkeypatch):
    """The shape of figure 19 that the queue's shedder does not show here."""
    monkeypatch.setattr(robustness, "PERIODS_S", (0.0625, 0.25, 0.5, 1.0, 4.0, 8.0))
    figure = robustness.figure_19(small, None)
    assert figure.numbers["checks"]["4_s_or_more_is_far_worse"]
    assert figure.holds == all(figure.numbers["checks"].values())
    assert figure.numbers["shed_at_entry"]["over_best"]["acc_violation_s"][0] > 1.5
    assert figure.numbers["chosen"]["period_s"] == 0.45


def test_dead_time_hurts_a_deadbeat_law_more():
    """Where rows are only refused at the entry, BASELINE loses to CTRL once decisions are late; see figure 12."""
    by_lag = [
        metric_ratio(mild_case(), "acc_violation_s", "baseline", "ctrl", lag_periods=k, shed=ENTRY)
        for k in (0, 2)
    ]
    assert by_lag[0] < 1.0 < by_lag[1]
