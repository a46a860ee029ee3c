"""From clusters to classes: a decision tree over attributes, whose leaves are the classes.

Clusters are made of what runs turned out to bring and take. When a run is made only its attributes are known, so
a tree learns to tell the clusters by them. Its depth is at most the number of clusters, as in the paper.

**Rare clusters.** Where nearly all runs are of one cluster, no test would tell much, and there would be one class.
Then all clusters count the same, however few runs they have. Otherwise they do not: such a tree also cuts by what
differs by chance.

**Leaves are classes.** The paper's classes are the clusters. Here each leaf is a class of its own, since a leaf is a
predicate over attributes, and two leaves of one cluster may part later, when the stream changes.

**Balance.** A leaf that holds more than a share ``largest`` of all runs is cut at the median of a feature, the
first of ``compared`` that varies in it: features that later steps compare with the events to come, such as a.V +
b.V where the query says a.V + b.V = c.V. Runs that differ there are completed by different events, even if they
bring the same for now. Without such features large leaves stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.cep.shedding.tree import Tree

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def classifier(
    features: Floats,
    labels: Ints,
    *,
    compared: Sequence[int] = (),
    largest: float = 1 / 32,
    most: int = 64,
    seed: int = 0,
) -> Tree:
    """Return a tree with at most ``most`` leaves, each a class, numbered from left to right."""
    if not len(features):
        return Tree.single()
    x = without_gaps(features)
    growing = _Growing(x, compared, largest * len(x), most)
    fitted = _fit(x, labels, max(2, most // 2), seed)
    growing.put(fitted, 0, np.arange(len(x)), most - (int(fitted.n_leaves) if fitted else 1))
    return Tree.of(growing.preorder)


def without_gaps(features: Floats) -> Floats:
    """Return features with large numbers for what is missing, so that it goes right, as in the engine."""
    filled: Floats = np.where(np.isnan(features), np.float64(np.finfo(np.float32).max), features)
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


class _Growing:
    """Writes a fitted tree in preorder and cuts its large leaves."""

    def __init__(self, x: Floats, compared: Sequence[int], largest: float, most: int) -> None:
        self.x, self.compared, self.largest, self.most = x, compared, largest, most
        self.preorder: list[int | tuple[int, float]] = []
        self.classes = 0

    def put(self, fitted: Any, node: int, rows: Ints, spare: int) -> int:
        """Write a node; return how many leaves may still be added."""
        if fitted is None or fitted.children_left[node] < 0:
            return self.leaf(rows, spare)
        test = (int(fitted.feature[node]), float(fitted.threshold[node]))
        self.preorder.append(test)
        low = self.x[rows, test[0]] <= test[1]
        spare = self.put(fitted, fitted.children_left[node], rows[low], spare)
        return self.put(fitted, fitted.children_right[node], rows[~low], spare)

    def leaf(self, rows: Ints, spare: int) -> int:
        """Write a leaf, or cut it."""
        cut = self._cut(rows) if spare > 0 and len(rows) > self.largest else None
        if cut is None:
            self.preorder.append(self.classes)
            self.classes += 1
            return spare
        self.preorder.append(cut)
        low = self.x[rows, cut[0]] <= cut[1]
        spare = self.leaf(rows[low], spare - 1)
        return self.leaf(rows[~low], spare)

    def _cut(self, rows: Ints) -> tuple[int, float] | None:
        for feature in self.compared:
            values, counts = np.unique(self.x[rows, feature], return_counts=True)
            if len(values) > 1:
                at = int(np.searchsorted(np.cumsum(counts), len(rows) / 2))
                at = min(max(at, 0), len(values) - 2)
                return feature, float(values[at] + values[at + 1]) / 2
        return None
