"""Chooses the runs to shed: the least loss of matches for a given saving of work (Equation 8).

A run is a partial match. Runs are not judged one by one but in groups, by state, class and time slice. Group i has

    Δ+_i   ``loss``: the share of all future matches that its runs would be in
    Δ-_i   ``saving``: the share of all future work that it takes

and the shedding set D is the one with

    least  Σ Δ+_i (i in D)     such that     Σ Δ-_i (i in D)  >  v

where v is how far the latency is above its bound, (μ - θ) / μ. This is the complement of a knapsack problem: the
groups that are kept are packed, the others are D. Three ways to solve it:

==========  ==============================================================================================
``exact``   dynamic programming over savings in R steps of v: least loss for each saving that can be reached
``greedy``  by loss per saving until the sum is above v; then groups that turn out not to be needed are kept
``split``   the same, but of the last group only the share that is needed: a share for each group, not a set
==========  ==============================================================================================

Savings are rounded down to steps, so that a set never saves less than it should; it may lose more than the best set,
because R steps are not exact. All three take groups that lose nothing before any others. ``split`` is the optimum
where groups can be divided, which a hash of a run allows: no set can lose less.

**Deviation.** The paper sheds whole classes. With few classes a whole one is often much more than is needed, so the
shedder here uses ``split``; ``exact`` and ``greedy`` are there to compare, and for whole classes.

>>> loss, saving = np.array([0.0, 0.3, 0.2, 0.5]), np.array([0.2, 0.3, 0.3, 0.2])
>>> exact_set(loss, saving, 0.4).tolist()
[True, False, True, False]
>>> split_shares(loss, saving, 0.35).round(3).tolist()
[1.0, 0.0, 0.5, 0.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Bools, Floats
from spillway.core.kernel import kernel
from spillway.errors import invalid

_HAIR = 1e-7  # of a step: keeps float sums that should be whole from being rounded down


def exact_set(loss: Floats, saving: Floats, need: float, resolution: int = 1000) -> Bools:
    """Return the set with the least loss by dynamic programming, or all groups that save if that is not enough."""
    loss, saving = _checked(loss, saving)
    chosen = (loss <= 0.0) & (saving > 0.0) & (need > 0.0)
    rest = need - float(saving[chosen].sum())
    if rest < 0.0 or need <= 0.0:
        return _without_spare(chosen, loss, saving, need)
    others = np.flatnonzero((saving > 0.0) & ~chosen)
    steps = np.floor(saving[others] / max(rest, 1e-300) * resolution + _HAIR)
    steps = np.minimum(steps, resolution).astype(np.int64)
    greedy = greedy_set(loss, saving, need)
    if steps.sum() < resolution:
        return greedy
    chosen[others] = _least_loss(loss[others], steps, resolution)
    if saving[chosen].sum() <= need or loss[greedy].sum() < loss[chosen].sum():
        return greedy
    return _without_spare(chosen, loss, saving, need)


def greedy_set(loss: Floats, saving: Floats, need: float) -> Bools:
    """Return a set chosen by loss per saving."""
    loss, saving = _checked(loss, saving)
    order = _by_ratio(loss, saving)
    chosen = np.zeros(len(loss), np.bool_)
    if need > 0.0:
        enough = np.searchsorted(np.cumsum(saving[order]), need, side="right")
        chosen[order[: enough + 1]] = True
    return _without_spare(chosen, loss, saving, need)


def split_shares(loss: Floats, saving: Floats, need: float, most: float = 1.0) -> Floats:
    """Return the share of each group to shed, at most ``most`` of each, so that the savings sum up to the need."""
    loss, saving = _checked(loss, saving)
    shares = np.zeros(len(loss))
    if need > 0.0:
        order = _by_ratio(loss, saving)
        before = np.concatenate([[0.0], np.cumsum(saving[order])[:-1]])
        shares[order] = np.clip((need - most * before) / saving[order], 0.0, most)
    return shares


def _checked(loss: Floats, saving: Floats) -> tuple[Floats, Floats]:
    if loss.shape != saving.shape or loss.ndim != 1:
        raise invalid("loss", loss.shape, "one number per group, as many as there are savings")
    return np.maximum(loss, 0.0), np.maximum(saving, 0.0)


def _by_ratio(loss: Floats, saving: Floats) -> npt.NDArray[np.int64]:
    """Return the groups that save anything, least loss per saving first; of equal ones the larger first."""
    order = np.flatnonzero(saving > 0.0)
    ratio = loss[order] / saving[order]
    return order[np.lexsort((-saving[order], ratio))].astype(np.int64)


def _without_spare(chosen: Bools, loss: Floats, saving: Floats, need: float) -> Bools:
    """Remove groups that are not needed from the set, the largest loss first."""
    kept = chosen.copy()
    spare = float(saving[kept].sum()) - need
    for i in np.flatnonzero(kept)[np.argsort(-loss[kept], kind="stable")]:
        if loss[i] > 0.0 and saving[i] < spare:
            kept[i] = False
            spare -= float(saving[i])
    return kept


@kernel
def _least_loss(loss: Any, steps: Any, resolution: int) -> Any:
    """Fill best[j], the least loss that saves at least j steps, group by group, and walk back."""
    n = len(loss)
    best = np.full(resolution + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((n, resolution + 1), np.bool_)
    for i in range(n):
        for j in range(resolution, 0, -1):
            with_it = best[max(0, j - steps[i])] + loss[i]
            if steps[i] > 0 and with_it < best[j]:
                best[j] = with_it
                taken[i, j] = True
    chosen = np.zeros(n, np.bool_)
    j = resolution
    for i in range(n - 1, -1, -1):
        if taken[i, j]:
            chosen[i] = True
            j = max(0, j - steps[i])
    return chosen
