"""Flat trees: classes, and the classes that are possible when only some features are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.possible_classes import Possible
from spillway.errors import SpillwayError


@st.composite
def trees(draw: st.DrawFn, features: int = 3) -> Tree:
    def preorder(depth: int) -> list[int | tuple[int, float]]:
        if depth == 0 or draw(st.booleans()):
            return [draw(st.integers(0, 5))]
        test = (draw(st.integers(0, features - 1)), float(draw(st.integers(0, 4))))
        return [test, *preorder(depth - 1), *preorder(depth - 1)]

    return Tree.of(preorder(4))


values = st.lists(st.tuples(*[st.integers(0, 5).map(float)] * 3), min_size=1, max_size=8)


@given(trees(), values, st.tuples(*[st.booleans()] * 3))
def test_the_class_is_always_possible(
    tree: Tree, rows: list[tuple[float, ...]], known: tuple[bool, ...]
) -> None:
    x = np.array(rows)
    classes, possible = tree.classify(x), tree.possible(x, np.array(known))
    assert possible[np.arange(len(x)), classes].all()
    if all(known):
        assert (possible.sum(axis=1) == 1).all()


@given(trees(), st.tuples(*[st.booleans()] * 3))
def test_possible_is_what_some_values_lead_to(tree: Tree, known: tuple[bool, ...]) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    first = grid[100]
    alike = grid[(grid[:, list(known)] == first[list(known)]).all(axis=1)]
    reached = set(tree.classify(alike).tolist())
    possible = np.flatnonzero(tree.possible(first[None], np.array(known))[0]).tolist()
    assert reached <= set(possible), "never fewer; more where tests contradict each other"


odd = st.sampled_from([-np.inf, -1.0, 0.0, 1.0, 2.0, np.nextafter(2.0, 3.0), 4.0, np.inf, np.nan])


@given(
    trees(),
    st.lists(st.tuples(odd, odd, odd), min_size=1, max_size=8),
    st.tuples(*[st.booleans()] * 3),
    st.sampled_from([1, 6, 4096]),
    st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6),
)
def test_what_is_possible_can_be_looked_up(
    tree: Tree, rows: list[tuple[float, ...]], known: tuple[bool, ...], most_cells: int, shares: list[float]
) -> None:
    x, by_class = np.array(rows), np.array(shares)[: tree.classes]
    table = Possible(tree, known, most_cells)
    columns = [x[:, n] if sure else None for n, sure in enumerate(known)]
    expected = [by_class[possible].min() for possible in tree.possible(x, np.array(known))]
    assert table.least(by_class, columns, len(x)).tolist() == expected


def test_missing_values_go_right() -> None:
    assert Tree.of([(0, 1.0), 0, 1]).classify(np.array([[np.nan], [1.0]])).tolist() == [1, 0]
    assert Tree.single().classify(np.empty((2, 0))).tolist() == [0, 0]


def test_a_tree_with_a_circle_is_refused() -> None:
    bad = np.array([0, -1]), np.zeros(2), np.array([0, 0]), np.array([1, 0])
    with pytest.raises(SpillwayError, match="after their parents"):
        Tree(*bad)
