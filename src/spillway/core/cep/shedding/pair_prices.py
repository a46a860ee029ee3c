"""Prices for pairs: what classes of runs and classes of events bring together, and the price at which each is shed.

A match takes a run of the last state and an event of the last element. How many matches a class of runs brings
depends on which classes of events are admitted, and the other way round. If events with c.V = 8 are discarded, runs
with a.V + b.V = 8 look worthless; if these are shed, the events look worthless, and neither is ever observed to be
worth anything again. Hence the values that are kept here do not depend on what is shed now:

    p(s, v)   matches per examination of a run of class s by an event of class v
    b(s, z)   runs of class s that are offered, made or refused, at age z, per slice of time
    r(v)      events of class v that arrive, discarded or not, per slice of time

p is a ratio of two counts, so fewer examinations make it less precise but not smaller; witnesses keep it up to date.
A pair with few examinations gets fictitious ones, with half of the success of the best pair in the training rows. So
pairs about which nothing is known are tried, and their worth is soon known.

**Cores.** With S and V the classes that are kept, the worth of a class, in matches per examination, is

    ρ(s) = Σ_V r(v) p(s, v) / Σ_V r(v)             ρ(v) = Σ_S b(s) p(s, v) / Σ_S b(s)

The core of a price λ is a choice of S and V in which all are worth more than λ. Cores are nested, and found by
peeling: remove the class that is worth least, recompute the others, and so on. The **core price** κ of a class is the
largest worth at which a class was removed up to then: the class is in the core of λ if and only if κ > λ. So the runs
and events of the example (8 and 8) have one price, and are shed and kept together. Another choice may bring more for
the same work: the order in which classes are removed is greedy.

**Memory.** Counts fade with weight w per slice of time, but not faster than over ``least_events`` events: a short
window has too few events to distinguish classes. Matches may be rare: the last few hundred of them are always
counted. If many of the events of the last few checks are of other classes than before, the stream has changed, and
r starts again from the recent events.

**Repetition.** Where the element before the last repeats, its runs also bring matches through longer runs of the same
state, which p does not count: a path of one trip would be worth nothing. Then there are no pairs, and the cost model
gives the worth of runs.

>>> p = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # runs that nothing completes, and two kinds of pairs
>>> runs, events = cores(p, born=np.array([5.0, 1.0, 3.0]), rate=np.array([1.0, 1.0]))
>>> runs.tolist(), events.tolist()
([0.0, 0.25, 1.0], [0.25, 1.0])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.cep.shedding.cost_model import FEW_MATCHES
from spillway.core.kernel import kernel

_LITTLE = 20.0  # examinations; counts up to this do not fade, or fictitious success would be added again
_RECENT, _LEAST_RECENT = 0.7, 30.0  # how recent events fade per check, and how many are enough
_CHANGED = 0.08  # a surprise above this discards the older events
_HOPE = 16.0  # examinations; a pair with fewer is filled up with fictitious ones


class Pairs:
    """The counts of pairs, of runs offered and of events that arrived."""

    def __init__(
        self,
        matches: Floats,
        examined: Floats,
        born: Floats,
        rate: Floats,
        weight: float = 0.5,
        least_events: int = 1000,
    ) -> None:
        self.weight, self.least_events = weight, least_events
        self.matches, self.examined = matches.copy(), examined.copy()
        self.hope = float((matches / np.maximum(examined, _HOPE)).max(initial=0.0)) / 2
        self.slices = 0.0 if not rate.any() else 1.0 / -math.log1p(-min(weight, 0.99))
        self.born, self.arrived = born * self.slices, rate * self.slices
        self.arriving = self.slices
        self.recent, self.recently = np.zeros_like(rate), 0.0

    def count(
        self,
        pairs: Floats,
        offered: Floats,
        examined: Floats,
        classes: Ints,
        kept: Bools,
        share_of_slice: float,
    ) -> None:
        """Count matches by pair, runs offered by [class, slice], and examinations by class of runs."""
        n = len(self.arrived)
        fade = (1.0 - self.weight) ** share_of_slice
        fade = max(fade, math.exp(-len(classes) / self.least_events))
        arrived = np.bincount(classes[classes >= 0], minlength=n)
        processed = np.bincount(classes[(classes >= 0) & kept], minlength=n)
        seen = np.outer(examined, processed / max(1, processed.sum()))
        fades = np.where(self.examined > _LITTLE, fade if self.matches.sum() > FEW_MATCHES else 1.0, 1.0)
        self.matches = fades * self.matches + pairs
        self.examined = fades * self.examined + seen
        self.born, self.arrived = fade * self.born + offered, fade * self.arrived + arrived
        self.slices, self.arriving = (fade * past + share_of_slice for past in (self.slices, self.arriving))
        self.recent = _RECENT * self.recent + arrived
        self.recently = _RECENT * self.recently + share_of_slice
        if self.surprise > _CHANGED:
            self.arrived, self.arriving = self.recent.copy(), self.recently

    @property
    def surprise(self) -> float:
        """How much the recent events differ from the earlier ones beyond random variation, up to 1."""
        if self.recent.sum() < _LEAST_RECENT or self.arrived.sum() <= 0.0:
            return 0.0
        lately, before = self.recent / self.recent.sum(), self.arrived / self.arrived.sum()
        by_chance = np.sqrt(2.0 * before / (math.pi * self.recent.sum()))
        return float(np.abs(lately - before).sum() - by_chance.sum()) / 2

    @property
    def rate(self) -> Floats:
        """r, per slice of time."""
        return self.arrived / max(self.arriving, 1e-9)

    @property
    def population(self) -> Floats:
        """How many runs of each class there would be if none were shed: offered runs stay for their window."""
        left = np.arange(self.born.shape[1], 0, -1) - 0.5
        found: Floats = self.born @ left / max(self.slices, 1e-9)
        return found

    def prices(self, runs: bool = True, events: bool = True) -> tuple[Floats, Floats]:
        """Return κ of the classes of runs and of events that may be shed; infinite where nothing is known."""
        unseen = np.maximum(0.0, _HOPE - self.examined)
        p = (self.matches + unseen * self.hope) / (self.examined + unseen)
        born, rate = self.population, self.arrived
        of_runs, of_events = cores(p, born, rate, runs, events)
        return np.where(born > 0.0, of_runs, np.inf), np.where(rate > 0.0, of_events, np.inf)

    def found(self, runs: Bools, events: Bools) -> Floats:
        """Return the matches per slice of time if only some classes are kept; one row for each choice of classes."""
        p = np.divide(self.matches, self.examined, out=np.zeros_like(self.matches), where=self.examined > 0.0)
        return np.asarray(((runs * self.population) @ p * events * self.rate).sum(axis=1))

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {
            "matches": self.matches,
            "examined": self.examined,
            "born": self.born,
            "arrived": self.arrived,
            "recent": self.recent,
            "parameters": np.array([self.weight, self.least_events, self.hope]),
            "times": np.array([self.slices, self.arriving, self.recently]),
        }

    @classmethod
    def restore(cls, state: Mapping[str, npt.NDArray[Any]]) -> Pairs:
        """Return the counts of a snapshot."""
        weight, least, hope = state["parameters"].tolist()
        found = cls(state["matches"], state["examined"], state["born"], state["arrived"], weight, int(least))
        found.born, found.arrived = state["born"].astype(np.float64), state["arrived"].astype(np.float64)
        found.recent = state["recent"].astype(np.float64)
        found.hope = hope
        found.slices, found.arriving, found.recently = state["times"].tolist()
        return found


def cores(
    p: Floats, born: Floats, rate: Floats, runs: bool = True, events: bool = True
) -> tuple[Floats, Floats]:
    """Return κ of the classes of runs and of events that may be shed; for the others it is infinite."""
    of_runs, of_events = np.full(len(born), np.inf), np.full(len(rate), np.inf)
    _peel(np.ascontiguousarray(p), born.copy(), rate.copy(), runs, events, of_runs, of_events)
    return of_runs, of_events


@kernel
def _peel(p: Any, born: Any, rate: Any, runs: bool, events: bool, of_runs: Any, of_events: Any) -> None:
    by_run, by_event = p @ rate, p.T @ born
    price = 0.0
    for _ in range(len(born) * runs + len(rate) * events):
        all_born, all_rate = born.sum(), rate.sum()
        worst, at, is_run = np.inf, -1, False
        for s in range(len(born) * runs):
            worth = by_run[s] / all_rate if all_rate > 0 else 0.0
            if of_runs[s] == np.inf and worth < worst:
                worst, at, is_run = worth, s, True
        for v in range(len(rate) * events):
            worth = by_event[v] / all_born if all_born > 0 else 0.0
            if of_events[v] == np.inf and worth < worst:
                worst, at, is_run = worth, v, False
        price = max(price, worst)
        if is_run:
            of_runs[at] = price
            by_event -= born[at] * p[at]
            born[at] = 0.0
        else:
            of_events[at] = price
            by_run -= rate[at] * p[:, at]
            rate[at] = 0.0
