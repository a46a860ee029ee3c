"""Neighbours, cold JVMs, stalls and crashes: the machine against brute force, and the engine on it by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import CostModelConfig, Decision, make
from spillway.errors import SpillwayError
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Rates, Times
from spillway.sim import BatchedEngine, Machine

factors = st.lists(st.floats(1.0, 20.0), min_size=1, max_size=12)


def done_at(slowdown, begin_s, work_s, dt=0.001):
    """Do a little of the work in each millisecond, until it is done."""
    values, step_s = slowdown.costs_s, slowdown.step_s
    now, left = begin_s, work_s
    while left > 0.0:
        pace = values[min(int(now / step_s), len(values) - 1)]
        left -= dt / pace
        now += dt
    return now


@given(
    values=factors,
    step_s=st.sampled_from([0.25, 0.5, 2.0]),
    begin_s=st.floats(0.0, 30.0),
    work_s=st.floats(0.0, 3.0),
)
def test_work_takes_as_long_as_done_bit_by_bit(values, step_s, begin_s, work_s):
    machine = Machine(slowdown=CostTrace(tuple(values), step_s=step_s))
    expected = done_at(machine.slowdown, begin_s, work_s)
    assert machine.end_s(begin_s, work_s) == pytest.approx(expected, abs=0.002 + 0.03 * max(values))


@given(values=factors, begin_s=st.floats(0, 20), one=st.floats(0, 3), two=st.floats(0, 3))
def test_work_may_be_done_in_parts(values, begin_s, one, two):
    machine = Machine(slowdown=CostTrace(tuple(values), step_s=0.7))
    assert machine.end_s(machine.end_s(begin_s, one), two) == pytest.approx(machine.end_s(begin_s, one + two))
    assert machine.end_s(begin_s, one + two) >= begin_s + one + two - 1e-9


def test_a_machine_of_its_own_changes_nothing():
    assert Machine().end_s(3.0, 4.0) == 7.0
    assert Machine().cold(0) == 1.0
    assert Machine().stall(np.random.default_rng(0)) == 0.0


def test_a_cold_jvm_warms_up():
    machine = Machine(cold_factor=4.0, cold_batches=3.0)
    assert machine.cold(0) == 4.0
    assert machine.cold(3) == pytest.approx(1.0 + 3.0 / math.e)
    assert machine.cold(60) == pytest.approx(1.0, abs=1e-6)


def test_stalls_come_as_often_and_take_as_long_as_said():
    machine, chance = Machine(stall_chance=0.2, stall_s=0.5), np.random.default_rng(1)
    drawn = np.array([machine.stall(chance) for _ in range(5000)])
    assert np.mean(drawn > 0.0) == pytest.approx(0.2, abs=0.02)
    assert drawn[drawn > 0.0].mean() == pytest.approx(0.5, abs=0.03)
    assert drawn.max() <= 1.0


class KeepAll:
    def step(self, sample):  # noqa: ARG002
        return Decision()

    def retarget(self, target_delay_s): ...

    def snapshot(self):
        return {}


def test_the_batches_of_a_run_by_hand():
    """A row every 10 s, a batch of 1 s each: four times as slow at first, and beside neighbours from 20 s on."""
    machine = Machine(
        slowdown=CostTrace((1.0, 1.0, 3.0, 3.0), step_s=10.0), cold_factor=4.0, cold_batches=1.0
    )
    engine = BatchedEngine(cost=constant(0.5), fixed_s=0.5, machine=machine)
    samples = engine.run(Times(np.array([0.0, 10.0, 20.0, 30.0])), KeepAll(), 3.0).samples
    cold = [1.0 + 3.0 * math.exp(-batch) for batch in range(4)]
    expected = [cold[0], cold[1], 3.0 * cold[2], 3.0 * cold[3]]
    assert [sample.busy_s for sample in samples] == pytest.approx(expected)
    assert samples[0].waited_s is None
    assert [sample.waited_s for sample in samples[1:]] == pytest.approx([10.0] * 3)
    assert [sample.idle_s for sample in samples[1:]] == pytest.approx([10.0 - busy for busy in expected[:3]])


def test_a_crash_repeats_the_batch_and_finds_the_backlog():
    """Killed at 2.5 s in the batch cut at 2 s: it runs again at 12.5 s, cold, and ten seconds wait behind it."""
    machine = Machine(cold_factor=2.0, cold_batches=1e-3, killed_at_s=2.5, down_s=10.0)
    engine = BatchedEngine(cost=constant(0.001), fixed_s=0.999, machine=machine)
    arrivals = np.array([0.0, 2.0, *np.arange(3.0, 13.0)])
    outcome = engine.run(Times(arrivals), KeepAll(), 3.0)
    first, second, third = outcome.samples
    assert first.at_s == pytest.approx(2.0), "a cold batch of two seconds"
    assert (second.arrived_rows, second.busy_s, second.at_s) == (1, pytest.approx(2.0), pytest.approx(14.5))
    assert third.arrived_rows == 10
    assert third.busy_s == pytest.approx(1.009), "warm again"
    assert outcome.delay_s[1] == pytest.approx(12.5)


class Knows:
    """Keeps what fits half of the target at the true costs and the pace of the batch before; a sixth at least."""

    def __init__(self, target_s, fixed_s, cost_s):
        self.target_s, self.fixed_s, self.cost_s, self.pace = target_s, fixed_s, cost_s, 1.0

    def step(self, sample):
        if sample.busy_s:
            self.pace = sample.busy_s / (self.fixed_s + self.cost_s * sample.kept_rows)
        room = max(self.target_s / 2.0 - self.pace * self.fixed_s, self.target_s / 6.0)
        return Decision(queue_limit_rows=room / (self.pace * self.cost_s), target_delay_s=self.target_s)

    def retarget(self, target_delay_s): ...

    def snapshot(self):
        return {}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cold_factor", [2.5, 5.0])
def test_a_restart_in_a_burst_keeps_most_of_what_one_keeps_that_knows_the_costs(seed, cold_factor):
    y, fixed, cost = 3.0, 0.4, 200e-6
    full = (1.0 - 2.0 * fixed / y) / cost
    trace = Rates((0.5 * full, 3.0 * full), (30.0, 60.0))
    machine = Machine(cold_factor=cold_factor, killed_at_s=45.0, down_s=20.0)
    options = {"cost": constant(cost), "fixed_s": fixed, "noise": 0.05, "machine": machine, "seed": seed}
    ours = BatchedEngine(**options, estimate=CostModelConfig()).run(
        trace, make("deadline", target_delay_s=y, engine="batched"), y
    )
    reference = BatchedEngine(**options, lag_batches=0).run(trace, Knows(y, fixed, cost), y)

    def kept(outcome):
        after = [sample.kept_rows for sample in outcome.samples if sample.at_s > 65.0]
        return after[1:11]

    assert sum(kept(ours)) >= 0.8 * sum(kept(reference))
    assert min(kept(ours)) > 0.1 * min(kept(reference)), "and no batch is starved"


@pytest.mark.parametrize(
    "options",
    [
        {"cold_factor": 0.5},
        {"stall_s": -1.0},
        {"stall_chance": math.nan},
        {"down_s": math.inf},
        {"cold_batches": 0.0},
        {"slowdown": CostTrace((1.0, 0.5))},
    ],
)
def test_a_machine_that_cannot_be_is_refused(options):
    with pytest.raises(SpillwayError, match=next(iter(options))):
        Machine(**options)
