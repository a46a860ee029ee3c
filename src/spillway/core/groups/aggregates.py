"""Computes the aggregate of each group: one given by name, a quantile, a ratio, or a function of your own.

    "count" "sum" "mean" "median"     as :mod:`~spillway.core.groups.intervals` estimates them
    Quantile(0.9)  Ratio("hours")     of the value, and of its sum to that of another column
    "min" "max"                       of the kept rows: the true value lies beyond, so one end is open
    f(values, weights)                any function; rows without a value are left out
    (init, incr, final)               any function of the values alone, fed one by one

**Intervals of your own functions** come from the jackknife: the rows of a group are divided into B parts (20 at
most) by hashes of their values, the function is computed B times with one part left out and the weights of the others
raised, and

    V = (B - 1) / B · Σ (θ_b - θ̄)² · (1 - n / N)

with Student's t for B - 1 degrees of freedom. This is valid for smooth functions (a variance, a correlation, a mean
of logarithms), but not for extremes or numbers of distinct values. The order of the rows does not matter: parts
filled in turn would spread a trend over all parts alike, and hide its variance. Rows that were drawn evenly are
treated as rows drawn at random, which makes intervals too wide rather than too narrow. Where nothing was shed, the
interval has no width. There is no prior here: a few rows that happen to be equal have an interval without width.

>>> sampled = Sampled(np.zeros(4, dtype=np.int64), np.full(4, 10.0), groups=1)
>>> found = answer(lambda y, w: float((w * y).sum() / w.sum()), sampled, np.array([1.0, 2.0, 3.0, 6.0]))
>>> exact = answer("mean", sampled, np.array([1.0, 2.0, 3.0, 6.0]))
>>> found.value, bool(np.isclose(found.low, exact.low).all())
(array([3.]), True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.intervals import Estimates, Prior, Sampled, count, mean, quantile, ratio, total
from spillway.core.groups.random_order import mixed, told_apart
from spillway.core.groups.student import t_quantile
from spillway.core.windows.aggregate_functions import AggregateFunction, function_of
from spillway.errors import SpillwayError, invalid, unknown

_PARTS = 20
NAMES = ("count", "max", "mean", "median", "min", "sum")


@dataclass(frozen=True, slots=True)
class Quantile:
    """The least value that a share ``at`` of the values does not exceed."""

    at: float

    def __post_init__(self) -> None:
        if isinstance(self.at, bool) or not isinstance(self.at, int | float) or not 0.0 <= self.at <= 1.0:
            raise invalid("at", self.at, "a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sum of the value divided by the sum of the column ``to``."""

    to: str


Aggregate = (
    str | Quantile | Ratio | Callable[[Floats, Floats], float] | tuple[Any, Any, Any] | AggregateFunction
)


def require_aggregate(aggregate: Any, value: str | None) -> None:
    """Raise if this is not an aggregate, or if it reads a value and no column is named."""
    if isinstance(aggregate, str):
        if aggregate not in NAMES:
            raise unknown("aggregate", aggregate, NAMES)
    elif not isinstance(aggregate, Quantile | Ratio) and not callable(aggregate):
        function_of(aggregate)
    if value is None and aggregate != "count":
        raise invalid("value", value, f"the name of the column that {aggregate!r} reads")


@np.errstate(over="ignore", invalid="ignore")
def answer(
    aggregate: Aggregate,
    sampled: Sampled,
    values: Floats | None,
    *,
    others: Floats | None = None,
    prior: Prior | None = None,
) -> Estimates:
    """Return the aggregate of each group from its kept rows; ``others`` is the column of a ratio."""
    if isinstance(aggregate, str) and aggregate == "count":
        return count(sampled)
    assert values is not None
    if isinstance(aggregate, Ratio):
        assert others is not None
        return ratio(sampled, values, others)
    if isinstance(aggregate, Quantile):
        return quantile(sampled, values, aggregate.at)
    if isinstance(aggregate, str):
        if aggregate in ("mean", "sum"):
            return (mean if aggregate == "mean" else total)(sampled, values, prior)
        return quantile(sampled, values, {"min": 0.0, "median": 0.5, "max": 1.0}[aggregate])
    return _jackknife(_weighted(aggregate), sampled, values)


def _weighted(aggregate: Any) -> Callable[[Floats, Floats], Any]:
    if isinstance(aggregate, tuple | AggregateFunction):
        fed = function_of(aggregate)
        return lambda values, _: fed.over(values.tolist())
    return aggregate  # type: ignore[no-any-return]


def _jackknife(function: Callable[[Floats, Floats], Any], sampled: Sampled, values: Floats) -> Estimates:
    there = ~np.isnan(values)
    codes, y, w = sampled.codes[there], values[there], sampled.weights[there]
    order = np.argsort(codes, kind="stable")
    rows = np.bincount(codes, minlength=sampled.groups)
    ends = np.cumsum(rows)
    found = np.full((3, sampled.groups), np.nan)
    for g in np.flatnonzero(rows):
        at = order[ends[g] - rows[g] : ends[g]]
        found[:, g] = _one(function, y[at], w[at], sampled.level)
    return Estimates(*found)


def _one(
    function: Callable[[Floats, Floats], Any], y: Floats, w: Floats, level: float
) -> tuple[float, float, float]:
    theta = _number(function(y, w))
    n, N = len(y), float(w.sum())
    if N - n <= 1e-9 * N:
        return theta, theta, theta
    B = min(n, _PARTS)
    if B < 2:
        return theta, -np.inf, np.inf
    part = _dealt(y, w, B)
    left = [part != b for b in range(B)]
    thetas = np.array([_number(function(y[rest], w[rest] * (N / w[rest].sum()))) for rest in left])
    V = (B - 1) / B * float(((thetas - thetas.mean()) ** 2).sum()) * (1.0 - n / N)
    half = float(t_quantile(level, np.array([B - 1.0]))[0]) * V**0.5
    return theta, theta - half, theta + half


def _dealt(y: Floats, w: Floats, B: int) -> Ints:
    """Return which of B equally large parts each row belongs to: by hash, so independent of the order of the rows."""
    order = np.lexsort((w, y))
    hashes = mixed((y[order] + 0.0).view(np.int64), 0)  # turns -0.0, whose bits differ, into 0.0
    drawn = told_apart(mixed(hashes, int(hashes.sum())))
    part = np.empty(len(y), dtype=np.int64)
    part[order[np.argsort(drawn)]] = np.arange(len(y)) % B
    return part


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SpillwayError(
            f"aggregate: your function returned {value!r}, which is no number.",
            hint="return one number a group",
        ) from None
