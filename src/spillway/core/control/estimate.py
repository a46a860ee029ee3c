"""What a batch costs: how much of its time is fixed, and what a kept and a dropped row add.

The time of a batch with n rows of which k are kept is modelled as

    busy = F + s (n - k) + c k                                              F, s, c >= 0

Only busy, n and k are measured. The estimator keeps the last ``memory_batches`` of them. After each batch it

1. looks for a jump. The deviation of a batch is what it took more or less than the last estimates say, per
   kept row; the median over the last three or the last five, whichever is more, is what c has changed by, each
   batch counting by the share that rows have in its time. Two dear batches of three raise it, one does not (a
   garbage collection); three cheap ones of five lower it. If that changes what the last batches should have
   taken by a quarter, those from before are forgotten;
2. solves for F, s and c by weighted least squares on relative errors, with weights that fade by 7 % a batch
   and are cut for outliers, and with a pull towards what is believed (a ridge, see below);
3. moves c by the median deviation from that solution, which follows a drifting cost faster than the weights
   fade.

**What the data cannot say.** Batches of one size say nothing about how F and c share their time, small ones
say nothing about c, and without any drop there is nothing on s. So the three are pulled towards what is
believed of them: a Bayesian estimate with a normal prior, a batch's time being measured to 10 %. What is
believed is the cold start at first, and it is doubted: the standard deviation of c is a hundred times its
value, so that time which rows may well account for goes to the rows. Then belief follows the estimates, and
doubt falls to once the value, the faster the more of an estimate comes from data (the share that the data
take off the prior's variance). So a cost learnt from large batches outlives a night of small ones. If two of the
last three batches take more than twice what they should, and it cannot be the rows because there were few, then F is
not what was believed, and is doubted ten times as much.

A deviation counts for c only as far as rows make up the batch's time (in full from a fifth on), and 10 % of
the batch's time are taken as noise. So small batches do not make rows look absurdly dear, and large ones do
not make them look free.

**Bounds.** F is at most what the smallest batches in memory take; s at most c; c never zero. A batch without
rows tells about F only. A batch that is not ``warm`` (the first of a run, several times slower than the rest)
and one with a nonsensical measurement are left out.

=======  ==========================================================
symbol   meaning
=======  ==========================================================
F        ``fixed_s``, time per batch whatever its size
s        ``skip_s``, time per row that is read and dropped
c        ``cost_s``, time per row that is kept
n, k     rows that arrived, rows kept
=======  ==========================================================

>>> model = CostModelConfig().build()
>>> for rows in (20_000, 60_000, 30_000, 80_000, 40_000, 10_000):
...     costs = model.update(arrived_rows=rows, kept_rows=rows, busy_s=0.3 + 12e-6 * rows)
>>> round(costs.fixed_s, 2), round(costs.cost_s * 1e6)
(0.3, 12)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillway.core.control.checks import require_number, require_whole
from spillway.core.control.state import from_snapshot, to_snapshot

Array = NDArray[np.float64]

_FADE = 0.93  # of a batch's weight, for every batch that follows
_NOISE = 0.1  # of a batch's time
_REACH = 10.0  # the cost moves by no more than this factor in one batch
_JUMP = math.log(1.25)
_FOLLOW = 0.1
_LEAST_ROW_S = 1e-9
_SURPRISED_DOUBT = 10.0
_COLD_DOUBT = (1.0, 10.0, 100.0)  # standard deviations of F, s and c as multiples of their cold values


@dataclass(frozen=True, slots=True)
class Costs:
    """The three parameters of a batch's time."""

    fixed_s: float
    cost_s: float
    skip_s: float

    def busy_s(self, arrived_rows: float, kept_rows: float) -> float:
        """Return how long a batch should take.

        >>> Costs(fixed_s=0.25, cost_s=1e-5, skip_s=1e-6).busy_s(arrived_rows=100_000, kept_rows=50_000)
        0.8
        """
        return self.fixed_s + self.skip_s * max(arrived_rows - kept_rows, 0.0) + self.cost_s * kept_rows


@dataclass(frozen=True, kw_only=True)
class CostModelConfig:
    """What is believed before the first batch, and how many batches are remembered."""

    cold_fixed_s: float = 0.3
    cold_cost_s: float = 10e-6
    cold_skip_s: float = 0.3e-6
    memory_batches: int = 40

    def __post_init__(self) -> None:
        require_number(
            "cold_fixed_s", self.cold_fixed_s, 0.0, 1e3, above=True, hint="seconds a batch, as 0.3"
        )
        require_number("cold_cost_s", self.cold_cost_s, 0.0, 1e3, above=True, hint="seconds a row, as 10e-6")
        require_number("cold_skip_s", self.cold_skip_s, 0.0, 1e3, above=True, hint="seconds a row, as 0.3e-6")
        require_whole("memory_batches", self.memory_batches, 5, 1000)

    def build(self, state: Mapping[str, Any] | None = None) -> CostModel:
        """Return a model, at its beginning or where a snapshot left off."""
        return CostModel(self, state)


@dataclass
class CostModelState:
    """The batches in memory as (dropped, kept, busy); as (F, s, c) the estimates, the beliefs and the doubts.

    There are no estimates before the first batch, and c is 0 in them until a batch had rows. Doubt is the
    standard deviation of a belief as a multiple of its value.
    """

    batches: list[list[float]] = field(default_factory=list)
    estimates: list[float] = field(default_factory=list)
    believed: list[float] = field(default_factory=list)
    doubt: list[float] = field(default_factory=list)


class CostModel:
    """Online estimate of fixed, per-row and per-dropped-row time from whole batches."""

    kind = "cost_model"
    version = 1

    def __init__(self, config: CostModelConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        cold = [config.cold_fixed_s, config.cold_skip_s, config.cold_cost_s]
        self.state = (
            CostModelState(believed=cold, doubt=list(_COLD_DOUBT))
            if state is None
            else from_snapshot(CostModelState, state, kind=self.kind, version=self.version)
        )

    @property
    def costs(self) -> Costs | None:
        """The estimates, None before a batch with rows has been seen."""
        if not self.state.estimates or self.state.estimates[2] <= 0.0:
            return None
        F, s, c = self.state.estimates
        return Costs(fixed_s=F, cost_s=c, skip_s=s)

    def update(
        self, *, arrived_rows: float, kept_rows: float, busy_s: float, warm: bool = True
    ) -> Costs | None:
        """Take in a finished batch and return the estimates after it."""
        if not warm or not _plausible(arrived_rows, kept_rows, busy_s):
            return self.costs
        k = float(round(kept_rows))
        d = float(max(round(arrived_rows) - k, 0.0))
        state = self.state
        state.batches = [*state.batches[1 - self.config.memory_batches :], [d, k, float(busy_s)]]
        last = None if self.costs is None else self._after_jump(self.costs)
        if last is not None and sum(_beyond_rows(batch, last) for batch in state.batches[-3:]) >= 2:
            state.doubt[0] = max(state.doubt[0], _SURPRISED_DOUBT)
        F, s, c = self._solve(last)
        if k > 0.0 or last is not None:
            c = _moved(Costs(F, c, s), state.batches)
            state.estimates = [F, min(s, c), c]
        else:
            state.estimates = [F, s, 0.0]
        return self.costs

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` goes on exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)

    def _after_jump(self, last: Costs) -> Costs:
        """Return the estimates with the cost it has jumped to, and forget the batches from before the jump."""
        state, batches = self.state, self.state.batches
        cost_s = _moved(last, batches)
        after = Costs(last.fixed_s, cost_s, min(last.skip_s, cost_s))
        before_s, after_s = (
            sum(costs.busy_s(d + k, k) for d, k, _ in batches[-3:]) for costs in (last, after)
        )
        if abs(math.log(max(after_s, _LEAST_ROW_S) / max(before_s, _LEAST_ROW_S))) < _JUMP:
            return last
        way = math.copysign(1.0, cost_s - last.cost_s)
        while len(state.batches) > 5 or (
            len(state.batches) > 1 and _excess_s(state.batches[0], last) * way <= 0.0
        ):
            state.batches = state.batches[1:]
        state.believed[2], state.doubt[2] = cost_s, max(state.doubt[2], 2.0)
        return after

    def _solve(self, last: Costs | None) -> tuple[float, float, float]:
        """Solve for F, s and c by weighted least squares with a ridge, and let belief follow."""
        state = self.state
        d, k, busy = np.asarray(state.batches, dtype=np.float64).T
        believed, doubt = np.array(state.believed), np.array(state.doubt)
        config = self.config
        least = np.array([0.1 * config.cold_fixed_s, config.cold_skip_s, config.cold_cost_s])
        unit = np.maximum(
            believed * doubt, least
        )  # the prior's standard deviations; never so sure as to be stuck
        prior = believed / unit
        columns = np.column_stack([np.ones_like(busy), d, k]) * unit
        theta = prior if last is None else np.array([last.fixed_s, last.skip_s, last.cost_s]) / unit
        # Relative errors, but no batch counts for more because it was short, by itself or by surprise.
        scale = np.maximum(busy, 0.25 * float(np.median(busy)))
        if last is not None:
            scale = np.maximum(scale, np.minimum(columns @ theta, 10.0 * busy))
        columns, seen = columns / scale[:, None], busy / scale
        faded = _FADE ** np.arange(len(busy) - 1, -1, -1.0)
        smallest = float(np.median(busy[d + k <= 1.5 * (d + k).min()]))
        most = [smallest / float(unit[0]), math.inf, math.inf]
        # Outliers are judged by the last estimates first: three batches may follow one that is far off.
        cut = np.ones_like(busy) if last is None else _trust(seen - columns @ theta)
        ridge = _NOISE**2
        for _ in range(4):
            weighted = columns * (faded * cut)[:, None]
            gram = columns.T @ weighted + ridge * np.eye(3)
            inverse = _inverse(gram)
            theta = _bounded(gram, weighted.T @ seen + ridge * prior, inverse, most)
            cut = _trust(seen - columns @ theta)
        known = np.clip(1.0 - ridge * np.diag(inverse), 0.0, 1.0) ** 2
        state.believed = np.maximum(
            believed + _FOLLOW * known * (theta * unit - believed), _LEAST_ROW_S
        ).tolist()
        state.doubt = (doubt + _FOLLOW * known * (1.0 - doubt)).tolist()
        F, s, c = (theta * unit).tolist()
        c = max(c, _LEAST_ROW_S)
        return F, min(s, c), c


def _plausible(arrived_rows: float, kept_rows: float, busy_s: float) -> bool:
    """Say whether a batch can have been: from a microsecond to a day, and no row in less than a tenth of a ns."""
    finite = all(math.isfinite(x) and x >= 0.0 for x in (arrived_rows, kept_rows, busy_s))
    return finite and 1e-6 <= busy_s <= 1e5 and max(arrived_rows, kept_rows) * 1e-10 <= busy_s


def _trust(error: Array) -> Array:
    """Return weights that are 1 for usual relative errors and fall with the square of unusual ones."""
    size = np.abs(error)
    usual = max(1.5 * float(np.median(size)), _NOISE)
    weights: Array = (usual / np.maximum(size, usual)) ** 2
    return weights


def _inverse(gram: Array) -> Array:
    """Invert a matrix whose rows may differ by many orders of magnitude, as absurd measurements make them."""
    even = 1.0 / np.sqrt(np.diag(gram))
    inverse: Array = np.linalg.pinv(gram * np.outer(even, even), hermitian=True) * np.outer(even, even)
    return inverse


def _bounded(gram: Array, right: Array, inverse: Array, most: list[float]) -> Array:
    """Minimise x·gram·x/2 - right·x over 0 <= x <= most: solved, then put right coordinate by coordinate."""
    free = (inverse @ right).tolist()
    x = [min(max(value, 0.0), high) for value, high in zip(free, most, strict=True)]
    if x != free:
        A, b = gram.tolist(), right.tolist()
        for _ in range(500):
            change = 0.0
            for j, row in enumerate(A):
                best = x[j] + (b[j] - row[0] * x[0] - row[1] * x[1] - row[2] * x[2]) / row[j]
                best = min(max(best, 0.0), most[j])
                change = max(change, abs(best - x[j]))
                x[j] = best
            if change < 1e-9:
                break
    return np.array(x)


def _excess_s(batch: list[float], costs: Costs) -> float:
    """Return what a batch took more than it should, below 0 if less; what may be noise is nothing."""
    d, k, busy = batch
    expected = costs.busy_s(d + k, k)
    return math.copysign(max(abs(busy - expected) - _NOISE * expected, 0.0), busy - expected)


def _beyond_rows(batch: list[float], costs: Costs) -> bool:
    """Say whether a batch took twice what it should, and rows have no great part in that."""
    d, k, busy = batch
    return busy > 2.0 * costs.busy_s(d + k, k) and costs.cost_s * k < 0.25 * busy


def _moved(costs: Costs, batches: list[list[float]]) -> float:
    """Return c moved by the median deviation of the last three or five batches, whichever is more."""
    c = costs.cost_s
    last = []
    for batch in batches[-5:]:
        d, k, _ = batch
        if k > 0.0:
            share = (
                c * k / costs.busy_s(d + k, k)
            )  # of the rows in the batch's time: how much it can tell of c
            last.append((_excess_s(batch, costs) / k * min(1.0, 5.0 * share), share))
    change = max(_weighted_median(last[-3:]), _weighted_median(last)) if last else 0.0
    return max(min(max(c + change, c / _REACH), c * _REACH), _LEAST_ROW_S)


def _weighted_median(pairs: list[tuple[float, float]]) -> float:
    """Return the least value such that it and those below hold half of the weight."""
    half = 0.5 * sum(weight for _, weight in pairs)
    below = 0.0
    for value, weight in sorted(pairs):
        below += weight
        if below >= half:
            return value
    return max(pairs)[0]
