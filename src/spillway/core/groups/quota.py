"""Computes how many rows of each group are drawn where groups were counted: exact numbers, not probabilities.

Where a table can be read twice, the size N_g of each group is known. So the budget is divided into whole rows n_g
(:mod:`~spillway.core.groups.rates`), and the n_g rows with the smallest hashes are drawn:

    limit_g    the n_g-th smallest hash of the group        a row is kept if its hash is within it
    k_g        the rows within it: n_g, or more where the row at the limit has twins of the same hash
    w_g        N_g / k_g

Hashes are exchangeable, so given k_g every choice of k_g rows is equally likely: a simple random sample. Then

- no group is missing: limit_g is at least the smallest hash of the group, and k_g >= 1;
- weighted sums are unbiased, and weighted counts are exact: Σ w = N_g, where independent draws of rows would leave a
  deviation of N_g √((1 - π) / n_g).

**Candidates.** To find the n_g-th smallest of N_g hashes it is enough to search those below

    bound_g = max(smallest hash, (n_g + 3 √n_g + 4) / N_g of all hashes)

In the rare case that there are fewer than n_g, all of them are drawn: k_g < n_g, and all of the above still holds.
Groups that draw ``most_ranked`` rows or more are not worth a sort: their limit is n_g / N_g of all hashes, and k_g
the number of rows within it.

**The others.** Groups that are not in the census are kept whole if that takes no more than half of the budget.
Otherwise ``others`` rows of each are drawn: as many as half of the budget allows, and at least one. With a budget
below one row per group only independent draws of rows are possible (:mod:`~spillway.core.groups.census`).

**Twins.** Rows that are equal in all hashed columns have the same hash and are kept or dropped together.
They are drawn as one row and counted as many: a mean is then a ratio of two sums over draws, with a bias of the order
of 1/n_g.

>>> census = Census.counted(1000, [11, 22], [980, 20])
>>> planned = quota(census, [-(2**62)] * 2, groups=2, keep_ratio=0.02, rule="equal", at_least=1)
>>> planned.rows, planned.sizes, planned.others
((10, 10), (980, 20), None)
>>> settled(planned, {11: (-9, 10), 22: (7, 10)}).weights
(98.0, 2.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spillway.core.groups.accuracy import Accuracy
from spillway.core.groups.census import Census, rows_enough
from spillway.core.groups.rates import Rule, allocate
from spillway.core.random import threshold

MOST_RANKED = 1_000
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Quota:
    """The rows to draw of each listed group, its size, and the bound below which they are searched.

    ``arrived``: the number of all rows, of listed groups and of others.
    ``others``: the rows to draw of each group that is not listed, None where these are kept whole.
    """

    keys: tuple[int, ...]
    rows: tuple[int, ...]
    sizes: tuple[int, ...]
    bounds: tuple[int, ...]
    arrived: int
    others: int | None = None

    @property
    def ranked(self) -> tuple[bool, ...]:
        """Whether the limit of each group is searched among its hashes; if not, the limit is the bound."""
        return tuple(rows < MOST_RANKED for rows in self.rows)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The hash up to which each listed group's rows are kept, and their weight; ``others`` is as in the quota."""

    keys: tuple[int, ...]
    limits: tuple[int, ...]
    weights: tuple[float, ...]
    arrived: int
    others: int | None = None

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read back what ``asdict`` gave."""
        keys, limits, weights = (tuple(found[name]) for name in ("keys", "limits", "weights"))
        return cls(keys, limits, weights, found["arrived"], found["others"])


def quota(
    census: Census,
    smallest: Sequence[int],
    *,
    groups: int,
    keep_ratio: float,
    rule: Rule,
    at_least: int,
    accuracy: Accuracy | None = None,
) -> Quota | None:
    """Divide a share of the rows among counted groups; return None if that is less than one row per group.

    :param smallest: the smallest hash of each group of the census
    :param groups: the number of all groups, in the census or not
    """
    rows, sizes = round(census.rows), np.asarray(census.counts, dtype=np.int64)
    budget = int(min(keep_ratio, 1.0) * rows + 1e-6)
    if budget < groups:
        return None
    listed = len(sizes)
    others = _others(budget, listed=listed, groups=groups - listed, rows=rows - int(sizes.sum()))
    spent = rows - int(sizes.sum()) if others is None else others * (groups - listed)
    n = allocate(
        sizes, budget - spent, rule=rule, variation=census.variation, at_least=at_least, exceed=False
    ).rows
    if accuracy is not None and (variation := census.variation) is not None:
        n = np.minimum(n, np.ceil(rows_enough(accuracy, variation, sizes, at_least)).astype(np.int64))
    told = np.flatnonzero((n < sizes) | (others is not None)).tolist()
    return Quota(
        keys=tuple(census.keys[at] for at in told),
        rows=tuple(n[told].tolist()),
        sizes=tuple(sizes[told].tolist()),
        bounds=tuple(max(_bound(int(n[at]), int(sizes[at])), smallest[at]) for at in told),
        arrived=rows,
        others=others,
    )


def settled(planned: Quota, found: Mapping[int, tuple[int, int]]) -> Drawn:
    """Return the final limits and weights, given the limit of each listed group and the rows within it."""
    return Drawn(
        keys=planned.keys,
        limits=tuple(found[key][0] for key in planned.keys),
        weights=tuple(N / found[key][1] for key, N in zip(planned.keys, planned.sizes, strict=True)),
        arrived=planned.arrived,
        others=planned.others,
    )


def _others(budget: int, *, listed: int, groups: int, rows: int) -> int | None:
    """Return the rows of each group that is not listed, None for all of them; the budget allows one row per group.

    >>> _others(100, listed=10, groups=5, rows=40), _others(100, listed=10, groups=20, rows=900)
    (None, 2)
    >>> _others(100, listed=10, groups=90, rows=900)
    1
    """
    if rows <= min(_HALF * budget, budget - listed):
        return None
    return max(1, min(int(_HALF * budget), budget - listed) // groups)


def _bound(n: int, N: int) -> int:
    share = n / N if n >= MOST_RANKED else (n + 3.0 * n**0.5 + 4.0) / N
    return threshold(min(1.0, share))
