"""Estimates count, sum, mean, ratio and quantile of groups from a weighted sample, with confidence intervals.

A kept row of weight w represents w rows. With sums over the kept rows of a group,

    count      N̂ = Σ w                      e = 1 (0 if n_g was fixed: then N̂ is N exactly)
    sum        Ŷ = Σ w y                    e = y (y - ȳ)
    mean       ȳ = Σ w y / Σ w              e = (y - ȳ) / N̂
    ratio      R = Σ w y / Σ w x            e = (y - R x) / Σ w x
    quantile   the least q with F(q) >= p   e = √(p (1 - p)) / N̂, an interval of p converted to one of q

and the variance of each is estimated by

    V = A s²,   A = Σ w (w - 1),   s² = Σ w (w - 1) e² / A · n / (n - 1)

A contains the finite-population correction: with weights N/n it is N² (1/n - 1/N), and rows of weight 1 add nothing.
So where nothing was shed the interval has no width. It extends by t √V to both sides, with Student's t for n - 1
degrees of freedom, n being the rows of a weight above 1. Weights that are products (chained shedding) need no
other formula.

**Few rows.** n = 1 gives no variance at all, and a few rows that happen to be equal give one of zero. Therefore a
``Prior`` may give the deviation σ_0 that a group is expected to have, weighted as ν rows:

    s² := (ν σ_0² + (n - 1) s²) / (ν + n - 1),      n - 1 + ν degrees of freedom

σ_0 comes from earlier windows (:meth:`Spread.deviation`), or else from the same sample, all groups
together (:func:`pooled`, ν = 2). A learned deviation is worth ν = 5 rows plus those that the group itself had, up to
10. All these numbers were chosen by how many intervals contained the true value on recorded data.

**Designs.** ``"fixed"``: n_g rows of N_g were drawn at random. ``"even"``: they were drawn evenly along time, and
are in the order of time. Then only the difference between neighbours is random, and the squares are

    s² = Σ w (w - 1) (e_i - e_(i-1))² / 2A

around the ring: the last row is the predecessor of the first, since one part of the ring holds both the earliest and
the latest rows, and which of them it gives is random too. For rows without any order the result is the same on
average, with min(n - 1, 2n/3) degrees of freedom, as differences that share a row are not independent. Along a trend
it is too large: the step from last to first counts with 1/2 of its square, but adds only 1/6 to the variance on
average. Quantiles are as with ``"fixed"``, which is too wide rather than too narrow. ``"independent"``: each row was
kept by its own random draw, so N̂ and Ŷ vary with the number of rows too, and are not centred; the others are as with
``"fixed"``.

**Groups that were dropped.** If the budget was below one row per group, a group has rows only with a ``chance`` c,
and its weights are 1/c times as large. This adds to the variation of N̂ and Ŷ: (1 - c) N̂² and (1 - c) Ŷ² are added
to their variances. Means, ratios and quantiles are not affected.

With one row and no prior nothing is known, and the interval is (-inf, inf).

>>> sampled = Sampled(codes=np.array([0, 0, 0, 1]), weights=np.array([4.0, 4.0, 4.0, 1.0]), groups=2)
>>> found = mean(sampled, np.array([1.0, 2.0, 3.0, 7.0]))
>>> found.value, found.low.round(2), found.high.round(2)
(array([2., 7.]), array([-0.15,  7.  ]), array([4.15, 7.  ]))
>>> count(sampled).low, count(sampled).high
(array([12.,  1.]), array([12.,  1.]))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.student import require_level, t_quantile, z_quantile
from spillway.errors import invalid, unknown

Design = Literal["fixed", "even", "independent"]

LEARNED_ROWS = 5.0, 10.0  # weight of the deviation learned from earlier windows: least, most
POOLED_ROWS = 2.0  # weight of that of the other groups of the same sample


@dataclass(frozen=True, slots=True)
class Estimates:
    """One value per group, and the limits of its interval at the requested confidence level."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Prior:
    """The standard deviation that each group is expected to have, and its weight in rows."""

    deviation: Floats
    rows: Floats


@dataclass(frozen=True, slots=True)
class Sampled:
    """Kept rows: the group number and the weight of each row, and the number of groups.

    ``chance`` is the probability that a group had rows kept at all.
    """

    codes: Ints
    weights: Floats
    groups: int
    level: float = 0.95
    design: Design = "fixed"
    chance: float = 1.0

    def __post_init__(self) -> None:
        require_level(self.level)
        if self.design not in get_args(Design):
            raise unknown("design", self.design, get_args(Design))
        if not 0.0 < self.chance <= 1.0:
            raise invalid("chance", self.chance, "a number from 0 to 1, above 0")
        if np.shape(self.codes) != np.shape(self.weights):
            raise invalid("weights", self.weights, "one number for each row")
        if not (self.weights >= 1.0 - 1e-9).all():
            raise invalid(
                "weights", float(np.min(self.weights)), "numbers >= 1", hint="one row is at least itself"
            )
        if np.isinf(self.weights).any():
            raise invalid("weights", float("inf"), "finite numbers", hint="no row stands for endless rows")

    def sum(self, terms: Floats) -> Floats:
        """Return the sum of ``terms``, one number per row, for each group."""
        found: Floats = np.bincount(self.codes, terms, minlength=self.groups).astype(np.float64)
        return found

    @property
    def spare(self) -> Floats:
        """w (w - 1) of each row; a weight that differs from 1 only by rounding counts as 1."""
        w = self.weights
        return np.where(w > 1.0 + 1e-9, w * (w - 1.0), 0.0)


def count(sampled: Sampled) -> Estimates:
    """Estimate how many rows each group has."""
    N = sampled.sum(sampled.weights)
    N = np.where(np.abs(N - np.round(N)) < 1e-9 * N, np.round(N), N)  # n times N/n may not be exactly N
    found = Estimates(N, N, N)
    if sampled.design == "independent":
        found = _around(sampled, N, np.ones_like(sampled.weights), centred=False)
    found = _or_dropped(sampled, found)
    return replace(found, low=np.maximum(found.low, sampled.sum(np.ones_like(sampled.weights))))


def total(sampled: Sampled, y: Floats, prior: Prior | None = None) -> Estimates:
    """Estimate the sum of each group; NaN is ignored, and a group of only NaN has no sum."""
    there = sampled.sum((~np.isnan(y)).astype(np.float64)) > 0.0
    y = np.nan_to_num(y, nan=0.0)
    Y = np.where(there, sampled.sum(sampled.weights * y), np.nan)
    if sampled.design == "independent":
        return _or_dropped(sampled, _around(sampled, Y, y, centred=False))
    N = sampled.sum(sampled.weights)
    centre = np.divide(Y, N, out=np.zeros_like(Y), where=N > 0)
    return _or_dropped(sampled, _around(sampled, Y, y - centre[sampled.codes], centred=True, prior=prior))


def mean(sampled: Sampled, y: Floats, prior: Prior | None = None) -> Estimates:
    """Estimate the mean of each group over its values; NaN is ignored."""
    return ratio(sampled, y, (~np.isnan(y)).astype(np.float64), prior)


def ratio(sampled: Sampled, y: Floats, x: Floats, prior: Prior | None = None) -> Estimates:
    """Estimate Σ y / Σ x of each group, over rows that have both."""
    there = ~(np.isnan(y) | np.isnan(x))
    y, x = np.where(there, y, 0.0), np.where(there, x, 0.0)
    Y, X = sampled.sum(sampled.weights * y), sampled.sum(sampled.weights * x)
    R = np.divide(Y, X, out=np.full_like(Y, np.nan), where=X != 0.0)
    e = np.where(there, y - np.nan_to_num(R)[sampled.codes] * x, 0.0)
    return _around(sampled, R, e, centred=True, prior=prior, scale=np.abs(X), counted=there)


def quantile(sampled: Sampled, y: Floats, at: float) -> Estimates:
    """Estimate the quantile of each group: the least value that a share ``at`` of the values does not exceed."""
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0.0 <= at <= 1.0:
        raise invalid("at", at, "a share from 0 to 1")
    there = ~np.isnan(y)
    part = replace(sampled, codes=sampled.codes[there], weights=sampled.weights[there])
    order = np.lexsort((y[there], part.codes))
    values, passed = y[there][order], np.cumsum(part.weights[order])
    rows, N = np.bincount(part.codes, minlength=part.groups), part.sum(part.weights)
    first, before, filled = np.cumsum(rows) - rows, np.cumsum(N) - N, rows > 0

    def value(share: Floats) -> Floats:
        found = np.full(part.groups, np.nan)
        place = np.searchsorted(passed, before + np.clip(share, 0.0, 1.0) * N - 1e-9 * np.maximum(N, 1.0))
        found[filled] = values[np.clip(place, first, first + rows - 1)[filled]]
        return found

    p, A = np.full(part.groups, float(at)), part.sum(part.spare)
    half = _half(part.level, A, p * (1.0 - p), dof=rows.astype(np.float64)) / np.maximum(N, 1.0)
    # Values beyond the ends of the sample are possible, unless the group is whole.
    low = np.where((p - half > 0.0) | (A == 0.0), value(p - half), -np.inf)
    high = np.where((p + half < 1.0) | (A == 0.0), value(p + half), np.inf)
    return Estimates(value(p), np.where(filled, low, np.nan), np.where(filled, high, np.nan))


def learned_rows(seen: Floats) -> Floats:
    """Return the weight of a learned deviation in rows, given how many rows of the group were seen.

    >>> learned_rows(np.array([0.0, 2.0, 100.0]))
    array([ 5.,  7., 10.])
    """
    least, most = LEARNED_ROWS
    return np.minimum(least + seen, most)


def pooled(sampled: Sampled, y: Floats) -> Prior:
    """Return the common deviation of a sample's groups: the prior of each group, where nothing else is known.

    It is the larger of the average deviation and the average relative deviation times the group's mean. If no group
    has two rows, it is the deviation between groups (collapsed strata), which is too large rather than too small.
    """
    there = ~np.isnan(y)
    codes, y = sampled.codes[there], y[there]
    n = np.bincount(codes, minlength=sampled.groups).astype(np.float64)
    m = np.bincount(codes, y, minlength=sampled.groups) / np.maximum(n, 1.0)
    S = np.bincount(codes, (y - m[codes]) ** 2, minlength=sampled.groups)
    dof, worth = np.maximum(n - 1.0, 0.0), np.full(sampled.groups, POOLED_ROWS)
    if dof.sum() == 0.0:
        between = float(np.std(m[n > 0], ddof=1)) if np.count_nonzero(n) > 1 else np.inf
        return Prior(np.full(sampled.groups, between), worth)
    s = np.sqrt(S / np.maximum(dof, 1.0))
    relative = np.divide(s, np.abs(m), out=np.zeros_like(s), where=m != 0.0)
    c0, s0 = (dof * relative).sum() / dof.sum(), (dof * s).sum() / dof.sum()
    return Prior(np.maximum(c0 * np.abs(m), s0), worth)


def _around(
    sampled: Sampled,
    value: Floats,
    e: Floats,
    *,
    centred: bool,
    prior: Prior | None = None,
    scale: Floats | None = None,
    counted: npt.NDArray[np.bool_] | None = None,
) -> Estimates:
    """Return value ± t √(A s²) / scale."""
    a = sampled.spare if counted is None else np.where(counted, sampled.spare, 0.0)
    A, n = sampled.sum(a), sampled.sum((a > 0.0).astype(np.float64))
    dof = np.maximum(n - 1.0, 0.0) if centred else n
    if sampled.design == "even":
        squares, dof = _steps(sampled, a, e), np.minimum(dof, 2.0 * n / 3.0)
    else:
        squares = sampled.sum(a * e**2) * n / np.maximum(dof, 1.0)
    squares = squares / np.where(A > 0.0, A, 1.0)
    if prior is not None:
        squares = (prior.rows * prior.deviation**2 + dof * squares) / (prior.rows + dof)
        dof = prior.rows + dof
    half = _half(sampled.level, A, squares, dof)
    if scale is not None:
        half = np.divide(half, scale, out=np.full_like(half, np.nan), where=scale > 0.0)
    return Estimates(value, value - half, value + half)


def _steps(sampled: Sampled, a: Floats, e: Floats) -> Floats:
    """Return Σ a (e_i - e_(i-1))² / 2 of each group, around its ring: the last row is before the first."""
    at = np.flatnonzero(a > 0.0)
    at = at[np.argsort(sampled.codes[at], kind="stable")]
    rows = np.bincount(sampled.codes[at], minlength=sampled.groups)
    ends = np.cumsum(rows)[rows > 0]
    before = np.roll(at, 1)
    before[ends - rows[rows > 0]] = at[ends - 1]
    steps = (a[at] + a[before]) / 2.0 * (e[at] - e[before]) ** 2 / 2.0
    return np.bincount(sampled.codes[at], steps, minlength=sampled.groups).astype(np.float64)


def _or_dropped(sampled: Sampled, found: Estimates) -> Estimates:
    """Widen the interval of a total, because the group might have had no rows."""
    if sampled.chance == 1.0:
        return found
    dropped = z_quantile(sampled.level) * np.sqrt(1.0 - sampled.chance) * np.abs(found.value)
    half = np.hypot(found.high - found.value, dropped)
    return Estimates(found.value, found.value - half, found.value + half)


def _half(level: float, A: Floats, squares: Floats, dof: Floats) -> Floats:
    """Return t √(A s²): 0 where nothing was shed, infinite where nothing is known."""
    half = np.where(A > 0.0, np.inf, 0.0)
    known = (A > 0.0) & (dof > 0.0)
    half[known] = t_quantile(level, dof[known]) * np.sqrt(A[known] * squares[known])
    return half
