"""Selects the rows that one task keeps of its part of a batch, by planned probabilities and the task's own counts.

Probabilities are planned before a batch is read (:mod:`~spillway.core.groups.census`). A task that has all its rows
knows more: there are groups that were unknown, others come in bursts, and independent draws make counts uncertain.
So the task draws fixed numbers of rows. With N_g rows of group g in the task and b = ``share`` of all rows,

    x_g = min(π_g N_g, b / 4)        a group with a planned probability; none takes more than a quarter
    x_g = min(N_g, 2)                one without; together at most half of b, or what the others leave
    y_g = clip(θ x_g, a, N_g)        a = 1 if there are at most 3/2 b groups, or else 0
    Σ y = clip(Σ clip(x, a, N), b, 3/2 b)

Up to half more than b is kept where the plan says so: windows are longer than batches, and a single batch should not
override a plan that is right for the window. Beyond that everything shrinks by the same θ.

**Draw.** k_g = ⌊y_g + u_g⌋ with u_g uniform by a hash, and the k_g smallest hashes are drawn:

    y_g >= 1     k_g >= 1, so the group is not missing; given k_g a simple random sample: w = N_g / k_g, and Σ w = N_g
    y_g < 1      k_g is 1 with probability y_g, and then w = N_g / y_g

Both are unbiased: E[w; drawn] = 1 for each row. Rows with the same hash are drawn together and share the weight.

>>> keys = np.array([1] * 98 + [2, 2]); hashes = np.arange(100) * 7919 % 100
>>> weights = portion(keys, hashes, np.where(keys == 1, 0.05, np.nan), share=0.06)
>>> weights[:98][weights[:98] > 0], weights[98:]
(array([24.5, 24.5, 24.5, 24.5]), array([1., 1.]))
"""

from __future__ import annotations

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.random_order import mixed
from spillway.core.groups.rates import met

_MOST_OF_ONE = 0.25
_UNHEARD_OF = 2.0
_FOR_THE_UNHEARD_OF = 0.5
_MOST = 1.5


def portion(keys: Ints, hashes: Ints, chances: Floats, *, share: float) -> Floats:
    """Return the weight of each row, 0 if it is not kept.

    :param chances: the keep probability planned for each row's group, NaN where none was planned
    """
    if share >= 1.0 or not len(keys):
        return np.ones(len(keys))
    order = np.lexsort((hashes, keys))
    ordered = keys[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    N = np.diff(np.r_[first, len(keys)])
    y = _wanted(N.astype(np.float64), chances[order[first]], share * len(keys))
    drawn = hashes[order]
    u = mixed(drawn[first + N - 1], 1).view(np.uint64).astype(np.float64) / 2.0**64
    k = np.minimum(np.floor(y + u + 1e-9).astype(np.int64), N)
    last = drawn[first + np.maximum(k, 1) - 1]
    within = (drawn <= np.repeat(last, N)) & np.repeat(k > 0, N)
    counts = np.add.reduceat(within, first)
    each = N / np.maximum(counts, 1) / np.minimum(y, 1.0)
    weights = np.empty(len(keys))
    weights[order] = np.where(within, np.repeat(each, N), 0.0)
    return weights


def _wanted(N: Floats, chance: Floats, b: float) -> Floats:
    """Return how many rows of each group are wanted, as real numbers above 0."""
    unheard_of = np.isnan(chance)
    x = np.minimum(np.where(unheard_of, 0.0, chance) * N, np.maximum(_MOST_OF_ONE * b, 1.0))
    theirs = np.where(unheard_of, np.minimum(N, _UNHEARD_OF), 0.0)
    room = max(_FOR_THE_UNHEARD_OF * b, b - float(x.sum()))
    x += theirs * min(1.0, room / max(float(theirs.sum()), 1e-300))
    x = np.maximum(x, 1e-9)
    a = 1.0 if len(N) <= _MOST * b else 0.0
    planned = np.clip(x, a, N)
    wanted = min(max(float(planned.sum()), b), _MOST * b)
    return met(lambda theta: np.clip(theta * x, a, N), wanted, high=float((N / x).max()))[0]
