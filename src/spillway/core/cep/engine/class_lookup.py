"""Decision trees as lookup tables: the class of a run is read at the cell of its features.

A tree cuts each feature that it tests into intervals, at its thresholds: m cuts make m + 1 intervals, and x lies in

    interval j = number of cuts c with not x <= c

which is the last interval for a missing value (NaN), as a tree sends it right. All values of one **cell**, that is of
the same interval of each feature, reach the same leaf, so a table of cells gives the same class as the tree for every
input:

::

         x1 > 7.5 | 0 | 2 |        cells: product of m + 1 over the features
        x1 <= 7.5 | 0 | 1 |        place: sum of j * stride over the features
                 x0 <= 2.5 < x0

**Size.** A table has at most 4,096 cells. Where a tree would need more, its root is tested as in a walk, and the
left and the right subtree have a table each, or are split again: a walk of a few steps that ends at a table, not at
a class.

**Cost.** In a walk down the tree each step depends on the one before. In a table, an interval is found by comparing
with all cuts of a feature, and no comparison waits for another. For the trees of Q1 (2 features with 11 cuts in all,
1 with 16, 2 with 23) a walk takes 24, 28 and 57 ns for random values, a table 14, 12 and 18. Of the seven trees that
the cluster's tasks produce, five gain up to 13 ns, and two with few leaves for their features lose up to 4. Finding
intervals by bisection takes about as long as a walk. Even bins with one cut each would save up to 6 ns more on the
largest of these trees, but that tree is used once for a row and not for each run: too little to implement them.

>>> feature, threshold = np.array([0, -1, 1, -1, -1]), np.array([2.5, 0.0, 7.5, 0.0, 0.0])   # the tree in the drawing
>>> left, right = np.array([1, 0, 3, 1, 2]), np.array([2, 0, 4, 0, 0])
>>> tables = tables_of(Forest(feature, threshold, left, right, roots=np.array([0])))
>>> tables.cuts.tolist(), tables.classes.tolist()
([2.5, 7.5], [0, 0, 1, 2])
>>> int(class_of(*tables[1:], 0, np.array([3.0, np.nan])))
2
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from spillway.core.arrays import Floats, Ints

FEATURE, LEFT, RIGHT, END = range(
    4
)  # columns of a node; for a table: -1, its first class, the range of its axes
AXIS, STRIDE, FIRST, LAST = range(4)  # columns of an axis: its feature, its stride, the range of its cuts
MOST_CELLS = 4096


class Forest(NamedTuple):
    """Trees in arrays, one after the other, each starting with its root; a root of -1 stands for no tree.

    At node n go left if x[feature[n]] <= threshold[n]. At a leaf ``feature`` is -1 and ``left`` the class.
    """

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    roots: Ints


class Tables(NamedTuple):
    """What compiled code reads: for each tree the node to begin at, -1 if there is none."""

    roots: Ints
    nodes: Ints
    thresholds: Floats
    axes: Ints
    cuts: Floats
    classes: Ints


def tables_of(forest: Forest, most_cells: int = MOST_CELLS) -> Tables:
    """Return the tables of all trees of a forest."""
    made = _Made(forest, most_cells)
    roots = [-1 if root < 0 else made.put(root) for root in forest.roots.tolist()]
    return Tables(
        np.array(roots, np.int64),
        np.array(made.nodes, np.int64).reshape(-1, 4),
        np.array(made.thresholds, np.float64),
        np.array(made.axes, np.int64).reshape(-1, 4),
        np.array(made.cuts, np.float64),
        np.array(made.classes, np.int64),
    )


def _class_of(nodes: Any, thresholds: Any, axes: Any, cuts: Any, classes: Any, root: int, x: Any) -> Any:
    n = root
    while nodes[n, FEATURE] >= 0:
        n = nodes[n, LEFT] if x[nodes[n, FEATURE]] <= thresholds[n] else nodes[n, RIGHT]
    place = nodes[n, LEFT]
    for a in range(nodes[n, RIGHT], nodes[n, END]):
        value, interval = x[axes[a, AXIS]], 0
        for cut in range(axes[a, FIRST], axes[a, LAST]):
            interval += not value <= cuts[cut]
        place += interval * axes[a, STRIDE]
    return classes[place]


# The class of one row of features. A call with so many arrays would cost as much as the lookup, so the compiled code
# is inlined. Numba could also inline the code before it is compiled, but compiling would then take a quarter longer.
class_of: Any = numba.njit(forceinline=True, cache=True)(_class_of)


class _Made:
    """Tables under construction."""

    def __init__(self, forest: Forest, most_cells: int) -> None:
        self.forest, self.most_cells = forest, most_cells
        self.nodes: list[list[int]] = []
        self.thresholds: list[float] = []
        self.axes: list[list[int]] = []
        self.cuts: list[float] = []
        self.classes: list[int] = []

    def put(self, node: int) -> int:
        """Make the table of the subtree of a node, or a test and two tables; return where it is."""
        forest, here = self.forest, len(self.nodes)
        cuts = _cuts_under(forest, node)
        self.nodes.append([])
        self.thresholds.append(float(forest.threshold[node]))
        if math.prod(len(values) + 1 for values in cuts.values()) <= self.most_cells:
            self.nodes[here] = self._table(node, cuts)
        else:
            left, right = self.put(int(forest.left[node])), self.put(int(forest.right[node]))
            self.nodes[here] = [int(forest.feature[node]), left, right, 0]
        return here

    def _table(self, node: int, cuts: dict[int, Floats]) -> list[int]:
        table = _filled(self.forest, node, cuts)
        first, axes = len(self.classes), len(self.axes)
        for (feature, values), stride in zip(cuts.items(), table.strides, strict=True):
            at = len(self.cuts)
            self.axes.append([feature, stride // table.itemsize, at, at + len(values)])
            self.cuts += values.tolist()
        self.classes += table.ravel().tolist()
        return [-1, first, axes, len(self.axes)]


def _cuts_under(forest: Forest, node: int) -> dict[int, Floats]:
    """Return the cuts of each feature tested in a node's subtree, ascending; NaN is no cut, it sends all right."""
    found: dict[int, set[float]] = {}
    todo = [node]
    while todo:
        n = todo.pop()
        feature, threshold = int(forest.feature[n]), float(forest.threshold[n])
        if feature >= 0:
            todo += [int(forest.left[n]), int(forest.right[n])]
            if not math.isnan(threshold):
                found.setdefault(feature, set()).add(threshold)
    return {feature: np.array(sorted(values)) for feature, values in sorted(found.items())}


def _filled(forest: Forest, node: int, cuts: dict[int, Floats]) -> Ints:
    """Return the class of each cell: a node has a box of cells, which a test divides between left and right."""
    axis = {feature: n for n, feature in enumerate(cuts)}
    shape = tuple(len(values) + 1 for values in cuts.values())
    table = np.zeros(shape, np.int64)
    todo = [(node, tuple((0, size) for size in shape))]
    while todo:
        n, box = todo.pop()
        feature, threshold = int(forest.feature[n]), float(forest.threshold[n])
        left, right = int(forest.left[n]), int(forest.right[n])
        if feature < 0:
            table[tuple(slice(low, high) for low, high in box)] = left
        elif math.isnan(threshold):
            todo.append((right, box))
        else:
            a = axis[feature]
            low, high = box[a]
            upto = int(np.searchsorted(cuts[feature], threshold)) + 1
            if low < upto:
                todo.append((left, (*box[:a], (low, min(high, upto)), *box[a + 1 :])))
            if upto < high:
                todo.append((right, (*box[:a], (max(low, upto), high), *box[a + 1 :])))
    return table
