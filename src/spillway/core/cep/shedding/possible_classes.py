"""Looks up which classes the runs that an event would make may have, from the event's own features.

Of the features that a tree tests, only the event's own are known. As in ``spillway.core.cep.engine.class_lookup``
their cuts make cells, and for all events of one cell the same classes are possible. So these classes are found once
for each cell, by a walk (see decision_tree), and shares by class are turned into shares by cell:

    share of an event = share[cell of the event],    share[cell] = min of share[class] over the classes possible there

If there would be more than 4,096 cells, the tree is walked for each event.

>>> by_first = Possible(Tree.of([(0, 2.5), 0, (1, 7.5), 1, 2]), known=[True, False])
>>> by_first.least(np.array([1.0, 0.5, 0.25]), [np.array([1.0, 3.0, np.nan]), None], count=3).tolist()
[1.0, 0.25, 0.25]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.cep.engine.class_lookup import MOST_CELLS
from spillway.core.cep.shedding.decision_tree import Tree


class Possible:
    """The classes of a tree that are possible where some features are known."""

    def __init__(self, tree: Tree, known: Sequence[bool], most_cells: int = MOST_CELLS) -> None:
        self.tree, self._known = tree, np.array(known, np.bool_)
        tested = set(tree.feature[~tree.leaves].tolist())
        self._cuts = {feature: self._cuts_of(feature) for feature in sorted(tested) if known[feature]}
        self.cells = math.prod(len(cuts) + 1 for cuts in self._cuts.values())
        self._table = tree.possible(self._points(), self._known) if self.cells <= most_cells else None

    def _cuts_of(self, feature: int) -> Floats:
        cuts = self.tree.threshold[self.tree.feature == feature]
        return np.unique(cuts[~np.isnan(cuts)])

    def _points(self) -> Floats:
        """Return one row of features for each cell: the upper end of each interval, and NaN for the last one."""
        points = np.zeros((self.cells, len(self._known)))
        ends = [np.append(cuts, np.nan) for cuts in self._cuts.values()]
        for feature, values in zip(self._cuts, np.meshgrid(*ends, indexing="ij"), strict=True):
            points[:, feature] = values.ravel()
        return points

    def least(self, by_class: Floats, columns: Sequence[Floats | None], count: int) -> Floats:
        """Return for each row the least number over its possible classes, at most 1; a None column is not known."""
        if self._table is None:
            features = np.stack([np.zeros(count) if x is None else x for x in columns], axis=1)
            return _least(self.tree.possible(features, self._known), by_class)
        cell = np.zeros(count, np.int64)
        for feature, cuts in self._cuts.items():
            values = columns[feature]
            assert values is not None
            cell = cell * (len(cuts) + 1) + np.searchsorted(cuts, values)
        return _least(self._table, by_class)[cell]


def _least(possible: npt.NDArray[np.bool_], by_class: Floats) -> Floats:
    found: Floats = np.where(possible, by_class[None], 1.0).min(axis=1)
    return found
