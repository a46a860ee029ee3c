"""Computes what a drop saves: loads, selectivities of the drop, and the drop rate needed (Section 3.6).

A query has operators before its aggregate, the aggregate, and operators after it (Figure 6). One input tuple costs

    a = cost_1 + sel_1 (cost_2 + sel_2 cost_3)

With a random drop after the aggregate, or a window drop at the input, the load at rate R is

    L_RDrop   = R (cost_1 + sel_1 (cost_2 + sel_2 (cost_RDrop + (1 - p) cost_3)))
    L_WinDrop = R (cost_WinDrop + cost_1' + cost_2' + sel_1 sel_2 (1 - p) cost_3)
    cost_1'   = cost_fcheck + sel_w1 cost_1 + sel_w2 cost_copy
    cost_2'   = (sel_w1 / δ + sel_w2) cost_wcheck + sel_w1 sel_1 cost_2

where sel_w1 is the share of tuples that the drop lets through and sel_w2 the share that it turns into fake ones.
Of the (B - 1)δ + ω tuples of a dropped batch, one tuple per time unit, (B + 1)δ - ω lie in no kept window; each start
of a window among them leaves a fake tuple:

    sel_w1 = 1 - p ((B + 1)δ - ω) / ((B - 1)δ + ω)
    sel_w2 = p (B + 1 - ⌈ω/δ⌉) / ((B - 1)δ + ω)

Without early drops, (B + 1)δ <= ω, they are 1 and 0.

**Where we deviate.** The paper divides sel_w2 by (B + 1)δ - ω, the tuples dropped early, although it is a share
of all tuples; and it subtracts ⌊ω/δ⌋, one too few where δ does not divide ω. If two neighbouring batches share a
tuple, both formulas count it twice. This is exact for tumbling windows and too cautious for sliding ones:
:func:`early_drops` counts along the actual decisions instead.

**Drop rate needed.** If the rate exceeds the one that just fills the capacity by a share x, R (1 + x) cost(p) <= R a
has to hold. All loads are linear in p, cost(p) = a + o - s p with overhead o and saving s, so
p = (o + a x / (1 + x)) / s, if a drop can do that much: p <= 1 for a random drop, p <= B / (B + 1) for windows.

==================  =====================================================================
symbol              field
==================  =====================================================================
R                   ``rate``, tuples per time unit
cost_1, sel_1       ``before_cost``, ``before_selectivity``
cost_2, sel_2       ``aggregate_cost``, ``aggregate_selectivity``
cost_3              ``after_cost``
cost_WinDrop        ``window_drop_cost``; cost_RDrop: ``random_drop_cost``
cost_fcheck         ``fake_check_cost``; cost_copy: ``copy_cost``; cost_wcheck: ``window_check_cost``
p, B, ω, δ          ``drop_probability``, ``max_gap``, ``size``, ``slide`` of the drop
==================  =====================================================================

>>> query = QueryCosts(rate=1, before_cost=5, aggregate_cost=0, aggregate_selectivity=1 / 10, after_cost=50)
>>> drop = WindowDrop(size=10, slide=10, max_gap=10)
>>> needed_window_drop(query, drop, excess=0.25), needed_random_drop(query, excess=0.25)
(0.2, 0.4)
>>> needed_random_drop(query, excess=1.5) is None
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache

from spillway.core.checks import require_number, require_whole
from spillway.core.windows.decisions import DropConfig
from spillway.errors import invalid


@dataclass(frozen=True, kw_only=True)
class QueryCosts:
    """A query with one aggregate: costs per tuple that reaches each operator, in any unit of work."""

    rate: float
    before_cost: float
    aggregate_cost: float
    aggregate_selectivity: float
    after_cost: float
    before_selectivity: float = 1.0
    window_drop_cost: float = 0.0
    random_drop_cost: float = 0.0
    fake_check_cost: float = 0.0
    copy_cost: float = 0.0
    window_check_cost: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            require_number(field.name, getattr(self, field.name), 0.0)


@dataclass(frozen=True, kw_only=True)
class WindowDrop:
    """The windows of a drop, in time units with one tuple each, and its bound on the gap."""

    size: int
    slide: int
    max_gap: int

    def __post_init__(self) -> None:
        require_whole("size", self.size, 1, 2**62)
        require_whole("max_gap", self.max_gap, 1, 10**9)
        if not 1 <= self.slide <= self.size:
            raise invalid("slide", self.slide, f"1 to size = {self.size}")

    @property
    def most(self) -> float:
        """The largest drop probability that the bound allows."""
        return self.max_gap / (self.max_gap + 1)

    @property
    def early_share(self) -> float:
        """The share of a dropped batch's tuples that lie in no kept window; 0 if max_gap is too small for any."""
        B, omega, delta = self.max_gap, self.size, self.slide
        return max(0.0, ((B + 1) * delta - omega) / ((B - 1) * delta + omega))

    def sel_w1(self, drop_probability: float) -> float:
        """Return the share of tuples that pass unchanged.

        >>> WindowDrop(size=10, slide=5, max_gap=3).sel_w1(0.5)
        0.75
        """
        return 1.0 - drop_probability * self.early_share

    def sel_w2(self, drop_probability: float) -> float:
        """Return the share of tuples that are passed on as fake tuples.

        >>> WindowDrop(size=10, slide=5, max_gap=3).sel_w2(0.5)
        0.05
        """
        B, omega, delta = self.max_gap, self.size, self.slide
        starts = max(0, B + 1 - math.ceil(omega / delta))
        return drop_probability * starts / ((B - 1) * delta + omega)


@dataclass(frozen=True, slots=True)
class Selectivities:
    """The shares of tuples that a drop passes on unchanged, and as fake tuples."""

    normal: float
    fake: float


@lru_cache(maxsize=1024)
def early_drops(drop: WindowDrop, drop_probability: float, windows: int = 20_000) -> Selectivities:
    """Return sel_w1 and sel_w2, counted along the decisions for ``windows`` windows, one tuple per time unit.

    Between two kept windows with d dropped ones in between, (d + 1)δ - ω time units are in no kept window.

    >>> early_drops(WindowDrop(size=4, slide=4, max_gap=3), 0.0)
    Selectivities(normal=1.0, fake=0.0)
    """
    omega, delta = drop.size, drop.slide
    kept = DropConfig(max_gap=drop.max_gap).build().decide(0, windows, drop_probability)
    gone = fakes = d = 0
    for keep in kept:
        if not keep:
            d += 1
            continue
        gone += max(0, (d + 1) * delta - omega)
        fakes += max(0, d + 1 - math.ceil(omega / delta))
        d = 0
    return Selectivities(1.0 - gone / (windows * delta), fakes / (windows * delta))


def load(query: QueryCosts) -> float:
    """Return the load without any drop, as work per time unit."""
    return query.rate * _cost(query)


def load_random_drop(query: QueryCosts, drop_probability: float) -> float:
    """Return the load with a random drop after the aggregate."""
    overhead, saved = _random_drop(query)
    return query.rate * (_cost(query) + overhead - drop_probability * saved)


def load_window_drop(
    query: QueryCosts, drop: WindowDrop, drop_probability: float, measured: Selectivities | None = None
) -> float:
    """Return the load with a window drop at the input; ``measured`` selectivities replace the formulas."""
    p, q = drop_probability, query
    sel_w1 = drop.sel_w1(p) if measured is None else measured.normal
    sel_w2 = drop.sel_w2(p) if measured is None else measured.fake
    cost_1 = q.fake_check_cost + sel_w1 * q.before_cost + sel_w2 * q.copy_cost
    cost_2 = (sel_w1 / drop.slide + sel_w2) * q.window_check_cost
    cost_2 += sel_w1 * q.before_selectivity * q.aggregate_cost
    cost_3 = q.before_selectivity * q.aggregate_selectivity * (1.0 - p) * q.after_cost
    return q.rate * (q.window_drop_cost + cost_1 + cost_2 + cost_3)


def saved_random_drop(query: QueryCosts, drop_probability: float) -> float:
    """Return what a random drop after the aggregate saves; below 0 if it costs more than it saves."""
    return load(query) - load_random_drop(query, drop_probability)


def saved_window_drop(query: QueryCosts, drop: WindowDrop, drop_probability: float) -> float:
    """Return what a window drop at the input saves; below 0 if it costs more than it saves."""
    return load(query) - load_window_drop(query, drop, drop_probability)


def needed_random_drop(query: QueryCosts, *, excess: float) -> float | None:
    """Return the probability that a random drop needs at a rate ``excess`` above capacity, None if none is enough."""
    overhead, saved = _random_drop(query)
    return _needed(query, overhead, saved, excess, 1.0)


def needed_window_drop(query: QueryCosts, drop: WindowDrop, *, excess: float) -> float | None:
    """Return the probability that a window drop needs at a rate ``excess`` above capacity, None if none is enough."""
    base = _cost(query)
    at_none, at_one = (load_window_drop(query, drop, p) / query.rate for p in (0.0, 1.0))
    return _needed(query, at_none - base, at_none - at_one, excess, drop.most)


def _cost(q: QueryCosts) -> float:
    rest = q.aggregate_cost + q.aggregate_selectivity * q.after_cost
    return q.before_cost + q.before_selectivity * rest


def _random_drop(q: QueryCosts) -> tuple[float, float]:
    """Return overhead and saving of a random drop per input tuple."""
    results = q.before_selectivity * q.aggregate_selectivity
    return results * q.random_drop_cost, results * q.after_cost


def _needed(query: QueryCosts, overhead: float, saved: float, excess: float, most: float) -> float | None:
    require_number("excess", excess, 0.0)
    if excess == 0.0:
        return 0.0
    wanted = overhead + _cost(query) * excess / (1.0 + excess)
    if saved <= 0.0 or wanted > most * saved * (1.0 + 1e-12):
        return None
    return wanted / saved
