"""An oracle for results that share coins: the formulas of ``spillway.estimate.shared``, worked out slowly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.row_hash import row_hashes
from spillway.estimate.shared_draws import _SALTS
from spillway.estimate.student import coefficients, horner

Array = np.ndarray[Any, Any]
Interval = tuple[float, float, float]
NAN, INF = float("nan"), float("inf")


@dataclass
class Side:
    """The coin of each result on one side: which one it is, its weight, and its place and sign in the sums."""

    ids: Array
    weights: Array
    hashes: Array

    @classmethod
    def of(cls, side: int, ids: Array, weights: Array) -> Side:
        """Coins with the places that Spark gives them."""
        return cls(ids, weights, row_hashes([pa.array(ids)], _SALTS[side], len(ids)))

    @property
    def loss(self) -> Array:
        return np.where(self.weights > 1 + 1e-9, 1 - 1 / self.weights, 0.0)

    def sums(self, terms: Array, *, exact: bool) -> Array:
        """One signed sum for each place that is taken, or for each coin."""
        sampled = self.loss > 0
        places = (self.ids if exact else self.hashes % 10)[sampled]
        _, at = np.unique(places, return_inverse=True)
        return np.bincount(at, (np.sign(self.hashes) * np.sqrt(self.loss) * terms)[sampled])


@dataclass
class Results:
    """Kept results: y and x of each, and one side or two."""

    y: Array
    x: Array
    sides: list[Side]
    level: float = 0.95

    @property
    def w(self) -> Array:
        return np.prod([side.weights for side in self.sides], axis=0)

    def count(self) -> Interval:
        value, low, high = self._linear(np.ones(len(self.w)))
        return value, max(low, float(len(self.w))), high

    def sum(self) -> Interval:
        return self._linear(self.y)

    def mean(self) -> Interval:
        return self._quotient(np.ones_like(self.y))

    def ratio(self) -> Interval:
        return self._quotient(self.x)

    def quantile(self, q: float) -> Interval:
        w = self.w
        order = np.lexsort((*[side.hashes for side in self.sides[::-1]], w, self.y))
        y, passed, N = self.y[order], np.cumsum(w[order]), w.sum()
        below = np.clip((q * N - (passed - w[order])) / w[order], 0, 1)
        e = np.empty(len(w))
        e[order] = below - q
        V, nu, _ = self.error(e, centred=True, exact=True)
        half = self._t(nu) * math.sqrt(V) / N

        def at(share: float) -> float:
            return float(y[np.argmax(passed >= share * N * (1 - 1e-9))])

        return at(q), at(q - half) if half < q else -INF, at(q + half) if q + half < 1 else INF

    def error(self, e: Array, *, centred: bool, exact: bool = False) -> tuple[float, float, float]:
        """V of Σ w e, its degrees of freedom, and the fewest sums of a side."""
        w = self.w
        D = float((w**2 * e**2 * np.prod([side.loss for side in self.sides], axis=0)).sum())
        D = D if len(self.sides) == 2 else 0.0
        V, errors, fewest = D, 0.0, []
        for side in self.sides:
            S = side.sums(w * e, exact=exact)
            if len(S) == 0:
                continue
            fewest.append(len(S))
            if centred and len(S) == 1:
                return INF, 1.0, 1.0
            most = len(S) - 1 if centred else len(S)
            part = (S**2).sum() * len(S) / most
            nu = 3 * (S**2).sum() ** 2 / (S**4).sum() - 2 if (S != 0).any() else 1.0
            V += max(part - D, 0.0)
            errors += part**2 / max(min(nu, most), 1.0)
        return V, V**2 / errors if errors > 0 else 1.0, float(min(fewest, default=0))

    def _linear(self, e: Array) -> Interval:
        V, nu, m = self.error(e, centred=False)
        reach = (
            self._t(nu) * math.sqrt(V) if V > 0 or m == 0 else (np.abs(self.y).max() or 1.0) * self._others(m)
        )
        value = float((self.w * e).sum())
        return value, value - reach, value + reach

    def _quotient(self, x: Array) -> Interval:
        w, y = self.w, self.y
        X = (w * x).sum()
        R = float((w * y).sum() / X)
        V, nu, m = self.error(y - R * x, centred=True)
        reach = self._t(nu) * math.sqrt(V)
        if m > 1 and np.ptp(y / x) <= 1e-12 * abs(R):
            reach = (abs((w * y).sum() / w.sum()) or 1.0) * min(self._others(m), w.sum())
        return R, R - reach / abs(X), R + reach / abs(X)

    def _others(self, m: float) -> float:
        """How many results may differ from the kept ones: as many coins as none of which is seen by chance."""
        w = (self.w**2).sum() / self.w.sum()
        coins = math.log(1 - self.level) / math.log(1 - 1 / w) / w
        return float(self.w.sum() * coins / m)

    def _t(self, nu: float) -> float:
        return math.exp(horner(coefficients(self.level), 1.0 / max(nu, 1.0)))
