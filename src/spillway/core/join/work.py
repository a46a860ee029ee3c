"""What a call did, in units of work, and what an index will take before it has been used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spillway.core.join.store import Store
from spillway.core.join.values import Rows


@dataclass
class Work:
    """What one call of ``process`` did.

    ``demand`` is how many comparisons joining everything would have taken, ``fraction`` the share of them that were
    made. ``lookups`` and ``postings`` are those of an index. ``late_rows`` and ``dropped_rows`` are left and right
    ones together, ``spent`` is in units of the budget. ``adapting_s`` is how long choosing and learning took, by the
    clock that the join was built with.
    """

    rows: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    demand: int = 0
    comparisons: int = 0
    lookups: int = 0
    postings: int = 0
    spent: int = 0
    pairs: int = 0
    adapting_s: float = 0.0

    @property
    def fraction(self) -> float:
        """The share of all comparisons that were made."""
        return self.comparisons / self.demand if self.demand else 1.0


def index_work(stores: tuple[Store, Store], rows: tuple[Rows, Rows]) -> float:
    """Return the units of work that an index takes for a comparison, from how frequent items are on both sides.

    An item that m of M rows on one side have, and n of N on the other, is in mn of MN comparisons: that many
    postings are read. Each row looks up its items once. 0 stands for not known, while one side has no rows.
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
    return max(1e-9, (postings + len(found[0]) + len(found[1])) / M / N)
