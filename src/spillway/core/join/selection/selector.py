"""Selects what each row is compared with: combines rate, sampling, direction, utility and time correlation.

The rows that are processed next would make D comparisons. Given r, a hash picks rows to process in full, which make F
comparisons. The other rows get the fractions r_(i,z) that direction or utility derive from

    r' = (B - F) / (D - F)

so that F and the rest together are the budget B. Full rows may take half of the budget at most: with very small
budgets the later ones are processed like all others.

**Hash index.** Where single values are looked up in an index, only matches are read, so leaving out a part of the
window saves nothing. There a row probes the whole window or not at all: with a fraction, or where types are worth
different amounts, r_(i,z) is the probability that it probes. With a budget and types that are worth the same, rows
are dropped at random instead. Choosing by age gains nothing over that, as the paper finds. And it would be worse if
only a share of the rows probed, the same on both sides: if a share q of the rows is listed and a share p of these
probes, q²p of the matches are found for

    q a + q p l + q² p m        a: listing a row   l: looking it up   m: its matches

and as long as a >= l the least cost for a given q²p is at p = 1.

**Limit.** This does not hold where only rows of one side find matches. Then rows of the other side need not probe,
which saves l for half of the rows: q could be up to (2a + 2l) / (2a + l) times as high, 1.17 with the units of
:mod:`spillway.core.join.work`, and the output the square of that, 1.37, if matches cost nothing. Where matches are
most of the cost the gain is small, since each match costs the same wherever it is found. It is not done, because
nothing would be learned about a side that does not probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.join.access.matches import Matches
from spillway.core.join.adaptations import shedding_of
from spillway.core.join.config import JoinConfig
from spillway.core.join.meetings import Meetings
from spillway.core.join.selection.direction import directed
from spillway.core.join.selection.knapsack import filled
from spillway.core.join.selection.range_selection import Chooser, Ranges
from spillway.core.join.selection.rate import fraction_for
from spillway.core.join.selection.row_draws import PROBE, SAMPLE, drawn
from spillway.core.join.selection.sample import sampled
from spillway.core.join.selection.time_correlation import Correlation
from spillway.core.join.selection.utility import Worth
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel
from spillway.core.random import mix

Stores = tuple[Store, Store]
_WORTH = ("compared", "matched", "gained", "seen")


class Selection:
    """Chooses what each row is compared with, and learns from the matches."""

    def __init__(self, config: JoinConfig) -> None:
        self.shedding = shedding_of(config.shedding)
        self.salt = config.salt
        self._salts = mix(config.salt, SAMPLE, 0), mix(config.salt, SAMPLE, 1)
        slide = self.shedding.slide if self.shedding.time_correlation else "smooth"
        utility = self.shedding.utility
        self.types = 1 if utility is None else utility.codes
        self.chooser = Chooser(config.windows, config.length, slide, self.types)
        # Without basic windows only rows that meet the whole window show what all of it yields.
        self.from_all = self.shedding.learn_from == "all" and self.shedding.time_correlation
        self.correlation = Correlation(self.chooser.count, self.shedding.memory)
        self.worth = None if utility is None else Worth(utility, self.shedding.memory, self.chooser.most)
        self.fractions: Floats = np.ones((2, self.types))

    def choose(
        self,
        stores: Stores,
        meetings: Meetings,
        *,
        budget: float | None,
        fraction: float | None,
        whole: bool,
    ) -> tuple[Ranges, Bools]:
        """Return what rows are compared with, for a budget of comparisons or for a fraction, and which are full.

        With ``whole`` rows meet whole windows or nothing.
        """
        D, r = float(meetings.comparisons), fraction
        sample = self.shedding.sample if self.shedding.learns and not whole else 0.0
        if r is None:
            r = 1.0 if budget is None else fraction_for(budget, D, sample)
        if r >= 1.0 or self.shedding.drop_rows:
            full = np.ones(len(meetings), np.bool_)
            self.fractions = np.ones((2, self.types))
        else:
            full, F, demand = sampled(
                *(stores, meetings, r * sample), most=r * D / 2, salts=self._salts, types=self.types
            )
            if budget is not None and fraction is None:
                r = max(0.0, budget - F) / max(1.0, D - F)
            self.fractions = self._fractions(min(1.0, r), demand, stores, meetings)
            if whole:
                full = self._probing(stores, meetings)
        fractions = np.zeros_like(self.fractions) if whole else self.fractions
        order, newer = self.correlation.order, self.correlation.newer
        ranges = self.chooser.choose(stores, meetings, full, fractions, order, newer, count_all=self.from_all)
        return ranges, full

    def learn(self, stores: Stores, meetings: Meetings, full: Bools, matches: Matches) -> None:
        """Count what was compared and what matched."""
        if self.shedding.learns:
            chooser, from_all = self.chooser, self.from_all
            self.correlation.tally(stores, meetings, matches, chooser, full, all_count=from_all)
            if self.worth is not None:
                self.worth.tally(stores, meetings, matches, chooser, full, all_count=from_all)
        self.chooser.met.fill(0)

    def step(self, periods: int = 1) -> None:
        """Renew the order of the basic windows after ``periods`` periods T_c, of which only the first had rows."""
        self.correlation.step(periods)
        if self.worth is not None:
            self.worth.step(periods)

    def _probing(self, stores: Stores, meetings: Meetings) -> Bools:
        """Return which rows probe a hash index, each with the probability of its window and type."""
        types, numbers = column(stores, meetings, "types"), column(stores, meetings, "numbers")
        probing = np.zeros(len(meetings), np.bool_)
        for i, z in np.ndindex(*self.fractions.shape):
            those, p = (meetings.side == 1 - i) & (types == z), float(self.fractions[i, z])
            probing[those] = drawn(numbers[those], p, salt=self.salt, purpose=PROBE, side=1 - i)
        return probing

    def _fractions(self, r: float, demand: Floats, stores: Stores, meetings: Meetings) -> Floats:
        """Return r_(i,z) for the rows that are not processed in full."""
        learned, shedding = self.correlation, self.shedding
        if self.worth is None and not shedding.direction:
            return np.full((2, 1), r)
        if self.worth is None and shedding.direct_by == "window":
            r1, r2 = directed(r, demand=demand[:, 0].tolist(), density=learned.mean.tolist())
            return np.array([[r1], [r2]])
        worth = np.ones((2, 1)) if self.worth is None else self.worth.estimate(learned.density)
        volume = self.chooser.shares(stores, int(meetings.time[len(meetings) // 2]))
        items = worth, learned.density, volume, learned.order, learned.count
        if shedding.direction:
            return filled(r, demand, *items)
        found = np.zeros_like(demand)
        for i in (0, 1):  # each window has its own budget
            found += filled(r, np.where(np.arange(2)[:, None] == i, demand, 0.0), *items)
        return found

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        state = {f"correlation.{name}": array for name, array in self.correlation.snapshot().items()}
        if self.worth is not None:
            state |= {f"worth.{name}": getattr(self.worth, name) for name in _WORTH}
        return state | {"carry": self.chooser.carry}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        prefix = "correlation."
        self.correlation.restore(
            {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        )
        if self.worth is not None:
            for name in _WORTH:
                setattr(self.worth, name, state[f"worth.{name}"].copy())
        self.chooser.carry = state["carry"].copy()


def column(stores: Stores, meetings: Meetings, name: str) -> Ints:
    """Return a column of the rows that are processed."""
    return gather(stores, meetings.side, meetings.row, name)


def gather(stores: Stores, side: Ints, row: Ints, name: str) -> Ints:
    """Return a column at rows of either side."""
    left, right = (getattr(store, name) for store in stores)
    found = np.empty(len(row), np.int64)
    _gather(left, right, stores[0].first, stores[1].first, side, row, found)
    return found


@kernel
def _gather(left: Any, right: Any, lefts: int, rights: int, side: Any, row: Any, found: Any) -> None:
    for k in range(len(row)):
        found[k] = left[row[k] - lefts] if side[k] == 0 else right[row[k] - rights]
