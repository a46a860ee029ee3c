"""CTRL, BASELINE and AURORA where a period is a micro-batch: stable at every lag, and the same law as at fixed T."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from spillway.core.control import CostModelConfig, Decision, Sample, make
from spillway.core.control.base import CostState
from spillway.core.control.ctrl import CtrlConfig
from spillway.core.control.signals import BatchSignals, signals
from spillway.errors import SpillwayError
from spillway.replay.costs import CostTrace, constant
from spillway.replay.generators import burst
from spillway.replay.traces import Rates
from spillway.sim import BatchedEngine, Outcome

Y_D, C = 3.0, 1e-3
SHORT, LONG = 0.05 * Y_D, 0.25 * Y_D  # fixed time of a batch
LAWS = ("ctrl", "baseline", "aurora")
CALM_S, BURST_S = 20.0, 30.0

lags = pytest.mark.parametrize("lag", [0, 1, 2])
fixed_times = pytest.mark.parametrize("fixed_s", [SHORT, LONG])
loads = pytest.mark.parametrize("load", [1.5, 4.0])
laws = pytest.mark.parametrize("law", LAWS)


def play(
    law: str, trace: Rates | None = None, *, load: float = 4.0, estimated: bool = True, **engine: Any
) -> Outcome:
    """Half of the capacity, a burst, half again; with the costs that a cost model makes of the batches."""
    trace = trace or burst(capacity=1.0 / C, calm_s=CALM_S, burst_s=BURST_S, burst_ratio=load)
    options = {"cost": constant(C), "skip_s": 0.02 * C, "estimate": CostModelConfig() if estimated else None}
    return BatchedEngine(**{**options, **engine}).run(trace, make(law, target_delay_s=Y_D, headroom=1.0), Y_D)


def p99(outcome: Outcome) -> float:
    return float(np.percentile(outcome.delay_s[outcome.delivered], 99))


def kept(outcome: Outcome, from_s: float, to_s: float) -> float:
    """Share of the rows of a span of time that were delivered."""
    inside = (outcome.arrival_s >= from_s) & (outcome.arrival_s < to_s)
    return float(outcome.delivered[inside].mean())


def batch(busy_s: float, arrived: float, kept: float | None = None, **fields: Any) -> Sample:
    """A batch that followed at once on one of the same length."""
    kept = arrived if kept is None else kept
    return Sample(
        **{
            "at_s": 0.0,
            "period_s": busy_s,
            "arrived_rows": arrived,
            "kept_rows": kept,
            "cost_s": C,
            "busy_s": busy_s,
            "waited_s": busy_s,
            "finished_rows": kept,
            **fields,
        }
    )


def limit_of(decision: Decision) -> float:
    assert decision.queue_limit_rows is not None
    return decision.queue_limit_rows


# The whole loop


@pytest.mark.few
@laws
@lags
@fixed_times
@loads
def test_the_delay_stays_bounded_in_a_burst_after_a_calm(law, lag, fixed_s, load):
    outcome = play(law, load=load, fixed_s=fixed_s, lag_batches=lag, noise=0.05)
    assert p99(outcome) <= 3.0 * Y_D
    in_time = min((1.0 - 2.0 * fixed_s / Y_D) / load, 1.0)  # of the rows, in batches of half of the target
    assert kept(outcome, CALM_S, CALM_S + BURST_S) > 0.8 * in_time


@pytest.mark.few
@laws
@lags
def test_batches_do_not_grow_in_a_long_burst(law, lag):
    trace = burst(capacity=1.0 / C, calm_s=10.0, burst_s=90.0, burst_ratio=3.0)
    outcome = play(law, trace, fixed_s=SHORT, lag_batches=lag, noise=0.05)
    first, last = (
        np.mean([s.busy_s for s in outcome.samples if start < s.at_s < start + 30.0])
        for start in (40.0, 70.0)
    )
    assert last < 1.1 * first
    assert last < 0.75 * Y_D


@pytest.mark.parametrize("law", ["ctrl", "baseline"])
@lags
@fixed_times
def test_batches_settle_at_half_of_the_target(law, lag, fixed_s):
    outcome = play(law, load=4.0, fixed_s=fixed_s, lag_batches=lag, estimated=False)
    busy_s = [s.busy_s for s in outcome.samples if CALM_S + 20.0 < s.at_s < CALM_S + BURST_S]
    assert np.mean(busy_s) == pytest.approx(0.5 * Y_D, rel=0.05)
    assert np.allclose(busy_s, 0.5 * Y_D, rtol=0.1)  # rows are drawn


@pytest.mark.few
@laws
@lags
@fixed_times
def test_a_calm_winds_nothing_up_and_loses_nothing(law, lag, fixed_s):
    """However long it was, the first batches of the burst are the same, and not longer than wanted."""
    worst = []
    for calm_s in (20.0, 200.0):
        trace = Rates((0.3 / C, 4.0 / C), (calm_s, 10.0))
        outcome = play(law, trace, fixed_s=fixed_s, lag_batches=lag, estimated=False)
        assert kept(outcome, 0.0, calm_s - 2.0) == 1.0  # the last batch has rows of the burst
        worst.append(np.nanmax(outcome.delay_s))
    assert worst[1] == pytest.approx(worst[0], rel=0.1)
    assert max(worst) < 2.0 * Y_D


@laws
def test_a_neighbour_that_makes_everything_slower_is_followed(law):
    cost = CostTrace([C] * 35 + [2.5 * C] * 40)
    outcome = play(law, cost=cost, fixed_s=SHORT, lag_batches=1)
    assert p99(outcome) <= 3.0 * Y_D


@laws
def test_little_is_lost_to_a_trigger_interval_that_no_shedding_makes_up_for(law):
    trace = Rates((0.4 / C,), (150.0,))
    outcome = play(law, trace, fixed_s=SHORT, trigger_s=2.0 * Y_D, lag_batches=1)
    assert kept(outcome, 60.0, 150.0) > 0.99


# The law


def test_with_periods_of_one_length_rows_and_rates_are_the_same():
    """Equation 10 with u as a rate, beside the controller, with a cost and a headroom of a pipelined engine."""
    T, c, H = 0.4, 0.00526, 0.97
    controller = make("ctrl", target_delay_s=2.0, period_s=T, headroom=H)
    e_last = u_last = 0.0
    for q, f_in in ((0, 500), (300, 800), (420, 100), (500, 900), (10, 50), (0, 0), (700, 400)):
        decision = controller.step(
            Sample(at_s=0, period_s=T, arrived_rows=f_in * T, kept_rows=0, backlog_rows=q, cost_s=c)
        )
        e = 2.0 - (q + 1) * c / H
        u = H / (c * T) * (0.4 * e - 0.31 * e_last) + 0.8 * u_last
        v = u + H / c
        assert decision.admit_rows == pytest.approx(v * T, rel=1e-12)
        assert decision.queue_limit_rows is None
        e_last, u_last = e, u


def test_what_is_carried_over_to_a_longer_period_is_rows():
    """In a short period the queue may grow by 170 rows; in one ten times as long not by ten times as many."""
    controller = make("ctrl", target_delay_s=2.0, headroom=1.0)
    for _ in range(50):
        short = controller.step(Sample(at_s=0, period_s=0.1, arrived_rows=0, kept_rows=0, cost_s=0.005))
    long = controller.step(Sample(at_s=0, period_s=1.0, arrived_rows=0, kept_rows=0, cost_s=0.005))
    assert short.admit_rows == pytest.approx(0.45 * (2.0 - 0.005) / 0.005 + 0.1 / 0.005, rel=1e-3)
    assert long.admit_rows == pytest.approx(short.admit_rows + 0.9 / 0.005, rel=1e-3)


@fixed_times
def test_batches_follow_the_poles_that_were_placed(fixed_s):
    """In a lasting overload t(k+1) = t(k) + c u T is the paper's integrator: both poles lie at 0.7."""
    controller = make("ctrl", target_delay_s=Y_D, headroom=1.0)
    target_s, times = 0.5 * Y_D, [1.3]
    for _ in range(40):
        rows = (times[-1] - fixed_s) / C
        decision = controller.step(batch(times[-1], 1e6, rows, fixed_s=fixed_s))
        times.append(fixed_s + C * limit_of(decision))
    errors = target_s - np.array(times)
    np.testing.assert_allclose(errors[2:], 1.4 * errors[1:-1] - 0.49 * errors[:-2], atol=1e-9)
    assert abs(errors[-1]) < 1e-3


@pytest.mark.parametrize("law", ["ctrl", "baseline"])
@pytest.mark.parametrize("lag", range(7))
@pytest.mark.parametrize("dearer", [0.5, 1.0, 1.8])
def test_no_dead_time_makes_the_loop_swing_even_if_rows_cost_something_else(law, lag, dearer):
    controller = make(law, target_delay_s=Y_D, headroom=1.0)
    limits, times = [300.0] * (lag + 1), []
    for _ in range(60 * (lag + 1)):
        rows = limits.pop(0)
        times.append(SHORT + dearer * C * rows)
        limits.append(limit_of(controller.step(batch(times[-1], 1e6, rows, fixed_s=SHORT))))
    assert times[-1] == pytest.approx(0.5 * Y_D, rel=0.02)
    assert max(times) < Y_D


def test_baseline_fills_the_next_batch_to_half_of_the_target_from_any_batch():
    controller = make("baseline", target_delay_s=Y_D, headroom=1.0)
    for rows in (0.0, 100.0, 1200.0, 2500.0):
        decision = controller.step(batch(SHORT + C * rows, 1e6, rows, fixed_s=SHORT))
        assert limit_of(decision) == pytest.approx((0.5 * Y_D - SHORT) / C)


def test_aurora_goes_by_the_capacity_of_batches_as_long_as_they_should_be_or_were():
    controller = make("aurora", target_delay_s=Y_D, headroom=1.0)
    capacity = (1.0 - 2.0 * SHORT / Y_D) / C
    for busy_s in (0.3, 1.5, 6.0):
        decision = controller.step(batch(busy_s, 1e6, (busy_s - SHORT) / C, fixed_s=SHORT))
        assert limit_of(decision) == pytest.approx(capacity * max(busy_s, 0.5 * Y_D))


@laws
def test_the_batch_is_bounded_not_its_rate(law):
    """The size of a batch is known when it is cut, so no rate of an older one stands in for it."""
    decision = make(law, target_delay_s=Y_D, headroom=1.0).step(batch(0.4, 250, fixed_s=SHORT))
    assert decision.keep_ratio == 1.0
    limit = limit_of(decision)
    assert [decision.keep_ratio_for(n, waited_s=0.4) for n in (0.5 * limit, 2.0 * limit)] == [1.0, 0.5]


# What is measured


@pytest.mark.parametrize(("busy_s", "fixed_s"), [(0.5, 0.1), (1.5, 0.75), (6.0, 0.15)])
def test_the_headroom_is_identified_from_each_batch(busy_s, fixed_s):
    state = CostState(target_delay_s=Y_D)
    now = signals(
        batch(busy_s, (busy_s - fixed_s) / C, fixed_s=fixed_s),
        CtrlConfig(target_delay_s=Y_D, headroom=1.0),
        state,
    )
    assert isinstance(now, BatchSignals)
    assert now.headroom == pytest.approx(1.0 - fixed_s / busy_s)
    assert (now.T, now.y) == (busy_s, busy_s)
    assert now.leaving_rows == pytest.approx(now.headroom * now.T / now.c)


@laws
def test_dropped_rows_count_with_what_they_take(law):
    decision = make(law, target_delay_s=Y_D, headroom=1.0).step(
        batch(1.0, 5000, 500, fixed_s=SHORT, skip_s=0.1 * C)
    )
    assert decision.skip_cost == pytest.approx(0.1)


@laws
def test_rows_that_may_be_dear_are_let_in_bit_by_bit(law):
    """After ten rows in 0.15 s no cost is known: they are believed cheap, but that time may have been theirs."""
    sample = batch(SHORT, 10, fixed_s=SHORT, cost_s=1e-6, spread=4.0)
    limit = limit_of(make(law, target_delay_s=Y_D, headroom=1.0).step(sample))
    dearest_s = min(SHORT / 10, 1e-6 * np.exp(1.64 * 4.0))
    assert limit * dearest_s <= 1.5 * Y_D * 1.01
    sure = limit_of(
        make(law, target_delay_s=Y_D, headroom=1.0).step(batch(SHORT, 10, fixed_s=SHORT, cost_s=1e-6))
    )
    assert sure > 50.0 * limit


def test_what_was_wound_up_at_a_low_cost_is_unwound_when_rows_turn_out_dear():
    controller = make("ctrl", target_delay_s=Y_D, headroom=1.0)
    for _ in range(50):
        controller.step(batch(0.3, 150, fixed_s=SHORT, cost_s=C / 100))
    decision = controller.step(batch(0.3, 150, fixed_s=SHORT, cost_s=C))
    growth_s = C * (limit_of(decision) - 150)
    assert growth_s == pytest.approx(0.45 * (0.5 * Y_D - 0.3), rel=1e-3)


@laws
def test_rows_get_the_least_room_however_long_the_last_batch_took(law):
    for fixed_s in (SHORT, LONG, 0.7 * Y_D):
        decision = make(law, target_delay_s=Y_D, headroom=1.0).step(
            batch(5.0 * Y_D, 1e5, 10, fixed_s=fixed_s)
        )
        assert limit_of(decision) >= 0.12 * Y_D / C


@laws
def test_between_two_runs_something_sensible_is_decided(law):
    """A query that starts again asks before its first batch, with the costs that were learned before."""
    controller = make(law, target_delay_s=Y_D, headroom=1.0)
    nothing = Sample(at_s=0, period_s=0, arrived_rows=0, kept_rows=0, cost_s=C, fixed_s=SHORT)
    limit = limit_of(controller.step(nothing))
    assert 0.15 * Y_D / C <= limit <= 0.5 * Y_D / C


def test_a_state_of_before_is_refused():
    state = make("ctrl", target_delay_s=Y_D).snapshot()
    assert state["version"] == 2
    json.dumps(state)
    with pytest.raises(SpillwayError, match="version"):
        make("ctrl", target_delay_s=Y_D, state={**state, "version": 1})
