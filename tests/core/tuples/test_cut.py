"""The cut: it keeps what was asked, from the top, and everyone gets the floor."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.tuples import GRID, KEEP_ALL, Cut, Ranks, Values, cut_for, shed
from spillway.errors import SpillwayError

shares = st.floats(0.0, 1.0)
utilities = st.lists(st.integers(-3, 3).map(float) | st.floats(allow_nan=False), min_size=1, max_size=60)


def expected_share(cut: Cut, values: list[float], protected: float) -> float:
    """What a cut keeps, by counting."""
    ordinary = sum(cut.probability(v) for v in values) / len(values)
    return protected + (1.0 - protected) * ordinary


@given(shares, utilities, st.floats(0.0, 0.9), st.floats(0.0, 0.5))
def test_the_share_is_what_was_asked(
    keep: float, values: list[float], protected: float, floor: float
) -> None:
    cut = cut_for(keep, ranks=Values(values), protected_share=protected, floor=floor)
    got = expected_share(cut, values, protected)
    if keep > protected / 0.99:
        assert got == pytest.approx(keep, abs=1e-6)
    else:  # those that may never be dropped are more than was asked: the rest gets next to nothing
        assert protected <= got <= protected + 0.01 * keep + 1e-9


@given(shares, utilities, shares)
def test_higher_utility_is_never_worse_off(keep: float, values: list[float], floor: float) -> None:
    cut = cut_for(keep, ranks=Values(values), floor=floor)
    chances = [cut.probability(v) for v in sorted(values)]
    assert chances == sorted(chances)
    assert min(chances) >= min(floor, keep) - 1e-12
    assert cut_for(1.0, ranks=Values(values)) == KEEP_ALL


@given(st.floats(0.01, 1.0), st.integers(1, 6), st.integers(0, 5))
def test_a_sketch_comes_close(keep: float, classes: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, classes, 5000).astype(float)
    sketch = Ranks(tuple(float(np.quantile(values, rank, method="inverted_cdf")) for rank in GRID))
    got = expected_share(cut_for(keep, ranks=sketch), values.tolist(), 0.0)
    assert got == pytest.approx(keep, rel=0.12, abs=0.012)


@given(st.floats(0.005, 1.0))
def test_a_sketch_of_a_continuous_utility_comes_close(keep: float) -> None:
    values = np.random.default_rng(1).normal(size=5000)
    sketch = Ranks(tuple(float(np.quantile(values, rank, method="inverted_cdf")) for rank in GRID))
    got = expected_share(cut_for(keep, ranks=sketch), values.tolist(), 0.0)
    assert got == pytest.approx(keep, rel=0.12, abs=0.002)


def test_without_ranks_every_row_has_the_same_chance() -> None:
    cut = cut_for(0.3)
    assert {cut.probability(u) for u in (-math.inf, 0.0, 5.0, math.inf)} == {0.3}


def test_infinite_utilities_have_their_place() -> None:
    values = [-math.inf] * 50 + [0.0] * 30 + [math.inf] * 20
    assert cut_for(0.2, ranks=Values(values)).probability(0.0) == 0.0
    assert cut_for(0.2, ranks=Values(values)).probability(math.inf) == 1.0
    assert cut_for(0.6, ranks=Values(values)).probability(-math.inf) == pytest.approx(0.2)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_shares_outside_their_range_are_refused(bad: float) -> None:
    for field in ("protected_share", "floor"):
        with pytest.raises(SpillwayError, match=field):
            cut_for(0.5, **{field: bad})
    with pytest.raises(SpillwayError, match="keep_ratio"):
        cut_for(bad)


@pytest.mark.parametrize(
    "quantiles", [(), (1.0,), tuple([1.0, 0.0] * 100)[: len(GRID)], (math.nan,) * len(GRID)]
)
def test_ranks_that_are_none_are_refused(quantiles: tuple[float, ...]) -> None:
    with pytest.raises(SpillwayError, match="quantiles"):
        Ranks(quantiles)


@given(st.floats(0.05, 1.0), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.booleans())
def test_a_table_is_shed_as_promised(keep: float, salt: int, by_utility: bool, protect: bool) -> None:
    n = 2000
    table = pa.table(
        {
            "id": range(n),
            "tier": [None if k % 50 == 3 else k % 5 for k in range(n)],
            "vip": [None if k % 70 == 1 else k % 25 == 0 for k in range(n)],
        }
    )
    options = {"utility": "tier" if by_utility else None, "never": "vip" if protect else None}
    kept = shed(table, keep_ratio=keep, floor=0.1 if by_utility else 0.0, salt=salt, key=["id"], **options)
    ids = kept["id"].to_pylist()
    assert ids == sorted(set(ids)), "a subset, in order, nothing twice"
    assert kept.num_rows == pytest.approx(keep * n, abs=6 * math.sqrt(n) / 2)
    least = min(keep, 0.1) if by_utility else keep
    assert kept["weight"].to_numpy().sum() == pytest.approx(n, abs=6 * math.sqrt(n / least))
    if protect:
        assert {k for k in range(n) if k % 25 == 0 and k % 70 != 1} <= set(ids)
    assert kept.equals(
        shed(table, keep_ratio=keep, floor=0.1 if by_utility else 0.0, salt=salt, key=["id"], **options)
    )


def test_wrong_columns_of_a_table_are_named() -> None:
    table = pa.table({"id": [1], "name": ["a"], "weight": [1.0]})
    for options, said in [
        ({"utility": "nam"}, "did you mean 'name'"),
        ({"utility": "name", "weight": "w"}, "expected a number"),
        ({"never": "id", "weight": "w"}, "expected boolean"),
        ({}, "weight"),
        ({"weight": "w", "key": ["idd"]}, "did you mean 'id'"),
    ]:
        with pytest.raises(SpillwayError, match=said):
            shed(table, keep_ratio=0.5, **options)


def test_an_empty_table_stays_empty() -> None:
    table = pa.table({"id": pa.array([], pa.int64())})
    assert shed(table, keep_ratio=0.5, utility="id").num_rows == 0
