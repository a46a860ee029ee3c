"""Turns clusters into classes: learns a decision tree over attributes, whose leaves are the classes.

Clusters are formed by what runs turned out to bring and take. When a run is made only its attributes are known, so a
tree learns to predict the cluster from them. Its depth is at most the number of clusters, as in the paper.

**Rare clusters.** Where nearly all runs are in one cluster, no test would explain much, and there would be one
class. Then all clusters get the same weight, however few runs they have. Otherwise they do not, because such a tree
also cuts by random differences.

**Leaves are classes.** The paper's classes are the clusters. Here each leaf is a class of its own, since a leaf is a
predicate over attributes, and two leaves of one cluster may differ later, when the stream changes.

**Balance.** A leaf that holds more than a share ``largest`` of all runs is cut at the median of a feature, the
first of ``compared`` that varies in it. These are the features that later steps compare with future events, such as
a.V + b.V where the query says a.V + b.V = c.V. Runs that differ there are completed by different events, even if
they bring the same at present. Without such features a large leaf is cut by what its runs bring, with a regression
tree: a cluster depends on gain and cost together, and where costs differ much it says nothing about gains. Gains
are counts of matches, so the regression uses their square roots, or a few runs with very many matches would
dominate. Features that are ``names`` are left out there: which keys had matches says nothing about future keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.cep.shedding.decision_tree import Tree

_FEWEST = 20  # rows that a leaf has at least
_TELLS = 2e-3  # the share of the variance that a cut explains at least


def classifier(
    features: Floats,
    labels: Ints,
    *,
    gain: Floats | None = None,
    names: Sequence[int] = (),
    compared: Sequence[int] = (),
    largest: float = 1 / 32,
    most: int = 64,
    seed: int = 0,
) -> Tree:
    """Return a tree with at most ``most`` leaves, each a class, numbered from left to right."""
    if not len(features):
        return Tree.single()
    x = without_gaps(features)
    growing = _Growing(x, gain, names, compared, largest * len(x), seed)
    fitted = _fit(x, labels, max(2, most // 2), seed)
    growing.put(fitted, 0, np.arange(len(x)), most - (int(fitted.n_leaves) if fitted else 1))
    return Tree.of(growing.preorder)


def without_gaps(features: Floats) -> Floats:
    """Return features with large numbers for missing values, so that these go right, as in the engine.

    Trees are learned in 32 bits: numbers that do not fit, including infinities, become the largest that does.
    """
    largest = float(np.finfo(np.float32).max)
    filled: Floats = np.clip(np.where(np.isnan(features), largest, features), -largest, largest)
    return filled


def _fit(x: Floats, labels: Ints, leaves: int, seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    kinds = len(np.unique(labels))
    if kinds < 2 or not x.shape[1]:
        return None
    most = {"max_depth": max(kinds, 2), "max_leaf_nodes": leaves, "min_samples_leaf": max(5, len(x) // 200)}
    plain = DecisionTreeClassifier(**most, min_impurity_decrease=1e-3, random_state=seed % 2**32)
    found = plain.fit(x, labels).tree_
    if found.n_leaves > 1:
        return found
    balanced = DecisionTreeClassifier(**most, class_weight="balanced", random_state=seed % 2**32)
    return balanced.fit(x, labels).tree_


def _fit_gain(x: Floats, gain: Floats, leaves: int, seed: int) -> Any:
    """Return a tree that separates rows by what they bring, or None if there is none.

    Rows are in the order of time, and a tree of the earlier half must explain a part of the later half.
    """
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415

    half = len(x) // 2
    if leaves < 2 or half < _FEWEST or not x.shape[1]:
        return None

    def fitted(rows: slice) -> Any:
        regressor = DecisionTreeRegressor(
            max_leaf_nodes=leaves,
            min_samples_leaf=max(_FEWEST, len(x) // 50),
            min_impurity_decrease=float(gain[rows].var()) * _TELLS,
            random_state=seed % 2**32,
        )
        return regressor.fit(x[rows], gain[rows])

    expected, later = fitted(slice(half)).predict(x[half:]), gain[half:]
    together = float(((expected - expected.mean()) * (later - later.mean())).mean())
    if together <= 0.0 or together**2 <= _TELLS * float(expected.var() * later.var()):
        return None
    found = fitted(slice(None)).tree_
    return found if found.n_leaves > 1 else None


class _Growing:
    """Writes a fitted tree in preorder and cuts its large leaves."""

    def __init__(
        self,
        x: Floats,
        gain: Floats | None,
        names: Sequence[int],
        compared: Sequence[int],
        largest: float,
        seed: int,
    ) -> None:
        self.x, self.gain, self.compared, self.largest, self.seed = x, gain, compared, largest, seed
        self.nameless = x.copy()
        self.nameless[:, list(names)] = 0.0
        self.preorder: list[int | tuple[int, float]] = []
        self.classes = 0

    def put(self, fitted: Any, node: int, rows: Ints, spare: int, cut: bool = True) -> int:
        """Write a node, whose leaves may be cut; return how many leaves may still be added."""
        if fitted is None or fitted.children_left[node] < 0:
            return self.leaf(rows, spare, cut)
        test = (int(fitted.feature[node]), float(fitted.threshold[node]))
        self.preorder.append(test)
        low = self.x[rows, test[0]] <= test[1]
        spare = self.put(fitted, fitted.children_left[node], rows[low], spare, cut)
        return self.put(fitted, fitted.children_right[node], rows[~low], spare, cut)

    def leaf(self, rows: Ints, spare: int, cut: bool = True) -> int:
        """Write a leaf, or cut it: at the median of a ``compared`` feature, or by what its rows bring."""
        if cut and spare > 0 and len(rows) > self.largest:
            middle = self._middle(rows)
            if middle is not None:
                self.preorder.append(middle)
                low = self.x[rows, middle[0]] <= middle[1]
                spare = self.leaf(rows[low], spare - 1)
                return self.leaf(rows[~low], spare)
            fitted = self._by_gain(rows, spare)
            if fitted is not None:
                return self.put(fitted, 0, rows, spare - int(fitted.n_leaves) + 1, cut=False)
        self.preorder.append(self.classes)
        self.classes += 1
        return spare

    def _by_gain(self, rows: Ints, spare: int) -> Any:
        if self.gain is None or self.compared:
            return None
        leaves = 1 + min(spare, math.ceil(spare * len(rows) / len(self.x)))
        return _fit_gain(self.nameless[rows], np.sqrt(self.gain[rows]), leaves, self.seed)

    def _middle(self, rows: Ints) -> tuple[int, float] | None:
        for feature in self.compared:
            values, counts = np.unique(self.x[rows, feature], return_counts=True)
            if len(values) > 1:
                at = int(np.searchsorted(np.cumsum(counts), len(rows) / 2))
                at = min(max(at, 0), len(values) - 2)
                return feature, float(values[at] + values[at + 1]) / 2
        return None
