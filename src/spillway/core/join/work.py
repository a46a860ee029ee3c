"""Counts the work of a call in the units of the budget, which are proportional to time.

A scan spends comparisons. Other work on a row is the same whatever the row is compared with, so it is not counted.

An index spends time on much more than comparing, and this time depends on the items. Its unit is a posting that is
read. The other steps have weights relative to that, measured on one core with sets of 5 of 100 items and with single
values:

=========  ======  ==============================================================
step       weight  what it is
=========  ======  ==============================================================
row        10      processing a row, whether or not it is compared
item       2       listing one of its items, and taking it out when the row leaves
lookup     5       finding a list of the opposite window
posting    1       reading one row from a list
match      6       adding a pair to the output
=========  ======  ==============================================================

Rows and items have to be paid for before anything is compared: a budget below that finds nothing. How many units a
comparison takes is learned from earlier comparisons, so that the budget is kept on average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spillway.core.join.access.matches import Matches
from spillway.core.join.item_sets import Rows
from spillway.core.join.window_store import Store

ROW, ITEM, LOOKUP, MATCH = 10, 2, 5, 6
_LEAST = 1e-9
_MEMORY = 0.95  # per call, of ``Prices.whole``: few rows meet a whole window


@dataclass
class Work:
    """What one call of ``process`` did.

    ``demand`` is how many comparisons joining everything would have taken, ``fraction`` the share of them that were
    made. ``lookups`` and ``postings`` are those of an index. ``late_rows`` and ``dropped_rows`` are the sums over
    both sides. ``spent`` is in units of the budget. ``needed`` is what joining all kept rows in full would have spent
    (approximate with an index). ``needed_by_all`` includes the dropped rows, assuming that the same share was always
    dropped. ``adapting_s`` is how long selection and learning took, by the clock that the join was built with.
    """

    rows: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    demand: int = 0
    comparisons: int = 0
    lookups: int = 0
    postings: int = 0
    spent: int = 0
    needed: float = 0.0
    needed_by_all: float = 0.0
    pairs: int = 0
    adapting_s: float = 0.0

    @property
    def fraction(self) -> float:
        """The share of all comparisons that were made."""
        return self.comparisons / self.demand if self.demand else 1.0


class Prices:
    """What rows and comparisons take, in units of the budget.

    ``comparison`` is the price of a comparison in the parts that the join selects; 0 stands for not known. ``whole``
    is the price for rows that meet a whole window. The two differ because rows that share items cost more to compare,
    so a comparison in the best parts is more expensive than one in the whole window.
    """

    def __init__(self, indexed: bool) -> None:
        self.indexed = indexed
        self.comparison = 0.0 if indexed else 1.0
        self.whole = [0.0, 0.0] if indexed else [1.0, 1.0]  # units, comparisons

    def guess(self, stores: tuple[Store, Store], rows: tuple[Rows, Rows], *, single: bool) -> None:
        """Start from item frequencies while the price is not known; for single values every posting is a match."""
        if self.comparison == 0.0:
            postings = postings_per_comparison(stores, rows)
            self.comparison = (1 + MATCH * single) * postings
            self.whole = [self.comparison, 1.0]

    def of_rows(self, rows: tuple[Rows, Rows], *, lookups: bool) -> int:
        """Return the units that rows take before any comparison; ``lookups`` if each item is looked up once."""
        if not self.indexed:
            return 0
        items = len(rows[0].items) + len(rows[1].items)
        return ROW * (len(rows[0]) + len(rows[1])) + (ITEM + LOOKUP * lookups) * items

    def of_all(self, rows: tuple[Rows, Rows], comparisons: float, *, dropping: bool) -> float:
        """Return the units of rows and all their comparisons; where rows are dropped, the others meet all."""
        if dropping:
            return self.of_rows(rows, lookups=True) + comparisons * self.comparison
        units, count = self.whole
        return self.of_rows(rows, lookups=False) + comparisons * (units / count if count else 0.0)

    def account(self, work: Work, comparisons: int, matches: Matches, *, dropping: bool) -> None:
        """Add up the work, and learn the price of a comparison: without lookups where rows are dropped."""
        work.comparisons += comparisons
        work.lookups += matches.lookups
        work.postings += matches.postings
        work.pairs += matches.written
        if not self.indexed:
            work.spent += comparisons
            return
        reading = matches.postings + MATCH * matches.written
        work.spent += LOOKUP * matches.lookups + reading
        if comparisons:
            units = reading if dropping else reading + LOOKUP * matches.lookups
            self.comparison += 0.5 * (max(_LEAST, units / comparisons) - self.comparison)
        for at, new in enumerate(matches.whole):
            self.whole[at] = _MEMORY * self.whole[at] + new

    def snapshot(self) -> list[float]:
        """Return the state as numbers."""
        return [self.comparison, *self.whole]

    def restore(self, state: list[float]) -> None:
        """Continue from a snapshot."""
        self.comparison, *self.whole = state


def postings_per_comparison(stores: tuple[Store, Store], rows: tuple[Rows, Rows]) -> float:
    """Return how many postings an index reads per comparison, from the item frequencies on both sides.

    An item that m of M rows on one side have, and n of N on the other, is in mn of MN comparisons: that many
    postings are read. 0 stands for not known, while one side has no rows.
    """
    counts, found = [], []
    for store, part in zip(stores, rows, strict=True):
        counts.append(len(store) + len(part))
        found.append(np.concatenate([store.items[store.live_items], part.items]))
    M, N = counts
    if not M or not N:
        return 0.0
    left, m = np.unique(found[0], return_counts=True)
    right, n = np.unique(found[1], return_counts=True)
    _, at, other_at = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    postings = float((m[at].astype(np.float64) * n[other_at]).sum())
    return max(_LEAST, postings / M / N)
