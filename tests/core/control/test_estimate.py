"""CostModel and CostMeter: true parameters from noisy batches, and sense where the data say nothing."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.control import CostMeterConfig, CostModel, CostModelConfig
from spillway.core.control.estimate import _bounded
from spillway.errors import SpillwayError


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
    assert costs.fixed_s == pytest.approx(fixed, abs=0.05 + 0.1 * fixed)


def test_it_finds_all_three_where_rows_are_dropped():
    costs = feed(fresh(), sizes(1_000, 2_000_000, 40), keep=30_000, noise=0.03)
    assert costs.fixed_s == pytest.approx(0.3, abs=0.06)
    assert costs.cost_s == pytest.approx(12e-6, rel=0.2)
    assert costs.skip_s == pytest.approx(0.5e-6, rel=0.2)


@pytest.mark.parametrize("cost", [2e-6, 12e-6, 200e-6])
def test_batches_of_one_size_split_their_time_between_batch_and_rows(cost):
    costs = feed(fresh(), [50_000] * 40, cost=cost)
    assert costs.busy_s(50_000, 50_000) == pytest.approx(0.3 + 50_000 * cost, rel=0.1)
    assert 0.3 * cost < costs.cost_s < 5.0 * cost


@pytest.mark.parametrize("rows", [1, 10, 100])
def test_tiny_batches_make_rows_neither_absurdly_dear_nor_free(rows):
    costs = feed(fresh(), [rows] * 60, fixed=0.4, noise=0.1)
    assert 1e-6 < costs.cost_s < 1e-3
    assert costs.fixed_s == pytest.approx(0.4, rel=0.15)


def test_one_large_batch_after_tiny_ones_tells_what_a_row_costs():
    model = fresh()
    feed(model, [10] * 40, fixed=0.4)
    assert feed(model, [70_000], fixed=0.4).cost_s == pytest.approx(12e-6, rel=0.4)


def test_a_cost_learnt_from_large_batches_outlives_a_night_of_tiny_ones():
    model = fresh()
    feed(model, sizes(1_000, 80_000, 40), cost=50e-6)
    assert feed(model, [10] * 500).cost_s == pytest.approx(50e-6, rel=0.3)


@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_jump_of_the_cost_is_learnt_within_five_batches(factor, seed):
    model = fresh()
    feed(model, sizes(5_000, 40_000, 40), cost=30e-6)
    costs = feed(model, sizes(5_000, 40_000, 5, seed=99 + seed), cost=factor * 30e-6, seed=seed)
    assert abs(math.log(costs.cost_s / (factor * 30e-6))) < math.log(1.5)
    assert costs.busy_s(30_000, 30_000) == pytest.approx(0.3 + factor * 30_000 * 30e-6, rel=0.15)


def test_a_single_pause_is_not_believed():
    model = fresh()
    before = feed(model, [40_000, 38_000, 41_000, 20_000, 43_000] * 4)
    after = model.update(arrived_rows=40_000, kept_rows=40_000, busy_s=10.0)
    assert after.cost_s == pytest.approx(before.cost_s, rel=0.15)
    assert after.fixed_s == pytest.approx(before.fixed_s, abs=0.15)


def test_a_cold_batch_is_left_out():
    model = fresh()
    assert model.update(arrived_rows=1000, kept_rows=1000, busy_s=9.0, warm=False) is None
    costs = feed(model, sizes(1_000, 80_000, 10), noise=0.0)
    assert model.update(arrived_rows=50_000, kept_rows=50_000, busy_s=9.0, warm=False) == costs


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
@settings(max_examples=20)
def test_no_batch_whatever_breaks_it_and_it_recovers(batches):
    model = fresh()
    for n, k, busy, warm in batches:
        costs = model.update(arrived_rows=n, kept_rows=k, busy_s=busy, warm=warm)
        if costs is not None:
            assert all(math.isfinite(x) for x in (costs.fixed_s, costs.cost_s, costs.skip_s))
            assert costs.cost_s > 0.0
            assert 0.0 <= costs.skip_s <= costs.cost_s
            assert costs.fixed_s >= 0.0
        json.dumps(model.snapshot(), allow_nan=False)
    costs = feed(model, sizes(2_000, 80_000, 45), noise=0.02)
    assert costs.cost_s == pytest.approx(12e-6, rel=0.3)


@given(split=st.integers(0, 30), seed=st.integers(0, 10))
@settings(max_examples=8)
def test_any_split_gives_the_same_estimates(split, seed):
    whole, parts = fresh(), fresh()
    random_ = random.Random(seed)
    for number in range(30):
        if number == split:
            parts = CostModelConfig().build(json.loads(json.dumps(parts.snapshot())))
        n, busy = random_.randint(0, 50_000), random_.uniform(0.1, 2.0)
        batch = {"arrived_rows": n, "kept_rows": n // 2, "busy_s": busy}
        assert whole.update(**batch) == parts.update(**batch)
    assert whole.snapshot() == parts.snapshot()


def test_its_memory_is_bounded():
    model = fresh(memory_batches=7)
    feed(model, sizes(1_000, 50_000, 50))
    assert len(model.state.batches) <= 7


def test_the_bounded_solver_finds_the_least_of_a_grid():
    """Oracle: no point of a fine grid within the bounds has a lower objective."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        columns = rng.normal(size=(6, 3))
        gram = columns.T @ columns + 0.05 * np.eye(3)
        right = rng.normal(size=3) * 2.0
        most = [0.8, math.inf, math.inf]
        found = _bounded(gram, right, np.linalg.inv(gram), most)
        axes = [np.linspace(0.0, 0.8, 33), np.linspace(0.0, 4.0, 81), np.linspace(0.0, 4.0, 81)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        values = 0.5 * np.einsum("ni,ij,nj->n", grid, gram, grid) - grid @ right
        best = 0.5 * found @ gram @ found - right @ found
        assert np.all(found >= 0.0)
        assert found[0] <= 0.8
        assert best <= values.min() + 1e-9


@pytest.mark.parametrize(
    "wrong", [{"cold_cost_s": 0.0}, {"cold_fixed_s": -1.0}, {"cold_skip_s": math.nan}, {"memory_batches": 2}]
)
def test_wrong_options_raise(wrong):
    with pytest.raises(SpillwayError, match=next(iter(wrong))):
        CostModelConfig(**wrong)


def test_a_foreign_state_is_refused():
    state = fresh().snapshot()
    for wrong in (
        {**state, "kind": "ctrl"},
        {**state, "batches": [[1.0, math.nan, 2.0]]},
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
        costs = model.update(arrived_rows=9_000, kept_rows=kept, busy_s=8.0 + 30e-6 * kept)
    assert costs.fixed_s == pytest.approx(8.0, rel=0.1)
    assert costs.cost_s < 100e-6
