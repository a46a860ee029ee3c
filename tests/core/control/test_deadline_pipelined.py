"""DEADLINE on a pipelined engine, closed around a FIFO server written for this test."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.control import Controller, Decision, Sample, make
from tests.core.control import drawn_samples as draw

H, T, Y_D, C = 0.97, 1.0, 2.0, 0.005


@dataclass
class Outcome:
    """What became of the rows of a run: when they came and how long they took."""

    came_s: list[float]
    delays_s: list[float]
    arrived: int

    @property
    def violation_s(self) -> float:
        return sum(max(delay - Y_D, 0.0) for delay in self.delays_s)

    @property
    def lost(self) -> int:
        return self.arrived - len(self.delays_s)

    def worst_s(self, after_s: float) -> float:
        return max(y for t, y in zip(self.came_s, self.delays_s, strict=True) if t >= after_s)


def serve(
    controller: Controller,
    rate: Callable[[float], float],
    *,
    cost: Callable[[float], float] = lambda _: C,
    duration_s: int = 60,
    headroom: float = H,
    dead_periods: int = 0,
    noise: float = 0.0,
    seed: int = 0,
) -> Outcome:
    """Serve rows one by one, first come first served, each at the cost of the moment its service begins."""
    random_ = random.Random(seed)
    done_at: deque[float] = deque()  # of the admitted rows that are not done
    to_come: deque[Decision] = deque()
    out = Outcome([], [], 0)
    free_at = now = 0.0
    first = Sample(at_s=0, period_s=T, arrived_rows=0, kept_rows=0, cost_s=cost(0.0), finished_rows=0)
    decision = controller.step(first)
    for k in range(duration_s):
        end = (k + 1) * T
        limit = math.inf if decision.queue_limit_rows is None else decision.queue_limit_rows
        n = kept = done = 0
        while True:
            now = min(now + 1.0 / max(rate(now), 1e-9), end)
            while done_at and done_at[0] <= now:
                done_at.popleft()
                done += 1
            if now >= end:
                break
            n += 1
            if len(done_at) < limit and (
                decision.keep_ratio == 1.0 or random_.random() < decision.keep_ratio
            ):
                begins = max(free_at, now)
                free_at = begins + cost(begins) / headroom
                done_at.append(free_at)
                out.came_s.append(now)
                out.delays_s.append(free_at - now)
                kept += 1
        out.arrived += n
        measured = cost(end - 0.5 * T) * math.exp(random_.gauss(0.0, noise))
        to_come.append(
            controller.step(
                Sample(
                    at_s=end,
                    period_s=T,
                    arrived_rows=n,
                    kept_rows=kept,
                    backlog_rows=len(done_at),
                    cost_s=measured if done else None,
                    finished_rows=done,
                )
            )
        )
        if len(to_come) > dead_periods:
            decision = to_come.popleft()
    return out


def deadline(**options: object) -> Controller:
    return make("deadline", target_delay_s=Y_D, **options)


def least_loss(arrived: int, seconds: float, cost: float = C) -> float:
    """Rows that nobody could have served in a steady overload: all but the capacity and one full queue."""
    return arrived - (seconds + Y_D) * H / cost


def test_a_steady_overload_makes_no_row_late_and_loses_what_must_be_lost():
    out = serve(deadline(), lambda _: 500.0)
    assert out.violation_s == 0.0
    # The queue that is left at the end is all that caution can have cost.
    assert out.lost <= least_loss(out.arrived, 60.0) + Y_D * H / C


def test_underload_loses_nothing():
    out = serve(deadline(), lambda _: 150.0)
    assert out.lost == 0
    assert out.violation_s == 0.0


def test_a_brief_burst_finds_the_whole_queue():
    """180 rows/s, then 2 s of 350: 312 more than can be served at once, which a queue of 380 holds."""
    out = serve(deadline(), lambda t: 350.0 if 20 <= t < 22 else 150.0)
    assert out.lost == 0
    assert out.violation_s == 0.0


def test_in_a_long_overload_the_queue_is_shortened_until_a_jump_makes_no_row_late():
    jump = lambda t: C if t < 90 else 3.0 * C  # noqa: E731
    plain = serve(make("ctrl", target_delay_s=Y_D), lambda _: 500.0, cost=jump, duration_s=120)
    out = serve(deadline(), lambda _: 500.0, cost=jump, duration_s=120)
    assert plain.violation_s > 1000.0
    assert out.violation_s < 0.01 * plain.violation_s


@pytest.mark.parametrize("dead_periods", [0, 1, 2, 3])
@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_costs_that_jump_tenfold_with_dead_time(dead_periods, factor):
    cost = lambda t: C if t < 30 else factor * C  # noqa: E731
    out = serve(deadline(), lambda _: 500.0, cost=cost, duration_s=90, dead_periods=dead_periods)
    assert out.worst_s(after_s=60.0) <= Y_D
    capacity = (30 + 60 / factor) * H / C if factor > 1 else 60 * 500.0 + 30 * H / C
    assert len(out.delays_s) >= 0.9 * min(capacity, out.arrived)


def test_noise_in_the_measured_cost_makes_few_rows_late():
    out = serve(deadline(), lambda _: 500.0, noise=0.2, duration_s=120)
    plain = serve(make("ctrl", target_delay_s=Y_D), lambda _: 500.0, noise=0.2, duration_s=120)
    assert out.violation_s < 0.05 * plain.violation_s
    assert out.lost <= 1.05 * plain.lost


def test_a_headroom_that_is_less_than_told_is_learnt():
    out = serve(deadline(), lambda _: 500.0, headroom=0.7, duration_s=120)
    assert out.worst_s(after_s=80.0) <= Y_D


def test_a_stall_then_a_burst():
    """No row for 40 s, then ten times the capacity: nothing has wound up meanwhile."""
    out = serve(deadline(), lambda t: 500.0 if t < 20 else (0.01 if t < 60 else 2000.0), duration_s=90)
    assert out.violation_s == 0.0


@given(caution=st.floats(0.0, 0.2), seed=st.integers(0, 1000), swing=st.floats(0.2, 2.0))
@settings(max_examples=8)
def test_caution_costs_no_more_than_its_share(caution, seed, swing):
    """The invariant: rows lost beyond those that no caution loses stay within caution · shed + first credit."""
    random_ = random.Random(seed)
    levels = [max(10.0, 194.0 * (1.0 + swing * random_.uniform(-1, 1))) for _ in range(30)]
    rate = lambda t: levels[min(int(t / 3), 29)]  # noqa: E731
    careful = serve(deadline(caution=caution), rate, duration_s=90)
    careless = serve(deadline(caution=0.0, shortest=1.0), rate, duration_s=90)
    first_credit = 0.1 * Y_D * H / C
    # One period's capacity of slack: the last queue is not worked off, and idleness is told by the period.
    assert careful.lost - careless.lost <= caution * careful.lost + first_credit + 0.1 * Y_D * H / C


def test_the_limit_is_exactly_what_fits():
    decision = make("deadline", target_delay_s=Y_D, margin=0.0, caution=0.0, shortest=1.0).step(
        draw.usual(cost_s=C)
    )
    limit = decision.queue_limit_rows
    assert limit * C / H <= Y_D < (limit + 1) * C / H
    assert decision.keep_ratio == 1.0


@given(samples=st.lists(draw.nonsense(), max_size=10))
def test_it_recovers_from_anything_within_a_dozen_periods(samples):
    controller = make("deadline", target_delay_s=Y_D)
    for sample in samples:
        assert controller.step(sample).queue_limit_rows >= 1.0
    for _ in range(12):
        decision = controller.step(draw.usual(cost_s=C, backlog=100))
    fits = 0.99 * Y_D * H / C
    # What the wild past may leave behind: doubt about the cost's spread, the shortest queue, a slow drain.
    assert decision.queue_limit_rows >= 0.25 * 0.25 * 0.25 * fits
    for _ in range(60):
        decision = controller.step(draw.usual(cost_s=C, backlog=100))
    assert 0.2 * fits <= decision.queue_limit_rows <= fits + 1


def test_too_long_a_queue_is_to_be_cut():
    controller = deadline()
    controller.step(draw.usual(cost_s=C))
    decision = controller.step(draw.usual(cost_s=10 * C, backlog=380))
    assert decision.admit_rows is not None
    assert decision.admit_rows < -300
    assert controller.step(draw.usual(cost_s=10 * C, backlog=5)).admit_rows is None


def test_before_any_measurement_the_cold_cost_holds():
    empty = Sample(at_s=0, period_s=0, arrived_rows=0, kept_rows=0)
    decision = make("deadline", target_delay_s=Y_D, cold_cost_s=0.01).step(empty)
    assert decision.queue_limit_rows == math.floor(0.99 * Y_D * H / 0.01)
    assert "no row has been timed" in decision.reason


def test_the_reason_can_be_read():
    decision = make("deadline", target_delay_s=Y_D, caution=0.0, shortest=1.0).step(
        Sample(at_s=1, period_s=1, arrived_rows=1204, kept_rows=300, backlog_rows=200, cost_s=0.0053)
    )
    assert decision.reason == "a row costs 5.3 ms, so 362 rows fit into 2 s; 1,204 arrived"
