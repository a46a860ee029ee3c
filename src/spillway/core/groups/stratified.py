"""Draws exactly n_g rows of each group: those that come first in the random order of the group's rows.

Every row of a group is kept with probability n_g / N_g, and represents N_g / n_g rows: its weight. A sum of
weights is exactly N_g, and the mean of a weighted sum of any numbers over all salts is the true total.

>>> codes, order = np.array([0, 1, 0, 0]), np.array([5, 1, 9, 2])
>>> rows, weights = stratified(codes, order, sizes=np.array([3, 1]), rows=np.array([2, 1]))
>>> rows, weights
(array([0, 1, 3]), array([1.5, 1. , 1.5]))
"""

from __future__ import annotations

import numpy as np

from spillway.core.arrays import Floats, Ints


def stratified(
    codes: Ints, order: Ints, *, sizes: Ints, rows: Ints, chance: float = 1.0
) -> tuple[Ints, Floats]:
    """Return the numbers of the kept rows, in the order of the table, and their weights.

    ``order`` is each row's place in the random order, as :func:`draws` gives it; ``rows`` is n_g; ``chance`` is the
    probability that a group had rows at all.
    """
    by_group = np.lexsort((order, codes))
    starts = np.cumsum(sizes) - sizes
    rank = np.arange(len(codes)) - np.repeat(starts, sizes)
    kept = by_group[rank < np.repeat(rows, sizes)]
    kept.sort()
    return kept, weights_of(sizes, rows, chance)[codes[kept]]


def weights_of(sizes: Ints, rows: Ints, chance: float) -> Floats:
    """Return how many rows each kept row of a group represents."""
    found: Floats = np.divide(sizes, rows * chance, out=np.zeros(len(sizes)), where=rows > 0)
    return found
