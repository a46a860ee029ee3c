"""Tells what the parts of a batch cost from how slow the machine is just now.

A batch that keeps k rows and drops d takes

    t = σ c (ρ + r d + k)                             ln t = x + ln(ρ + r d + k) + noise,  x = ln(σ c)

ρ = F / c says how many rows the fixed part of a batch is worth, r = s / c what a dropped row costs as a share of a
kept one. Both belong to the query and hardly change within minutes. x, the cost of a row now, moves with the pace σ
of the machine: a neighbour, a cold JVM or a garbage collection changes it from one batch to the next, for all parts
alike. Only t, k and d are measured.

**Hypotheses.** Under the true ρ and r, x moves as the pace of a machine does: mostly a little, sometimes by a jump.
Under wrong ones it also moves whenever the size of a batch changes. So each pair (ρ, r) of a grid is a hypothesis
with an x of its own, and those whose x is the calmest are believed:

    predict    v <- v + q                             the pace wanders
    compare    e = ln t - ln(ρ + r d + k) - x
    weigh      p <- p [(1 - ε) N(e; v + R) + ε N(e; v + J² + R)]    Bayes' rule; with a chance of ε it has jumped
    correct    x <- x + K e                           K for each of the two cases, mixed by how likely they are

Nothing is linearised, so there is no wrong answer to get stuck in. Batches of one size leave all hypotheses as likely
as they were, and so do tiny ones: what a query has learned in hours outlives a night without traffic. A slow batch
moves x under every hypothesis, whatever was shed in it, so a machine that is fast again is noticed at once.

**Noise.** R and q grow and shrink together with the errors that are seen (g): a quiet machine tells prices apart in
a few batches, a noisy one takes more. How much of that is a pace that wanders (κ) shows in the order of the errors:
if the pace is followed too eagerly, an error to one side is made up for by one to the other side in the next batch.

**Forgetting.** A query may change. Each batch that tells something about ρ and r also takes a little of what earlier
ones have told off, down to what was believed at first.

**A new run** begins with a pace that nobody knows and that moves fast (a cold JVM takes several times as long), so
what its first batches take too long is booked on the pace.

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

_STEP = 0.3  # of ln ρ between hypotheses; one that lies between two of them shares its weight among both
_WIDTH = 2.5  # standard deviations of what is believed at first that the grid reaches to each side
_SKIP_STEPS = np.arange(-3.0, 3.1, 0.5)  # of ln r around what is believed at first, in standard deviations
_LEAST_LOG = -20.0  # of a weight: what was ruled out weighs nothing, but can come back within a few batches
_OUTLIER = 1e-12  # likelihood that any batch has, however odd: it tells nothing then
_LARGEST_ERROR = 4.0  # squared standard deviations that one batch may say about the noise
_LEARNS = 0.1  # share of the noise that one batch may change
_LEAST_NOISE, _MOST_NOISE = 0.15, 4.0  # g: standard deviations from two fifths to twice the usual ones
_LEARNS_ORDER = 0.2  # what one batch may change of how lively the pace is taken to be, in logarithms
_LARGEST_PRODUCT = 2.0  # of two errors in a row, in standard deviations
_CALMEST, _LIVELIEST = (
    math.log(0.05),
    math.log(2.0),
)  # times the usual variance of the pace from batch to batch
_TELLING = 0.3  # spread of the log likelihoods from which on a batch tells as much as any
_FADES = 0.05  # of ln σ in a batch: a pace that stays is the usual one after some minutes
_USUAL = 0.3  # of the usual size of a batch that the last one makes up
_FEW = 30.0  # prices are taken at no fewer rows than this part of F / c as it is believed at first
_COLD_BATCHES = 3.0  # after which a third of a new run's unrest is left
_DIGITS = 5  # of what is kept from batch to batch, so that a snapshot is short and exact


@dataclass(frozen=True, kw_only=True)
class PaceFilterConfig:
    """What is believed of the prices at first, how far they may be off, and how things change from batch to batch.

    ================ =====================================================================================
    field            meaning
    ================ =====================================================================================
    fixed_s, row_s   prices of a batch and of a kept row that are believed before anything was measured
    fixed_doubt      standard deviation of the logarithm of the one
    row_doubt        and of the other
    skip_share       price of a dropped row as a share of a kept one; None where no rows are dropped
    skip_doubt       standard deviation of its logarithm
    noise            relative standard deviation of a batch's time around the model, on a usual machine
    pace_wander      what the pace changes by from batch to batch, relative, on a usual machine
    jump             by how much it changes when it jumps
    jump_chance      how often it does
    forgetting       share of what is known that a telling batch takes off
    new_run_pace     what σ is believed to be at the beginning of a run, with a cold JVM
    new_run_doubt    standard deviation of its logarithm
    new_run_wander   what the pace changes by in the first batches of a run
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
    """Of each hypothesis ln p, x and v; of all of them g, ln κ, the last error, ln σ with its variance, the batches
    of this run, the rows that a usual batch keeps and drops, and ln ρ in the middle of the grid.

    The lists are empty before the first batch.
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
    """Prices at the pace of now, and how sure that of a row is: the standard deviation of its logarithm."""

    fixed_s: float
    skip_s: float
    row_s: float
    row_doubt: float


class PaceFilter:
    """Prices and pace after the batches so far."""

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
        """σ: how many times as long everything takes as it usually does."""
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
        """Take in a batch that did so much in so much time."""
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
        """Return the prices in the middle of what is believed.

        A batch of the usual size has a time that all likely hypotheses agree on. They may not agree on how the batch
        itself, the rows it keeps and those it drops share that time: the mean of their shares is taken.
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
        """Return ln σ and its variance under each hypothesis if the pace moves by as much.

        Of an error only that part is booked on the pace which is not due to a cost that was not known yet, by their
        variances.
        """
        variance = self.state.pace_variance + moves
        share = np.minimum(variance / (v + moves), 1.0) * K
        return self.state.pace_log + share * e, variance * (1.0 - share)

    def _noise_after(self, p: Array, e: Array, jumped: Array, expected: Array, noise: float) -> float:
        """Return g after a batch: more of it where errors are larger than expected; jumps do not count.

        Where x itself is hardly known, as in the first batches, an error says little about the noise.
        """
        squares = (1.0 - jumped) * np.minimum(e * e / expected, _LARGEST_ERROR) + jumped
        says = float((p * noise / expected).sum())
        change = _LEARNS * says * (float((p * squares).sum()) - 1.0)
        return min(max(self.state.noise_scale * math.exp(change), _LEAST_NOISE), _MOST_NOISE)

    def _watch_order(self, p: Array, e: Array, jumped: Array, expected: Array, noise: float) -> None:
        """Learn how lively the pace is: whether an error tells of the next one.

        If the pace is followed too eagerly, a batch that was slow by chance is made up for by an error to the other
        side in the next one; if not eagerly enough, errors to one side follow one another.
        """
        state = self.state
        error = float((p * (1.0 - jumped) * e / np.sqrt(expected)).sum())
        says = float((p * noise / expected).sum())
        product = min(max(error * state.last_error, -_LARGEST_PRODUCT), _LARGEST_PRODUCT)
        lively = state.liveliness_log + _LEARNS_ORDER * says * product
        state.liveliness_log = min(max(lively, _CALMEST), _LIVELIEST)
        state.last_error = error

    def _fits(self) -> bool:
        """Say whether the state is one of this grid."""
        state, size = self.state, self._first_weights.size
        lists = (state.weights, state.row_logs, state.row_variances)
        return all(len(one) == size for one in lists) and math.isclose(state.grid_middle, self._middle)

    def _begin(self) -> None:
        """Believe what is configured: two independent normal logarithms of F and c, seen from each ρ."""
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
    """Return the density of a normal at e, but for a constant factor."""
    return np.asarray(np.exp(-0.5 * e * e / variance) / np.sqrt(variance))


def _shares(log_p: Array) -> Array:
    """Return how likely hypotheses are; those at the lower end are ruled out."""
    p = np.exp(log_p) - math.exp(_LEAST_LOG)
    return np.asarray(p / p.sum())
