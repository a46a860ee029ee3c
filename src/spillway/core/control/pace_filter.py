"""How long parts of a batch take, told apart from how slow the machine is just now.

A batch does amounts a₁, a₂, ... of several kinds of work (itself once, so many rows kept, so many dropped) and takes

    t = σ Σ aⱼ pⱼ                                     ln t = x + ln Σ aⱼ exp(zⱼ) + noise

The prices pⱼ belong to the query and hardly change within minutes. The pace σ belongs to the machine: a neighbour,
a cold JVM or a garbage collection changes it from one batch to the next, for all parts alike. Only t and the
amounts are measured. The filter holds a normal belief about the logarithms z = ln p and x = ln σ, and with each
batch it is an extended Kalman filter:

    predict    x <- ρ x,  P <- A P A + Q              the pace returns to 1 and wanders, prices wander little
    compare    r = ln t - h(z, x)                     h has slope 1 in x and slope wⱼ, the share of part j in t, in zⱼ
    correct    the most likely (z, x) given both, by Gauss and Newton, because h is not straight

So each part learns by its share of the batch's time. That is why the estimate cannot trap itself: where few rows are
kept, a slow batch is the pace's doing or the fixed part's, never the rows'; and the pace shows in every batch,
whatever was shed in it, so a machine that is fast again is noticed at once. What a query has learned in hours
outlives a night of tiny batches, since those say nothing of a row.

**A machine that changes.** A batch that is off by more than two standard deviations may be the machine's doing: with
the pace as uncertain as the batch is off, it follows at once, up and down. Where the next one is off to the same side
again, the part with the largest share becomes more uncertain too, since the query may have changed. That is believed
only if it explains the batch better than a price that is hardly known anyway, by as much as such changes are rare:
otherwise the pace would take the blame for each batch of another size, and the price would never be learned.

**What noise hides.** A batch that says that a part takes next to nothing says only that its share is below the noise:
a price that falls so far is as uncertain as that, but no more than it was at first. A part that follows another is
never dearer than that one.

**A new run** begins with a pace that nobody knows (a cold JVM takes several times as long), so what its first batches
take too long is booked on the pace.

=======  ====================================================================
symbol   meaning
=======  ====================================================================
aⱼ, pⱼ   amount of part j in a batch, its price in seconds
zⱼ, x    their logarithm, and that of the pace σ
P, Q     covariance of the belief, and what a batch adds to it
ρ        how much of the pace is left after a batch if nothing is measured
=======  ====================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEPS = 6  # of Gauss and Newton; more change nothing in the third digit
_LONGEST_STEP = 1.5  # of one of them, in logarithms
_UNUSUAL = 2.0  # standard deviations
_ONCE, _AGAIN = 0.1, 0.5  # of what a batch is off, squared: how uncertain the largest part becomes
_RARE = 5.0  # evidence against a change that nothing has announced: there is one in a dozen batches, 2 ln 12
_FALL = 0.1  # of the logarithm of a price in one batch
_HARDLY_KNOWN = 0.5  # doubt from which on a price may explain more than the filter sees from where it is
_MOST_LOG = 40.0


@dataclass(frozen=True, kw_only=True)
class PaceFilterConfig:
    """What is believed of the prices at first, how far they may be off, and how things change from batch to batch.

    ================ =====================================================================================
    field            meaning
    ================ =====================================================================================
    prices_s         what is believed before anything was measured
    doubts           standard deviations of their logarithms
    follows          for each part another that its price is believed to be a share of, or itself: what is
                     learned of that one moves it along, and the doubt is that of the share
    noise            relative standard deviation of a batch's time around the model
    wander           what a price changes by in a batch, relative
    pace_wander      the same of the pace
    pace_memory      ρ
    new_run_pace     what σ is believed to be at the beginning of a run, with a cold JVM
    new_run_doubt    standard deviation of its logarithm
    ================ =====================================================================================
    """

    prices_s: tuple[float, ...]
    doubts: tuple[float, ...]
    follows: tuple[int, ...]
    noise: float = 0.1
    wander: float = 0.02
    pace_wander: float = 0.1
    pace_memory: float = 0.97
    new_run_pace: float = 3.0
    new_run_doubt: float = 1.0


@dataclass
class PaceFilterState:
    """Means of ln p and ln σ, the covariance row by row, and by how much the last batch was off if unusually so."""

    means: list[float] = field(default_factory=list)
    covariance: list[float] = field(default_factory=list)
    unusual: float = 0.0


class PaceFilter:
    """Prices and pace after the batches so far."""

    def __init__(self, config: PaceFilterConfig, state: PaceFilterState | None = None) -> None:
        self.config = config
        self.parts = len(config.prices_s)
        self.state = PaceFilterState() if state is None else state
        if not self.state.means:
            self.state.means = [*(math.log(price) for price in config.prices_s), 0.0]
            self.state.covariance = self._first_covariance().ravel().tolist()

    @property
    def prices_s(self) -> Array:
        """The prices at the pace of now."""
        means = np.array(self.state.means)
        return np.asarray(np.exp(means[:-1] + means[-1]))

    @property
    def pace(self) -> float:
        """σ: how many times as long everything takes as it does on the whole."""
        return math.exp(self.state.means[-1])

    @property
    def doubts(self) -> Array:
        """The standard deviations of the logarithms of the prices at the pace of now."""
        P = self._covariance()
        variances = np.diag(P)[:-1] + P[-1, -1] + 2.0 * P[-1, :-1]
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    def begin_run(self) -> None:
        """Forget the pace: the machine, or the JVM, is not the one of the last batch."""
        P = self._covariance()
        P[-1, :] = P[:, -1] = 0.0
        P[-1, -1] = self.config.new_run_doubt**2
        self.state.means[-1] = math.log(self.config.new_run_pace)
        self.state.covariance = P.ravel().tolist()
        self.state.unusual = 0.0

    def update(self, amounts: tuple[float, ...], time_s: float) -> None:
        """Take in a batch that did these amounts in this time."""
        config, state = self.config, self.state
        a = np.array(amounts)
        m, P = np.array(state.means), self._covariance()
        m[-1] *= config.pace_memory
        P[-1, :] *= config.pace_memory
        P[:, -1] *= config.pace_memory
        P[np.diag_indices_from(P)] += [config.wander**2] * self.parts + [config.pace_wander**2]
        y, R = math.log(time_s), config.noise**2
        found = _most_likely(a, m, P, y, R)
        state.unusual, before = 0.0, state.unusual
        if found.surprise > _UNUSUAL**2:
            h, H = _expected(a, m)
            r = y - h
            largest = int(np.argmax(H[:-1]))
            wider = P.copy()
            wider[-1, -1] += r * r
            wider[largest, largest] += (_AGAIN if r * before > 0.0 else _ONCE) * r * r
            changed = _most_likely(a, m, wider, y, R)
            if changed.evidence + _RARE < found.evidence:
                found, P, state.unusual = changed, wider, r
        z = found.logs
        _, H = _expected(a, z)
        PH = P @ H
        P = P - np.outer(PH, PH) / (float(H @ PH) + R)
        for j, (other, doubt) in enumerate(zip(config.follows, config.doubts, strict=True)):
            z[j] = min(z[j], z[other])
            if m[j] - z[j] > _FALL and 0.0 < H[j] < config.noise:
                P[j, j] = max(P[j, j], min(math.log(config.noise / float(H[j])), doubt) ** 2)
        state.means = np.clip(z, -_MOST_LOG, _MOST_LOG).tolist()
        state.covariance = (0.5 * (P + P.T)).ravel().tolist()

    def _first_covariance(self) -> Array:
        config = self.config
        doubts = np.array([*config.doubts, config.new_run_doubt])
        along = np.eye(self.parts + 1)
        for part, other in enumerate(config.follows):
            along[part, other] = 1.0
        return np.asarray(along @ np.diag(doubts**2) @ along.T)

    def _covariance(self) -> Array:
        size = self.parts + 1
        return np.array(self.state.covariance).reshape(size, size)


def _expected(amounts: Array, logs: Array) -> tuple[float, Array]:
    """Return the logarithm of a batch's time, and its slope in each of the logarithms."""
    parts = amounts * np.exp(logs[:-1])
    total = float(parts.sum())
    return math.log(total) + float(logs[-1]), np.append(parts / total, 1.0)


class _Estimate(NamedTuple):
    """Logarithms of prices and pace, how far they and the batch are off in squared standard deviations, and that as
    evidence against them: with what is likely in the neighbourhood, too, so that a narrow peak counts for less."""

    logs: Array
    surprise: float
    evidence: float


def _most_likely(a: Array, m: Array, P: Array, y: float, R: float) -> _Estimate:
    """Return what is most likely given the belief and one more batch.

    From the belief one gets to the nearest explanation only. A part whose price is hardly known may explain the batch
    as well, from where its share is large, so each of those is tried, too. Of all prices that a part may have, only
    few explain a batch, and noise may do so as well: the evidence weighs how many (Laplace's approximation).
    """
    precision = np.asarray(np.linalg.pinv(P, hermitian=True), dtype=np.float64)
    starts = [m, *_explanations(a, m, np.diag(P), y)]
    return min((_descend(a, m, P, y, R, start, precision) for start in starts), key=lambda one: one.evidence)


def _explanations(a: Array, m: Array, variances: Array, y: float) -> list[Array]:
    """Return the belief with one price at a time, of those hardly known, set to what explains the batch."""
    parts = a * np.exp(m[:-1])
    total = math.exp(y - float(m[-1]))
    found = []
    for j in range(parts.size):
        left = total - float(parts.sum() - parts[j])
        if a[j] > 0.0 and left > 0.0 and variances[j] > _HARDLY_KNOWN**2:
            start = m.copy()
            start[j] = math.log(left / float(a[j]))
            found.append(start)
    return found


def _descend(a: Array, m: Array, P: Array, y: float, R: float, start: Array, precision: Array) -> _Estimate:
    """Go from a starting point to the most likely one near it, by Gauss and Newton."""
    z = start
    for _ in range(_STEPS):
        h, H = _expected(a, z)
        PH = P @ H
        step = m + PH * ((y - h - float(H @ (m - z))) / (float(H @ PH) + R)) - z
        longest = float(np.abs(step).max())
        z = z + step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < 1e-4:
            break
    off = z - m
    h, H = _expected(a, z)
    surprise = float(off @ precision @ off) + (y - h) ** 2 / R
    return _Estimate(z, surprise, surprise + math.log1p(float(H @ P @ H) / R))
