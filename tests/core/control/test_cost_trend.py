"""The level, trend and spread of the cost."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control.cost_trend import LearnedCost


def learnt(costs) -> LearnedCost:
    cost = LearnedCost()
    for c in costs:
        cost.learn(c)
    return cost


def test_it_starts_with_the_first_measurement_and_the_cold_cost_before():
    assert LearnedCost().cautious_s(1e-3, 1.0) == 1e-3
    assert learnt([None, 0.0, 0.005]).cost_s == 0.005


def test_a_constant_cost_needs_no_caution():
    assert learnt([0.005] * 50).cautious_s(1.0, 1.0) == pytest.approx(0.005)


def test_a_jump_up_is_believed_at_once_and_a_fall_by_halves():
    cost = learnt([0.005] * 20)
    cost.learn(0.05)
    assert cost.cost_s == pytest.approx(0.05)
    cost.learn(0.005)
    assert cost.cost_s == pytest.approx(math.sqrt(0.05 * 0.005))


def test_missing_measurements_change_nothing():
    cost, again = learnt([0.005, 0.006]), learnt([0.005, None, 0.0, 0.006, None])
    assert cost == again


def test_caution_covers_most_of_a_noisy_cost():
    random_ = random.Random(5)
    cost = LearnedCost()
    covered = 0
    for number in range(400):
        c = 0.005 * math.exp(random_.gauss(0.0, 0.2))
        if number >= 100:
            covered += c <= cost.cautious_s(1.0, 2.0)
        cost.learn(c)
    assert covered > 0.85 * 300


def test_a_rising_cost_is_taken_to_go_on_rising():
    rising = [0.005 * 1.05**k for k in range(30)]
    assert learnt(rising).cautious_s(1.0, 0.0) >= 0.999 * rising[-1]
    assert learnt(rising).cautious_s(1.0, 0.5) > rising[-1]


@given(
    absurd=st.lists(st.floats(0, 1e308), max_size=8),
    true=st.floats(1e-6, 1.0),
)
def test_it_is_back_after_as_many_periods_as_the_absurdity_lasted_and_a_few(absurd, true):
    cost = learnt([true] * 5)
    for c in absurd:
        cost.learn(c)
    for _ in range(2 * len(absurd) + 8):
        cost.learn(true)
    assert cost.cost_s == pytest.approx(true, rel=0.5)
    assert math.isfinite(cost.cautious_s(1.0, 1.0))
