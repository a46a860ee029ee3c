"""The windows suite: its oracle bites, drop rates are as worked out by hand, the paper's shapes hold in small."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.suites import Request
from benchmarks.windows import promises, suite
from benchmarks.windows.counted_work import Chance, Curve, curve, delay
from benchmarks.windows.on_spark import FULL, Measured, figure_of, some_times
from benchmarks.windows.overhead import ratio, table_4, timed
from benchmarks.windows.parameters import expected, figure_12, figure_13
from benchmarks.windows.placements import EXCESS, figure_10, figure_11, in_order, last_load
from benchmarks.windows.recorded import recorded
from spillway.core.windows import run, sliding, tumbling
from spillway.core.windows.paper.plan import Aggregated, Keep
from spillway.demo.capacity import Capacity
from spillway.errors import SpillwayError


def measured(**other):
    """What might have been found on Spark."""
    found = {
        "capacity": Capacity(batch_rows=100, plain_s=(3.96, 3.96), spillway_s=(4.0, 4.0)),
        "windrop_share": 0.4,
        "postdrop_share": 0.1,
        "promises": {"some": promises.Found(1, 50, 20, 0, 0)},
    }
    return Measured(**{**found, **other})


@pytest.fixture(scope="module")
def nested():
    return figure_10(None, rows=6_000)


@pytest.fixture(scope="module")
def shared():
    return figure_11(None, rows=4_000)


def test_the_work_of_a_random_drop_is_what_is_worked_out_by_hand():
    """Half of the work is behind the drop: a quarter of the results has to go to save an eighth."""
    plan = (delay(5.0), Aggregated(tumbling(10)), delay(50.0))
    found = curve(plan, lambda p: (*plan[:2], Keep(Chance(p)), plan[2]), rows=4_000)
    assert found.base == pytest.approx(10.0)
    assert found.needed(1 / 7) == pytest.approx(0.25, abs=0.01)
    assert found.needed(0.9) is not None
    assert found.needed(1.1) is None


def test_a_curve_that_starts_below_what_is_allowed_needs_nothing():
    assert Curve(base=10.0, points=((0.0, 9.0), (0.5, 5.0))).needed(0.05) == 0.0


def test_drops_in_a_pipeline(nested):
    assert nested.numbers["checks"] == {
        "earlier_drops_no_more": True,
        "later_gives_up_first": True,
        "rdrop_comparable_at_low_load": False,  # with equal parts it is three times as much at any load
        "rdrop_ends_near_65_percent": False,  # a third of the work is behind it: 50 %
    }
    assert "beyond an excess of 50 %" in nested.ours
    assert not nested.holds
    rates = nested.numbers["drop_rate"]
    at = EXCESS.index(0.3)
    share = 0.3 / 1.3
    assert rates["rdrop"][at] == pytest.approx(3 * share, abs=0.01)
    assert rates["nested1"][at] == pytest.approx(1.5 * share, abs=0.02)
    assert rates["nested2"][at] == pytest.approx(share, abs=0.02)
    assert last_load(rates["rdrop"]) == 0.45
    assert max(nested.numbers["formula_errors"]) < 0.05


def test_drops_in_a_fan_out(shared):
    assert shared.holds, shared.numbers["checks"]
    rates = shared.numbers["drop_rate"]
    at = EXCESS.index(0.3)
    share = 0.3 / 1.3
    assert rates["split_rdrop"][at] == pytest.approx(2.5 * share, abs=0.02)
    assert rates["split_windrop"][at] == pytest.approx(1.25 * share, abs=0.03)
    assert rates["shared_windrop"][at] == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    ("rates", "ordered"),
    [
        ({"after": [0.5, None], "middle": [0.5, 0.9], "input": [0.4, 0.9]}, True),
        ({"after": [0.5, None], "middle": [0.4, 0.9], "input": [0.45, 0.9]}, False),
        ({"after": [0.5, 0.6], "middle": [0.4, None], "input": [0.4, 0.5]}, False),
    ],
)
def test_the_order_of_the_places_is_judged_load_by_load(rates, ordered):
    assert in_order(rates) is ordered


def test_size_and_slide():
    by_size, by_slide = figure_12(None, windows=60), figure_13(None, windows=60)
    assert by_size.holds, by_size.numbers["checks"]
    assert by_slide.holds, by_slide.numbers["checks"]
    assert expected(100, 100, 0.25) == pytest.approx(0.2, abs=0.02)
    assert expected(100, 1, 0.25) == pytest.approx(0.4, abs=0.04)
    assert expected(100, 10, 0.25) is None


def test_the_overhead_of_a_drop_that_drops_nothing():
    table = table_4(rows=2_000, turns=1)
    assert all(holds for name, holds in table.numbers["checks"].items() if name.startswith("counted"))
    assert ratio(25, 1.0, 4_000) < 1.0
    assert all(each > 0.0 for row in table.numbers["throughput_ratio"].values() for each in row)
    assert "timed in the reference engine" in table.ours


def test_the_timed_ratio_is_that_of_the_medians():
    """A clock that says how long each run took: without a drop 1 s, with it 2 s, and once 9."""
    took = iter([5.0, 5.0, 1.0, 2.0, 2.0, 1.0, 1.0, 9.0])
    now, running = 0.0, False

    def clock():
        nonlocal now, running
        now += next(took) if running else 0.0
        running = not running
        return now

    found = timed(25, 1.0, rows=100, turns=3, clock=clock)
    assert found.ratio == 0.5
    assert (found.plain_us, found.added_us) == (pytest.approx(1e4), pytest.approx(1e4))


def test_random_cases_keep_the_promises_and_are_not_trivial():
    found = promises.random_cases(60, seed=3)
    assert found.cases == 60
    assert 0 < found.delivered < found.windows
    assert (found.subset_violations, found.gap_violations) == (0, 0)
    assert found == promises.random_cases(60, seed=3), "the same seed gives the same cases"
    kinds = {type(promises.random_arrangement(Random(seed))).__name__ for seed in range(30)}
    assert kinds == {"Window", "Pipeline", "FanOut"}


def test_the_oracle_notices_a_wrong_value_and_a_long_gap(monkeypatch):
    arrangement, times = sliding(3, 1), [float(t) for t in range(40)]

    def rows_are_missing(table, *arguments, **options):
        return run(table.slice(5), *arguments, **{**options, "drop_probability": 0.0})

    monkeypatch.setattr(promises, "run", rows_are_missing)
    found = promises.check(times, arrangement, p=0.0, gaps=[1], salt=0)
    assert found.subset_violations > 0
    assert found.gap_violations == 1

    def bound_is_ignored(table, *arguments, **options):
        return run(table, *arguments, **{**options, "max_gap": 6, "drop_probability": 1.0})

    monkeypatch.setattr(promises, "run", bound_is_ignored)
    found = promises.check(times, arrangement, p=1.0, gaps=[2], salt=0)
    assert found.subset_violations == 0
    assert found.gap_violations > 1


def test_tuple_drop_changes_results_and_none_changes_none():
    assert set(promises.changed_by_tuple_drop(0.0, rows=1_000, seed=1).values()) == {0.0}
    changed = promises.changed_by_tuple_drop(0.2, rows=2_000, seed=1)
    assert changed["sum"] == changed["mean"] == 1.0
    assert 0.0 < changed["max"] < 1.0


def test_every_recording_is_used_or_named(tmp_path):
    rng = np.random.default_rng(4)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    micros = np.cumsum(rng.integers(1, 2_000_000, 500)) + 1_300_000_000_000_000
    pq.write_table(
        pa.table({"n": range(500), "when": pa.array(micros, pa.timestamp("us"))}),
        tmp_path / "a" / "stamps.parquet",
    )
    pq.write_table(pa.table({"time_us": [0, 0, *micros.tolist()]}), tmp_path / "a" / "trace.parquet")
    pq.write_table(pa.table({"t": np.sort(rng.random(500)) * 900}), tmp_path / "b" / "seconds.parquet")
    pq.write_table(pa.table({"word": ["x"]}), tmp_path / "b" / "words.parquet")
    found, unusable = recorded(400, tmp_path)
    assert set(found) == {"stamps.parquet", "trace.parquet", "seconds.parquet"}
    for each in found.values():
        assert each.cases == 4
        assert 0 < each.delivered < each.windows
        assert (each.subset_violations, each.gap_violations) == (0, 0)
    assert "no column of times" in unusable["words.parquet"]


def test_the_metrics_and_plots(nested, shared, tmp_path, monkeypatch):
    """The whole suite, in small."""
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("SPILLWAY_DATA", str(tmp_path / "none"))
    monkeypatch.setattr(suite, "CASES_QUICK", 20)
    monkeypatch.setattr(suite, "figure_10", lambda *_, **__: nested)
    monkeypatch.setattr(suite, "figure_11", lambda *_, **__: shared)
    monkeypatch.setattr(suite, "check_java", lambda: None)
    monkeypatch.setattr(suite, "measure", lambda *_: measured())
    told = []
    results = suite.run(Request(quick=True, out=tmp_path / "plots", tell=lambda *what: told.append(what)))
    assert results.metrics["subset_violations"] == results.metrics["gap_violations"] == 0
    assert 2.0 < results.metrics["drop_rate.rdrop_over_windrop"] < 4.0
    assert results.metrics["drop_rate.rdrop_over_windrop.30"] == pytest.approx(3.0, abs=0.3)
    assert 0.0 < results.metrics["formula_error"] < 0.1
    assert 0.5 < results.metrics["wrong_results.tuple_drop"] <= 1.0
    assert results.config["recorded"].startswith("absent: no Parquet files")
    assert results.metrics["throughput_ratio_p0"] == pytest.approx(0.99)
    assert results.metrics["delivered_share.windrop_over_postdrop"] == pytest.approx(4.0)
    assert set(results.figures) == {"10", "11", "12", "13", "table 4", "spark"}
    assert (tmp_path / "plots" / "windows-13.svg").exists()
    assert json.loads(results.to_json())["suite"] == "windows"
    assert told[-1][1] == told[-1][2]


def test_the_plots_of_the_places(tmp_path):
    figure = figure_10(tmp_path, rows=1_000)
    assert [(tmp_path / name).exists() for name in figure.files] == [True, True]


@pytest.mark.parametrize(
    ("other", "missed"),
    [
        ({}, None),
        (
            {"capacity": Capacity(batch_rows=1, plain_s=(0.9,), spillway_s=(1.0,))},
            "throughput_ratio_p0_at_least_0.97",
        ),
        ({"postdrop_share": 0.3}, "windrop_delivers_1.5_times"),
        ({"promises": {"some": promises.Found(1, 50, 20, 1, 0)}}, "promises_kept"),
    ],
)
def test_what_is_asked_of_spark_is_judged_one_by_one(other, missed):
    figure = figure_of(FULL, measured(**other))
    assert figure.holds is (missed is None)
    assert [name for name, met in figure.numbers["checks"].items() if not met] == ([missed] if missed else [])


def test_without_java_the_rest_is_run(monkeypatch):
    def none():
        raise SpillwayError("there is no java.")

    monkeypatch.setattr(suite, "check_java", none)
    assert suite.on_spark(Request(quick=True), 1, 2) == "absent: there is no java."


def test_without_recorded_arrivals_times_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv("SPILLWAY_DATA", str(tmp_path))
    (name,) = some_times(100)
    times = some_times(100)[name]
    assert name == "drawn"
    assert len(times) == 100
    assert (np.diff(times) >= 0).all()
