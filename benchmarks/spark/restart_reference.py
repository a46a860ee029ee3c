"""What a shedder would keep that knows what rows cost: the yardstick for the batches after a restart.

The time of a batch that takes in n rows, keeps k of them and drops the others is

    t = w (F + s n + (c - s) k)

========= ==================================================================================================
F, s, c   seconds of a batch without rows, of a row that is dropped and of a row that is kept, on a warm JVM
w         how slow the machine is now: 1 on a warm JVM with nothing beside it
y         the target
========= ==================================================================================================

A row waits for the batch before its own and then for its own, so batches should take y / 2. The reference knows F, s,
c and the w of the batch before (1 for the first), and keeps

    k = max(y / 2 - w (F + s n), y / 6) / (w (c - s)),    at most n:

where reading the rows alone takes nearly half of the target, a sixth of it still goes to rows that are kept.

F, s and c are fitted to warm batches before the restart, by least squares without negative values. Nothing of it
comes from the estimator that is judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from spillway.errors import SpillwayError

LEAST_BATCHES = 4
"""One more than there are numbers to fit."""

_LEAST_SHARE = 0.01  # of a batch's time: what kept rows take has to be more than rounding and noise


@dataclass(frozen=True, slots=True)
class Timed:
    """A finished batch: rows that it took in, rows that it kept, and how long it took."""

    rows: int
    kept_rows: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a batch without rows (F), of a dropped row (s) and of a kept row (c)."""

    fixed_s: float
    dropped_s: float
    kept_s: float

    def expected_s(self, batch: Timed) -> float:
        """Return how long a batch takes on a warm JVM with nothing beside it."""
        return self.fixed_s + self.dropped_s * (batch.rows - batch.kept_rows) + self.kept_s * batch.kept_rows

    def reference_rows(self, rows: int, slow_down: float, target_s: float) -> float:
        """Return the rows that the reference keeps of a batch.

        >>> costs = Costs(fixed_s=0.5, dropped_s=2e-6, kept_s=52e-6)
        >>> [round(costs.reference_rows(rows, 1.0, 3.0)) for rows in (5_000, 100_000, 2_000_000)]
        [5000, 16000, 10000]
        >>> round(costs.reference_rows(100_000, 2.0, 3.0))
        5000
        """
        w, y, e = slow_down, target_s, self.kept_s - self.dropped_s
        budget_s = max(y / 2 - w * (self.fixed_s + self.dropped_s * rows), y / 6)
        return min(budget_s / (w * e), float(rows))


def fit(batches: Sequence[Timed]) -> Costs:
    """Return the costs that explain the times of these batches best.

    Errors count relative to a batch's time, so that long batches do not decide alone. Where the best fit has a
    negative number, it is the best among those without the terms that would be negative: with three terms all
    choices can be tried.
    """
    if len(batches) < LEAST_BATCHES:
        raise SpillwayError(f"costs cannot be fitted to {len(batches)} batches: expected {LEAST_BATCHES}.")
    took_s = np.array([batch.took_s for batch in batches])
    terms = np.array([(1.0, batch.rows, batch.kept_rows) for batch in batches]) / took_s[:, None]
    best, least = None, np.inf
    for size in (3, 2, 1):
        for chosen in combinations(range(3), size):
            part = terms[:, chosen]
            scale = np.linalg.norm(part, axis=0)
            if not scale.all():
                continue
            found = np.linalg.lstsq(part / scale, np.ones(len(batches)), rcond=None)[0] / scale
            error = float(np.square(part @ found - 1.0).sum())
            if (found >= 0.0).all() and error < least:
                best, least = dict(zip(chosen, found.tolist(), strict=True)), error
    most_kept = max(batch.kept_rows for batch in batches)
    if best is None or best.get(2, 0.0) * most_kept < _LEAST_SHARE * float(np.median(took_s)):
        raise SpillwayError(
            "the batches before the restart do not tell what a kept row costs: too few differ."
        )
    read_s = best.get(1, 0.0)
    return Costs(best.get(0, 0.0), read_s, read_s + best[2])


def kept_over_reference(batches: Sequence[Timed], costs: Costs, target_s: float) -> float:
    """Return the rows kept in these batches, one after the other, over those that the reference would keep."""
    slow_down, reference_rows = 1.0, 0.0
    for batch in batches:
        reference_rows += costs.reference_rows(batch.rows, slow_down, target_s)
        slow_down = batch.took_s / costs.expected_s(batch)
    return sum(batch.kept_rows for batch in batches) / reference_rows if reference_rows else 1.0
