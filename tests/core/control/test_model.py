"""The virtual queue, the actuators and the control period."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import (
    Sample,
    choose_period,
    delay_of_queue_s,
    keep_ratio_at_entry,
    queue_of_delay_rows,
    shed_from_queue_rows,
)
from spillway.core.control.base import CostState
from spillway.core.control.ctrl import CtrlConfig
from spillway.core.control.signals import signals
from spillway.errors import SpillwayError
from tests.core.control import drawn_samples as draw

_cost = st.floats(1e-7, 1.0)
_headroom = st.floats(0.05, 1.0)


@given(queue=st.floats(0, 1e6), cost=_cost, headroom=_headroom)
def test_queue_and_delay_are_inverse(queue, cost, headroom):
    delay = delay_of_queue_s(queue, cost, headroom)
    assert queue_of_delay_rows(delay, cost, headroom) == pytest.approx(queue, rel=1e-9, abs=1e-6)


@given(queue=st.integers(0, 200), cost=_cost, headroom=_headroom)
def test_the_model_is_a_fifo_server_of_speed_headroom(queue, cost, headroom):
    """Slow oracle: serve the rows one by one at a processor that gives the query a share H."""
    now = 0.0
    for _ in range(queue + 1):
        now += cost / headroom
    assert delay_of_queue_s(queue, cost, headroom) == pytest.approx(now)


@given(wanted=st.floats(-1e9, 1e9), arriving=st.floats(0, 1e9))
def test_the_entry_actuator_admits_what_is_wanted_or_all_there_is(wanted, arriving):
    keep = keep_ratio_at_entry(wanted, arriving)
    assert 0.0 <= keep <= 1.0
    assert keep * arriving == pytest.approx(min(max(wanted, 0.0), arriving), rel=1e-9, abs=1e-9)


@given(wanted=st.floats(-1e6, 1e6), period=st.floats(0.01, 100), queue=st.floats(0, 1e6))
def test_the_queue_actuator_takes_out_only_what_is_too_much_and_there(wanted, period, queue):
    shed = shed_from_queue_rows(wanted, period, queue)
    assert 0.0 <= shed <= queue
    assert (shed > 0.0) <= (wanted < 0.0)


def test_in_the_steady_state_nothing_leaves_the_queue():
    """Read literally, the printed L_q + L_i - L_a would empty it: here v = f_in and the queue is full."""
    assert shed_from_queue_rows(wanted_rate=190.0, period_s=1.0, queue_rows=380.0) == 0.0


@given(sample=draw.nonsense(), held=st.none() | st.floats(1e-12, 1e6))
def test_signals_are_finite_and_positive_whatever_is_measured(sample, held):
    now = signals(sample, CtrlConfig(target_delay_s=2.0), CostState(target_delay_s=2.0, cost_s=held))
    if now is None:
        assert held is None
        return
    assert 0.0 <= now.q <= 1e18
    assert 0.0 < now.y < math.inf
    assert 0.0 < now.y_d < math.inf
    assert 0.0 <= now.f_in <= 1e15
    assert 1e-12 <= now.c <= 1e6
    assert now.T > 0.0
    assert 0.0 < now.H <= 1.0
    assert 0.0 <= now.leaving_rows < math.inf
    assert 0.0 <= now.capacity_rows < math.inf


@pytest.mark.parametrize(
    ("period_s", "T"),
    [
        (1.0, 1.0),
        (3.0, 3.0),  # as long as it was
        (0.0, 1.0),  # of no length: the nominal one
        (0.01, 0.1),  # a tenth of it at the least
    ],
)
def test_a_period_is_as_long_as_it_was(period_s, T):
    sample = Sample(at_s=0, period_s=period_s, arrived_rows=10, kept_rows=10, cost_s=0.1)
    config = CtrlConfig(target_delay_s=2.0, period_s=1.0, headroom=0.9)
    now = signals(sample, config, CostState(target_delay_s=2.0))
    assert now is not None
    assert (now.T, now.H) == (T, 0.9)
    assert now.leaving_rows == pytest.approx(T * 0.9 / 0.1)


@given(
    width=st.floats(0.01, 1e4),
    rate=st.floats(0.01, 1e6),
    variation=st.floats(0, 10),
    error=st.floats(0.01, 1.0),
)
def test_the_period_never_misses_a_burst_and_is_long_enough_where_it_can_be(width, rate, variation, error):
    choice = choose_period(burst_width_s=width, rows_per_s=rate, row_variation=variation, cost_error=error)
    assert 0.0 < choice.period_s <= width / 2.0
    if choice.shortest_s <= choice.longest_s:
        assert choice.period_s >= choice.shortest_s * (1.0 - 1e-9)
    assert choice.reason


def test_the_period_for_the_papers_traces_lies_in_its_best_region():
    for width in (4.0, 5.0):
        assert 0.25 <= choose_period(burst_width_s=width, rows_per_s=190).period_s <= 1.0


@pytest.mark.parametrize(
    ("rate", "says"), [(1000.0, "a tenth of a burst"), (20.0, "spans"), (1.0, "half of a burst")]
)
def test_the_reason_says_which_rule_decided(rate, says):
    assert says in choose_period(burst_width_s=10.0, rows_per_s=rate).reason


def test_wrong_inputs_raise():
    with pytest.raises(SpillwayError, match="burst_width_s"):
        choose_period(burst_width_s=0.0, rows_per_s=1.0)
