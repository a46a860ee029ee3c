"""PaceFilter against an exact filter that integrates over the pace numerically, and what it promises."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spillway.core.control import pace_filter
from spillway.core.control.pace_filter import PaceFilter, PaceFilterConfig, PaceFilterState

ROWS = PaceFilterConfig(fixed_s=0.3, row_s=1e-5, fixed_doubt=0.9, row_doubt=4.0, skip_share=0.05)
UNITS = PaceFilterConfig(fixed_s=0.3, row_s=1e-5, fixed_doubt=0.9, row_doubt=2.0)
STEADY = replace(UNITS, forgetting=0.0, new_run_wander=0.0)


def exact_log_weights(config, fixed_logs, batches):
    """Return the log likelihood of each ln ρ: the density of x on a fine grid, moved and weighed batch by batch.

    The pace's jumps are part of the density here, where the filter makes one normal of two.
    """
    deviation = math.hypot(config.fixed_doubt, config.row_doubt)
    middle = math.log(config.fixed_s / config.row_s)
    share = config.row_doubt**2 / deviation**2
    step = 0.01
    move = np.arange(-3.0, 3.0 + step / 2, step)
    kernel = (1.0 - config.jump_chance) * _density(move, config.pace_wander)
    kernel += config.jump_chance * _density(move, config.jump)
    found = []
    for fixed_log in fixed_logs:
        start = math.log(config.row_s) - share * (fixed_log - middle)
        spread = math.hypot(config.fixed_doubt * config.row_doubt / deviation, config.new_run_doubt)
        x = np.arange(start - 12.0, start + 12.0, step)
        density, total = _density(x - start, spread), 0.0
        for kept, time_s in batches:
            density = np.convolve(density, kernel, mode="same") * step
            density *= _density(math.log(time_s / (math.exp(fixed_log) + kept)) - x, config.noise)
            weight = float(density.sum()) * step
            total += math.log(weight)
            density /= weight
        found.append(total - 0.5 * ((fixed_log - middle) / deviation) ** 2)
    return np.array(found) - max(found)


def _density(at, deviation):
    return np.exp(-0.5 * (at / deviation) ** 2) / (deviation * math.sqrt(2.0 * math.pi))


@pytest.mark.parametrize("seed", range(4))
def test_hypotheses_weigh_what_they_weigh_if_all_is_integrated(seed, monkeypatch):
    monkeypatch.setattr(pace_filter, "_LEARNS", 0.0)
    random_ = random.Random(seed)
    filter_, batches = PaceFilter(STEADY), []
    for number in range(7):
        kept = random_.randint(5_000, 60_000)
        slow = 1.8 if number in (3, 4) and seed % 2 else 1.0
        time_s = slow * (0.4 + 12e-6 * kept) * math.exp(random_.gauss(0.0, 0.04))
        batches.append((kept, time_s))
        filter_.update(kept=kept, dropped=0.0, time_s=time_s)
    fixed_logs = filter_._fixed_logs
    exact = exact_log_weights(STEADY, fixed_logs, batches)
    ours = np.array(filter_.state.weights)
    likely = exact > -10.0
    assert likely.sum() >= 2
    np.testing.assert_allclose((ours - ours.max())[likely], exact[likely], atol=0.8)


@pytest.mark.parametrize("factor", [1 / 8, 1 / 3, 3.0, 8.0])
def test_a_machine_that_changes_its_pace_is_followed_at_once_and_back(factor):
    filter_ = PaceFilter(ROWS)
    random_ = random.Random(1)

    def batch(slow):
        kept = random_.randint(10_000, 60_000)
        time_s = slow * (0.3 + 12e-6 * kept) * math.exp(random_.gauss(0.0, 0.03))
        filter_.update(kept=kept, dropped=0.0, time_s=time_s)
        prices = filter_.prices()
        return (prices.fixed_s + 30_000.0 * prices.row_s) / 0.66

    for _ in range(30):
        batch(1.0)
    assert batch(factor) == pytest.approx(factor, rel=0.2), "one batch is enough"
    assert batch(factor) == pytest.approx(factor, rel=0.2)
    assert batch(1.0) == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_a_neighbour_that_comes_and_goes_does_not_hide_the_prices(seed):
    """Batches of many sizes; twice as slow for some batches, again and again."""
    filter_ = PaceFilter(ROWS)
    random_ = random.Random(seed)
    for number in range(40):
        kept = random_.randint(8_000, 60_000)
        slow = 2.0 if number // 4 % 2 else 1.0
        time_s = slow * (0.45 + 19e-6 * kept) * math.exp(random_.gauss(0.0, 0.05))
        filter_.update(kept=kept, dropped=0.0, time_s=time_s)
    prices = filter_.prices()
    assert prices.fixed_s / prices.row_s == pytest.approx(0.45 / 19e-6, rel=0.4)


def test_a_long_pause_in_one_batch_leaves_the_prices_as_they_were():
    filter_ = PaceFilter(ROWS)
    random_ = random.Random(2)
    for _ in range(40):
        kept = random_.randint(10_000, 60_000)
        filter_.update(kept=kept, dropped=0.0, time_s=0.3 + 12e-6 * kept)
    before = filter_.prices()
    filter_.update(kept=30_000, dropped=0.0, time_s=20.0)
    assert filter_.pace > 5.0
    filter_.update(kept=30_000, dropped=0.0, time_s=0.66)
    after = filter_.prices()
    assert after.fixed_s == pytest.approx(before.fixed_s, rel=0.25)
    assert after.row_s == pytest.approx(before.row_s, rel=0.25)


def test_batches_without_rows_say_nothing_of_a_row():
    filter_ = PaceFilter(ROWS)
    for kept in (10_000, 60_000, 30_000, 50_000) * 5:
        filter_.update(kept=kept, dropped=0.0, time_s=0.3 + 12e-6 * kept)
    before = filter_.prices()
    for number in range(300):
        filter_.update(kept=3.0, dropped=0.0, time_s=0.3 * (4.0 if number % 7 == 0 else 1.0))
    filter_.update(kept=30_000, dropped=0.0, time_s=0.66)
    after = filter_.prices()
    assert after.row_s == pytest.approx(before.row_s, rel=0.15)


def test_batches_of_one_size_leave_open_how_their_time_is_shared():
    filter_ = PaceFilter(ROWS)
    for _ in range(50):
        filter_.update(kept=50_000, dropped=0.0, time_s=0.9)
    prices = filter_.prices()
    assert prices.fixed_s + 50_000 * prices.row_s == pytest.approx(0.9, rel=0.1)
    assert prices.row_doubt > 0.7


def test_what_a_dropped_row_costs_is_a_share_of_a_kept_one_until_some_are_dropped():
    filter_ = PaceFilter(ROWS)
    for kept in (1_000, 6_000, 3_000, 5_000) * 8:
        filter_.update(kept=kept, dropped=0.0, time_s=0.3 + 500e-6 * kept)
    prices = filter_.prices()
    assert prices.row_s == pytest.approx(500e-6, rel=0.15)
    assert 0.05 < prices.skip_s / prices.row_s < 0.1, "the mean of what was believed at first"
    for dropped in (0, 400_000, 100_000, 200_000) * 6:
        filter_.update(kept=3_000, dropped=dropped, time_s=0.3 + 500e-6 * 3_000 + 5e-6 * dropped)
    prices = filter_.prices()
    assert prices.skip_s / prices.row_s == pytest.approx(0.01, rel=0.4)


def test_a_new_run_has_an_unknown_pace_and_the_old_prices():
    filter_ = PaceFilter(ROWS)
    for kept in (10_000, 60_000, 30_000, 50_000) * 5:
        filter_.update(kept=kept, dropped=0.0, time_s=0.3 + 12e-6 * kept)
    before = filter_.prices()
    weights = filter_.state.weights
    filter_.begin_run()
    assert filter_.state.weights == weights
    assert filter_.pace == pytest.approx(ROWS.new_run_pace)
    assert filter_.prices().row_doubt > before.row_doubt + 0.3
    for kept, cold in ((10_000, 5.0), (30_000, 4.0), (50_000, 3.0), (20_000, 2.0), (60_000, 1.5)):
        filter_.update(kept=kept, dropped=0.0, time_s=cold * (0.3 + 12e-6 * kept))
    after = filter_.prices()
    assert after.fixed_s / after.row_s == pytest.approx(25_000, rel=0.25), "a cold JVM is not a dear row"


def test_a_quiet_machine_tells_prices_apart_sooner_than_a_noisy_one():
    doubts = []
    for noise in (0.01, 0.2):
        filter_, random_ = PaceFilter(ROWS), random.Random(3)
        for _ in range(40):
            kept = random_.randint(20_000, 40_000)
            time_s = (0.3 + 12e-6 * kept) * math.exp(random_.gauss(0.0, noise))
            filter_.update(kept=kept, dropped=0.0, time_s=time_s)
        doubts.append(filter_.prices().row_doubt)
    assert doubts[0] < 0.5 * doubts[1]


def test_a_state_of_another_grid_is_not_read_as_one_of_this():
    filter_ = PaceFilter(ROWS)
    for kept in (10_000, 60_000, 30_000, 50_000) * 5:
        filter_.update(kept=kept, dropped=0.0, time_s=0.3 + 12e-6 * kept)
    other = PaceFilter(replace(ROWS, row_s=1e-3), replace(filter_.state))
    assert other.state == PaceFilter(replace(ROWS, row_s=1e-3)).state


numbers = st.floats(1e-6, 1e5) | st.sampled_from([1e-6, 1.0, 1e5])
rows = st.integers(0, 10**9) | st.integers(0, 10)


@given(history=st.lists(st.tuples(rows, rows, numbers, st.booleans()), max_size=12), split=st.integers(0, 12))
@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
def test_no_batch_breaks_it_and_any_state_goes_on_exactly(history, split):
    whole, parts = PaceFilter(ROWS), PaceFilter(ROWS)
    for number, (kept, dropped, time_s, begins) in enumerate(history):
        if number == split:
            parts = PaceFilter(ROWS, PaceFilterState(**json.loads(json.dumps(asdict(parts.state)))))
        for filter_ in (whole, parts):
            if begins:
                filter_.begin_run()
            filter_.update(kept=kept, dropped=dropped, time_s=time_s)
        assert whole.state == parts.state
        prices = whole.prices()
        assert all(math.isfinite(price) and price > 0.0 for price in prices[:3])
        assert math.isfinite(prices.row_doubt)
        assert prices.skip_s <= prices.row_s
        assert math.isfinite(whole.pace)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_errors_tells_a_lively_pace_from_a_noisy_one(seed):
    draw = random.Random(seed)
    noisy, lively, pace = PaceFilter(UNITS), PaceFilter(UNITS), 0.0
    for _ in range(200):
        rows = draw.uniform(10_000, 60_000)
        time_s = 0.3 + 1e-5 * rows
        noisy.update(kept=rows, dropped=0.0, time_s=time_s * math.exp(draw.gauss(0.0, 0.1)))
        pace += draw.gauss(0.0, 0.1)
        lively.update(kept=rows, dropped=0.0, time_s=time_s * math.exp(pace))
    assert noisy.state.liveliness_log < math.log(0.5)
    assert lively.state.liveliness_log > noisy.state.liveliness_log + math.log(2.0)
