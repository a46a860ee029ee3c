"""The headroom and the cost, learnt while the engine runs."""

from __future__ import annotations

import numpy as np
import pytest

from spillway.core.control import CostMeterConfig, HeadroomMeterConfig, make
from spillway.replay.costs import CostTrace, varying
from spillway.replay.generators import pareto
from spillway.replay.traces import Rates
from spillway.sim import Engine, measure
from spillway.sim.headroom_watch import HeadroomWatch

TARGET_S = 2.0
FLAT = Rates((300.0,), (200.0,))


def settled_s(engine, believed, name="ctrl", trace=FLAT):
    """Return the median delay of the run's second half."""
    outcome = engine.run(trace, make(name, target_delay_s=TARGET_S, headroom=believed), TARGET_S)
    ends, y = outcome.delay_series_s()
    return float(np.nanmedian(y[ends > 0.5 * ends[-1]]))


@pytest.mark.parametrize("name", ["ctrl", "baseline"])
@pytest.mark.parametrize("shed", ["entry", "queue"])
@pytest.mark.parametrize(("true", "believed"), [(0.97, 0.6), (0.6, 1.0)])
def test_a_controller_that_is_wrong_about_the_headroom_comes_close_to_one_that_is_right(
    true, believed, shed, name
):
    plain = Engine(headroom=true, shed=shed)
    learning = Engine(headroom=true, shed=shed, headroom_meter=HeadroomMeterConfig(headroom=believed))
    right, wrong = settled_s(plain, true, name), settled_s(plain, believed, name)
    assert right == pytest.approx(TARGET_S, rel=0.05)
    assert abs(wrong - TARGET_S) > 0.2 * TARGET_S
    assert settled_s(learning, believed, name) == pytest.approx(right, rel=0.05)


@pytest.mark.parametrize("shed", ["entry", "queue"])
def test_it_learns_under_bursts_and_with_costs_that_vary(shed):
    trace, cost = pareto(mean=300, beta=0.5, duration_s=400, seed=3), varying(seed=3)
    learning = Engine(cost=cost, headroom=0.7, shed=shed, headroom_meter=HeadroomMeterConfig(headroom=1.0))
    plain = Engine(cost=cost, headroom=0.7, shed=shed)
    controllers = {H: make("ctrl", target_delay_s=TARGET_S, headroom=H) for H in (0.7, 1.0)}
    right = measure(plain.run(trace, controllers[0.7], TARGET_S)).acc_violation_s
    wrong = measure(plain.run(trace, controllers[1.0], TARGET_S)).acc_violation_s
    again = make("ctrl", target_delay_s=TARGET_S, headroom=1.0)
    learnt = measure(learning.run(trace, again, TARGET_S)).acc_violation_s
    assert learnt < 0.5 * (right + wrong)


def test_the_watch_pairs_a_delay_with_the_queue_that_its_rows_found():
    """Overload without shedding: the queue at the time of leaving is far longer than the one found."""
    watch = HeadroomWatch(HeadroomMeterConfig(headroom=1.0))
    outcome = Engine(headroom=0.8).run(FLAT, make("none", target_delay_s=TARGET_S), TARGET_S)
    told = [watch.told(sample) for sample in outcome.samples]
    assert watch.headroom == pytest.approx(0.8, abs=0.02)
    assert told[-1].cost_s * 0.8 == pytest.approx(outcome.samples[-1].cost_s, rel=0.03)


def test_nothing_is_learnt_from_rows_that_saw_load_taken_out_before_them():
    watch = HeadroomWatch(HeadroomMeterConfig(headroom=1.0))
    for sample in Engine(headroom=0.8).run(FLAT, make("none", target_delay_s=TARGET_S), TARGET_S).samples:
        watch.disturbed(sample.at_s)
        watch.told(sample)
    assert watch.headroom == 1.0


def test_without_a_meter_the_samples_are_what_they_were():
    plain, same = (
        Engine(headroom_meter=meter).run(FLAT, make("none", target_delay_s=TARGET_S), TARGET_S)
        for meter in (None, HeadroomMeterConfig(headroom=0.97, fade=0.0, trust_s=1e9))
    )
    assert [s.cost_s for s in same.samples] == pytest.approx([s.cost_s for s in plain.samples])


def test_a_cost_metered_from_outside_follows_the_true_one_and_holds_the_target():
    cost = CostTrace((0.005,) * 60 + (0.010,) * 60, step_s=1.0)
    engine = Engine(cost=cost, cost_meter=CostMeterConfig(smoothing=0.5))
    trace = Rates((300.0,), (120.0,))
    outcome = engine.run(trace, make("ctrl", target_delay_s=TARGET_S), TARGET_S)
    found = np.array([sample.cost_s for sample in outcome.samples])
    assert np.median(found[20:60]) == pytest.approx(0.005, rel=0.03)
    assert np.median(found[80:]) == pytest.approx(0.010, rel=0.03)
    assert settled_s(engine, 0.97, trace=trace) == pytest.approx(TARGET_S, rel=0.05)
