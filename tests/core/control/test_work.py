"""Work budgets: seconds turned into units, and a join in virtual time that keeps its target with them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core import control
from spillway.core.control import CostModelConfig, Decision, Sample, UnitCostConfig
from spillway.errors import SpillwayError

TARGET_S, FIXED_S, ROW_S = 3.0, 0.4, 8e-6
WINDOW_S = 20.0


def join(
    rate: Callable[[float], float], unit_s: Callable[[float], float], duration_s: float, seed: int = 0
) -> list[tuple[float, float, float, float]]:
    """Run batches of a join back to back; return for each when it ended, its worst delay, demand and spent units."""
    chance = random.Random(seed)
    controller = control.make("deadline", target_delay_s=TARGET_S, headroom=1.0, engine="batched")
    costs, unit = CostModelConfig().build(), UnitCostConfig().build()
    nothing = Sample(at_s=0.0, period_s=0.0, arrived_rows=0, kept_rows=0, unit_s=unit.unit_s)
    in_force = controller.step(nothing)
    waiting: list[Decision] = []
    now, since, seen = 0.5, 0.0, []
    while now < duration_s:
        rows = math.floor(rate(now) * (now - since))
        demand = rows * rate(now) * WINDOW_S
        spent = min(demand, in_force.work_budget_for(rows) or 0.0)
        work = spent * unit_s(now) * math.exp(chance.gauss(0.0, 0.05))
        busy = (FIXED_S + ROW_S * rows) * math.exp(chance.gauss(0.0, 0.05)) + work
        begun, now, since = since, now + busy, now
        seen.append((now, now - begun, demand, spent))
        learned = costs.update(arrived_rows=rows, kept_rows=rows, busy_s=busy - work)
        sample = Sample(
            at_s=now,
            period_s=busy,
            arrived_rows=rows,
            kept_rows=rows,
            cost_s=None if learned is None else learned.cost_s,
            fixed_s=0.0 if learned is None else learned.fixed_s,
            busy_s=busy,
            worst_delay_s=now - begun,
            unit_s=unit.update(units=spent, work_s=work),
            work_s=work,
        )
        waiting.append(controller.step(sample))
        if len(waiting) > 1:
            in_force = waiting.pop(0)
    return seen


def test_a_join_keeps_its_target_through_a_burst_and_uses_the_time_it_has() -> None:
    ran = join(lambda t: 500.0 if t < 60 or t > 160 else 20_000.0, lambda _: 3e-9, 220.0)
    late = [delay for at, delay, *_ in ran if at > 10.0 and delay > 1.05 * TARGET_S]
    assert len(late) <= 2, "at most the batches in which the burst begins"
    burst = [(delay, demand, spent) for at, delay, demand, spent in ran if 80 < at < 160]
    assert all(spent < 0.05 * demand for _, demand, spent in burst)
    assert sum(delay for delay, *_ in burst) / len(burst) > 0.7 * TARGET_S
    calm = [(demand, spent) for at, _, demand, spent in ran if 10 < at < 55 or at > 180]
    assert all(spent == demand for demand, spent in calm), "nothing is shed that need not be"


def test_units_that_get_dearer_are_noticed_at_once() -> None:
    ran = join(lambda _: 20_000.0, lambda t: 2e-9 if t < 60 else 10e-9, 150.0)
    late = [delay for at, delay, *_ in ran if at > 10.0 and delay > 1.05 * TARGET_S]
    assert len(late) <= 4
    assert max(late) < 3.5 * TARGET_S


def test_the_first_batch_is_safe() -> None:
    controller = control.make("deadline", target_delay_s=2.0, engine="batched")
    unit = UnitCostConfig().build()
    decision = controller.step(
        Sample(at_s=0.0, period_s=0.0, arrived_rows=0, kept_rows=0, unit_s=unit.unit_s)
    )
    assert decision.work_budget is not None
    assert decision.work_budget * 50e-9 < 1.0


def test_a_query_without_operators_has_no_budget() -> None:
    controller = control.make("deadline", target_delay_s=2.0, engine="batched")
    decision = controller.step(Sample(at_s=1.0, period_s=1.0, arrived_rows=10, kept_rows=10, cost_s=1e-3))
    assert decision.work_budget is None
    assert decision.work_budget_for(100) is None
    assert "unit of work" not in decision.reason


def test_fixed_can_fix_the_work_alone() -> None:
    fixed = control.make("fixed", target_delay_s=2.0, work_budget=1000.0)
    decision = fixed.step(Sample(at_s=0.0, period_s=1.0, arrived_rows=50, kept_rows=50))
    assert (decision.keep_ratio, decision.work_budget, decision.work_budget_for(1e9)) == (1.0, 1000.0, 1000.0)
    assert "1,000 units of work" in decision.reason
    with pytest.raises(SpillwayError, match="work_budget"):
        control.make("fixed", target_delay_s=2.0, work_budget=-1.0)


@pytest.mark.parametrize(("units", "work_s"), [(1.0, 0.0091), (20_000.0, 2.0)])
def test_one_slow_batch_does_not_starve_those_that_follow(units: float, work_s: float) -> None:
    unit = UnitCostConfig().build()
    unit.update(units=units, work_s=work_s)
    for _ in range(20):  # spend a second's budget on units of 10 ns, a millisecond a call
        budget = 1.0 / unit.unit_s
        unit.update(units=budget, work_s=0.001 + 10e-9 * budget)
    assert 8e-9 < unit.unit_s < 20e-9


def test_units_that_get_fifty_thousand_times_as_dear_are_not_left_out() -> None:
    """Batches of one size leave open whether the call or its units got dear, so both are taken to be."""
    unit = UnitCostConfig().build()
    for units in (1e7, 5e7, 2e7) * 5:
        unit.update(units=units, work_s=0.002 + 2e-9 * units)
    for _ in range(30):
        unit.update(units=10_000.0, work_s=1.0)
    assert unit.unit_s > 1_000 * 2e-9


@pytest.mark.parametrize("call_s", [0.001, 0.02, 0.2])
def test_the_time_of_a_call_is_not_booked_on_units(call_s: float) -> None:
    """Small batches, whose time is nearly all call, after large ones and before them."""
    chance = random.Random(3)
    for first in (True, False):
        unit = UnitCostConfig().build()
        sizes = [100.0] * 20 + [chance.uniform(1e7, 1e8) for _ in range(20)]
        for units in sizes if first else sizes[::-1]:
            unit.update(units=units, work_s=(call_s + 5e-9 * units) * math.exp(chance.gauss(0.0, 0.03)))
        assert 4e-9 < unit.unit_s < 9e-9


@pytest.mark.parametrize("factor", [5.0, 20.0])
def test_dearer_units_are_noticed_in_the_next_batch(factor: float) -> None:
    unit = UnitCostConfig().build()
    for _ in range(20):
        unit.update(units=5e7, work_s=0.002 + 5e-9 * 5e7)
    unit.update(units=5e7, work_s=0.002 + factor * 5e-9 * 5e7)
    assert unit.unit_s > 0.7 * factor * 5e-9


numbers = st.floats(0.0, 1e300, allow_nan=False)


@given(st.lists(st.tuples(numbers, numbers), max_size=20))
def test_a_unit_costs_something_finite_whatever_was_measured(batches: list[tuple[float, float]]) -> None:
    unit = UnitCostConfig().build()
    for units, work_s in batches:
        before = unit.snapshot()
        cost = unit.update(units=units, work_s=work_s)
        assert 0.0 < cost < math.inf
        assert UnitCostConfig().build(before).update(units=units, work_s=work_s) == cost
