"""Estimates the sizes of a stream's groups while it runs, and the probability with which each group's rows are kept.

On a stream the decision about a batch is made before its rows are read, so the concept (group frequencies) of
earlier batches is used. A sketch of each batch gives its most frequent groups and their counts; they are added to
counts that fade:

    count' = γ count + new        rows' = γ rows + arrived        share_g = count_g / rows

At most ``most_groups`` are known. All others, rare or new, are the *rest*. The share of the rest is what the known
groups leave of 1, or the share of the groups that were new in a batch, if it is larger: where groups come and go,
past groups predict little.

**Rationing.** A share r of N rows is to be kept. The rest has priority, because a group of one row is lost with that
row: it is kept whole if that takes no more than half of the budget. Otherwise that half is spread over it evenly, or
more if the known groups have fewer rows than the other half. The remaining budget is divided among the known groups
by a rule (:mod:`~spillway.core.groups.rates`), and gives

    π_g = n_g / N_g        N_g = share_g N

Rows are kept independently with probability π_g, so n_g is an expectation: with ``at_least`` = a rows expected, a
group is missed with probability e^-a. A group with less than one expected row also costs less than one, so groups
that have vanished take nothing from the others. If the budget is below one row per known group, half of it is divided
by rows and half by groups: by rows alone the many small groups would be missing, and by groups alone the large ones,
with huge weights.

**Accuracy.** Where the user requires an accuracy of a group's mean, no group gets more rows than that needs
(:mod:`~spillway.core.groups.accuracy`), even if more would fit. A query without groups has a single one, which makes
this the paper's rule for scalar aggregates.

A weight is one over the probability that was really used. So if the groups have drifted since, estimates stay
unbiased; only their errors are no longer the smallest.

==========  =========================================================================
symbol      meaning
==========  =========================================================================
γ           ``memory``
r, N        ``keep_ratio``, ``rows``: of the time span in which no group should be missing
π_g, n_g    keep probability and expected rows of group g
==========  =========================================================================

>>> census = Census().after([(11, 900), (22, 90)], arrived=1000)
>>> census.shares.round(3), round(census.rest, 3)
(array([0.9 , 0.09]), 0.01)
>>> ration(census, keep_ratio=0.05, rows=1000, rule="equal", at_least=8)
Ration(keys=(11, 22), chances=(0.022..., 0.222...), rest=1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.accuracy import Accuracy
from spillway.core.groups.rates import Rule, met, real_shares
from spillway.core.groups.spread import SpreadConfig
from spillway.core.groups.student import z_quantile

MOST_GROUPS = 4_096
_MEMORY = 0.7
_LEAST_COUNT = 0.5  # of a row: below it a group is forgotten
_HALF, _MOST_FOR_THE_REST = 0.5, 0.9
_LEAST_ROWS = 1e-6  # of a known group of which no rows are expected in a window
_LEAST_KNOWN = 0.1  # of the rows: least share assumed for known groups, which may come back


@dataclass(frozen=True, slots=True)
class Census:
    """Fading counts of the most frequent groups by the 64-bit hash of their keys, and how much their values vary."""

    keys: tuple[int, ...] = ()
    counts: tuple[float, ...] = ()
    rows: float = 0.0
    spread: dict[str, Any] | None = None
    fresh: float = 0.0

    @classmethod
    def counted(
        cls,
        rows: int,
        keys: Sequence[int],
        counts: Sequence[int],
        moments: Sequence[tuple[int, float, float]] = (),
    ) -> Self:
        """Return the census of groups that were counted exactly.

        ``counts`` are the rows of each group, ``moments`` the number, mean and variance of its values.

        >>> Census.counted(10, [7, 5], [6, 4], [(6, 2.0, 0.25), (4, 1.0, 0.0)]).variation.round(2)
        array([0.26, 0.04])
        """
        spread = None
        if any(n > 1 for n, _, _ in moments):
            order = sorted(range(len(keys)), key=keys.__getitem__)
            n, mean, variance = (np.array([moments[at][field] for at in order]) for field in range(3))
            known = {"keys": [keys[at] for at in order], "counts": n, "means": mean, "squares": n * variance}
            empty = SpreadConfig(most_groups=MOST_GROUPS).build().snapshot()
            spread = {**empty, **{name: np.asarray(array).tolist() for name, array in known.items()}}
        return cls(tuple(keys), tuple(float(count) for count in counts), float(rows), spread)

    @property
    def shares(self) -> Floats:
        """The share that each known group has of all rows."""
        return np.asarray(self.counts) / max(self.rows, 1e-300)

    @property
    def rest(self) -> float:
        """The expected share of rows of groups that are not known yet, in a coming batch."""
        return max(self.fresh, 1.0 - float(self.shares.sum())) if self.rows else 1.0

    @property
    def variation(self) -> Floats | None:
        """How much the values of each known group vary, None if no value has been seen."""
        if self.spread is None:
            return None
        known = SpreadConfig(most_groups=MOST_GROUPS).build(self.spread)
        return known.variation(np.asarray(self.keys, dtype=np.int64))

    def after(
        self,
        top: Sequence[tuple[int, float]],
        arrived: float,
        sample: Sequence[tuple[int, float]] = (),
    ) -> Census:
        """Return the census after a batch: its most frequent groups, its rows, a sample of processed values."""
        counts = {
            key: _MEMORY * count
            for key, count in zip(self.keys, self.counts, strict=True)
            if count > _LEAST_COUNT
        }
        for key, count in top:
            counts[key] = counts.get(key, 0.0) + count
        kept = sorted(counts, key=lambda key: (-counts[key], key))[:MOST_GROUPS]
        return Census(
            keys=tuple(kept),
            counts=tuple(counts[key] for key in kept),
            rows=_MEMORY * self.rows + arrived,
            spread=self._learned(sample),
            fresh=self._unheard_of(top, arrived),
        )

    def _unheard_of(self, top: Sequence[tuple[int, float]], arrived: float) -> float:
        """Return the share of rows in groups that were new in a batch; it rises quickly and falls slowly."""
        if not self.keys or not arrived:
            return self.fresh
        known = set(self.keys)
        share = 1.0 - sum(count for key, count in top if key in known) / arrived
        return max(0.0, share, _MEMORY * self.fresh)

    def _learned(self, sample: Sequence[tuple[int, float]]) -> dict[str, Any] | None:
        if not sample:
            return self.spread
        spread = SpreadConfig(most_groups=MOST_GROUPS).build(self.spread)
        keys, codes = np.unique(np.array([key for key, _ in sample], dtype=np.int64), return_inverse=True)
        spread.learn(keys, codes=codes, values=np.array([value for _, value in sample], dtype=np.float64))
        return spread.snapshot()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read back what :meth:`to_dict` gave."""
        return cls(
            tuple(found["keys"]),
            tuple(found["counts"]),
            found["rows"],
            found["spread"],
            found.get("fresh", 0.0),
        )


@dataclass(frozen=True, slots=True)
class Ration:
    """The probability of keeping a row of each listed group, and of a row of any other group."""

    keys: tuple[int, ...] = ()
    chances: tuple[float, ...] = ()
    rest: float = 1.0

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read back what ``asdict`` gave."""
        return cls(tuple(found["keys"]), tuple(found["chances"]), found["rest"])


def rest_chance(budget: float, unknown_rows: float, known_rows: float) -> float:
    """Return the keep probability of unknown groups' rows: 1 if that takes no more than half of the budget.

    >>> rest_chance(100, 40, 900), rest_chance(100, 500, 500), rest_chance(100, 980, 20)
    (1.0, 0.1, 0.08...)
    """
    if unknown_rows <= 0.0:
        return 1.0
    spent = min(max(_HALF * budget, budget - known_rows), _MOST_FOR_THE_REST * budget)
    return min(1.0, spent / unknown_rows)


def rows_enough(accuracy: Accuracy, variation: Floats, sizes: Floats | Ints, at_least: int) -> Floats:
    """Return the rows that each group's mean needs for the accuracy, and no fewer than the least."""
    n0 = (z_quantile(accuracy.confidence) * variation / accuracy.error) ** 2
    return np.maximum(n0 / (1.0 + n0 / sizes), at_least)


def _divided(N: Floats, budget: float, rule: Rule, variation: Floats | None, at_least: int) -> Floats:
    """Return the expected rows of each group; fractions count, also of groups that come rarely."""
    one, least = np.minimum(N, 1.0), np.minimum(N, float(at_least))
    if budget < one.sum():
        halves: Floats = budget / 2.0 * (N / N.sum() + one / one.sum())
        return np.minimum(N, halves)
    if budget <= least.sum():
        return met(lambda theta: np.minimum(N, theta), budget, high=float(at_least))[0]
    return real_shares(rule, N, variation, least, budget, np.arange(len(N)))


def ration(
    census: Census,
    *,
    keep_ratio: float,
    rows: float,
    rule: Rule,
    at_least: int,
    accuracy: Accuracy | None = None,
) -> Ration:
    """Divide a budget among the known groups."""
    if keep_ratio >= 1.0 and accuracy is None:
        return Ration()
    if not census.keys:
        return Ration(rest=min(keep_ratio, 1.0))
    budget, unknown_rows = min(keep_ratio, 1.0) * rows, census.rest * rows
    known_rows = rows - unknown_rows
    rest = rest_chance(budget, unknown_rows, known_rows)
    budget -= rest * unknown_rows
    among = census.shares / census.shares.sum()
    sizes = np.maximum(among * max(known_rows, _LEAST_KNOWN * rows), _LEAST_ROWS)
    chances = np.minimum(1.0, _divided(sizes, max(budget, 0.0), rule, census.variation, at_least) / sizes)
    if accuracy is not None and (variation := census.variation) is not None:
        chances = np.minimum(chances, rows_enough(accuracy, variation, sizes, at_least) / sizes)
    return Ration(census.keys, tuple(chances.tolist()), rest)
