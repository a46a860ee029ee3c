"""CostModel and CostMeter: true parameters from noisy batches, and sense where the data say nothing."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spillway.core.control import CostMeterConfig, CostModel, CostModelConfig
from spillway.errors import SpillwayError

QUICK = (Phase.explicit, Phase.generate)  # these batches are not worth minutes of shrinking


def feed(
    model: CostModel,
    sizes,
    *,
    keep=None,
    fixed=0.3,
    cost=12e-6,
    skip=0.5e-6,
    noise=0.05,
    seed=0,
):
    """Give the model batches of these sizes, at most ``keep`` of each kept, and return its last answer."""
    random_ = random.Random(seed)
    costs = None
    for n in sizes:
        k = n if keep is None else min(n, keep)
        busy = (fixed + skip * (n - k) + cost * k) * math.exp(random_.gauss(0.0, noise))
        costs = model.update(arrived_rows=n, kept_rows=k, busy_s=busy)
    return costs


def sizes(low: int, high: int, count: int, seed: int = 1) -> list[int]:
    return [random.Random(seed + i).randint(low, high) for i in range(count)]


def fresh(**options) -> CostModel:
    return CostModelConfig(**options).build()


@pytest.mark.parametrize("fixed", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("cost", [2e-6, 12e-6, 200e-6])
def test_it_finds_the_truth_in_batches_of_many_sizes(fixed, cost):
    most = int(3.0 / cost)
    costs = feed(fresh(), sizes(most // 50, most, 40), fixed=fixed, cost=cost, noise=0.03)
    assert costs.cost_s == pytest.approx(cost, rel=0.1)
    assert costs.fixed_s == pytest.approx(fixed, abs=0.07 + 0.1 * fixed)


def test_it_finds_all_three_where_rows_are_dropped():
    costs = feed(fresh(), sizes(1_000, 2_000_000, 40), keep=30_000, noise=0.03)
    assert costs.cost_s == pytest.approx(12e-6, rel=0.2)
    assert costs.skip_s == pytest.approx(0.5e-6, rel=0.2)
    assert costs.fixed_s == pytest.approx(0.3, rel=0.3)
    for n in (30_000, 300_000, 2_000_000):
        assert costs.busy_s(n, 30_000) == pytest.approx(0.66 + 0.5e-6 * (n - 30_000), rel=0.07)


@pytest.mark.parametrize("cost", [2e-6, 12e-6, 200e-6])
def test_batches_of_one_size_split_their_time_between_batch_and_rows(cost):
    costs = feed(fresh(), [50_000] * 40, cost=cost)
    assert costs.busy_s(50_000, 50_000) == pytest.approx(0.3 + 50_000 * cost, rel=0.1)
    assert 0.3 * cost < costs.cost_s < 5.0 * cost


@pytest.mark.parametrize("rows", [1, 10, 100])
def test_tiny_batches_say_nothing_of_a_row_and_it_stays_unsure(rows):
    costs = feed(fresh(), [rows] * 60, fixed=0.4, noise=0.1)
    assert 1e-6 < costs.cost_s < 1e-3
    assert costs.spread > 1.0
    assert costs.busy_s(rows, rows) == pytest.approx(0.4, rel=0.3)


def test_one_large_batch_after_tiny_ones_tells_what_a_row_costs():
    model = fresh()
    feed(model, [10] * 40, fixed=0.4)
    assert feed(model, [70_000], fixed=0.4).cost_s == pytest.approx(12e-6, rel=0.4)


def test_a_cost_learnt_from_large_batches_outlives_a_night_of_tiny_ones():
    model = fresh()
    feed(model, sizes(1_000, 80_000, 40), cost=50e-6)
    assert feed(model, [10] * 500).cost_s == pytest.approx(50e-6, rel=0.3)


def off(costs, fixed, cost, rows=30_000):
    """How far the time of a batch is off, as a logarithm."""
    return abs(math.log(costs.busy_s(rows, rows) / (fixed + cost * rows)))


@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_jump_of_the_cost_is_in_the_next_prediction_and_the_rest_is_told_apart_in_time(factor, seed):
    """It may be booked on the pace first; a batch of the usual size is right at once, then those of other sizes."""
    model = fresh()
    feed(model, sizes(5_000, 40_000, 40), cost=30e-6)
    cost = factor * 30e-6
    costs = feed(model, sizes(5_000, 40_000, 8, seed=99 + seed), cost=cost, seed=seed)
    assert off(costs, 0.3, cost) < math.log(1.7)
    costs = feed(model, sizes(5_000, 40_000, 60, seed=7 + seed), cost=cost, seed=seed)
    assert off(costs, 0.3, cost) < math.log(1.2)
    assert off(costs, 0.3, cost, rows=5_000) < math.log(1.35)


def test_one_long_batch_moves_the_pace_and_the_next_usual_one_moves_it_back():
    model = fresh()
    before = feed(model, [40_000, 38_000, 41_000, 20_000, 43_000] * 8)
    pause = model.update(arrived_rows=40_000, kept_rows=40_000, busy_s=10.0)
    assert pause.busy_s(40_000, 40_000) == pytest.approx(10.0, rel=0.2), "it may be a neighbour that stays"
    assert pause.pace > 4.0 * before.pace
    after = feed(model, [38_000], noise=0.0)
    assert off(after, 0.3, 12e-6) < math.log(1.2)
    after = feed(model, [38_000, 20_000, 41_000])
    assert off(after, 0.3, 12e-6) < math.log(1.15)
    assert off(after, 0.3, 12e-6, rows=20_000) < math.log(1.25)


@pytest.mark.parametrize("cold", [3.0, 8.0])
@pytest.mark.parametrize("cost", [2e-6, 12e-6, 200e-6])
def test_the_slow_batches_of_a_new_run_are_not_booked_on_rows(cold, cost):
    model, most = fresh(), int(2.0 / cost)
    feed(model, sizes(most // 40, most, 60), cost=cost)
    model.begin_run()
    random_ = random.Random(5)
    for batch in range(12):
        n = random_.randint(most // 40, most)
        slow = 1.0 + (cold - 1.0) * math.exp(-batch / 3.0)
        costs = model.update(arrived_rows=n, kept_rows=n, busy_s=slow * (0.3 + cost * n))
    assert costs.cost_s < 1.6 * cost
    assert off(costs, slow * 0.3, slow * cost, rows=most // 2) < math.log(1.25)
    costs = feed(model, sizes(most // 40, most, 10, seed=3), cost=cost)
    assert off(costs, 0.3, cost, rows=most // 2) < math.log(1.25)
    assert off(costs, 0.3, cost, rows=most // 10) < math.log(1.35)


def test_a_new_run_expects_a_slow_machine_and_knows_that_it_does_not_know():
    model = fresh()
    assert model.begin_run() is None, "before any row nothing is known"
    costs = feed(model, sizes(1_000, 80_000, 60))
    started = model.begin_run()
    assert started.cost_s > 1.5 * costs.cost_s
    assert started.spread > costs.spread + 0.5
    after = feed(model, [30_000], noise=0.0)
    assert off(after, 0.3, 12e-6) < math.log(1.3), "one batch of a warm JVM is enough"


@pytest.mark.parametrize("cost", [2e-6, 12e-6, 200e-6])
@pytest.mark.parametrize("overhead", [0.1, 0.6])
def test_what_is_measured_apart_needs_no_model(cost, overhead):
    """Planning and log writes are slow on their own: they are in the fixed time and in no row."""
    model, most = fresh(), int(2.0 / cost)
    for n in sizes(most // 40, most, 50):
        costs = model.update(
            arrived_rows=n, kept_rows=n, busy_s=overhead + 0.2 + cost * n, overhead_s=overhead
        )
    assert costs.fixed_s == pytest.approx(overhead + 0.2, rel=0.15)
    assert costs.cost_s == pytest.approx(cost, rel=0.15)
    once = model.update(arrived_rows=most, kept_rows=most, busy_s=10.2 + cost * most, overhead_s=10.0)
    assert once.cost_s == pytest.approx(cost, rel=0.2)
    assert once.fixed_s == pytest.approx(overhead + 0.2, rel=0.15), "one slow log write is not the next one"


@pytest.mark.parametrize("overhead", [-1.0, 0.0, 5.0, 1e300])
def test_an_overhead_beyond_the_batch_is_cut_to_it(overhead):
    model = fresh()
    for n in sizes(1_000, 80_000, 20):
        costs = model.update(arrived_rows=n, kept_rows=n, busy_s=0.3 + 12e-6 * n, overhead_s=overhead)
        assert costs.cost_s > 0.0
        assert 0.0 < costs.fixed_s < 3.0


@given(
    history=st.lists(
        st.tuples(st.integers(1, 200), st.floats(0.0, 1.0), st.floats(1.0, 20.0)), min_size=1, max_size=25
    )
)
@settings(max_examples=25, phases=QUICK)
def test_few_rows_kept_never_make_rows_look_dearer_for_long(history):
    """Whatever slow batches with a handful of rows came, two quiet ones later a row costs what it did."""
    model = fresh()
    known = feed(model, sizes(1_000, 80_000, 40), noise=0.02)
    for kept, dropped, slow in history:
        busy = slow * (0.3 + 12e-6 * kept)
        model.update(arrived_rows=kept * (1.0 + 9.0 * dropped), kept_rows=kept, busy_s=busy)
    after = feed(model, [300, 300], noise=0.0)
    assert after.cost_s < 3.0 * known.cost_s
    assert after.busy_s(300, 300) < 0.6


@pytest.mark.parametrize("rows", [10, 10_000])
@pytest.mark.parametrize("busy_s", [0.08, 3.0, 30.0])
@pytest.mark.parametrize("times", [1, 3])
def test_absurd_first_batches_are_got_over(rows, busy_s, times):
    """The fixed time must not be lost for good because a batch seemed to have none."""
    model = fresh()
    model.begin_run()
    for _ in range(times):
        model.update(arrived_rows=rows, kept_rows=rows, busy_s=busy_s)
    random_ = random.Random(3)
    for batch in range(60):
        n = random_.randint(2_000, 80_000)
        costs = model.update(
            arrived_rows=n, kept_rows=n, busy_s=(0.3 + 12e-6 * n) * math.exp(random_.gauss(0.0, 0.03))
        )
        if batch >= 30:
            assert off(costs, 0.3, 12e-6, rows=40_000) < math.log(1.3)
    assert costs.cost_s == pytest.approx(12e-6, rel=0.3)
    assert costs.fixed_s == pytest.approx(0.3, rel=0.4)


def test_batches_without_rows_tell_about_the_fixed_part_only():
    model = fresh()
    assert feed(model, [0] * 10, fixed=0.7, noise=0.0) is None
    costs = feed(model, [50_000] * 3, fixed=0.7, noise=0.0)
    assert costs.fixed_s == pytest.approx(0.7, rel=0.05)
    assert costs.cost_s == pytest.approx(12e-6, rel=0.1)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("field", ["arrived_rows", "kept_rows", "busy_s"])
def test_nonsense_is_left_out(field, wrong):
    model = fresh()
    costs = feed(model, sizes(1_000, 80_000, 10))
    state = model.snapshot()
    assert model.update(**{"arrived_rows": 10, "kept_rows": 10, "busy_s": 1.0, field: wrong}) == costs
    assert model.snapshot() == state


_any = st.floats(0, 1e300) | st.integers(0, 10**6) | st.floats(0, 10)


@given(batches=st.lists(st.tuples(_any, _any, _any, st.booleans()), max_size=12))
@settings(max_examples=30, phases=QUICK)
def test_no_batch_whatever_breaks_it_and_it_recovers(batches):
    model = fresh()
    for n, k, busy, begins in batches:
        if begins:
            model.begin_run()
        costs = model.update(arrived_rows=n, kept_rows=k, busy_s=busy)
        if costs is not None:
            found = (costs.fixed_s, costs.cost_s, costs.skip_s, costs.spread, costs.pace)
            assert all(math.isfinite(x) for x in found)
            assert costs.pace > 0.0
            assert costs.spread >= 0.0
            assert costs.cost_s > 0.0
            assert 0.0 <= costs.skip_s <= costs.cost_s
            assert costs.fixed_s >= 0.0
        json.dumps(model.snapshot(), allow_nan=False)
    costs = feed(model, sizes(2_000, 80_000, 45), noise=0.02)
    assert costs.cost_s == pytest.approx(12e-6, rel=0.3)


@given(split=st.integers(0, 30), begins=st.integers(0, 30), seed=st.integers(0, 10))
@settings(max_examples=8)
def test_any_split_gives_the_same_estimates(split, begins, seed):
    whole, parts = fresh(), fresh()
    random_ = random.Random(seed)
    for number in range(30):
        if number == split:
            parts = CostModelConfig().build(json.loads(json.dumps(parts.snapshot())))
        if number == begins:
            assert whole.begin_run() == parts.begin_run()
        n, busy = random_.randint(0, 50_000), random_.uniform(0.1, 2.0)
        batch = {"arrived_rows": n, "kept_rows": n // 2, "busy_s": busy}
        assert whole.update(**batch) == parts.update(**batch)
    assert whole.snapshot() == parts.snapshot()


def test_its_memory_is_bounded():
    model = fresh()
    lengths = []
    for n in sizes(1_000, 50_000, 60):
        model.update(arrived_rows=n, kept_rows=n, busy_s=0.3 + 12e-6 * n, overhead_s=0.05)
        lengths.append(sum(len(value) for value in model.snapshot().values() if isinstance(value, list)))
    assert max(lengths[20:]) == lengths[20]


@pytest.mark.parametrize(
    "wrong", [{"cold_cost_s": 0.0}, {"cold_fixed_s": -1.0}, {"cold_skip_s": math.nan}, {"noise": 0.0}]
)
def test_wrong_options_raise(wrong):
    with pytest.raises(SpillwayError, match=next(iter(wrong))):
        CostModelConfig(**wrong)


def test_a_foreign_state_is_refused():
    state = fresh().snapshot()
    for wrong in (
        {**state, "kind": "ctrl"},
        {**state, "version": 1},
        {**state, "weights": [1.0, math.nan, 2.0, 0.0]},
        {**state, "doubt": 3},
    ):
        with pytest.raises(SpillwayError):
            CostModelConfig().build(wrong)


class TestCostMeter:
    def test_it_weighs_periods_by_their_rows(self):
        meter = CostMeterConfig(smoothing=0.5).build()
        assert meter.cost_s is None
        meter.update(busy_s=1.0, finished_rows=100)
        assert meter.update(busy_s=3.0, finished_rows=300) == pytest.approx(0.01)
        assert meter.update(busy_s=0.1, finished_rows=1) < 0.011

    def test_it_follows_a_change(self):
        meter = CostMeterConfig().build()
        meter.update(busy_s=1.0, finished_rows=200)
        for _ in range(10):
            cost = meter.update(busy_s=1.0, finished_rows=100)
        assert cost == pytest.approx(0.01, rel=0.01)

    @given(
        periods=st.lists(
            st.tuples(
                st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True)
            )
        )
    )
    def test_no_period_breaks_it(self, periods):
        meter = CostMeterConfig().build()
        for busy, done in periods:
            cost = meter.update(busy_s=busy, finished_rows=done)
            assert cost is None or 0.0 < cost <= 1e6
            again = CostMeterConfig().build(json.loads(json.dumps(meter.snapshot(), allow_nan=False)))
            assert again.cost_s == meter.cost_s


def test_a_fixed_time_far_above_what_was_believed_is_learnt_when_few_rows_take_as_long():
    model = fresh()
    for kept in (12_000, 800, 15, 15):
        costs = model.update(arrived_rows=12_000, kept_rows=kept, busy_s=8.0 + 30e-6 * kept)
    assert costs.busy_s(12_000, 15) == pytest.approx(8.0, rel=0.3)
    for kept in (3_000, 100, 6_000, 15, 9_000):
        costs = model.update(arrived_rows=12_000, kept_rows=kept, busy_s=8.0 + 30e-6 * kept)
    assert costs.busy_s(12_000, 3_000) == pytest.approx(8.1, rel=0.2)
    assert costs.cost_s < 1e-3


RECORDED = [
    # Rows, rows kept, seconds: a query on Spark whose JVM is cold, beside a neighbour that comes and goes. A kept row
    # takes 20 to 45 µs there, by the capacity that was measured without and with the neighbour.
    *[(23_685, 23_685, 1.05), (19_510, 19_510, 1.13), (21_770, 21_770, 1.42), (27_843, 27_843, 1.66)],
    *[(30_214, 30_214, 1.70), (32_123, 32_123, 1.82), (34_455, 34_455, 2.53), (46_458, 24_678, 1.83)],
    *[(33_593, 26_718, 1.52), (30_368, 30_368, 1.74), (59_290, 43_381, 2.42), (477_919, 29_316, 2.70)],
    *[
        (457_485, 123_109, 7.21),
        (1_281_272, 65_677, 4.36),
        (808_768, 155_491, 9.52),
        (1_642_077, 76_769, 3.19),
    ],
    *[(580_859, 192_209, 7.70), (293_992, 50_587, 1.32), (23_872, 23_872, 0.77), (13_357, 13_357, 0.85)],
]


@pytest.mark.parametrize("overhead", [0.0, 0.08, 0.17])
@pytest.mark.parametrize("left_out", [0, 3, 6])
def test_a_neighbour_that_comes_and_goes_does_not_hide_for_long_what_a_row_costs(overhead, left_out):
    """The pace explains each batch on its own, but not all of them: large batches take longer, so rows cost time."""
    model = fresh()
    model.begin_run()
    for number, (n, k, busy) in enumerate(RECORDED[left_out:], start=left_out):
        costs = model.update(arrived_rows=n, kept_rows=k, busy_s=busy, overhead_s=overhead)
        if number >= 13:
            assert 8e-6 < costs.cost_s < 80e-6, number
            assert costs.skip_s < 6e-6, number


@pytest.mark.parametrize("overhead", [math.nan, math.inf, -math.inf])
def test_an_overhead_that_is_no_number_leaves_the_batch_out(overhead):
    model = fresh()
    before = feed(model, [20_000, 40_000], fixed=0.3, cost=12e-6)
    assert model.update(arrived_rows=1_000, kept_rows=1_000, busy_s=1.0, overhead_s=overhead) == before
