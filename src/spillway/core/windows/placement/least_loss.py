"""Chooses the drops to take, and how much each drops, so that as many results as possible are delivered.

The goal is the largest total share of results, summed over the leaves of all queries (Section 2.3). Drop d removes
p_d of the results of each of its n_d leaves, saves s_d p_d of the work and costs o_d itself. So the problem is

    least Σ n_d p_d        with  Σ (s_d p_d - o_d) >= excess        and  0 <= p_d <= B_d / (B_d + 1)

**How much.** With the set of drops given, the drop that saves most per lost result, s_d / n_d, is used first, as far
as its bound allows; then the next, until enough is saved. That is the least loss, because savings and losses are both
proportional to p. Drops that save the same per lost result share the rest evenly.

**Which.** No path from the input to a leaf has two drops: either one drop is before a split, for all branches, or
there is at most one in each branch. So there are few choices, and up to :data:`MOST_TRIED` all are tried. If there
are more, lost results get a price λ: each place takes the drop that gains most, p (s - λ n) - o, and branches take
their own drops instead if these together gain more. The price is raised as long as enough is saved. The result is the
least loss up to the contribution of one drop.

=========  ======================================================
symbol     meaning
=========  ======================================================
p_d        drop probability;  B_d: ``max_gap``
s_d, o_d   ``saves`` per unit of p, ``costs``
n_d        ``leaves``
=========  ======================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, product

from spillway.core.windows.placement.drop_sites import Option, Site

MOST_TRIED = 2_000
_CLOSE = 1e-9
_STEPS = 50

Shares = dict[Option, float]


def least_loss(sites: Sequence[Site], excess: float) -> Shares | None:
    """Return the p of each drop that is taken, None if no set of drops saves enough."""
    free = all(option.costs == 0.0 for site in sites for option in site.all())
    if math.prod(_count(site, free) for site in sites) > MOST_TRIED:
        return _priced(sites, excess)
    best: Shares | None = None
    for choice in product(*(list(_choices(site, free)) for site in sites)):
        found = shares([option for options in choice for option in options], excess)
        if found is not None and (best is None or loss(found) < loss(best) - _CLOSE):
            best = found
    return best


def loss(found: Shares) -> float:
    """Return the share of results that is lost, summed over all leaves."""
    return sum(p * option.leaves for option, p in found.items())


def shares(options: Sequence[Option], excess: float) -> Shares | None:
    """Return the p of each of these drops, without those that are not needed; None if they do not save enough."""
    wanted = excess + sum(option.costs for option in options)
    slack = _CLOSE * max(1.0, abs(wanted))
    found: Shares = {}
    ranked = sorted(options, key=_worth, reverse=True)
    for _, equal in groupby(ranked, key=_worth):
        if wanted <= slack:
            break
        for option, p in _evenly(list(equal), wanted).items():
            found[option] = p
            wanted -= p * option.saves
    return found if wanted <= slack else None


def _worth(option: Option) -> float:
    """Return the savings per lost result, rounded so that values that differ only by rounding errors are equal."""
    return float(f"{option.saves / option.leaves:.9e}")


def _evenly(options: list[Option], wanted: float) -> Shares:
    """Give drops the same p, each as far as its bound allows."""
    found: Shares = {}
    rest = sorted(options, key=lambda option: option.most)
    while rest:
        p = min(rest[0].most, max(0.0, wanted / sum(option.saves for option in rest)))
        found[rest[0]] = p
        wanted -= p * rest[0].saves
        del rest[0]
    return found


def _choices(site: Site, free: bool) -> Iterator[tuple[Option, ...]]:
    """Yield the sets of drops that may be combined; drops without cost can always be included, with p = 0."""
    for option in site.options:
        yield (option,)
    apart = [list(_choices(branch, free)) for branch in site.branches]
    if not (free and site.options and not any(any(choice) for branch in apart for choice in branch)):
        yield from (sum(choice, ()) for choice in product(*apart))


def _count(site: Site, free: bool) -> int:
    below = math.prod(_count(branch, free) for branch in site.branches)
    return len(site.options) + below


def _priced(sites: Sequence[Site], excess: float) -> Shares | None:
    low, high = 0.0, max((_worth(option) for site in sites for option in site.all()), default=0.0)
    price, best = 0.0, None
    for _ in range(_STEPS):
        taken = [option for site in sites for option in _gaining(site, price)[1]]
        found = shares(taken, excess)
        if found is None:
            high = price
        else:
            low = price
            best = found if best is None or loss(found) < loss(best) else best
        if best is None:
            return None
        price = (low + high) / 2
    return best


def _gaining(site: Site, price: float) -> tuple[float, tuple[Option, ...]]:
    """Return the largest gain at a price per lost result, and the drops that reach it."""
    best: tuple[float, tuple[Option, ...]] = (0.0, ())
    for option in site.options:
        gain = option.most * (option.saves - price * option.leaves) - option.costs
        best = max(best, (gain, (option,)), key=lambda each: each[0])
    apart = [_gaining(branch, price) for branch in site.branches]
    together = sum(gain for gain, _ in apart)
    if together > best[0] * (1.0 + _CLOSE):
        best = together, tuple(option for _, some in apart for option in some)
    return best
