"""The shedding set against all subsets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.shedding.knapsack import exact_set, greedy_set, split_shares
from spillway.errors import SpillwayError

# Savings in whole hundredths of the need, so that the steps of the dynamic program are exact.
groups = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 60)), min_size=1, max_size=8)


def least(loss: np.ndarray, saving: np.ndarray, need: float) -> float | None:
    """The least loss over all subsets that save more than the need."""
    sums = [
        loss[list(chosen)].sum()
        for chosen in (np.flatnonzero(bits) for bits in product([0, 1], repeat=len(loss)))
        if saving[chosen].sum() > need
    ]
    return min(sums) if sums else None


@given(groups)
def test_dynamic_programming_finds_the_best_set(found: list[tuple[int, int]]) -> None:
    loss, saving = np.array(found, float).T
    need = 99.5
    best = least(loss, saving, need)
    chosen = exact_set(loss, saving, need, resolution=199)
    if best is None:
        assert chosen.tolist() == (saving > 0).tolist(), "all that saves anything"
    else:
        assert saving[chosen].sum() > need
        assert loss[chosen].sum() <= best + 1e-9
    assert np.array_equal(chosen, exact_set(loss, saving, need, resolution=199))


@given(groups, st.floats(0.1, 150))
def test_every_way_saves_enough_and_split_loses_least(found: list[tuple[int, int]], need: float) -> None:
    loss, saving = np.array(found, float).T
    shares = split_shares(loss, saving, need)
    assert ((shares >= 0) & (shares <= 1)).all()
    for chosen in (exact_set(loss, saving, need), greedy_set(loss, saving, need)):
        if saving.sum() > need:
            assert saving[chosen].sum() > need
            assert (shares * saving).sum() == pytest.approx(need)
            assert (shares * loss).sum() <= loss[chosen].sum() + 1e-9
        else:
            assert (saving[~chosen] == 0).all()


def test_what_loses_nothing_goes_first() -> None:
    loss, saving = np.array([0.0, 0.9, 0.0, 0.1]), np.array([0.1, 0.5, 0.2, 0.2])
    for chosen in (exact_set(loss, saving, 0.25), greedy_set(loss, saving, 0.25)):
        assert chosen.tolist() == [True, False, True, False]
    assert split_shares(loss, saving, 0.25).round(6).tolist() == [0.5, 0.0, 1.0, 0.0]


def test_a_cap_leaves_some_of_every_group() -> None:
    loss, saving = np.zeros(3), np.array([0.5, 0.3, 0.2])
    assert split_shares(loss, saving, 5.0, most=0.98).tolist() == [0.98, 0.98, 0.98]


def test_nothing_is_shed_where_nothing_is_needed() -> None:
    loss, saving = np.array([0.0, 0.5]), np.array([0.5, 0.5])
    for need in (0.0, -0.2):
        assert not exact_set(loss, saving, need).any()
        assert not greedy_set(loss, saving, need).any()
        assert not split_shares(loss, saving, need).any()


def test_lengths_have_to_agree() -> None:
    with pytest.raises(SpillwayError, match="loss"):
        exact_set(np.zeros(2), np.zeros(3), 0.1)
