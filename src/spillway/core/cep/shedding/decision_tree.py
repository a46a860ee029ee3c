"""Decision trees as flat arrays: they give the class of a run or a row, and the classes that are still possible.

Node n tests ``x[feature[n]] <= threshold[n]`` and continues at ``left[n]`` or ``right[n]``. A leaf has feature -1 and
its class in ``left``. The root is node 0. Missing values (NaN) go right. The engine's compiled code reads these trees
when it makes a run, so a class costs a few comparisons.

When an event arrives, only some features of the runs that it would make are known: the event's own. ``possible``
follows both branches where a feature is not known, and so finds all classes that these runs may have.

>>> tree = Tree.of([(0, 2.5), 0, (1, 7.5), 1, 2])   # in preorder: (feature, threshold) or the class of a leaf
>>> tree.classify(np.array([[1.0, 9.0], [3.0, 1.0], [3.0, 9.0]])).tolist(), tree.classes
([0, 1, 2], 3)
>>> tree.possible(np.array([[3.0, np.nan]]), np.array([True, False])).tolist()
[[False, True, True]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.kernel import kernel
from spillway.errors import invalid


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree over features that are numbers."""

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints

    def __post_init__(self) -> None:
        sizes = {len(self.feature), len(self.threshold), len(self.left), len(self.right)}
        if len(sizes) != 1 or not len(self.feature):
            raise invalid("tree", sorted(sizes), "four arrays of one length, with at least one node")
        inner = self.feature >= 0
        nodes = np.arange(len(inner))[inner]
        after = (self.left[inner] > nodes) & (self.right[inner] > nodes)
        if not after.all() or max(self.left[inner].max(initial=0), self.right[inner].max(initial=0)) >= len(
            inner
        ):
            raise invalid("tree", "its nodes", "children that come after their parents")

    @classmethod
    def single(cls) -> Tree:
        """Return the tree that puts everything into class 0."""
        return cls.of([0])

    @classmethod
    def of(cls, preorder: Sequence[int | tuple[int, float]]) -> Tree:
        """Return the tree of a list in preorder: (feature, threshold) for a test, a class for a leaf."""
        rows: list[list[float]] = []
        rest = iter(preorder)

        def put() -> int:
            node, here = next(rest), len(rows)
            rows.append([-1.0, 0.0, float(node) if isinstance(node, int | np.integer) else 0.0, 0.0])
            if not isinstance(node, int | np.integer):
                rows[here][:2] = [float(node[0]), float(node[1])]
                rows[here][2] = put()
                rows[here][3] = put()
            return here

        put()
        feature, threshold, left, right = (np.array(column) for column in zip(*rows, strict=True))
        return cls(feature.astype(np.int64), threshold, left.astype(np.int64), right.astype(np.int64))

    def beyond(self, feature: int, cuts: Sequence[float]) -> Tree:
        """Return a tree with further classes for values of a feature above each of these ascending cuts.

        >>> Tree.of([(0, 1.5), 0, 1]).beyond(0, [2.5, 3.5]).classify(np.array([[1.0], [2.0], [3.0], [9.0]])).tolist()
        [0, 1, 2, 3]
        """
        m, first = len(cuts), self.classes
        if not m:
            return self
        down = np.arange(m)  # first all tests, then the leaves between them, then this tree
        here = 2 * m
        leaf = np.full(m, -1)
        inner = self.feature >= 0
        return Tree(
            np.concatenate([np.full(m, feature), leaf, self.feature]).astype(np.int64),
            np.concatenate([np.array(cuts, np.float64), np.zeros(m), self.threshold]),
            np.concatenate(
                [[here], m + down[:-1], first + down, np.where(inner, self.left + here, self.left)]
            ).astype(np.int64),
            np.concatenate(
                [down[1:], [2 * m - 1], np.zeros(m), np.where(inner, self.right + here, 0)]
            ).astype(np.int64),
        )

    @property
    def leaves(self) -> Bools:
        """Which nodes are leaves."""
        return self.feature < 0

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.left[self.leaves].max()) + 1

    def classify(self, features: Floats) -> Ints:
        """Return the class of each row of features."""
        found = np.empty(len(features), np.int64)
        _classify(self.feature, self.threshold, self.left, self.right, np.ascontiguousarray(features), found)
        return found

    def possible(self, features: Floats, known: Bools) -> Bools:
        """Return for each row and class whether the row may get that class once all features are known."""
        found = np.zeros((len(features), self.classes), np.bool_)
        values = np.ascontiguousarray(features)
        _possible(self.feature, self.threshold, self.left, self.right, values, known, found)
        return found


@kernel
def _classify(feature: Any, threshold: Any, left: Any, right: Any, x: Any, found: Any) -> None:
    for i in range(len(x)):
        n = 0
        while feature[n] >= 0:
            n = left[n] if x[i, feature[n]] <= threshold[n] else right[n]
        found[i] = left[n]


@kernel
def _possible(feature: Any, threshold: Any, left: Any, right: Any, x: Any, known: Any, found: Any) -> None:
    open_nodes = np.empty(len(feature) + 1, np.int64)
    for i in range(len(x)):
        open_nodes[0], count = 0, 1
        while count > 0:
            count -= 1
            n = open_nodes[count]
            if feature[n] < 0:
                found[i, left[n]] = True
                continue
            unsure = not known[feature[n]]
            low = x[i, feature[n]] <= threshold[n]
            if unsure or low:
                open_nodes[count] = left[n]
                count += 1
            if unsure or not low:
                open_nodes[count] = right[n]
                count += 1
