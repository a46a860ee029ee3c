"""Made-to-order arrivals and costs: the shapes that they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.errors import SpillwayError
from spillway.replay.costs import CostTrace, constant, varying
from spillway.replay.generators import bounded_pareto, burst, pareto, sine, step


@settings(max_examples=30, deadline=None)
@given(beta=st.floats(0.05, 3.0), mean=st.floats(1.0, 1e6), seed=st.integers(0, 99), hold=st.integers(1, 9))
def test_pareto_has_its_mean_its_seed_and_bounds(beta, mean, seed, hold):
    trace = pareto(mean=mean, beta=beta, duration_s=400.0, seed=seed, hold_periods=hold)
    assert trace.duration_s == pytest.approx(400.0)
    assert trace.total == pytest.approx(400.0 * mean, abs=1.001)
    assert trace == pareto(mean=mean, beta=beta, duration_s=400.0, seed=seed, hold_periods=hold)
    assert trace != pareto(mean=mean, beta=beta, duration_s=400.0, seed=seed + 1, hold_periods=hold)
    assert min(trace.rates) > 0.0


@settings(max_examples=30, deadline=None)
@given(beta=st.floats(0.1, 5.0), peak=st.floats(1.5, 50.0))
def test_the_bounded_pareto_distribution_is_what_it_says(beta, peak):
    draws = bounded_pareto((np.arange(20_000) + 0.5) / 20_000, beta=beta, peak=peak)
    assert draws.max() <= peak * (1.0 + 1e-9)
    assert draws.mean() == pytest.approx(1.0, rel=0.01)
    # The density falls as x^-(β+1): on a log-log plot a line of slope -(β+1).
    inner = draws[(draws > np.quantile(draws, 0.05)) & (draws < np.quantile(draws, 0.95))]
    density = 1.0 / np.gradient(inner)
    slope = np.polyfit(np.log(inner), np.log(density), 1)[0]
    assert slope == pytest.approx(-(beta + 1.0), abs=0.05)


def test_the_smaller_the_bias_factor_the_burstier():
    spread = [
        np.std(bounded_pareto(np.linspace(0, 1, 10_001), beta=b, peak=4.0)) for b in (0.1, 0.5, 1.0, 1.5)
    ]
    assert spread == sorted(spread, reverse=True)


def test_step_and_burst_are_as_told():
    assert step(low=1, high=2, at_s=3, duration_s=10).spans_s == (3.0, 7.0)
    trace = burst(capacity=1000, calm_s=5, burst_s=4)
    assert (trace.rates, trace.spans_s, trace.total) == ((500.0, 5000.0, 500.0), (5.0, 4.0, 5.0), 25_000)


def test_a_sine_swings_between_its_bounds_and_has_the_mean_in_the_middle():
    trace = sine(low=0.0, high=400.0, period_s=40.0, duration_s=120.0)
    assert 0.0 <= min(trace.rates) < 1.0
    assert 399.0 < max(trace.rates) <= 400.0
    assert trace.total == pytest.approx(200 * 120, abs=1)
    assert trace.count(20.0) == pytest.approx(200 * 20 + 400 * 40 / 2 / np.pi, abs=2)


def test_the_cost_trace_has_the_peaks_and_the_terrace_of_the_paper():
    cost = varying(jitter=0.0).array * 190.0
    assert cost[:39].max() == pytest.approx(1.0)
    assert cost[45:55].max() == pytest.approx(cost[49:51].max()) == pytest.approx(1.49, abs=0.02)
    assert cost[125] / cost[124] > 2.4  # a sudden jump
    assert (np.diff(cost[125:150]) < 0).all()
    assert 0 < np.diff(cost[230:250]).max() < 0.06  # a gradual rise
    assert cost[251:349] == pytest.approx(2.0)
    assert cost[350] / cost[349] == pytest.approx(0.5)  # a sudden drop


def test_the_cost_jitters_around_its_base_and_is_seeded():
    cost = varying(duration_s=40_000.0, seed=3, small_peak=1.0, large_peak=1.0, terrace=1.0)
    assert cost == varying(duration_s=40_000.0, seed=3, small_peak=1.0, large_peak=1.0, terrace=1.0)
    assert cost.array.mean() == pytest.approx(1.0 / 190.0, rel=0.01)
    assert 0.03 < cost.array.std() * 190.0 < 0.3


def test_costs_hold_their_last_value():
    trace = CostTrace((1.0, 2.0), step_s=10.0)
    assert trace.at(np.array([-1.0, 9.9, 10.0, 1e9])).tolist() == [1.0, 1.0, 2.0, 2.0]
    assert constant(0.5).at(np.array([7.0])).tolist() == [0.5]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pareto(mean=0, beta=1, duration_s=1, seed=0), "mean = 0"),
        (lambda: pareto(mean=1, beta=1, duration_s=1, seed=0, peak_ratio=1.0), "peak_ratio"),
        (lambda: sine(low=0, high=1, period_s=-1, duration_s=1), "period_s = -1"),
        (lambda: step(low=1, high=1, at_s=5, duration_s=5), "spans_s"),
        (lambda: CostTrace(()), "at least one"),
        (lambda: CostTrace((1.0, 0.0)), "above 0"),
        (lambda: CostTrace((1.0,), step_s=0.0), "step_s"),
    ],
)
def test_what_makes_no_trace_is_refused(make, words):
    with pytest.raises(SpillwayError, match=words):
        make()
