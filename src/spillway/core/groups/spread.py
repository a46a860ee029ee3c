"""Learns how much the values of each group vary, from rows that were processed anyway.

The variance rule needs c_g = σ_g / |μ_g| of groups that are about to be sampled. Reading all rows for it would
already answer the query, so c_g comes from samples: those of earlier windows, and a pilot where there are none.
Three numbers are kept per group, a count n, a mean m and a sum of squares S, and all samples are added to them:

    n' = γ n + k        m' = m + (x̄ - m) k / n'        S' = γ S + S_x + (x̄ - m)² γ n k / n'

where k, x̄ and S_x belong to the new sample, and γ, the ``memory``, makes old samples fade: a window that is j
windows old has weight γ^j. A group whose mean changes from window to window counts as one that varies.

**Few rows.** One row shows nothing about a variance, and two show little. So each group is shrunk towards the
others:

    s_g = √(S_g / (n_g - 1)) / M_g                             from the group's own rows
    c_0 = Σ (n_g - 1) s_g / Σ (n_g - 1)                        from all groups
    c_g = (ν c_0 + (n_g - 1) s_g) / (ν + n_g - 1)              ν: ``prior_rows``, the weight of the other groups

Standard deviations are averaged, not variances: the expected error that the rule minimises is linear in c_g. A
group that was never seen has c_g = c_0. M_g is |m_g|, but no less than its own standard error: a mean of about
zero would otherwise take the whole budget for a relative error that cannot be made small.

**Bounded.** At most ``most_groups`` are remembered, by a 64-bit hash of their key. When there are more, those with
the fewest remembered rows are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.random_order import group_draws
from spillway.errors import invalid


def group_keys(labels: pa.Table) -> Ints:
    """Return a 64-bit hash of each group's key, by which the group is remembered."""
    return group_draws(labels, salt=0)


@dataclass(frozen=True, slots=True)
class SpreadConfig:
    """How fast old samples fade, the weight of other groups in rows, and how many groups are remembered."""

    memory: float = 0.8
    prior_rows: float = 1.0
    most_groups: int = 100_000

    def __post_init__(self) -> None:
        if not 0.0 <= self.memory <= 1.0:
            raise invalid("memory", self.memory, "a number from 0 to 1")
        if not self.prior_rows > 0.0:
            raise invalid("prior_rows", self.prior_rows, "a number > 0")
        if self.most_groups < 1:
            raise invalid("most_groups", self.most_groups, "a whole number >= 1")

    def build(self, state: Mapping[str, Any] | None = None) -> Spread:
        """Return an empty ``Spread``, or one restored from a snapshot."""
        return Spread(self, state)


class Spread:
    """A fading count, mean and sum of squares of the processed values of each group.

    >>> spread = SpreadConfig().build()
    >>> keys = np.array([11, 22])
    >>> spread.learn(keys, codes=np.array([0, 0, 1, 1]), values=np.array([9.0, 11.0, 5.0, 5.0]))
    >>> spread.variation(np.array([11, 22, 33])).round(3)
    array([0.106, 0.035, 0.071])
    """

    kind = "spread"
    version = 1

    def __init__(self, config: SpreadConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self._keys = np.empty(0, dtype=np.int64)
        self._counts, self._means, self._squares = (np.empty(0) for _ in range(3))
        if state is not None:
            self._restore(state)

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> Spread:
        """Return an independent copy."""
        twin = Spread(self.config)
        for name in _FIELDS:
            setattr(twin, f"_{name}", getattr(self, f"_{name}").copy())
        return twin

    @np.errstate(over="ignore", invalid="ignore")
    def learn(self, keys: Ints, *, codes: Ints, values: Floats) -> None:
        """Add a sample: ``codes`` are the positions in ``keys`` of each value's group; only finite values count."""
        seen = np.isfinite(values)
        codes, values = codes[seen], values[seen]
        k = np.bincount(codes, minlength=len(keys)).astype(np.float64)
        mean = np.bincount(codes, values, minlength=len(keys)) / np.maximum(k, 1.0)
        squares = np.bincount(codes, (values - mean[codes]) ** 2, minlength=len(keys))
        self._counts *= self.config.memory
        self._squares *= self.config.memory
        met = k > 0
        at = self._places(keys[met])
        k, mean, squares = k[met], mean[met], squares[met]
        old, step = self._counts[at], mean - self._means[at]
        new = old + k
        self._means[at] += step * k / new
        self._squares[at] += squares + step**2 * old * k / new
        self._counts[at] = new
        self._forget()

    @np.errstate(over="ignore", invalid="ignore")
    def variation(self, keys: Ints) -> Floats:
        """Return c_g = σ_g / |μ_g| of each group, shrunk towards the value of all groups."""
        n, m, S = self._counts, self._means, self._squares
        M2 = np.maximum(m**2, S / np.maximum(n, 1.0) ** 2)
        known = (n > 1.0) & (M2 > 0.0)
        dof = np.where(known, n - 1.0, 0.0)
        s = np.sqrt(np.divide(S, M2 * dof, out=np.zeros_like(S), where=known))
        s = np.nan_to_num(s, nan=_MOST_VARIATION, posinf=_MOST_VARIATION)
        c0 = float((dof * s).sum() / dof.sum()) if dof.sum() > 0.0 else 1.0
        nu = self.config.prior_rows
        c = (nu * c0 + dof * s) / (nu + dof)
        found = np.full(len(keys), c0)
        at, hit = self._find(keys)
        found[hit] = c[at[hit]]
        return found

    def deviation(self, keys: Ints, *, rows: Floats, means: Floats) -> tuple[Floats, Floats] | None:
        """Return σ_g = c_g |μ_g| and the number of rows behind it, or None if nothing is known yet.

        μ_g is the mean of the remembered rows and of the current sample (its ``rows`` and ``means``) together:
        a single row with a small value would give a deviation that is too small.
        """
        if not (self._counts > 1.0).any():
            return None
        n, m = np.zeros(len(keys)), np.zeros(len(keys))
        at, hit = self._find(keys)
        n[hit], m[hit] = self._counts[at[hit]], self._means[at[hit]]
        together = (n * m + rows * means) / np.maximum(n + rows, 1e-300)
        return self.variation(keys) * np.abs(together), n

    def within(self) -> tuple[float, float]:
        """Return the squares around the groups' means, summed over all groups, and their degrees of freedom."""
        n, S = self._counts, self._squares
        return float(S[n > 1.0].sum()), float((n[n > 1.0] - 1.0).sum())

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        arrays = {name: getattr(self, f"_{name}").tolist() for name in _FIELDS}
        return {"kind": self.kind, "version": self.version, **arrays}

    def _restore(self, state: Mapping[str, Any]) -> None:
        for name, value in (("kind", self.kind), ("version", self.version)):
            if state.get(name) != value:
                raise invalid(f"state.{name}", state.get(name), repr(value), hint="start without a state")
        found = {name: np.asarray(state.get(name, ())) for name in _FIELDS}
        sizes = {len(array) for array in found.values()}
        if len(sizes) != 1 or sizes.pop() > self.config.most_groups:
            raise invalid("state", "of other lengths", "one number a group", hint="start without a state")
        self._keys = found["keys"].astype(np.int64)
        self._counts, self._means, self._squares = (found[name].astype(np.float64) for name in _FIELDS[1:])

    def _find(self, keys: Ints) -> tuple[Ints, Any]:
        at = np.searchsorted(self._keys, keys)
        hit = at < len(self._keys)
        hit[hit] = self._keys[at[hit]] == keys[hit]
        return at, hit

    def _places(self, keys: Ints) -> Ints:
        """Return the position of each group, after inserting new groups."""
        _, hit = self._find(keys)
        merged = np.concatenate([self._keys, keys[~hit]])
        order = np.argsort(merged, kind="stable")
        self._keys = merged[order]
        for name in _FIELDS[1:]:
            fresh = np.zeros(len(merged) - len(getattr(self, f"_{name}")))
            setattr(self, f"_{name}", np.concatenate([getattr(self, f"_{name}"), fresh])[order])
        return self._find(keys)[0]

    def _forget(self) -> None:
        if len(self) > self.config.most_groups:
            most = np.argsort(-self._counts, kind="stable")[: self.config.most_groups]
            most.sort()
            for name in _FIELDS:
                setattr(self, f"_{name}", getattr(self, f"_{name}")[most])


_MOST_VARIATION = 1e9  # for values whose squares overflow a float
_FIELDS = ("keys", "counts", "means", "squares")
