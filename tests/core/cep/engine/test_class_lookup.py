"""Lookup tables say the same as the trees that they are made from, for every input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spillway.core.cep.engine.class_lookup import MOST_CELLS, Forest, Tables, class_of, tables_of
from spillway.core.cep.shedding.decision_tree import Tree
from tests.core.cep.engine.test_run_counters import TABLE, tracked

Nested = int | tuple[int, float, "Nested", "Nested"]  # a class, or feature, threshold, left, right
FEATURES = 4
CUTS = (-math.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, math.nextafter(1.0, 2.0), 1e308, math.inf, math.nan)
VALUES = (*CUTS, math.nextafter(1.0, 0.0), -1e308, 7.0, -5e-324)

thresholds = st.sampled_from(CUTS) | st.floats()
nested: st.SearchStrategy[Nested] = st.recursive(
    st.integers(0, 9),
    lambda inner: st.tuples(st.integers(0, FEATURES - 1), thresholds, inner, inner),
    max_leaves=24,
)


def walked(tree: Nested, x: tuple[float, ...]) -> int:
    """The definition."""
    while not isinstance(tree, int):
        feature, threshold, left, right = tree
        tree = left if x[feature] <= threshold else right
    return tree


def preorder(tree: Nested) -> list[int | tuple[int, float]]:
    if isinstance(tree, int):
        return [tree]
    feature, threshold, left, right = tree
    return [(feature, threshold), *preorder(left), *preorder(right)]


def tables(*trees: Nested, most_cells: int = MOST_CELLS) -> Tables:
    flat = [Tree.of(preorder(tree)) for tree in trees]
    roots = np.cumsum([0, *(len(tree.feature) for tree in flat)])
    inner = [~tree.leaves for tree in flat]
    at = list(zip(flat, inner, roots.tolist(), strict=False))
    return tables_of(
        Forest(
            np.concatenate([tree.feature for tree in flat]),
            np.concatenate([tree.threshold for tree in flat]),
            np.concatenate([tree.left + own * root for tree, own, root in at]),
            np.concatenate([tree.right + own * root for tree, own, root in at]),
            np.append(roots[:-1], -1),
        ),
        most_cells,
    )


def looked_up(found: Tables, number: int, x: tuple[float, ...]) -> int:
    return int(class_of(*found[1:], found.roots[number], np.array(x)))


rows = st.lists(st.tuples(*[st.sampled_from(VALUES) | st.floats()] * FEATURES), min_size=1, max_size=20)


@given(st.lists(nested, min_size=1, max_size=3), rows, st.sampled_from([1, 2, 5, 16, MOST_CELLS]))
@example([(0, 1.0, 0, (0, math.nan, 1, 2))], [(math.nan,) * FEATURES, (1.0,) * FEATURES], MOST_CELLS)
def test_the_class_is_that_of_a_walk(
    trees: list[Nested], given_rows: list[tuple[float, ...]], most_cells: int
) -> None:
    """Missing values, infinities and values on a threshold too, in one table or in many."""
    found = tables(*trees, most_cells=most_cells)
    assert found.roots[-1] == -1, "no tree, no table"
    own = [*given_rows]
    for cut in found.cuts.tolist()[:20]:
        own += [tuple(value for _ in range(FEATURES)) for value in (cut, math.nextafter(cut, math.inf))]
    for number, tree in enumerate(trees):
        for x in own:
            assert looked_up(found, number, x) == walked(tree, x)


@given(nested, st.sampled_from([1, 4, 64]))
def test_no_table_is_larger_than_it_may_be(tree: Nested, most_cells: int) -> None:
    found = tables(tree, most_cells=most_cells)
    whole = [node for node in found.nodes.tolist() if node[0] < 0]
    sizes = np.diff([node[1] for node in whole] + [len(found.classes)])
    assert sizes.min() >= 1
    assert sizes.max() <= most_cells
    if most_cells == 1:
        assert len(found.axes) == 0, "then it is a walk"


def test_a_tree_of_a_few_features_is_one_table() -> None:
    tree: Nested = 0
    for n in range(1, 40):
        tree = (n % 2, float(n), n, tree)
    found = tables(tree)
    assert len(found.nodes) == 1
    assert len(found.classes) == 20 * 21
    assert looked_up(tables(7), 0, (0.0,)) == 7


@pytest.mark.parametrize("most_cells", [2, MOST_CELLS])
def test_the_engine_reads_the_tables(most_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trees are kept in the state, tables are made from them again; what they say decides."""
    monkeypatch.setattr("spillway.core.cep.engine.class_lookup.tables_of.__defaults__", (most_cells,))
    by_sum = Tree.of([(4, 6.5), (1, 3.5), 0, 1, (4, 12.5), 2, (3, 8.5), 3, 0])
    finder = tracked(classes=4).build()
    finder.classify([None, by_sum, None])
    finder = finder.config.build(finder.snapshot())
    finder.record()
    finder.process(TABLE)
    record, features = finder.recorded()
    alive = (record["state"] == 1) & (record["first_us"] > 2_000)
    expected = np.bincount(by_sum.classify(features[alive]), minlength=4)
    assert finder.alive()[1].sum(axis=1).tolist() == expected.tolist()
    changed = tracked(classes=4).build()
    changed.classify([None, by_sum, None])
    changed._tracking.tables.classes[:] = 3  # type: ignore[union-attr]
    changed.process(TABLE)
    assert changed.alive()[1, :3].sum() == 0 < changed.alive()[1, 3].sum()
