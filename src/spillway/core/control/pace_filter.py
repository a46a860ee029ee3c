"""Separates what the parts of a batch cost from how slow the machine currently is.

A batch that keeps k rows and drops d takes

    t = σ c (ρ + r d + k)                             ln t = x + ln(ρ + r d + k) + noise,  x = ln(σ c)

ρ = F / c says how many rows the fixed part of a batch is worth, r = s / c what a dropped row costs as a share of a
kept one. Both belong to the query and hardly change within minutes. x, the current cost of a row, changes with the
pace σ of the machine: a neighbour, a cold JVM or a garbage collection changes it from one batch to the next, for all
parts alike. Only t, k and d are measured.

**Hypotheses.** Under the true ρ and r, x moves as the pace of a machine does: mostly a little, sometimes by a jump.
Under wrong ones it also moves whenever the size of a batch changes. So each pair (ρ, r) of a grid is a hypothesis
with its own x, and the hypotheses whose x is the calmest get the most weight:

    predict    v <- v + q                             the pace wanders
    compare    e = ln t - ln(ρ + r d + k) - x
    weigh      p <- p [(1 - ε) N(e; v + R) + ε N(e; v + J² + R)]    Bayes' rule; with a chance of ε it has jumped
    correct    x <- x + K e                           K for each of the two cases, mixed by how likely they are

Nothing is linearised, so the filter cannot get stuck in a wrong answer. Batches of one size leave the weights of
all hypotheses as they were, and so do tiny batches: what a query has learned in hours survives a night without
traffic. A slow batch moves x under every hypothesis, however much of it was shed, so a machine that is fast again is
noticed at once.

**Noise.** R and q grow and shrink together with the measured errors (g): on a quiet machine the filter separates
prices in a few batches, on a noisy one it takes more. How much of the noise is a wandering pace (κ) shows in the
order of the errors: if the filter follows the pace too eagerly, an error to one side is followed by one to the other
side in the next batch.

**Forgetting.** A query may change. Each informative batch about ρ and r also removes a little of what earlier
batches have shown, back towards the first assumptions.

**A new run** begins with an unknown pace that changes fast (a cold JVM takes several times as long), so
the excess time of its first batches is attributed to the pace.

=======  ====================================================================
symbol   meaning
=======  ====================================================================
k, d     rows of a batch that were kept, and that were dropped
F, c, s  price of the batch itself, of a kept and of a dropped row, in seconds
ρ, r     F / c and s / c
σ, x     pace of the machine, and ln(σ c) under a hypothesis
v        variance of x
p        how likely a hypothesis is
g, κ     how noisy the machine is, how lively its pace: R ~ g, q ~ g κ
q, R, J  variances of the pace from batch to batch, of noise, size of a jump
=======  ====================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEP = 0.3  # of ln ρ between hypotheses; a value between two of them shares its weight among both
_WIDTH = 2.5  # standard deviations of the first assumption that the grid covers on each side
_SKIP_STEPS = np.arange(-3.0, 3.1, 0.5)  # of ln r around the first assumption, in standard deviations
_LEAST_LOG = -20.0  # of a weight: a rejected hypothesis weighs nothing, but can return within a few batches
_OUTLIER = 1e-12  # least likelihood of any batch: a batch that is odder than that changes no weights
_LARGEST_ERROR = 4.0  # squared standard deviations: the most that one batch counts for the noise
_LEARNS = 0.1  # share of the noise that one batch may change
_LEAST_NOISE, _MOST_NOISE = 0.15, 4.0  # g: standard deviations from two fifths to twice the usual ones
_LEARNS_ORDER = 0.2  # how much one batch may change ln κ
_LARGEST_PRODUCT = 2.0  # of two errors in a row, in standard deviations
_CALMEST, _LIVELIEST = (
    math.log(0.05),
    math.log(2.0),
)  # times the usual variance of the pace from batch to batch
_TELLING = 0.3  # spread of the log likelihoods from which a batch counts as fully informative
_FADES = 0.05  # of ln σ per batch: a pace that stays becomes the usual one after some minutes
_USUAL = 0.3  # weight of the last batch in the usual size of a batch
_FEW = 30.0  # prices are computed for at least a 30th of F / c kept rows, F / c as first assumed
_COLD_BATCHES = 3.0  # after which a third of the extra wander of a new run is left
_DIGITS = 5  # of the values kept from batch to batch, so that a snapshot is short and exact


@dataclass(frozen=True, kw_only=True)
class PaceFilterConfig:
    """The first assumptions about prices, their uncertainty, and how prices and pace change from batch to batch.

    ================ =====================================================================================
    field            meaning
    ================ =====================================================================================
    fixed_s, row_s   prices of a batch and of a kept row that are assumed before any measurement
    fixed_doubt      standard deviation of the logarithm of ``fixed_s``
    row_doubt        standard deviation of the logarithm of ``row_s``
    skip_share       price of a dropped row as a share of a kept one; None where no rows are dropped
    skip_doubt       standard deviation of its logarithm
    noise            relative standard deviation of a batch's time around the model, on a usual machine
    pace_wander      relative change of the pace from batch to batch, on a usual machine
    jump             change of the pace when it jumps
    jump_chance      probability of a jump in a batch
    forgetting       share of the earlier knowledge that an informative batch removes
    new_run_pace     assumed σ at the beginning of a run, with a cold JVM
    new_run_doubt    standard deviation of its logarithm
    new_run_wander   relative change of the pace in the first batches of a run
    ================ =====================================================================================
    """

    fixed_s: float
    row_s: float
    fixed_doubt: float
    row_doubt: float
    skip_share: float | None = None
    skip_doubt: float = 1.0
    noise: float = 0.06
    pace_wander: float = 0.06
    jump: float = 0.6
    jump_chance: float = 0.1
    forgetting: float = 0.02
    new_run_pace: float = 3.0
    new_run_doubt: float = 1.0
    new_run_wander: float = 0.25


@dataclass
class PaceFilterState:
    """The state of the filter.

    The lists hold ln p, x and v of each hypothesis. The other fields are shared: g, ln κ, the last error, ln σ with
    its variance, the batches of this run, the rows that a usual batch keeps and drops, and ln ρ in the middle of
    the grid. The lists are empty before the first batch.
    """

    weights: list[float] = field(default_factory=list)
    row_logs: list[float] = field(default_factory=list)
    row_variances: list[float] = field(default_factory=list)
    noise_scale: float = 1.0
    liveliness_log: float = 0.0
    last_error: float = 0.0
    pace_log: float = 0.0
    pace_variance: float = 0.0
    run_batches: float = 0.0
    usual_kept: float = 0.0
    usual_dropped: float = 0.0
    grid_middle: float = 0.0


class Prices(NamedTuple):
    """Prices at the current pace, and how certain that of a row is: the standard deviation of its logarithm."""

    fixed_s: float
    skip_s: float
    row_s: float
    row_doubt: float


class PaceFilter:
    """Estimates prices and pace from the batches so far."""

    def __init__(self, config: PaceFilterConfig, state: PaceFilterState | None = None) -> None:
        self.config = config
        self.state = PaceFilterState() if state is None else state
        deviation = math.hypot(config.fixed_doubt, config.row_doubt)
        steps = round(_WIDTH * deviation / _STEP)
        self._middle = math.log(config.fixed_s / config.row_s)
        self._fixed_logs: Array = self._middle + _STEP * np.arange(-steps, steps + 1.0)  # ln ρ, down the grid
        skips = np.zeros(1) if config.skip_share is None else config.skip_doubt * _SKIP_STEPS
        shares = 1.0 if config.skip_share is None else config.skip_share
        self._skip_logs: Array = np.minimum(math.log(shares) + skips, 0.0)  # ln r, across
        fixed = -0.5 * ((self._fixed_logs - self._middle) / deviation) ** 2
        self._first_weights: Array = fixed[:, None] - 0.5 * (skips / config.skip_doubt) ** 2
        if not self._fits():
            self._begin()

    @property
    def pace(self) -> float:
        """σ: by which factor everything currently takes longer than usual."""
        return math.exp(self.state.pace_log)

    @cached_property
    def _amounts(self) -> tuple[Array, Array]:
        return np.exp(self._fixed_logs)[:, None], np.exp(self._skip_logs)[None, :]

    def begin_run(self) -> None:
        """Forget the pace: the machine, or the JVM, is not the one of the last batch."""
        state, config = self.state, self.config
        expected = math.log(config.new_run_pace)
        state.row_logs = [x - state.pace_log + expected for x in state.row_logs]
        state.row_variances = [max(v, config.new_run_doubt**2) for v in state.row_variances]
        state.pace_log, state.pace_variance, state.run_batches = expected, config.new_run_doubt**2, 0.0

    def update(self, *, kept: float, dropped: float, time_s: float) -> None:
        """Update the filter with a batch: its kept and dropped rows, and the time it took."""
        config, state = self.config, self.state
        log_p, x, v = (self._grid(name) for name in ("weights", "row_logs", "row_variances"))
        rho, r = self._amounts
        g = state.noise_scale
        R, wander = g * config.noise**2, g * math.exp(state.liveliness_log) * config.pace_wander**2
        q = wander + (config.new_run_wander * math.exp(-state.run_batches / _COLD_BATCHES)) ** 2
        e = math.log(time_s) - np.log(rho + r * dropped + kept) - x
        calm = v + q
        jumped = calm + config.jump**2
        p_calm = (1.0 - config.jump_chance) * _normal(e, calm + R)
        p_jumped = config.jump_chance * _normal(e, jumped + R) + _OUTLIER
        likelihood = p_calm + p_jumped
        share = p_jumped / likelihood
        K_calm, K_jumped = calm / (calm + R), jumped / (jumped + R)
        K = (1.0 - share) * K_calm + share * K_jumped
        p = _shares(log_p)
        told = np.log(likelihood)
        calm_pace, calm_variance = self._pace_after(v, q, K_calm, e)
        jumped_pace, jumped_variance = self._pace_after(v, q + config.jump**2, K_jumped, e)
        state.pace_log = float((p * ((1.0 - share) * calm_pace + share * jumped_pace)).sum())
        state.pace_variance = float((p * ((1.0 - share) * calm_variance + share * jumped_variance)).sum())
        state.noise_scale = self._noise_after(p, e, share, calm + R, wander + R)
        self._watch_order(p, e, share, calm + R, wander + R)
        state.pace_log *= 1.0 - _FADES
        state.run_batches += 1.0
        state.usual_kept += _USUAL * (kept - state.usual_kept)
        state.usual_dropped += _USUAL * (dropped - state.usual_dropped)
        mean = float((p * told).sum())
        telling = min(math.sqrt(float((p * (told - mean) ** 2).sum())) / _TELLING, 1.0)
        fades = config.forgetting * telling
        log_p = (1.0 - fades) * (log_p + told) + fades * self._first_weights
        self._keep(
            log_p - log_p.max(), x + K * e, K * R + share * (1.0 - share) * ((K_jumped - K_calm) * e) ** 2
        )

    def prices(self) -> Prices:
        """Return the prices, averaged over the hypotheses.

        All likely hypotheses agree on the time of a batch of the usual size. They may not agree on how the batch
        itself, its kept rows and its dropped rows share that time: the mean of their shares is taken.
        """
        log_p, x, v = (self._grid(name) for name in ("weights", "row_logs", "row_variances"))
        p = _shares(log_p)
        rho, r = self._amounts
        kept = max(self.state.usual_kept, math.exp(self._middle) / _FEW)
        total = rho + r * self.state.usual_dropped + kept
        time_s = math.exp(float((p * (x + np.log(total))).sum()))
        row_s = time_s * float((p / total).sum())
        mean = float((p * x).sum())
        return Prices(
            fixed_s=time_s * float((p * rho / total).sum()),
            skip_s=min(time_s * float((p * r / total).sum()), row_s),
            row_s=row_s,
            row_doubt=math.sqrt(float((p * ((x - mean) ** 2 + v)).sum())),
        )

    def _pace_after(self, v: Array, moves: float, K: Array, e: Array) -> tuple[Array, Array]:
        """Return ln σ and its variance under each hypothesis, if the pace moves with variance ``moves``.

        An error is split by variance between the pace and the cost that was still uncertain; only the first part
        changes the pace.
        """
        variance = self.state.pace_variance + moves
        share = np.minimum(variance / (v + moves), 1.0) * K
        return self.state.pace_log + share * e, variance * (1.0 - share)

    def _noise_after(self, p: Array, e: Array, jumped: Array, expected: Array, noise: float) -> float:
        """Return g after a batch: it grows if errors are larger than expected; jumps do not count.

        Where x itself is hardly known, as in the first batches, an error shows little about the noise.
        """
        squares = (1.0 - jumped) * np.minimum(e * e / expected, _LARGEST_ERROR) + jumped
        says = float((p * noise / expected).sum())
        change = _LEARNS * says * (float((p * squares).sum()) - 1.0)
        return min(max(self.state.noise_scale * math.exp(change), _LEAST_NOISE), _MOST_NOISE)

    def _watch_order(self, p: Array, e: Array, jumped: Array, expected: Array, noise: float) -> None:
        """Learn κ, how lively the pace is, from whether an error predicts the next one.

        If the filter follows the pace too eagerly, a batch that was slow by chance causes an error to the other
        side in the next one; if not eagerly enough, errors to the same side follow one another.
        """
        state = self.state
        error = float((p * (1.0 - jumped) * e / np.sqrt(expected)).sum())
        says = float((p * noise / expected).sum())
        product = min(max(error * state.last_error, -_LARGEST_PRODUCT), _LARGEST_PRODUCT)
        lively = state.liveliness_log + _LEARNS_ORDER * says * product
        state.liveliness_log = min(max(lively, _CALMEST), _LIVELIEST)
        state.last_error = error

    def _fits(self) -> bool:
        """Return whether the state belongs to this grid."""
        state, size = self.state, self._first_weights.size
        lists = (state.weights, state.row_logs, state.row_variances)
        return all(len(one) == size for one in lists) and math.isclose(state.grid_middle, self._middle)

    def _begin(self) -> None:
        """Start from the configured assumptions: independent normal ln F and ln c, conditioned on each ρ."""
        config, state = self.config, self.state
        state.noise_scale, state.pace_log, state.pace_variance, state.run_batches = 1.0, 0.0, 0.0, 0.0
        state.liveliness_log, state.last_error = 0.0, 0.0
        state.usual_kept, state.usual_dropped, state.grid_middle = 0.0, 0.0, self._middle
        fixed, row = config.fixed_doubt**2, config.row_doubt**2
        x = math.log(config.row_s) - row / (fixed + row) * (self._fixed_logs - self._middle)
        v = np.full_like(self._first_weights, fixed * row / (fixed + row) + config.new_run_doubt**2)
        self._keep(self._first_weights, np.repeat(x[:, None], self._skip_logs.size, axis=1), v)

    def _grid(self, name: str) -> Array:
        return np.array(getattr(self.state, name)).reshape(self._first_weights.shape)

    def _keep(self, log_p: Array, x: Array, v: Array) -> None:
        state = self.state
        state.weights = np.maximum(log_p, _LEAST_LOG).ravel().round(_DIGITS).tolist()
        state.row_logs = x.ravel().round(_DIGITS).tolist()
        state.row_variances = v.ravel().round(_DIGITS).tolist()


def _normal(e: Array, variance: Array) -> Array:
    """Return the density of a normal distribution at e, up to a constant factor."""
    return np.asarray(np.exp(-0.5 * e * e / variance) / np.sqrt(variance))


def _shares(log_p: Array) -> Array:
    """Return the probabilities of the hypotheses; those with the least weight get 0."""
    p = np.exp(log_p) - math.exp(_LEAST_LOG)
    return np.asarray(p / p.sum())
