"""The micro-batch engine: batches follow each other, rows leave with theirs, decisions come late."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import CostModelConfig, Decision, make
from spillway.errors import SpillwayError
from spillway.replay.costs import CostTrace, constant
from spillway.replay.generators import burst
from spillway.replay.traces import Rates, Times
from spillway.sim import BatchedEngine, Targets, measure


class Script:
    def __init__(self, *decisions):
        self.decisions, self.samples, self.targets = list(decisions) or [Decision()], [], []

    def step(self, sample):
        self.samples.append(sample)
        return self.decisions[min(len(self.samples), len(self.decisions)) - 1]

    def retarget(self, target_delay_s):
        self.targets.append(target_delay_s)

    def snapshot(self):
        return {}


def slow_batches(arrivals, cost_s, fixed_s, trigger_s):
    """Return every row's delay with nothing shed, one batch after the other."""
    left, delays, cut, done = list(arrivals), [], -np.inf, 0.0
    while left:
        cut = max(done, cut + trigger_s, left[0])
        batch = [a for a in left if a <= cut]
        left = left[len(batch) :]
        done = cut + fixed_s + cost_s * len(batch)
        delays += [done - a for a in batch]
    return delays


@given(
    gaps=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50),
    cost_s=st.floats(0.001, 0.5),
    fixed_s=st.floats(0.0, 1.0),
    trigger_s=st.sampled_from([0.0, 0.7]),
)
def test_rows_leave_with_their_batch(gaps, cost_s, fixed_s, trigger_s):
    arrivals = np.cumsum(gaps)
    engine = BatchedEngine(cost=constant(cost_s), fixed_s=fixed_s, trigger_s=trigger_s)
    outcome = engine.run(Times(arrivals), Script(), 2.0)
    np.testing.assert_allclose(outcome.delay_s, slow_batches(arrivals, cost_s, fixed_s, trigger_s))
    assert sum(s.arrived_rows for s in outcome.samples) == len(arrivals)


def test_the_sample_of_a_batch():
    engine = BatchedEngine(cost=constant(0.1), fixed_s=1.0, skip_s=0.01, headroom=0.5, lag_batches=0)
    script = Script(Decision(), Decision(queue_limit_rows=5.0))
    outcome = engine.run(Rates((10.0,), (20.0,)), script, 2.0)
    first, second = outcome.samples[:2]
    assert (script.samples[0].cost_s, script.samples[0].period_s) == (None, 0.0)
    assert (first.arrived_rows, first.kept_rows, first.busy_s) == (1, 1, pytest.approx(1.2))
    assert (first.cost_s, first.skip_s, first.fixed_s) == (0.2, 0.02, 1.0)
    assert second.arrived_rows == first.backlog_rows == 12
    dropped = second.arrived_rows - second.kept_rows
    assert second.busy_s == pytest.approx(1.0 + 0.2 * second.kept_rows + 0.02 * dropped)
    assert second.at_s == pytest.approx(0.1 + 1.2 + second.busy_s)


def test_decisions_take_effect_after_the_lag():
    script = [Decision(), Decision(keep_ratio=0.0)]
    for lag in (0, 1, 3):
        engine = BatchedEngine(cost=constant(0.001), fixed_s=0.5, lag_batches=lag)
        samples = engine.run(Rates((100.0,), (10.0,)), Script(*script), 2.0).samples
        assert [s.kept_rows > 0 for s in samples[:8]] == [True] * (1 + lag) + [False] * (7 - lag)


@pytest.mark.parametrize("lag", [0, 1, 3])
@pytest.mark.parametrize("fixed_s", [0.05, 0.6])
def test_deadline_holds_a_burst_that_runs_away_without_it(lag, fixed_s):
    engine = BatchedEngine(cost=constant(1e-3), fixed_s=fixed_s, skip_s=1e-5, lag_batches=lag)
    trace = burst(capacity=700, calm_s=20, burst_s=30)
    plain = measure(engine.run(trace, make("none", target_delay_s=3.0), 3.0))
    held = measure(engine.run(trace, make("deadline", target_delay_s=3.0, engine="batched"), 3.0))
    assert plain.overshoot_s > 30.0
    assert held.late_rows <= 0.01 * held.delivered_rows
    assert held.overshoot_s < 0.3
    assert held.delivered_rows > 0.75 * 700 * 80 * 0.6


def test_a_cost_that_triples_is_learnt_in_a_few_batches():
    cost = CostTrace([1e-3] * 30 + [3e-3] * 30)
    engine = BatchedEngine(cost=cost, fixed_s=0.2, lag_batches=2)
    outcome = engine.run(
        Rates((3000.0,), (60.0,)),
        make("deadline", target_delay_s=3.0, engine="batched", cold_cost_s=1e-3),
        3.0,
    )
    late = outcome.arrival_s[outcome.delivered & (outcome.delay_s > 3.0)]
    assert late.size
    assert late.min() > 25.0
    after = outcome.delivered & (outcome.arrival_s > 40.0)
    assert np.mean(outcome.delay_s[after] <= 3.0) > 0.97
    assert outcome.delay_s[after].max() < 3.3


@pytest.mark.parametrize("seed", range(3))
def test_deadline_holds_a_burst_with_estimated_costs_and_noisy_batches(seed):
    """The whole loop as on Spark: sizes and times go into a cost model, its estimates to the controller."""
    engine = BatchedEngine(
        cost=constant(20e-6),
        fixed_s=0.35,
        skip_s=0.4e-6,
        lag_batches=2,
        noise=0.08,
        estimate=CostModelConfig(),
        seed=seed,
    )
    trace = burst(capacity=40_000, calm_s=30, burst_s=20)
    held = measure(engine.run(trace, make("deadline", target_delay_s=3.0, engine="batched"), 3.0))
    assert held.late_rows <= 0.03 * held.delivered_rows
    assert held.overshoot_s < 0.6
    assert held.loss_ratio < 0.75


IDLE_COSTS = [1e-6, 5e-6, 10e-6, 100e-6, 1e-3]


def idle_rate(target_s, trigger_s, fixed_s, cost_s, load):
    """Rows a second, as a share of what is in time with that trigger, or of the capacity where nothing can be."""
    wait = max(trigger_s, target_s / 2.0)
    in_time = target_s - wait - fixed_s if trigger_s + fixed_s < target_s else math.inf
    return load * min(in_time, wait - fixed_s) / wait / cost_s


@pytest.mark.few
@pytest.mark.parametrize("load", [0.1, 0.5, 0.7])
@pytest.mark.parametrize("trigger_s", [0.0, 1.0, 2.0, 3.0, 5.0, 10.0])
@pytest.mark.parametrize("fixed_s", [0.1, 0.3, 0.8])
def test_nothing_is_lost_where_everything_fits_or_nothing_helps_from_the_first_batch_on(
    fixed_s, trigger_s, load
):
    """All costs of a row at which a whole batch is within what the cold start allows, with estimated costs."""
    y, lost = 3.0, {}
    for cost_s in IDLE_COSTS:
        rate = idle_rate(y, trigger_s, fixed_s, cost_s, load)
        batch_rows = rate * max(trigger_s, y / 2.0)
        helps = trigger_s + fixed_s < y
        if rate <= 0.0 or batch_rows > 300_000 or (helps and batch_rows * 10e-6 > 0.4 * y):
            continue
        engine = BatchedEngine(
            cost=constant(cost_s),
            fixed_s=fixed_s,
            skip_s=0.02 * cost_s,
            trigger_s=trigger_s,
            estimate=CostModelConfig(),
        )
        trace = Rates((rate,), (max(8 * trigger_s, 15.0),))
        samples = engine.run(trace, make("deadline", target_delay_s=y, engine="batched"), y).samples
        short = [(number, s.kept_rows, s.arrived_rows) for number, s in enumerate(samples)]
        lost[cost_s] = [batch for batch in short if batch[1] < batch[2]]
    assert lost
    assert {cost_s: batches for cost_s, batches in lost.items() if batches} == {}


def test_what_is_told_of_waits():
    """Every 2 s a batch of 1.2 s: rows wait 2 s, of which the query is idle for 0.8 s."""
    engine = BatchedEngine(cost=constant(0.01), fixed_s=1.0, trigger_s=2.0)
    samples = engine.run(Rates((10.0,), (20.0,)), Script(), 2.0).samples
    assert (samples[0].waited_s, samples[1].waited_s) == (None, pytest.approx(2.0))
    assert [sample.idle_s for sample in samples[2:-1]] == pytest.approx([0.8] * len(samples[2:-1]))
    back_to_back = BatchedEngine(cost=constant(0.01), fixed_s=1.0)
    samples = back_to_back.run(Rates((10.0,), (20.0,)), Script(), 2.0).samples
    assert [sample.idle_s for sample in samples[1:-1]] == pytest.approx([0.0] * len(samples[1:-1]))
    assert [sample.waited_s for sample in samples[1:]] == pytest.approx([s.busy_s for s in samples[:-1]])


def test_a_change_of_target_is_passed_on():
    script = Script()
    BatchedEngine(fixed_s=0.5).run(Rates((10.0,), (9.0,)), script, Targets(((0.0, 1.0), (4.0, 2.0))))
    assert script.targets == [2.0]


@pytest.mark.parametrize(
    "options", [{"fixed_s": -1.0}, {"skip_s": float("nan")}, {"headroom": 0.0}, {"lag_batches": -1}]
)
def test_an_engine_that_cannot_be_is_refused(options):
    with pytest.raises(SpillwayError, match=next(iter(options))):
        BatchedEngine(**options)
