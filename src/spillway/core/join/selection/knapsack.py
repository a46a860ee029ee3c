"""Algorithm 5's knapsack: chooses the fraction of each window to compare, for all types at once (Section 5.3).

An item of the knapsack is the comparison of rows of type z with basic window B_(i,j). It has a volume and a value:

    volume    D_(i,z) p_(i,j)                              comparisons
    value     volume · v_(i,j,z),   v_(i,j,z) = g_(i,z) o_(i,j)      worth of the matches

The budget r Σ D_(i,z) is filled with the items of the highest v. For one (i,z) the order of v is s_i, that of the
basic windows, so what is taken is a fraction r_(i,z) of it. All fractions end at the same v, the level λ:

    x_(i,z)(λ) = the share of the window where v > λ
    λ such that  Σ D_(i,z) x_(i,z)(λ) = r Σ D_(i,z),    r_(i,z) = x_(i,z)(λ)

With a single type the knapsack decides on the join direction: it weighs parts of both windows against each other.

**Error in the paper.** The text sums r_(i,j,z) to r_(i,z) without dividing by n_i; the algorithm correctly adds
1 / n_i for each item.

**Deviations.** The paper takes items off a heap, whole items except for the last one. With few basic windows that is
coarse: of two types that are worth almost the same, one gets an item more than the other only because of noise in the
learned values. Here v falls steadily from the middle of each basic window to the middle of the next one in the order,
so that λ cuts all types alike, and small differences of g make small differences of r. Where v does not fall, x jumps
across the budget; then all parts at λ get the same share of what is left. So with nothing learned all fractions are
r. λ is found by bisection.

Volumes are those of the current period, where the paper has λ_1 λ_2 ω_(ī,z) b: the same on average, but not while
windows fill or rates change. And g o_(i,j) is the paper's u o_(i,j) / o_i, with u = g o_i.

======  ==================================================================
symbol  meaning
======  ==================================================================
g_i,z   ``worth`` of a match of a row of type z in window i
o_i,j   ``density``: matches per comparison with basic window j
p_i,j   ``volume``: share of the window's rows that are in basic window j
s_i     ``order``: basic windows, the best first
D_i,z   ``demand``: comparisons that rows of type z with all of window i would make
r_i,z   share of these comparisons that are made
======  ==================================================================

Two windows with the same peak share the budget, and a window with a peak is compared before one without:

>>> order, volume = np.array([[0, 1], [0, 1]]), np.full((2, 2), 0.5)
>>> peaks, demand, count = np.array([[0.3, 0.1], [0.3, 0.1]]), np.full((2, 1), 100.0), np.array([2, 2])
>>> filled(0.25, demand, np.ones((2, 1)), peaks, volume, order, count).round(6).tolist()
[[0.25], [0.25]]
>>> peaks[1] = 0.1
>>> filled(0.25, demand, np.ones((2, 1)), peaks, volume, order, count).round(6).tolist()
[[0.5], [0.0]]
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.kernel import kernel

_HALVINGS = 64  # more than the precision of a float needs


@kernel
def _above(level: float, n: int, o: Any, middle: Any) -> Any:
    """Return the share of a window in which the density is above a level; o falls, from its highest at 0 on."""
    if o[0] <= level:
        return 0.0
    if o[n] > level:
        return 1.0
    low, high = 0, n  # the density is above the level at low, and not at high
    while high - low > 1:
        at = (low + high) >> 1
        if o[at] > level:
            low = at
        else:
            high = at
    return middle[low] + (middle[high] - middle[low]) * (o[low] - level) / (o[low] - o[high])


@kernel
def _cut(level: float, demand: Any, worth: Any, count: Any, o: Any, middle: Any, found: Any) -> float:
    """Find the fractions in which v is above a level; return the comparisons that they take."""
    taken = 0.0
    for i in range(demand.shape[0]):
        for z in range(demand.shape[1]):
            if demand[i, z] <= 0.0:
                found[i, z] = 0.0
            elif worth[i, z] > 0.0:
                found[i, z] = _above(level / worth[i, z], count[i], o[i], middle[i])
            else:
                found[i, z] = 1.0 if level < 0.0 else 0.0
            taken += found[i, z] * demand[i, z]
    return taken


@kernel
def _curves(density: Any, volume: Any, order: Any, count: Any, o: Any, middle: Any) -> None:
    """Write, in the order, the density of each basic window and what share of the window is before its middle.

    Before the first middle the density is extrapolated with the slope from the second middle to the first.
    """
    for i in range(len(count)):
        before = 0.0
        for rank in range(count[i]):
            j = order[i, rank]
            o[i, rank + 1], middle[i, rank + 1] = density[i, j], before + 0.5 * volume[i, j]
            before += volume[i, j]
        o[i, 0] = 1.5 * o[i, 1] - 0.5 * o[i, min(2, count[i])]


@kernel
def _fill(
    budget: float, demand: Any, worth: Any, count: Any, o: Any, middle: Any, found: Any, more: Any
) -> None:
    high = 1e-300
    for i in range(demand.shape[0]):
        for z in range(demand.shape[1]):
            high = max(high, 1.001 * worth[i, z] * o[i, 0])
    low = -high  # all densities are above ``low``, and none is above ``high``
    for _ in range(_HALVINGS):
        level = 0.5 * (low + high)
        if _cut(level, demand, worth, count, o, middle, found) > budget:
            low = level
        else:
            high = level
    too_little = _cut(high, demand, worth, count, o, middle, found)
    too_much = _cut(low, demand, worth, count, o, middle, more)
    part = (budget - too_little) / (too_much - too_little) if too_much > too_little else 0.0
    for i in range(demand.shape[0]):
        for z in range(demand.shape[1]):
            found[i, z] += min(1.0, max(0.0, part)) * (more[i, z] - found[i, z])


def filled(
    r: float, demand: Floats, worth: Floats, density: Floats, volume: Floats, order: Ints, count: Ints
) -> Floats:
    """Return r_(i,z), the fraction of window i for rows of type z; ``count`` is how many basic windows there are."""
    o, middle = np.zeros((2, len(count), density.shape[1] + 1))
    found, more = np.zeros_like(demand), np.zeros_like(demand)
    cast(Any, _curves)(density, volume, order, count, o, middle)
    cast(Any, _fill)(r * demand.sum(), demand, worth, count, o, middle, found, more)
    return found
