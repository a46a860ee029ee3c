"""System identification: H from queues and delays."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import HeadroomMeterConfig, compare_headrooms, fit_headroom
from spillway.errors import SpillwayError


@given(headroom=st.floats(0.3, 1.0), seed=st.integers(0, 1000))
def test_the_fit_finds_the_headroom_in_noisy_delays(headroom, seed):
    rng = np.random.default_rng(seed)
    q = rng.integers(0, 600, 200)
    y = (q + 1) * 0.005 / headroom + rng.normal(0.0, 0.02, 200)
    assert fit_headroom(q, 0.005, y).headroom == pytest.approx(headroom, abs=0.02)


@given(headroom=st.floats(0.3, 1.0), seed=st.integers(0, 1000))
def test_no_candidate_fits_better_than_the_fit(headroom, seed):
    rng = np.random.default_rng(seed)
    q = rng.integers(0, 600, 50)
    y = (q + 1) * 0.005 / headroom * rng.uniform(0.95, 1.05, 50)
    slopes = np.linspace(1.0, 20.0, 500)  # the fit is of 1/H, so its oracle is a grid of 1/H
    x = (q + 1) * 0.005
    best = min(float(np.sqrt(np.mean((y - x * slope) ** 2))) for slope in slopes)
    assert fit_headroom(q, 0.005, y).error_s <= best + 1e-9


def test_the_papers_comparison_puts_the_true_one_first():
    q = np.arange(0, 600, 7)
    fits = compare_headrooms(q, 0.00526, (q + 1) * 0.00526 / 0.97, candidates=(0.95, 0.97, 1.0))
    assert fits[0].headroom == 0.97
    assert fits[0].error_s < 1e-12
    assert fits[0].error_s < fits[1].error_s < fits[2].error_s


def test_rows_without_a_delay_are_left_out():
    fit = fit_headroom([100, 200, 300], 0.005, [101 * 0.005 / 0.9, math.nan, 301 * 0.005 / 0.9])
    assert fit.headroom == pytest.approx(0.9)


def test_nothing_to_fit_raises():
    with pytest.raises(SpillwayError, match="headroom"):
        fit_headroom([], 0.005, [])
    with pytest.raises(SpillwayError, match="candidates"):
        compare_headrooms([1], 0.005, [0.1], candidates=())
    with pytest.raises(SpillwayError, match="candidates"):
        compare_headrooms([1], 0.005, [0.1], candidates=(1.2,))


@given(headroom=st.floats(0.3, 1.0), seed=st.integers(0, 100))
def test_the_meter_converges_and_follows(headroom, seed):
    rng = np.random.default_rng(seed)
    meter = HeadroomMeterConfig().build()
    for true in (0.97, headroom):
        for _ in range(150):
            q = float(rng.integers(50, 600))
            found = meter.update(
                queue_rows=q, cost_s=0.005, delay_s=(q + 1) * 0.005 / true * rng.uniform(0.97, 1.03)
            )
        assert found == pytest.approx(true, abs=0.03)


@given(
    seen=st.lists(
        st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 3),
        max_size=20,
    )
)
def test_nonsense_leaves_it_between_its_bounds(seen):
    meter = HeadroomMeterConfig().build()
    for q, c, y in seen:
        assert 0.05 <= meter.update(queue_rows=q, cost_s=c, delay_s=y) <= 1.0
    again = HeadroomMeterConfig().build(json.loads(json.dumps(meter.snapshot(), allow_nan=False)))
    assert again.headroom == meter.headroom


@pytest.mark.parametrize("wrong", [{"headroom": 0.0}, {"fade": 1.0}, {"trust_s": 0.0}])
def test_wrong_options_raise(wrong):
    with pytest.raises(SpillwayError, match=next(iter(wrong))):
        HeadroomMeterConfig(**wrong)
