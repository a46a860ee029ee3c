"""The groups suite: errors and ratios as worked out by hand, absent data told, the JSON in small."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import Request
from benchmarks.groups import on_spark as spark
from benchmarks.groups import suite
from benchmarks.groups.accuracy import compared, figure_9
from benchmarks.groups.comparison import Coverage, Outcome, by_rule, side_by_side, uniform_at
from benchmarks.groups.cost import Cost, alternating, mean_s, p95_s
from benchmarks.groups.drift import concept_drift, figure_2, runs, top_drift
from benchmarks.groups.errors import ratio, relative_errors, share_for
from benchmarks.groups.methods import Answer, Cod, capacities, keep_oasrs, keep_uniform
from benchmarks.groups.operator_clock import Feed, Played, by_workers, configured, feed, middle, play
from benchmarks.groups.scalar_rule import met
from benchmarks.groups.volume import Volume, figure_10, volume
from benchmarks.groups.windows import Limits, windows_of
from spillway.core.groups import OperatorConfig
from spillway.errors import SpillwayError
from spillway.replay.recorded import DataSet, in_order
from spillway.replay.rides import rides

MEASURED = {
    name: spark.Latency(rows=1_000, plain_s=(0.5, *[plain] * 19), cod_s=(9.0, *[1.0] * 39))
    for name, plain in (("parsed", 3.0), ("bare", 0.5))
}


def stream(times_s, groups, values, *, window_s=60.0, slide_s=30.0, name="made", **options):
    micros = pa.array([round(1e6 * t) for t in times_s], pa.timestamp("us"))
    table = in_order(pa.array(groups), pa.array(values, pa.float64()), micros, pa.array(range(len(groups))))
    return DataSet(name=name, query="", window_s=window_s, slide_s=slide_s, spans=(table,), **options)


def test_windows_are_whole_and_have_their_exact_answers():
    """Rows every second from 10 to 249: windows begin at 30, 60, ... and end by 240."""
    times = range(10, 250)
    data = stream(times, ["ab"[t % 2] for t in times], [float(t) for t in times])
    found = windows_of(data).windows
    assert [window.start_s for window in found] == [30, 60, 90, 120, 150, 180]
    first = found[0]
    assert first.rows == 60
    assert first.sizes.tolist() == [30, 30]
    assert first.truth.tolist() == [np.mean(range(30, 90, 2)), np.mean(range(31, 90, 2))]
    assert found[1].groups.tolist() == first.groups.tolist() == [0, 1]
    some = first.table.slice(0, 3)  # times 30, 31, 32
    assert first.means(some, np.array([1.0, 1.0, 3.0])).tolist() == [31.5, 31.0]
    assert np.isnan(first.means(some.slice(0, 1))).tolist() == [False, True]
    short = windows_of(data, Limits(rows=120, least_windows=2, least_answers=1)).windows
    assert [window.start_s for window in short] == [90, 120]
    assert short[0].table["row"].to_pylist() == list(range(80, 140))


def test_a_stream_without_a_whole_window_is_refused():
    with pytest.raises(SpillwayError, match="made: no whole window of 60 s with at least 50 rows"):
        windows_of(stream(range(49), [0] * 49, [1.0] * 49))
    with pytest.raises(SpillwayError, match="no whole window"):
        windows_of(stream(range(0, 490, 10), [0] * 49, [1.0] * 49))


def test_errors_are_relative_bounded_and_count_what_is_missing():
    truth = np.array([10.0, -10.0, 10.0, 10.0, 0.0, 0.0])
    estimate = np.array([9.0, -12.0, np.nan, 50.0, 0.0, 0.1])
    assert relative_errors(truth, estimate).tolist() == pytest.approx([0.1, 0.2, 1.0, 1.0, 0.0, 1.0])


def test_the_share_for_an_error_lies_between_what_was_measured():
    shares, errors = np.array([0.02, 0.1, 0.5]), np.array([0.9, 0.8, 0.4])
    assert share_for(0.95, shares, errors) == 0.02
    assert share_for(0.6, shares, errors) == pytest.approx(0.3)
    assert share_for(0.2, shares, errors) == pytest.approx(0.75)
    assert share_for(0.0, shares, errors) == 1.0
    assert share_for(0.5, shares, np.array([0.9, 0.4, 0.5])) == pytest.approx(0.084), "noise is smoothed"


def test_ratios_of_errors_have_a_floor():
    assert (ratio(0.3, 0.1), ratio(0.0, 0.0)) == (pytest.approx(3.0), 1.0)


@pytest.fixture(scope="module")
def skewed():
    """Three windows of 600 rows: a busy group that varies, and 20 groups of 5 rows each that don't vary at all."""
    rng = np.random.default_rng(7)
    groups, values, times = [], [], []
    for number in range(4):
        rare = [g for g in range(1, 21) for _ in range(5)]
        groups += [0] * 500 + rare
        values += [*(10.0 + rng.standard_normal(500)), *(float(g) for g in rare)]
        times += np.sort(60.0 * number + 60.0 * rng.random(600)).tolist()
    return windows_of(stream(times, groups, values, slide_s=60.0))


def test_what_is_said_of_a_method_is_worked_out_from_its_answers(skewed):
    window = skewed.windows[0]
    whole = window.table.append_column("weight", pa.array(np.ones(600)))
    found = Outcome()
    found.add(window, whole)
    only_busy = whole.filter(pa.array(whole["group"].to_numpy() == window.groups[window.sizes.argmax()]))
    found.add(window, only_busy)
    assert found.errors == pytest.approx([0.0, 20 / 21])
    assert found.missing == [0, 20]
    assert found.error == pytest.approx(10 / 21)
    assert found.kept_share == pytest.approx(1100 / 1200)
    found.weigh(window, [(0.25, whole), (0.75, only_busy)])
    assert found.errors[-1] == pytest.approx(0.75 * 20 / 21)
    assert found.missing[-1] == 15


def test_all_methods_process_the_same_number_of_rows(skewed):
    found = side_by_side(skewed, keep_ratio=0.1, salts=range(3))
    assert {name: round(each.kept_share, 9) for name, each in found.outcomes.items()} == {
        "uniform": 0.1,
        "oasrs": 0.1,
        "cod": 0.1,
    }
    assert found.cod.missing_groups == 0.0
    assert found.uniform.missing_groups > 5.0
    assert found.cod.error < found.uniform.error / 10
    assert len(found.cod.errors) == 3 * len(skewed.windows)
    again = side_by_side(skewed, keep_ratio=0.1, salts=range(3))
    assert again.cod.errors == found.cod.errors, "the same salts give the same rows"


def test_a_row_a_group_goes_before_the_budget_and_then_methods_are_alike(skewed):
    """At 2 % there are 12 rows for 21 groups: 21 are processed, one of each, by cod and by reservoirs of one row."""
    found = side_by_side(skewed, keep_ratio=0.02, salts=range(2))
    assert (
        found.cod.kept_rows == found.uniform.kept_rows == found.oasrs.kept_rows == [21] * len(found.cod.rows)
    )
    assert found.oasrs.errors == found.cod.errors


def test_reservoirs_hold_as_many_rows_as_wanted_on_average(skewed):
    window = skewed.windows[0]
    for rows in (21, 50, 100, 120):
        held = sum(
            share * keep_oasrs(window, k, 0).num_rows for k, share in capacities(window.sizes, rows).items()
        )
        assert held == pytest.approx(rows)
    assert capacities(np.array([4, 4]), 8) == {4: 1.0}
    assert keep_uniform(window, 17, 3).num_rows == 17


def test_coverage_tells_groups_that_were_kept_whole_from_the_others(skewed):
    window = skewed.windows[0]
    size = len(window.groups)
    answer = Answer(
        kept=window.table, low=window.truth - 1.0, high=window.truth + 1.0, sampled=window.sizes.copy()
    )
    answer.low[:3], answer.high[:3] = window.truth[:3] + 0.5, window.truth[:3] + 1.0
    answer.sampled[:6] -= 1
    found = Coverage()
    found.add(window, answer)
    assert found.share == pytest.approx((size - 3) / size)
    assert found.share_sampled == 0.5
    assert Cod(keep_ratio=1.0).answer(window).covered(window)[0].all(), "exact where nothing was shed"


def test_rules_differ_where_groups_do(skewed):
    errors = {
        rule: by_rule(skewed, keep_ratio=0.1, salts=range(12), rule=rule).error
        for rule in ("proportional", "equal", "variance")
    }
    assert errors["variance"] < errors["equal"]
    found = compared(skewed, salts=range(2), rule_salts=range(1))
    assert set(found.numbers()["uniform_over_rule"]) == {"proportional", "equal", "variance"}
    assert found.uniform_over_cod == pytest.approx(found.methods.uniform.error / found.methods.cod.error)
    first = np.mean(found.methods.uniform.errors[: len(skewed.windows)])
    assert found.uniform_over("equal") == pytest.approx(first / found.rules["equal"].error)


def test_how_much_more_data_the_same_error_takes(skewed):
    def with_error(error, share):
        return Outcome([error], [0.0], [1000.0 * share], [1000])

    curve = {0.02: with_error(0.9, 0.02), 0.5: with_error(0.4, 0.5)}
    found = Volume(curve, {0.02: with_error(0.2, 0.04)})
    assert found.times_the_data == pytest.approx(0.75 / 0.04)
    measured = volume(skewed, salts=range(1), more=(0.9,))
    assert list(measured.uniform) == [0.02, 0.1, 0.25, 0.5, 0.9]
    assert uniform_at(skewed, share=1.0, salts=[0]).error == pytest.approx(0.0)


def test_drift_between_windows_that_follow_each_other():
    times = [*range(60, 180), *range(300, 421)]
    groups = ["a"] * 60 + ["b"] * 60 + ["c"] * 60 + ["c"] * 30 + ["d"] * 31
    found = windows_of(stream(times, groups, [1.0] * 241, slide_s=60.0))
    assert [[window.start_s for window in run] for run in runs(found)] == [[60, 120], [300, 360]]
    assert concept_drift(found).distances == (1.0, 0.5)
    assert concept_drift(found).overlaps == (0.0, 0.5)
    assert top_drift(found) is None, "two groups have no top ten"


def test_the_scalar_rule_meets_what_it_is_asked_for():
    rng = np.random.default_rng(5)
    data = stream(
        range(3_000), [0] * 3_000, 100.0 + 20.0 * rng.standard_normal(3_000), window_s=600.0, slide_s=300.0
    )
    found = met(windows_of(replace(data, scalar=True)), "2 % at 95 %", salts=range(10))
    assert found.windows == 80
    assert found.share >= 0.85
    assert 0.2 < found.processed < 0.6


@pytest.fixture(scope="module")
def little():
    return rides(duration_s=1_000, rides_per_s=4.0, seed=2)


def test_the_operator_on_the_clock(little):
    given = feed(little, rows=3_000, windows=4)
    assert given.size == 3 * given.slide
    assert given.slide < 600e6
    normal = play(given, configured(given, "none", "single", 0.1))
    config = configured(given, "concept", "single", 0.1)
    assert config == OperatorConfig(
        window=config.window, keep_ratio=0.1, shedder="concept", buffering="single"
    ), "as it is by default"
    shed = play(given, config)
    assert normal.rows == shed.rows == 3_000
    assert len(normal.windows_s) == len(shed.windows_s) >= 3
    assert 0 < shed.processed < normal.processed
    assert shed.scanned == normal.scanned
    halves = by_workers(given, configured(given, "none", "single", 0.1), 2)
    assert halves.rows == 3_000
    assert halves.processed == normal.processed


def test_times_and_ratios_are_worked_out_from_the_passes():
    def played(windows, arrive, watermark):
        return Played(
            windows_s=windows, arrive_s=arrive, watermark_s=watermark, rows=10, scanned=30, processed=3
        )

    found = middle([played((1.0, 5.0), 1.0, 3.0), played((3.0, 5.0), 2.0, 3.0), played((2.0, 8.0), 9.0, 4.0)])
    assert (found.windows_s, found.arrive_s, found.watermark_s) == ((2.0, 5.0), 2.0, 3.0)
    assert mean_s(found) == 3.5
    assert p95_s(found) == pytest.approx(4.85)
    cost = Cost(
        {
            "single": {"uniform": played((1.0,), 1.0, 1.0), "cod": played((1.0,), 2.0, 2.0)},
            "multiple": {"uniform": played((1.0,), 1.0, 1.0), "cod": played((1.0,), 6.0, 2.0)},
        },
        {"single": played((1.0,), 6.0, 2.0), "multiple": played((1.0,), 16.0, 2.0)},
    )
    assert cost.reservoir_over_uniform == pytest.approx((4.0 * 9.0) ** 0.5)
    assert cost.cod_over_uniform == pytest.approx((2.0 * 4.0) ** 0.5)
    assert cost.cod_over_uniform_at_watermarks == pytest.approx(2.0)


def test_methods_alternate_on_the_clock():
    given = Feed(rows=[(t, t % 3, 1.0, t * 7919) for t in range(400)], size=100, slide=100, by_group=True)
    found = alternating(given, keep_ratio=0.2, repeats=2)
    assert set(found.by_design) == {"single", "multiple"}
    assert set(found.by_design["single"]) == {"normal", "uniform", "cod"}
    assert found.by_design["single"]["cod"].processed == 60
    assert found.reservoirs == {}
    more = alternating(given, keep_ratio=0.2, repeats=1, designs=["single"], reservoir=True)
    assert more.reservoirs["single"].processed > 0
    assert set(more.numbers()["single"]) == {"normal", "uniform", "cod", "cod with reservoir"}


def test_the_figures_of_a_stream(little, tmp_path):
    small = windows_of(replace(little, window_s=200.0, slide_s=100.0))
    found = compared(small, salts=range(1), rule_salts=range(1))
    nine = figure_9({"debs": found, "google_class": found}, found, [], tmp_path)
    ten = figure_10({"debs": volume(small, salts=range(1), more=())}, tmp_path)
    two = figure_2([small], tmp_path)
    assert nine.numbers["limit"]["stream"] == "flights_delay"
    assert set(nine.numbers["streams"]["debs"]) == {
        "uniform",
        "oasrs",
        "cod",
        "uniform_over_rule",
        "coverage95",
    }
    for figure in (nine, ten, two):
        assert [(tmp_path / name).exists() for name in figure.files] == [True, True]
        assert figure.holds == all(figure.numbers["checks"].values())


def test_the_whole_suite_in_small(tmp_path, monkeypatch):
    """Packets are there and everything else is absent."""
    rng = np.random.default_rng(3)
    (tmp_path / "data").mkdir()
    pq.write_table(
        pa.table({"t": np.sort(300.0 * rng.random(6_000)), "frame_bytes": rng.integers(64, 1519, 6_000)}),
        tmp_path / "data" / "frames.parquet",
    )
    monkeypatch.setenv("SPILLWAY_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(suite, "rides", lambda duration_s: rides(duration_s=duration_s, rides_per_s=0.5))
    tiny = replace(
        suite.QUICK, limits=Limits(windows=4, least_windows=2, least_answers=2), timed_rows=1_500, repeats=1
    )
    monkeypatch.setattr(suite, "QUICK", tiny)
    monkeypatch.setattr(suite, "check_java", lambda: None)
    monkeypatch.setattr(suite.spark, "measure", lambda *_: MEASURED)
    told = []
    results = suite.run(Request(quick=True, out=tmp_path / "plots", tell=lambda *what: told.append(what)))
    names = {"error.uniform_over_cod", "error.oasrs_over_cod", "missing_groups.cod"}
    names |= {"data_for_same_error.uniform_over_cod", "coverage95", "processed.cod"}
    assert set(results.metrics) == {
        *(f"{name}.{data}" for name in names for data in ("packets", "debs")),
        "accuracy_met.packets",
        "shed_cost.cod_over_uniform",
        "shed_cost.cod_over_uniform.reservoir",
        "p95_latency.plain_over_cod",
        "p95_latency.plain_over_cod.bare",
    }
    assert results.metrics["p95_latency.plain_over_cod"] == pytest.approx(3.0)
    assert 0.3 < results.metrics["error.uniform_over_cod.packets"] < 3.0, "alike but for chance"
    assert results.metrics["error.uniform_over_cod.debs"] > 1.0
    assert results.metrics["missing_groups.cod.debs"] == 0.0
    assert set(results.figures) == {"2", "7", "8", "9", "10", "spark"}
    assert set(results.config["unusable_files"]) == {
        *("google_class", "google_user", "flights", "flights_delay", "taxi", "taxi_route")
    }
    assert results.config["recorded"] == "1 data sets"
    assert json.loads(results.to_json())["suite"] == "groups"
    assert (tmp_path / "plots" / "groups-7-workers.svg").exists()
    assert told[-1][1] == told[-1][2]
    assert [step for _, step, _ in told[1:]] == sorted(step for _, step, _ in told[1:])


def test_a_window_on_spark_is_judged_by_its_95th_percentile():
    slow = replace(MEASURED["parsed"], cod_s=(*MEASURED["parsed"].cod_s[:-2], 3.0, 3.0))
    assert spark.figure_of(spark.FULL, MEASURED).holds
    assert not spark.figure_of(spark.FULL, {**MEASURED, "parsed": slow}).holds


def test_without_java_the_rest_is_run(monkeypatch):
    def none():
        raise SpillwayError("there is no java.")

    monkeypatch.setattr(suite, "check_java", none)
    assert suite.on_spark(Request(quick=True), 1, 2) == "absent: there is no java."


def test_data_that_is_absent_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("SPILLWAY_DATA", str(tmp_path))
    found, absent = suite.data_sets(replace(suite.QUICK, rides_s=60.0))
    assert set(found) == {"debs"}
    assert "no Parquet file in the data folder" in absent["taxi"]
    streams, limit = suite.cut(found, suite.QUICK, absent)
    assert (streams, limit) == ([], None)
    assert "no whole window" in absent["debs"]
