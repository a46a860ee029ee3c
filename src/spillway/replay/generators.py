"""Arrival traces made to order: a step, a sine, a burst, and rates from a Pareto distribution.

The papers' experiments drive the engine with these: steps and sines to identify it (Tu et al., Section 4.2),
Pareto rates with a bias factor to test it (Section 5). Everything random takes a seed.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from spillway.errors import invalid
from spillway.replay.traces import Rates


def step(*, low: float, high: float, at_s: float, duration_s: float) -> Rates:
    """Return ``low`` rows a second, and ``high`` from second ``at_s`` on.

    >>> step(low=20, high=300, at_s=10, duration_s=50)
    Rates(rates=(20.0, 300.0), spans_s=(10.0, 40.0))
    """
    return Rates((low, high), (at_s, duration_s - at_s))


def sine(*, low: float, high: float, period_s: float, duration_s: float, step_s: float = 0.25) -> Rates:
    """Return a rate that swings from ``low`` to ``high`` and back once per ``period_s``, beginning half way.

    The rate is constant for ``step_s`` at a time, at the mean of the sine over that step.
    """
    _positive(period_s=period_s, duration_s=duration_s, step_s=step_s)
    edges = np.linspace(0.0, duration_s, max(2, math.ceil(duration_s / step_s) + 1))
    omega = 2.0 * math.pi / period_s
    mean_sine = -np.diff(np.cos(omega * edges)) / (omega * np.diff(edges))
    rates = 0.5 * (low + high) + 0.5 * (high - low) * mean_sine
    return Rates(tuple(rates.tolist()), tuple(np.diff(edges).tolist()))


def burst(
    *, capacity: float, calm_s: float, burst_s: float, calm_ratio: float = 0.5, burst_ratio: float = 5.0
) -> Rates:
    """Return half of the capacity, then five times the capacity, then half again.

    >>> burst(capacity=100, calm_s=10, burst_s=20).rates
    (50.0, 500.0, 50.0)
    """
    calm, peak = capacity * calm_ratio, capacity * burst_ratio
    return Rates((calm, peak, calm), (calm_s, burst_s, calm_s))


def pareto(
    *,
    mean: float,
    beta: float,
    duration_s: float,
    seed: int,
    peak_ratio: float = 4.0,
    period_s: float = 1.0,
    hold_periods: int = 4,
) -> Rates:
    """Return rates whose rows per period follow a bounded Pareto distribution of bias factor ``beta``.

    The density is proportional to x^-(β+1) between a least rate and the peak. Mean and peak are given and the
    least rate follows from them, so all β compare at the same load: the smaller β, the lower the calm and the
    more of the rows come in bursts. (The paper names the distribution and its factor, not the bounds; a
    bounded Pareto with a given mean is the one of its reference [16].) A drawn rate is held for
    ``hold_periods``, since the paper's bursts last four to five of its periods of a second.

    =================== ==============================================================
    ``mean``            rows a second on average, exactly
    ``beta``            bias factor β > 0
    ``peak_ratio``      the highest rate as a multiple of the mean
    ``period_s``        length of a period
    ``hold_periods``    periods for which a drawn rate stays
    =================== ==============================================================

    >>> calm, bursty = (pareto(mean=100, beta=b, duration_s=4000, seed=1) for b in (1.5, 0.1))
    >>> round(float(np.std(calm.rates))), round(float(np.std(bursty.rates)))
    (64, 99)
    """
    _positive(mean=mean, beta=beta, duration_s=duration_s, period_s=period_s, hold_periods=hold_periods)
    if not peak_ratio > 1.0:
        raise invalid("peak_ratio", peak_ratio, "a number above 1")
    draws = math.ceil(duration_s / (period_s * hold_periods))
    levels = bounded_pareto(np.random.default_rng(seed).random(draws), beta=beta, peak=peak_ratio)
    hold = period_s * hold_periods
    spans = [hold] * (draws - 1) + [duration_s - hold * (draws - 1)]
    shape = Rates(tuple(levels.tolist()), tuple(spans))
    return shape.scaled(rate=mean)


def bounded_pareto(uniform: npt.NDArray[np.float64], *, beta: float, peak: float) -> npt.NDArray[np.float64]:
    """Turn uniform draws into draws from the bounded Pareto distribution of mean 1 on [least, peak].

    With L the least value and P the peak, F(x) = (1 - (L/x)^β) / (1 - (L/P)^β), which is solved for x.
    """
    low, high = -700.0, 0.0  # of the least value's logarithm; the mean grows with it
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _bounded_mean(math.exp(middle), peak, beta) < 1.0 else (low, middle)
    least = math.exp(low)
    ratio = (least / peak) ** beta
    return np.asarray(least * (1.0 - uniform * (1.0 - ratio)) ** (-1.0 / beta))


def _bounded_mean(least: float, peak: float, beta: float) -> float:
    log_span = math.log(peak / least)
    # ∫ x^-β dx between the bounds, written so that β = 1 is no special case.
    power = 1.0 - beta
    area = log_span if abs(power) < 1e-9 else math.expm1(power * log_span) / power
    return least * beta * area / -math.expm1(-beta * log_span)


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not (math.isfinite(value) and value > 0):
            raise invalid(name, value, "a number above 0")
