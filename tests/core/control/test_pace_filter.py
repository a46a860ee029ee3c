"""PaceFilter against the exact posterior where there is one, and against brute force where there is none."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spillway.core.control.pace_filter import PaceFilter, PaceFilterConfig, PaceFilterState

ONE = PaceFilterConfig(prices_s=(0.3,), doubts=(0.7,), follows=(0,))
TWO = PaceFilterConfig(prices_s=(0.3, 1e-5), doubts=(0.7, 2.0), follows=(0, 1))
THREE = PaceFilterConfig(prices_s=(0.3, 0.5e-6, 1e-5), doubts=(0.7, 1.0, 4.0), follows=(0, 2, 2))


def exact_posterior(config, amounts, times):
    """One part, so that ln t is linear: all normal variables written out, and conditioned on all times at once.

    The unknowns are z₀, x₀, what z and x change by in each batch, and the noise of each batch.
    """
    count = len(times)
    size = 2 + 3 * count
    spreads = [config.doubts[0], config.new_run_doubt]
    spreads += [config.wander, config.pace_wander, config.noise] * count
    means = np.zeros(size)
    means[0] = math.log(config.prices_s[0])
    z, x = np.zeros(size), np.zeros(size)
    z[0] = x[1] = 1.0
    rows = []
    for number in range(count):
        x = config.pace_memory * x
        z, x = z.copy(), x.copy()
        z[2 + 3 * number] += 1.0
        x[3 + 3 * number] += 1.0
        row = z + x
        row[4 + 3 * number] += 1.0
        rows.append(row)
    H, wanted, S = np.array(rows), np.array([z, x]), np.diag(np.square(spreads))
    gain = wanted @ S @ H.T @ np.linalg.inv(H @ S @ H.T)
    y = np.log(np.array(times) / np.array(amounts))
    return wanted @ means + gain @ (y - H @ means), wanted @ S @ wanted.T - gain @ H @ S @ wanted.T


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("seed", range(3))
def test_with_one_part_it_is_the_exact_posterior_of_all_batches(count, seed):
    random_ = random.Random(seed)
    amounts = [random_.uniform(0.5, 3.0) for _ in range(count)]
    times = [0.5 * a * math.exp(random_.gauss(0.0, 0.05)) for a in amounts]
    filter_ = PaceFilter(ONE)
    for amount, time_s in zip(amounts, times, strict=True):
        filter_.update((amount,), time_s)
        assert filter_.state.unusual == 0.0, "or the model would be another"
    mean, covariance = exact_posterior(ONE, amounts, times)
    np.testing.assert_allclose(filter_.state.means, mean, atol=1e-6)
    np.testing.assert_allclose(np.reshape(filter_.state.covariance, (2, 2)), covariance, atol=1e-6)


def log_posterior(filter_, amounts, time_s):
    """Return the logarithm of what is believed after a batch, but for a constant, as a function of (z..., x)."""
    config = filter_.config
    mean = np.array(filter_.state.means)
    P = np.reshape(filter_.state.covariance, (mean.size, mean.size)).copy()
    fades = np.diag([*[1.0] * filter_.parts, config.pace_memory])
    P = fades @ P @ fades + np.diag([*[config.wander**2] * filter_.parts, config.pace_wander**2])
    mean, precision = fades @ mean, np.linalg.inv(P)

    def value(points):
        off = points - mean
        expected = points[:, -1] + np.log((np.array(amounts) * np.exp(points[:, :-1])).sum(axis=1))
        belief = np.einsum("ni,ij,nj->n", off, precision, off)
        return -0.5 * (belief + (math.log(time_s) - expected) ** 2 / config.noise**2)

    return value, mean, np.sqrt(np.diag(P))


def highest(value, mean, width):
    """Return the largest value on a grid that is made finer around its best point again and again."""
    middle, reach = mean, 5.0 * width
    for _ in range(14):
        axes = [np.linspace(m - r, m + r, 21) for m, r in zip(middle, reach, strict=True)]
        points = np.array(list(itertools.product(*axes)))
        values = value(points)
        middle, reach = points[int(values.argmax())], 0.35 * reach
    return float(values.max()), middle


@pytest.mark.parametrize("factor", [0.4, 1.0, 1.6, 4.0])
@pytest.mark.parametrize("rows", [1.0, 3_000.0, 40_000.0, 400_000.0])
@pytest.mark.parametrize("before", [0, 3])
def test_with_two_parts_it_finds_the_most_likely_point(factor, rows, before):
    """Also where the nearest explanation is not the best one: 400,000 rows, and a batch that is short.

    A batch that is off by more than two standard deviations is another matter: there the more credible of two
    explanations is taken, not the highest point.
    """
    filter_ = PaceFilter(TWO)
    for number in range(before):
        filter_.update((1.0, 20_000.0 * (1 + number)), 0.3 + 0.3 * (1 + number))
    time_s = factor * (0.4 + 12e-6 * rows)
    value, mean, width = log_posterior(filter_, (1.0, rows), time_s)
    best, at = highest(value, mean, width)
    filter_.update((1.0, rows), time_s)
    if best > -2.0:
        assert value(np.array([filter_.state.means]))[0] >= best - 0.02, (filter_.state.means, at)


@pytest.mark.parametrize("factor", [1 / 8, 1 / 3, 3.0, 8.0])
def test_a_machine_that_changes_its_pace_is_followed_at_once_and_back(factor):
    filter_ = PaceFilter(THREE)
    random_ = random.Random(1)

    def batch(slow):
        kept = random_.randint(10_000, 60_000)
        filter_.update((1.0, 0.0, kept), slow * (0.3 + 12e-6 * kept) * math.exp(random_.gauss(0.0, 0.03)))
        return float(filter_.prices_s @ [1.0, 0.0, 30_000.0]) / 0.66

    for _ in range(30):
        batch(1.0)
    assert batch(factor) == pytest.approx(factor, rel=0.2), "one batch is enough"
    assert batch(factor) == pytest.approx(factor, rel=0.2)
    assert batch(1.0) == pytest.approx(1.0, rel=0.2)


def test_a_long_pause_in_one_batch_leaves_the_prices_as_they_were():
    filter_ = PaceFilter(THREE)
    random_ = random.Random(2)
    for _ in range(40):
        kept = random_.randint(10_000, 60_000)
        filter_.update((1.0, 0.0, kept), 0.3 + 12e-6 * kept)
    before = filter_.prices_s
    filter_.update((1.0, 0.0, 30_000.0), 20.0)
    assert filter_.pace > 5.0
    filter_.update((1.0, 0.0, 30_000.0), 0.66)
    np.testing.assert_allclose(filter_.prices_s[[0, 2]], before[[0, 2]], rtol=0.25)


def test_each_part_learns_by_its_share_of_the_time():
    """Batches without rows say nothing of a row but for the pace, however slow they are."""
    filter_ = PaceFilter(THREE)
    for kept in (10_000, 60_000, 30_000, 50_000) * 5:
        filter_.update((1.0, 0.0, kept), 0.3 + 12e-6 * kept)
    row = filter_.state.means[2]
    for number in range(100):
        filter_.update((1.0, 0.0, 3.0), 0.3 * (4.0 if number % 7 == 0 else 1.0))
    assert filter_.state.means[2] == pytest.approx(row, abs=0.1)


def test_a_price_follows_the_one_it_is_a_multiple_of():
    """No row was ever dropped: what a dropped one costs is learned along with a kept one."""
    filter_ = PaceFilter(THREE)
    for kept in (1_000, 6_000, 3_000, 5_000) * 8:
        filter_.update((1.0, 0.0, kept), 0.3 + 500e-6 * kept)
    _, skip, cost = filter_.prices_s
    assert cost == pytest.approx(500e-6, rel=0.1)
    assert skip / cost == pytest.approx(0.05, rel=0.3)


def test_a_new_run_has_an_unknown_pace_and_the_old_prices():
    filter_ = PaceFilter(THREE)
    for kept in (10_000, 60_000, 30_000, 50_000) * 5:
        filter_.update((1.0, 0.0, kept), 0.3 + 12e-6 * kept)
    prices, sure = filter_.state.means[:-1], filter_.doubts
    filter_.begin_run()
    assert filter_.state.means[:-1] == prices
    assert filter_.pace == pytest.approx(THREE.new_run_pace)
    assert np.all(filter_.doubts > sure + 0.3)
    for kept, cold in ((10_000, 5.0), (30_000, 4.0), (50_000, 3.0), (20_000, 2.0), (60_000, 1.5)):
        filter_.update((1.0, 0.0, kept), cold * (0.3 + 12e-6 * kept))
    cold = filter_.prices_s[2] / filter_.pace
    assert cold == pytest.approx(12e-6, rel=0.25), "a cold JVM is not a dear row"


numbers = st.floats(1e-6, 1e5) | st.sampled_from([1e-6, 1.0, 1e5])
rows = st.integers(0, 10**9) | st.integers(0, 10)
batches = st.tuples(st.just(1.0), rows, rows)


@given(history=st.lists(st.tuples(batches, numbers, st.booleans()), max_size=12), split=st.integers(0, 12))
@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
def test_no_batch_breaks_it_and_any_state_goes_on_exactly(history, split):
    whole, parts = PaceFilter(THREE), PaceFilter(THREE)
    for number, (amounts, time_s, begins) in enumerate(history):
        if number == split:
            parts = PaceFilter(THREE, PaceFilterState(**json.loads(json.dumps(asdict(parts.state)))))
        for filter_ in (whole, parts):
            if begins:
                filter_.begin_run()
            filter_.update(amounts, time_s)
        assert whole.state == parts.state
        assert np.all(np.isfinite(whole.prices_s))
        assert np.all(whole.prices_s > 0.0)
        assert np.all(np.isfinite(whole.doubts))
        P = np.reshape(whole.state.covariance, (4, 4))
        np.testing.assert_array_equal(P, P.T)
        assert np.linalg.eigvalsh(P).min() > -1e-6 * max(1.0, float(np.abs(P).max()))
