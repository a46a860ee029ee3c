"""DEADLINE on a batch engine, closed around the small engine in batch_engine.py with the real cost model."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.control import CostModelConfig, Sample, make
from tests.core.control import draw
from tests.core.control.batch_engine import drive

EMPTY = Sample(at_s=0, period_s=0, arrived_rows=0, kept_rows=0)
F, C = 0.3, 12e-6


def deadline(target_s: float = 2.0, **options):
    return make("deadline", target_delay_s=target_s, engine="batched", **options)


def capacity(target_s: float = 2.0, cost_s: float = C) -> float:
    """Rows a second when each batch takes its share of the target."""
    t = 0.43 * target_s
    return (t - F) / cost_s / t


def batch(*, arrived=10_000, kept=10_000, cost=C, fixed=F, skip=0.2e-6, worst=None, busy=None) -> Sample:
    return Sample(
        at_s=1,
        period_s=1,
        arrived_rows=arrived,
        kept_rows=kept,
        cost_s=cost,
        fixed_s=fixed,
        skip_s=skip,
        worst_delay_s=worst,
        busy_s=busy,
    )


@pytest.mark.parametrize("dead_batches", [0, 1, 2, 3])
@pytest.mark.parametrize("cost_s", [2e-6, 12e-6, 100e-6, 1e-3])
@pytest.mark.parametrize("target_s", [1.5, 3.0])
def test_a_burst_of_five_times_the_capacity_with_dead_time(target_s, cost_s, dead_batches):
    full = capacity(target_s, cost_s)
    run = drive(
        deadline(target_s),
        lambda t: full * (5.0 if 20 <= t < 40 else 0.5),
        duration_s=60,
        cost_s=lambda _: cost_s,
        skip_s=0.02 * cost_s,
        dead_batches=dead_batches,
    )
    assert run.within(target_s, after_s=5.0) >= 0.97
    assert max(w for end, w in zip(run.ended_s, run.worst_delay_s, strict=True) if end > 5.0) < 1.3 * target_s
    # In the burst it keeps about what the capacity allows, once it has grown to it.
    inside = [k for end, k in zip(run.ended_s, run.kept, strict=True) if 28 < end < 40]
    times = [b for end, b in zip(run.ended_s, run.busy_s, strict=True) if 28 < end < 40]
    assert sum(inside) / sum(times) >= 0.75 * full


def test_before_and_after_the_burst_nothing_is_lost():
    full = capacity()
    run = drive(
        deadline(), lambda t: full * (5.0 if 20 <= t < 30 else 0.5), duration_s=60, cost_s=lambda _: C
    )
    quiet = [
        (n, k)
        for end, n, k in zip(run.ended_s, run.arrived, run.kept, strict=True)
        if 5 < end < 19 or end > 35
    ]
    assert all(n == k for n, k in quiet)


@pytest.mark.parametrize("dead_batches", [1, 3])
def test_a_night_of_tiny_batches_then_a_burst(dead_batches):
    full = capacity()
    run = drive(
        deadline(),
        lambda t: 20.0 if t < 40 else 5.0 * full,
        duration_s=70,
        cost_s=lambda _: C,
        dead_batches=dead_batches,
    )
    assert run.within(2.0, after_s=2.0) >= 0.99
    late = [k for end, k in zip(run.ended_s, run.kept, strict=True) if end > 55]
    assert min(late) > 0.6 * full * 0.86  # grown to the full size of a batch


def test_rows_a_hundred_times_dearer_than_the_cold_start_assumes_never_make_a_huge_batch():
    full = capacity(cost_s=1e-3)
    run = drive(
        deadline(),
        lambda t: full * (0.05 if t < 30 else 5.0),
        duration_s=60,
        cost_s=lambda _: 1e-3,
        skip_s=1e-6,
        dead_batches=3,
    )
    assert max(run.busy_s) < 10.0
    assert run.within(2.0, after_s=45.0) > 0.97


@pytest.mark.parametrize("dead_batches", [1, 3])
def test_costs_that_jump_tenfold_up_and_down(dead_batches):
    cost = lambda t: 10.0 * C if 30 <= t < 70 else C  # noqa: E731
    run = drive(
        deadline(), lambda _: 2.0 * capacity(), duration_s=110, cost_s=cost, dead_batches=dead_batches
    )
    slow = [
        w for end, w in zip(run.ended_s, run.worst_delay_s, strict=True) if 40 + 6 * dead_batches < end < 70
    ]
    fast = [k for end, k in zip(run.ended_s, run.kept, strict=True) if end > 90]
    assert max(slow) < 2.4
    assert min(fast) > 0.5 * (0.86 - F) / C


def test_a_pause_does_not_cut_the_batches_after_it_for_long():
    run = drive(
        deadline(), lambda _: 2.0 * capacity(), duration_s=120, cost_s=lambda _: C, pauses=0.03, seed=4
    )
    assert max(run.busy_s) > 2.0
    kept_per_s = sum(run.kept) / run.ended_s[-1]
    assert kept_per_s > 0.75 * capacity()


def test_a_delay_that_the_model_does_not_know_is_corrected_and_forgotten():
    """Something takes 0.5 s more than the batch itself: first the rows are late, then the limit shrinks."""
    controller = deadline()
    run = drive(controller, lambda _: 3.0 * capacity(), duration_s=60, cost_s=lambda _: C, extra_delay_s=0.5)
    assert run.within(2.0, after_s=15.0) >= 0.97
    assert 0.25 <= controller.state.correction < 0.9
    for _ in range(120):
        decision = controller.step(batch(worst=0.5))
    assert controller.state.correction > 0.99
    assert "late" not in decision.reason


def test_the_correction_is_bounded_and_says_so():
    controller = deadline()
    for _ in range(50):
        decision = controller.step(batch(worst=100.0))
    assert controller.state.correction == 0.25
    assert "cut to 25% because rows still come late" in decision.reason


def test_late_rows_of_batches_that_did_not_fit_are_not_the_models_fault():
    controller = deadline()
    for _ in range(20):
        controller.step(batch(arrived=1_000_000, kept=500_000, worst=100.0))
    assert controller.state.correction == 1.0


def test_the_limit_and_the_skip_cost_are_those_of_the_batch_time():
    """Steady costs: a batch cut by the decision takes its share of the target, whatever its size."""
    controller = deadline(margin=0.05)
    for _ in range(30):
        decision = controller.step(batch(arrived=100_000, kept=50_000))
    for n in (60_000, 200_000, 1_000_000):
        k = n * decision.keep_ratio_for(n)
        assert F + 0.2e-6 * (n - k) + C * k == pytest.approx(0.9, rel=0.02)


def test_cold_start_and_a_safe_first_batch():
    assert deadline().step(EMPTY).queue_limit_rows == pytest.approx(0.86 / 10e-6)
    assert deadline(cold_cost_s=1e-3).step(EMPTY).queue_limit_rows == pytest.approx(860.0)
    # A first batch that was far too long teaches something before its cost is known.
    first = batch(arrived=86_000, kept=86_000, cost=None, fixed=0.0, busy=8.6)
    assert deadline().step(first).queue_limit_rows == pytest.approx(8_600.0)


def test_a_batch_that_overruns_is_believed_at_once_and_for_once():
    controller = deadline()
    usual = [controller.step(batch(arrived=40_000, kept=40_000, busy=0.8)) for _ in range(3)][-1]
    overrun = controller.step(batch(arrived=40_000, kept=40_000, busy=5.0))
    assert overrun.queue_limit_rows == pytest.approx(
        usual.queue_limit_rows * 40_000 * C / (5.0 - F), rel=0.01
    )
    assert controller.step(batch(arrived=9_000, kept=9_000, busy=0.4)).queue_limit_rows == pytest.approx(
        usual.queue_limit_rows
    )


def test_slow_start_bounds_growth_by_the_recent_batches():
    controller = deadline()
    cheap = 1e-8
    for kept in (1_000, 20_000, 3_000):
        decision = controller.step(batch(arrived=kept, kept=kept, cost=cheap, fixed=0.1))
    assert decision.queue_limit_rows == pytest.approx(80_000.0)
    assert "recent batches" in decision.reason
    for _ in range(40):
        decision = controller.step(batch(arrived=3_000, kept=3_000, cost=cheap, fixed=0.1))
    assert decision.queue_limit_rows == pytest.approx(12_000.0)
    limits = [decision.queue_limit_rows]
    for _ in range(5):  # it grows again with every batch that fills it
        limits.append(
            controller.step(
                batch(arrived=1e9, kept=limits[-1], cost=cheap, fixed=0.1, skip=0.0)
            ).queue_limit_rows
        )
    assert all(new == pytest.approx(4.0 * old) for old, new in pairwise(limits))


def test_empty_batches_do_not_age_what_is_known():
    controller = deadline()
    controller.step(batch(arrived=20_000, kept=20_000, cost=1e-8))
    before = controller.step(batch(arrived=20_000, kept=20_000, cost=1e-8)).queue_limit_rows
    for _ in range(100):
        after = controller.step(EMPTY).queue_limit_rows
    assert after == before


def test_a_target_out_of_reach_is_said_and_survived():
    decision = deadline().step(batch(fixed=1.5))
    assert decision.queue_limit_rows == pytest.approx(0.2 * 1.5 / C, rel=0.01), "a fifth of the fixed time"
    assert "cannot be met" in decision.reason
    run = drive(deadline(), lambda _: 50_000.0, duration_s=60, cost_s=lambda _: C, fixed_s=1.5)
    assert min(run.kept[1:]) > 0


@given(samples=st.lists(draw.nonsense(), max_size=10))
@settings(max_examples=40)
def test_it_recovers_from_anything(samples):
    controller = deadline()
    for sample in samples:
        assert controller.step(sample).queue_limit_rows >= 1.0
    for _ in range(150):
        decision = controller.step(batch(arrived=40_000, kept=40_000, worst=1.0))
    fits = (0.86 - F) / C
    assert 0.8 * fits <= decision.queue_limit_rows <= 1.001 * fits


def test_clock_jumps_change_nothing():
    steady, jumpy = deadline(), deadline()
    for at, period in ((1, 1), (2, 0), (-1e9, 1e9), (1e12, 0), (3, 1)):
        one = steady.step(batch())
        two = jumpy.step(
            Sample(
                at_s=at,
                period_s=period,
                arrived_rows=10_000,
                kept_rows=10_000,
                cost_s=C,
                fixed_s=F,
                skip_s=0.2e-6,
            )
        )
        assert one == two


def test_a_restart_in_the_middle_of_a_burst_goes_on():
    full = capacity()
    model = CostModelConfig().build()
    controller = deadline()
    drive(controller, lambda _: 3.0 * full, duration_s=30, cost_s=lambda _: C, model=model)
    again = make("deadline", target_delay_s=2.0, engine="batched", state=controller.snapshot())
    model = CostModelConfig().build(model.snapshot())
    run = drive(again, lambda _: 3.0 * full, duration_s=20, cost_s=lambda _: C, model=model, seed=1)
    assert run.within(2.0, after_s=3.0) >= 0.99
