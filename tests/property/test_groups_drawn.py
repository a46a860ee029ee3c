"""Exact draws of counted groups: of a whole table (quota) and of a task's part of a batch (portion).

Both are checked by the mean over many salts: whatever is drawn, weighted sums are right on average, row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.groups.census import Census
from spillway.core.groups.quota import Drawn, Quota, quota, settled
from spillway.core.groups.random_order import mixed
from spillway.core.groups.task_portion import portion
from spillway.core.random import mix

sizes = st.lists(st.integers(1, 300), min_size=1, max_size=25)
shares = st.floats(0.005, 0.95)
salts = st.integers(-(2**62), 2**62)


def table(counts: list[int]) -> Any:
    return np.repeat(np.arange(len(counts)), counts)


def hashes_of(rows: int, salt: int) -> Any:
    return mixed(np.arange(rows) * 2_654_435_761, mix(salt))


def drawn_by(planned: Quota, keys: Any, hashes: Any) -> tuple[Drawn, Any]:
    """Draw as the definition says: sort the candidates of each group."""
    found = {}
    for key, n, bound, ranked in zip(planned.keys, planned.rows, planned.bounds, planned.ranked, strict=True):
        near = np.sort(hashes[(keys == key) & (hashes <= bound)])
        limit = int(near[min(n, len(near)) - 1]) if ranked else bound
        found[key] = (limit, int((near <= limit).sum()))
    drawn = settled(planned, found)
    weights = np.ones(len(keys))
    for key, limit, weight in zip(drawn.keys, drawn.limits, drawn.weights, strict=True):
        mine = keys == key
        weights[mine] = np.where(hashes[mine] <= limit, weight, 0.0)
    return drawn, weights


def quota_of(counts: list[int], keys: Any, hashes: Any, share: float, **options: Any) -> Quota | None:
    smallest = [int(hashes[keys == key].min()) for key in range(len(counts))]
    census = Census.counted(len(keys), range(len(counts)), counts)
    options = {"groups": len(counts), "rule": "equal", "at_least": 1, **options}
    return quota(census, smallest, keep_ratio=share, **options)


@given(sizes, shares, salts)
def test_counted_groups_are_there_with_exact_counts(counts: list[int], share: float, salt: int) -> None:
    keys = table(counts)
    hashes = hashes_of(len(keys), salt)
    planned = quota_of(counts, keys, hashes, share)
    if planned is None:
        assert int(share * len(keys) + 1e-6) < len(counts)
        return
    _, weights = drawn_by(planned, keys, hashes)
    assert np.bincount(keys, weights) == pytest.approx(np.array(counts, dtype=float))
    assert np.count_nonzero(weights) <= share * len(keys) + 1e-6


@given(sizes, shares, salts, st.lists(st.none() | st.floats(0.001, 1.0), min_size=25, max_size=25))
def test_a_portion_holds_its_budget_and_loses_no_group(
    counts: list[int], share: float, salt: int, planned: list[float | None]
) -> None:
    keys = table(counts)
    chances = np.array([np.nan if chance is None else chance for chance in planned])[keys]
    hashes = hashes_of(len(keys), salt)
    weights = portion(keys, hashes, chances, share=share)
    kept = np.bincount(keys, weights > 0, len(counts))
    budget = share * len(keys)
    assert kept.sum() <= 1.5 * budget + 2.0 * np.sqrt(len(counts)) + len(counts) * (budget < len(counts)) + 1
    if len(counts) <= 1.5 * budget:
        assert (kept >= 1).all()
        assert np.bincount(keys, weights) == pytest.approx(np.array(counts, dtype=float)), "counts are exact"
    moved = np.argsort(mixed(np.arange(len(keys)), 3))
    assert (portion(keys[moved], hashes[moved], chances[moved], share=share) == weights[moved]).all()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_every_row_counts_for_one_on_average(share: float) -> None:
    """Groups of 1, 2, 7, 60 and 300 rows, some planned and some not, over 1,500 salts."""
    counts, salted = [1, 2, 7, 60, 300, 1, 30], 1_500
    keys = table(counts)
    chances = np.array([np.nan, 0.9, np.nan, 0.1, 0.02, 0.5, np.nan])[keys]
    totals, squares = np.zeros(len(keys)), np.zeros(len(keys))
    for salt in range(salted):
        weights = portion(keys, hashes_of(len(keys), salt), chances, share=share)
        totals += weights
        squares += weights**2
    mean = totals / salted
    error = np.sqrt(np.maximum(squares / salted - mean**2, 1e-12) / salted)
    assert (np.abs(mean - 1.0) < 5.0 * error + 1e-9).all()
    assert np.bincount(keys, mean) == pytest.approx(np.array(counts, dtype=float), rel=0.2)


def test_sums_of_a_quota_are_right_on_average() -> None:
    counts = [1, 2, 9, 80, 400]
    keys = table(counts)
    values = np.arange(len(keys), dtype=float)
    sums = []
    for salt in range(1_000):
        hashes = hashes_of(len(keys), salt)
        planned = quota_of(counts, keys, hashes, 0.04)
        assert planned is not None
        sums.append(np.bincount(keys, values * drawn_by(planned, keys, hashes)[1]))
    found = np.array(sums)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - np.bincount(keys, values)) <= 4.5 * error + 1e-9).all()


def test_rows_of_one_hash_stay_together() -> None:
    keys = np.zeros(100, dtype=np.int64)
    hashes = hashes_of(100, 5)
    hashes[:50] = hashes.min()
    weights = portion(keys, hashes, np.full(100, 0.05), share=0.05)
    assert np.unique(weights[:50]).size == 1
    assert weights.sum() == pytest.approx(100.0)


def test_everything_is_kept_where_everything_fits() -> None:
    keys = table([3, 4])
    assert (portion(keys, hashes_of(7, 1), np.full(7, 0.1), share=1.0) == 1.0).all()
    assert len(portion(keys[:0], keys[:0], np.empty(0), share=0.1)) == 0
