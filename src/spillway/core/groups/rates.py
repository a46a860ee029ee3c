"""Computes how many rows each group gets: proportional (the paper), equal, or by the variation of its values (ours).

Given the sizes N_g of G groups and a budget of n rows, :func:`allocate` gives each group n_g of them with Σ n_g = n
and a_g <= n_g <= N_g, where a_g = min(``at_least``, N_g): no group is lost, and a very rare group is kept whole.

    proportional   n_g = clip(θ N_g, a_g, N_g)                  the same rate for all but the rarest (Section VI-C2)
    equal          n_g = clip(θ, a_g, N_g)                      what small groups cannot use is divided among others
    variance       minimise Σ_g c_g √(1/n_g - 1/N_g)            the expected relative errors of the groups' means

with θ such that the budget is met. c_g = σ_g / |μ_g| is the variation of the values in group g, and
√(1/n - 1/N) is how the error of a mean falls with the number of rows drawn without replacement.

**The variance rule.** Far below N_g the optimum is n_g ∝ c_g^(2/3), since one more row reduces the error by
c_g / (2 n_g^(3/2)). In x = n_g / N_g the term is √((1 - x) / x), which is not convex near x = 1: the last rows of a
group, which make it exact, are worth most. Its convex hull follows the curve up to x = 1/2 and is straight from
there, so at a price λ per row

    2 c_g / N_g^(3/2) >= λ     the group is kept whole
    otherwise                  x^(3/2) √(1 - x) = c_g / (2 λ N_g^(3/2)),  x <= 1/2

and the price is found by bisection. A group is thus either kept whole, or sampled at half or less.

**Whole rows.** Rounding gives the remaining rows to the largest remainders. Ties are broken by ``order``, a hash of
the group, so that no group is preferred for its place in the table.

**Small budgets.** If the budget is below Σ a_g, ``exceed`` decides. With True every group keeps its a_g rows,
which is more than the budget. With False the budget holds: a is reduced to what the budget allows, and if that is
less than one row per group, n groups chosen by ``order`` keep one row each. All groups are equally likely, so the
``chance`` of a group, n / G, is part of the weights, and totals stay unbiased. ``reason`` says which of these
happened.

==========  ==========================================
symbol      meaning
==========  ==========================================
N_g, n_g    rows of group g: arrived, kept
n           ``budget``
a           ``at_least``
c_g         ``variation``: σ_g / |μ_g|
==========  ==========================================

>>> sizes = np.array([900, 90, 9, 1])
>>> allocate(sizes, 20, rule="proportional").rows
array([16,  2,  1,  1])
>>> allocate(sizes, 20, rule="equal").rows
array([7, 6, 6, 1])
>>> allocate(sizes, 20, rule="variance", variation=np.array([0.1, 0.8, 0.1, 0.0])).rows
array([ 3, 13,  3,  1])
>>> allocate(sizes, 3, rule="equal", exceed=False).reason
'3 rows are less than one for each of 4 groups: 3 groups keep one row, 1 is missing.'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.errors import invalid, unknown

Rule = Literal["proportional", "equal", "variance"]
RULES: tuple[str, ...] = get_args(Rule)

_STEPS = 80  # bisection steps at most: beyond the precision of a float
_HALF = np.linspace(0.0, 0.5, 4097)
_CURVE = _HALF * np.cbrt(1.0 - _HALF)  # (x^(3/2) √(1 - x))^(2/3), almost x itself where x is small


@dataclass(frozen=True, slots=True)
class Allocation:
    """The rows of each group, the probability that a group has rows at all, and how the budget was met, in words."""

    rows: Ints
    budget: int
    reason: str
    chance: float = 1.0

    @property
    def missing(self) -> int:
        """How many groups have no rows."""
        return int(np.count_nonzero(self.rows == 0))


def allocate(
    sizes: Ints,
    budget: int,
    *,
    rule: Rule = "variance",
    variation: Floats | None = None,
    at_least: int = 1,
    exceed: bool = True,
    order: Ints | None = None,
) -> Allocation:
    """Divide a budget of rows among groups; without ``variation`` the variance rule divides equally."""
    sizes, order = _checked(sizes, budget, rule, variation, at_least, order)
    groups, arrived = len(sizes), int(sizes.sum())
    if budget >= arrived:
        return Allocation(sizes, budget, f"all {arrived} rows fit into the budget.")
    least = np.minimum(sizes, at_least)
    if least.sum() > budget:
        if exceed:
            rows = f"{int(least.sum())} rows instead of {budget} give each of {groups} groups "
            return Allocation(least, budget, f"{rows}{at_least} (all of it where it has fewer).")
        if budget < groups:
            return _some(groups, budget, order)
        at_least = int(np.searchsorted(_needed(sizes, at_least), budget, side="right"))
        least = np.minimum(sizes, at_least)
    shares = real_shares(rule, sizes.astype(np.float64), variation, least.astype(np.float64), budget, order)
    whole = _whole(shares, least, sizes, budget, order)
    kept = int(np.count_nonzero(whole == sizes))
    reason = (
        f"{budget} of {arrived} rows, {rule}, at least {at_least} a group; {kept} of {groups} groups whole."
    )
    return Allocation(whole, budget, reason)


def _checked(
    sizes: Ints, budget: int, rule: str, variation: Floats | None, at_least: int, order: Ints | None
) -> tuple[Ints, Ints]:
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    for name, value, least in (("budget", budget, 0), ("at_least", at_least, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise invalid(name, value, f"a whole number >= {least}")
    sizes = np.asarray(sizes, dtype=np.int64)
    if sizes.ndim != 1 or (sizes < 1).any():
        raise invalid("sizes", sizes, "one number of rows >= 1 for each group")
    if variation is not None and (
        np.shape(variation) != sizes.shape or not (np.isfinite(variation) & (variation >= 0)).all()
    ):
        raise invalid("variation", variation, "one finite number >= 0 for each group")
    return sizes, np.arange(len(sizes)) if order is None else order


def _needed(sizes: Ints, at_least: int) -> Ints:
    """Return how many rows a minimum of 1, 2, ... up to ``at_least`` rows per group takes."""
    up_to = np.bincount(np.minimum(sizes, at_least), minlength=at_least + 1)
    reaching = len(sizes) - np.cumsum(up_to)[:at_least]  # groups of more than 0, 1, ... rows
    return np.cumsum(reaching)


def _some(groups: int, budget: int, order: Ints) -> Allocation:
    rows = np.zeros(groups, dtype=np.int64)
    rows[np.argsort(order, kind="stable")[:budget]] = 1
    missing = groups - budget
    verb = "is" if missing == 1 else "are"
    reason = f"{budget} rows are less than one for each of {groups} groups: "
    reason += f"{budget} groups keep one row, {missing} {verb} missing."
    return Allocation(rows, budget, reason, chance=budget / groups)


def real_shares(
    rule: Rule, N: Floats, variation: Floats | None, a: Floats, budget: float, order: Ints
) -> Floats:
    """Return each group's rows as real numbers, the budget met up to rounding."""
    if rule == "variance" and variation is not None and np.any(variation):
        return _by_variance(N, a, np.asarray(variation, dtype=np.float64), budget, order)
    scale = N if rule == "proportional" else np.ones_like(N)
    return met(lambda theta: np.clip(theta * scale, a, N), budget, high=float((N / scale).max()))[0]


def _by_variance(N: Floats, a: Floats, c: Floats, n: float, order: Ints) -> Floats:
    """Return the optimum of the variance rule."""
    ideal = c ** (2.0 / 3.0)

    def at(theta: float) -> Floats:
        u = theta * ideal / N  # (c / (2 λ N^(3/2)))^(2/3), with θ for (2 λ)^(-2/3)
        return np.clip(np.where(u >= _CURVE[-1], N, np.interp(u, _CURVE, _HALF) * N), a, N)

    most = float((_CURVE[-1] * N[c > 0.0] / ideal[c > 0.0]).max())
    below, above = met(at, n, high=most * (1.0 + 1e-9))
    # Groups that become whole at the same price may not all fit: as many as do are made whole, the smallest first.
    jump = np.flatnonzero((above >= N) & (below < N))
    jump = jump[np.lexsort((order[jump], N[jump] - below[jump]))]
    fits = np.cumsum(N[jump] - below[jump]) <= n - below.sum() + 1e-6
    below[jump[fits]] = N[jump[fits]]
    varying = _grown(below, ideal, np.where(c > 0.0, N, below), n)
    return _grown(varying, np.ones_like(N), N, n)


def _grown(shares: Floats, base: Floats, most: Floats, n: float) -> Floats:
    """Use up the budget: raise groups in proportion to ``base``, each at most to ``most``."""
    base = np.maximum(base, 1e-9 * base.max())
    return met(lambda theta: np.clip(base * theta, shares, most), n, high=float((most / base).max()))[0]


def met(at: Callable[[float], Floats], budget: float, *, high: float) -> tuple[Floats, Floats]:
    """Return the allocations just within the budget and just above it, by bisection on θ."""
    low = 0.0
    if at(high).sum() <= budget:
        return at(high), at(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if at(middle).sum() <= budget else (low, middle)
    return at(low), at(high)


def _whole(shares: Floats, least: Ints, sizes: Ints, budget: int, order: Ints) -> Ints:
    """Round to whole rows: the largest remainders get the remaining rows."""
    whole = np.clip(np.floor(shares + 1e-9).astype(np.int64), least, sizes)
    left = budget - int(whole.sum())
    while left > 0:
        open_ = np.flatnonzero(whole < sizes)
        ranked = open_[np.lexsort((order[open_], whole[open_] - shares[open_]))]
        chosen = ranked[:left]
        whole[chosen] += 1
        left -= len(chosen)
    return whole
