"""The join suite: the virtual machine and the truth worked out by hand, each figure in small, the JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from benchmarks import Request
from benchmarks.join import (
    indexed,
    news,
    on_spark,
    optimality,
    overload,
    rates,
    real_time,
    suite,
    truth,
    worth,
)
from benchmarks.join.feed import Feed, filled
from benchmarks.join.machine import Machine
from benchmarks.join.scenario import METHODS, Setting, streams
from benchmarks.join.speed import Cost, Timing, cost_of, measure
from benchmarks.join.truth import match_probability, truth_of
from benchmarks.join.virtual_time import Lengths, along, doing_nothing, fed_back, kept_share, steady
from benchmarks.spark.tally import Tally
from spillway.core.join import run
from spillway.errors import SpillwayError
from spillway.replay.traces import Rates

MACHINE = Machine(
    {
        "overlap_scan": Cost(row_s=1e-6, unit_s=50e-9),
        "equi_scan": Cost(row_s=1e-6, unit_s=6e-9),
        "overlap_index": Cost(row_s=1.5e-6, unit_s=20e-9, units_per_comparison=0.25),
        "overlap_sorted": Cost(row_s=2e-6, unit_s=50e-9, units_per_comparison=0.26),
        "equi_index": Cost(row_s=1.2e-6, unit_s=250e-9, units_per_comparison=0.0002),
    }
)
SHORT = Lengths(learn_s=10.0, count_s=10.0)


@pytest.fixture(autouse=True)
def _a_rough_truth(monkeypatch):
    """A sixth of the samples: the best choice is known well enough for figures in small."""
    monkeypatch.setattr(truth, "match_probability", partial(match_probability, blocks=2))


def test_the_machine_is_busy_at_100_rows_a_second():
    cost = MACHINE.cost("overlap_scan")
    assert MACHINE.seconds(cost, 200, 400_000) == pytest.approx(1.0)
    assert MACHINE.budget(cost, 200) == pytest.approx(400_000)
    assert MACHINE.budget(cost, 1_000) == pytest.approx(384_000), "800 rows more are 16,000 comparisons less"
    assert MACHINE.budget(cost, 10**9) == 0.0
    assert kept_share(MACHINE, cost, Setting(rate=100.0)) == pytest.approx(1.0)
    q = kept_share(MACHINE, cost, Setting(rate=500.0))
    assert MACHINE.seconds(cost, q * 1_000, q * q * 10**7) == pytest.approx(1.0)


def test_the_truth_is_what_a_full_join_finds():
    """Counted by the join on its streams, and over samples of sets without any join: the same within noise."""
    setting = Setting(rate=150.0)
    counted, true = optimality.matches_by_age(setting, Lengths(learn_s=0.0, count_s=60.0)), truth_of(setting)
    assert counted.right.mean() == pytest.approx(true.right.mean(), rel=0.1)
    assert counted.left.mean() == pytest.approx(true.left.mean(), rel=0.15)
    assert np.argmax(true.right) / len(true.right) == pytest.approx(0.75, abs=0.02)
    assert 5.5 < true.best(0.04) < 8.5
    assert true.best(1.0) == pytest.approx(1.0)
    chance = match_probability(0.8, 3, blocks=1)
    assert chance[1:].tolist() == chance[:0:-1].tolist(), "ahead or behind is the same"


def test_steady_runs_keep_their_budget_and_their_order():
    runs = {name: steady(Setting(), METHODS[name], MACHINE, SHORT) for name in METHODS}
    for name, outcome in runs.items():
        rows = outcome.rows - outcome.dropped_rows
        load = MACHINE.seconds(MACHINE.cost("overlap_scan"), rows, outcome.spent) / len(outcome.pairs)
        assert load == pytest.approx(1.0, abs=0.05), name
    out = {name: outcome.output_per_s for name, outcome in runs.items()}
    assert out["rate"] < out["random"] < out["timecorr"] < out["selective"]
    assert out["selective"] > 4.5 * out["random"]
    assert runs["random"].dropped_rows / runs["random"].rows == pytest.approx(0.8, abs=0.02)
    assert runs["selective"].dropped_rows == 0


def test_a_filled_join_goes_on_like_one_that_saw_the_rows():
    """What comes later meets the rows in the windows, all of them or a share."""
    setting = Setting(rate=50.0, window_s=5.0)
    feed = Feed(*streams(setting, Rates((50.0,), (10.0,)), 0))
    everything = run(feed.left, feed.right, on=setting.on, within_s=5.0, time="time")
    late = np.maximum(
        feed.left["time"].to_numpy()[everything["left_row"].to_numpy()],
        feed.right["time"].to_numpy()[everything["right_row"].to_numpy()],
    )
    join = filled(setting.config("selective"), *feed.between(0.0, 5.0))
    assert join.process(*feed.between(5.0, 10.0)).num_rows == (late >= 5.0).sum()
    for kept in (1.0, 0.3):
        dropping = filled(setting.config("random"), *feed.between(0.0, 5.0), kept=kept)
        assert sum(len(store) for store in dropping.stores) == pytest.approx(500 * kept, rel=0.3)


def test_without_shedding_the_join_falls_behind():
    behind = doing_nothing(Setting(rate=200.0), MACHINE, 20.0)
    assert 12.0 < behind.delay_s < 19.0, "four times the work that there is time for"
    assert doing_nothing(Setting(rate=80.0), MACHINE, 10.0).delay_s <= 1.0


def test_algorithm_1_comes_down_and_up_again():
    trace = Rates((80.0, 300.0, 80.0), (30.0, 20.0, 30.0))
    r = fed_back(Setting(), "newest", MACHINE, trace)
    assert len(r) == 80
    assert r[28] == 1.0
    assert min(r[30:52]) < 0.5
    assert r[-1] > min(r[30:52])


@pytest.mark.parametrize("kind", ["overlap_index", "equi_index", "overlap_sorted", "equi_scan"])
def test_costs_are_positive_and_found_through_the_join(kind):
    (cost,) = cost_of(Setting(kind=kind, rate=100.0, window_s=3.0), Timing(seconds=1, turns=1), "newest")
    assert cost.row_s > 0.0
    assert cost.unit_s > 0.0
    assert (cost.units_per_comparison == 1.0) == kind.endswith("scan")


def test_a_clock_that_ticks_gives_known_costs():
    """Each reading of the clock is a second later: a second a batch, idle or not, so units cost next to nothing."""
    ticks = iter(range(1_000))
    setting = Setting(rate=50.0, window_s=2.0)
    feed = Feed(*streams(setting, Rates((50.0,), (4.0,)), 0))
    cost = measure(
        setting.config("newest"), feed, Timing(seconds=2, turns=1), clock=lambda: float(next(ticks))
    )
    rows = sum(part.num_rows for part in feed.between(2.0, 4.0))
    assert cost.row_s == pytest.approx(2.0 / rows)
    assert cost.unit_s < 1e-12


def test_figures_of_the_truth_and_the_machine():
    assert optimality.figure_5(None).holds
    assert optimality.figure_6(Lengths(learn_s=0.0, count_s=10.0), None).holds
    seven = overload.figure_7(MACHINE, SHORT, None)
    assert seven.holds, seven.numbers["checks"]
    assert optimality.phi_of(Setting(), MACHINE, SHORT) > 0.75


def test_figures_are_drawn_where_a_folder_is_given(tmp_path):
    eight, nine = rates.figures_8_9(MACHINE, tmp_path)
    assert (tmp_path / "join-9.png").is_file()
    assert eight.numbers["r"][40] == 1.0
    assert nine.numbers["ratio"]["500"] > 2.0
    calm = along(Setting(rate=80.0), "selective", MACHINE, Rates((80.0,), (15.0,)))
    assert calm.comparisons == calm.demand


def test_utility_gains_where_rare_rows_are_worth_most():
    assert worth.shares(np.array([1.0, 0.25]), "inverse").tolist() == [0.2, 0.8]
    types = np.arange(1.0, 4.0)
    worths = worth.Worths(MACHINE, Lengths(learn_s=15.0, count_s=15.0))
    assert worths.gain(types**-3.0, "inverse") > 1.05
    assert worths.gain(types**0.0, "uniform") == pytest.approx(1.0, abs=0.05)


def test_the_gain_of_an_index_is_by_kind():
    lengths = Lengths(learn_s=10.0, count_s=5.0)
    small = {
        kind: replace(indexed.setting_of(kind), window_s=20.0) for kind in ("overlap_index", "equi_index")
    }
    slower = Machine({kind: replace(cost, unit_s=10 * cost.unit_s) for kind, cost in MACHINE.costs.items()})
    overlap = indexed.gain(small["overlap_index"], slower, lengths)
    equal = indexed.gain(small["equi_index"], MACHINE, lengths)
    assert overlap.ratio > 1.5
    assert equal.ratio == pytest.approx(1.0, abs=0.03), "nothing has to be shed"
    shown = {kind: {500.0: equal if kind.startswith("equi") else overlap} for kind in indexed.KINDS}
    assert not indexed.figure_15(shown, None).holds


def test_real_time_runs_by_a_made_up_clock():
    """A clock that only moves when it is asked to sleep: no time passes in the join, so all is in time."""
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    plan = real_time.RealTime(window_s=2.0, learn_s=1.0, count_s=1.0, period_s=0.5)
    setting = Setting(rate=200.0, window_s=2.0)
    feed = Feed(*streams(setting, Rates((200.0,), (4.0,)), 0))
    cost = Cost(row_s=0.0, unit_s=0.225 / 4_000)
    found = {
        name: real_time.live(setting, name, feed, plan, cost, clock=lambda: now[0], sleep=sleep)
        for name in plan.methods
    }
    assert all(each.p95_delay_s <= real_time.STEP_S for each in found.values())
    assert found["none"].fraction == 1.0
    assert found["random"].comparisons_per_s < found["none"].comparisons_per_s
    figure = real_time.figure_of(found, {"rate": 200.0}, None)
    assert "200 rows/s" in figure.ours


@pytest.mark.usefixtures("data_dir")
def test_absent_news_are_told_and_found_ones_counted(monkeypatch):
    monkeypatch.setattr(news, "news", lambda: (_ for _ in ()).throw(SpillwayError("none.")))
    assert news.measured(1) == "absent: none."
    monkeypatch.undo()
    found = news.measured(1)
    assert not isinstance(found, str)
    assert found.all_matches > found.found["selective"] > 0
    assert news.figure_of(found).numbers["best"] > 1.0


def test_spark_numbers_are_summed_by_batch():
    seen = [
        {"n": 0, "at": [], "now_s": 5.0},
        {"n": 60, "at": [1e6 * t for t in (1, 2, 3, 4, 5, 6)], "now_s": 8.0},
    ]
    history = pa.table({"work_spent": [9.0, 25.0], "sampled_out_rows": [None, 3]})
    played = on_spark.summed(Tally(F.col, 0, 1, on_spark._QUANTILES, seen), history)
    assert (played.pairs, played.p95_delay_s, played.comparisons, played.dropped_rows) == (60, 7.0, 34, 3)
    streamed = on_spark.Streamed(target_s=2.0, by={"random": replace(played, pairs=10), "selective": played})
    assert on_spark.metrics(streamed)["spark.output.selective_over_random"] == 6.0
    assert not on_spark.figure_of(on_spark.FULL, streamed).holds, "a p95 of 7 s is not near a target of 4"


def test_the_suite_has_all_figures_and_metrics(monkeypatch):
    monkeypatch.setattr(suite, "QUICK", TINY)
    monkeypatch.setattr(suite.news, "measured", lambda _: "absent: no data")
    monkeypatch.setattr(suite.machine, "measured", lambda *_: MACHINE)
    monkeypatch.setattr(indexed, "INDEX_WINDOW_S", 10.0)
    told = []
    results = suite.run(Request(quick=True, tell=lambda *step: told.append(step)))
    assert set(map(str, range(5, 18))) | {"real time"} == set(results.figures)
    for name in ("overlap_scan", "overlap_scan_k10", "overlap_index", "equi_scan", "equi_index", "real_time"):
        assert results.metrics[f"output.selective_over_random.{name}"] > 0.0
    for figure in ("5", "8", "9", "10", "11", "12", "13"):
        assert results.figures[figure].holds, results.figures[figure]
    assert results.metrics["comparisons_per_s.bitset"] > 1e6
    assert 0.0 <= results.metrics["adaptation_cost"] < 1.0
    assert json.loads(results.to_json())["config"]["spark"].startswith("left out")
    assert all(done <= total for _, done, total in told)


TINY = replace(
    suite.QUICK,
    timing=Timing(seconds=1, turns=1),
    lengths=Lengths(learn_s=5.0, count_s=5.0),
    index_lengths=Lengths(learn_s=2.0, count_s=2.0),
    utility_lengths=Lengths(learn_s=2.0, count_s=2.0),
    sizes=indexed.Sizes(
        scan_s=(1.0, 5.0), index_s=(1.0, 5.0), skews=(0.8,), index_skews=(0.8,), index_window_s=10.0
    ),
    types=(2, 3),
    live=real_time.RealTime(window_s=1.0, learn_s=0.5, count_s=0.5, methods=("random", "selective")),
)
