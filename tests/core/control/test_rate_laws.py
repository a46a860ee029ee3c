"""CTRL, BASELINE and AURORA against the paper's equations and its linear model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import Controller, PoleDesign, Sample, make

C, H, T, Y_D = 0.00526, 0.97, 1.0, 2.0


Course = Callable[[int], float]


def always(value: float) -> Course:
    return lambda _: value


OVERLOAD, USUAL_COST = always(1000.0), always(C)


def loop(
    controller: Controller,
    *,
    periods: int,
    arrivals: Course = OVERLOAD,
    cost: Course = USUAL_COST,
    queue: float = 0.0,
) -> list[float]:
    """The paper's plant as it stands: q(k) = q(k-1) + T (admitted - H/c), never below 0. Returns delays.

    The controller has seen the queue and the first rate before the first period.
    """
    delays = []
    f_in, c, admitted, left = arrivals(0), cost(0), 0.0, 0.0
    for k in range(periods):
        decision = controller.step(
            Sample(
                at_s=k * T,
                period_s=T,
                arrived_rows=f_in * T,
                kept_rows=admitted * T,
                backlog_rows=queue,
                cost_s=c,
                finished_rows=left,
            )
        )
        f_in, c = arrivals(k), cost(k)
        admitted = f_in * decision.keep_ratio
        left = min(queue + T * admitted, T * H / c)
        queue = max(queue + T * admitted - left, 0.0)
        delays.append((queue + 1.0) * c / H)
    return delays


def test_ctrl_is_equation_10():
    controller = make("ctrl", target_delay_s=Y_D)
    e_last = u_last = 0.0
    for q, f_in in ((0, 500), (300, 800), (420, 100), (500, 900), (10, 50)):
        decision = controller.step(
            Sample(at_s=0, period_s=T, arrived_rows=f_in, kept_rows=0, backlog_rows=q, cost_s=C)
        )
        e = Y_D - (q + 1) * C / H
        u = H / (C * T) * (0.4 * e - 0.31 * e_last) + 0.8 * u_last
        v = u + H / C
        assert decision.admit_rows == pytest.approx(v * T)
        assert decision.keep_ratio == pytest.approx(min(max(v / f_in, 0.0), 1.0))
        e_last, u_last = e, u


def test_ctrl_converges_to_its_target_as_designed():
    """63 % of the way within 3 periods, and no steady error, from an empty queue under overload."""
    delays = loop(make("ctrl", target_delay_s=Y_D), periods=60)
    start = C / H
    assert delays[2] - start >= 0.63 * (Y_D - start)
    assert delays[-1] == pytest.approx(Y_D, rel=1e-6)


@given(target=st.floats(0.2, 10.0), queue=st.floats(0, 3000))
def test_ctrl_converges_from_anywhere_to_any_target(target, queue):
    delays = loop(make("ctrl", target_delay_s=target), periods=200, arrivals=always(20_000.0), queue=queue)
    assert delays[-1] == pytest.approx(target, rel=1e-3)


@given(share=st.floats(0.05, 0.95), pole=st.floats(0.1, 0.9))
def test_every_member_of_the_family_holds_the_target(share, pole):
    controller_pole = (2.0 * pole - 1.0) + share * (2.0 - 2.0 * pole)  # between b0 = 0 and an integrator
    design = PoleDesign(poles=(pole, pole), controller_pole=controller_pole)
    controller = make("ctrl", target_delay_s=Y_D, design=design)
    delays = loop(controller, periods=300, arrivals=always(50_000.0))
    assert delays[-1] == pytest.approx(Y_D, rel=1e-3)


def test_ctrl_follows_a_target_that_changes():
    controller = make("ctrl", target_delay_s=1.0)
    plant_queue = 0.0
    for target in (1.0, 3.0, 5.0, 1.0):
        controller.retarget(target)
        delays = loop(controller, periods=60, queue=plant_queue)
        plant_queue = delays[-1] * H / C - 1.0
        assert delays[-1] == pytest.approx(target, rel=1e-2)


def test_a_lull_winds_the_papers_ctrl_up_to_45_percent_of_the_target_and_no_further():
    controller = make("ctrl", target_delay_s=Y_D)
    idle = Sample(at_s=0, period_s=T, arrived_rows=0, kept_rows=0, cost_s=C, finished_rows=0)
    for _ in range(500):
        decision = controller.step(idle)
    growth = decision.admit_rows / T - H / C
    assert growth == pytest.approx(0.45 * (Y_D - C / H) * H / (C * T), rel=1e-6)


def test_anti_windup_matters_for_an_integrating_controller():
    design = PoleDesign(poles=(0.7, 0.7), controller_pole=1.0)

    def worst_after_lull(anti_windup: str) -> float:
        controller = make("ctrl", target_delay_s=Y_D, design=design, anti_windup=anti_windup)
        arrivals = lambda k: 150.0 if k < 100 else 600.0  # noqa: E731
        return max(loop(controller, periods=130, arrivals=arrivals))

    assert worst_after_lull("none") > 5.0 * Y_D
    assert worst_after_lull("achieved") < 2.5 * Y_D


def test_baseline_fills_the_queue_to_the_target_in_one_period():
    decision = make("baseline", target_delay_s=Y_D).step(
        Sample(at_s=0, period_s=T, arrived_rows=900, kept_rows=0, backlog_rows=100, cost_s=C)
    )
    assert decision.admit_rows == pytest.approx(-100 + Y_D * H / C + T * H / C)
    delays = loop(make("baseline", target_delay_s=Y_D), periods=3)
    assert delays[0] == pytest.approx(Y_D + C / H, rel=1e-6)


def test_aurora_admits_the_capacity_whatever_the_queue():
    for queue in (0.0, 10_000.0):
        decision = make("aurora", target_delay_s=Y_D).step(
            Sample(at_s=0, period_s=T, arrived_rows=900, kept_rows=0, backlog_rows=queue, cost_s=C)
        )
        assert decision.admit_rows == pytest.approx(H / C)
        assert decision.keep_ratio == pytest.approx(H / C / 900)


def test_example_1_a_rising_rate_makes_aurora_unstable_and_not_ctrl():
    rising = lambda k: 200.0 * 1.1**k  # noqa: E731
    aurora = loop(make("aurora", target_delay_s=Y_D), periods=80, arrivals=rising)
    ctrl = loop(make("ctrl", target_delay_s=Y_D), periods=80, arrivals=rising)
    assert aurora[-1] > 3.0 * Y_D
    assert aurora[-1] > aurora[40] > aurora[20]
    assert ctrl[-1] < 1.5 * Y_D


def test_example_2_after_a_step_aurora_stays_at_the_wrong_delay():
    stepped = lambda k: 150.0 if k < 20 else 1500.0  # noqa: E731
    aurora = loop(make("aurora", target_delay_s=Y_D), periods=100, arrivals=stepped)
    ctrl = loop(make("ctrl", target_delay_s=Y_D), periods=100, arrivals=stepped)
    assert aurora[-1] == pytest.approx(aurora[40], rel=1e-6)
    assert aurora[-1] > 2.0 * Y_D
    assert ctrl[-1] == pytest.approx(Y_D, rel=1e-3)


def test_example_3_aurora_sheds_although_the_queue_is_empty():
    decision = make("aurora", target_delay_s=Y_D).step(
        Sample(at_s=0, period_s=T, arrived_rows=200, kept_rows=200, backlog_rows=0, cost_s=C)
    )
    assert decision.keep_ratio < 1.0
    assert (
        make("ctrl", target_delay_s=Y_D)
        .step(Sample(at_s=0, period_s=T, arrived_rows=200, kept_rows=200, backlog_rows=0, cost_s=C))
        .keep_ratio
        == 1.0
    )


def test_a_cost_that_changes_slowly_is_compensated():
    """Section 4.4.1: the loop is designed for a constant c and holds for one that drifts."""
    delays = loop(make("ctrl", target_delay_s=Y_D), periods=200, cost=lambda k: C * (1.0 + 0.005 * k))
    assert all(abs(y - Y_D) < 0.15 * Y_D for y in delays[20:])
