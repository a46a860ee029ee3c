"""How many rows each group gets: worked by hand, and against all divisions there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spillway.core.groups import allocate
from spillway.errors import SpillwayError


def rows(sizes: list[int], budget: int, **options: object) -> list[int]:
    given = {name: np.array(value) if isinstance(value, list) else value for name, value in options.items()}
    return allocate(np.array(sizes), budget, **given).rows.tolist()  # type: ignore[arg-type]


def test_proportional_has_one_rate_and_at_least_a_row() -> None:
    assert rows([600, 300, 100], 10, rule="proportional") == [6, 3, 1]
    assert rows([970, 20, 10], 10, rule="proportional") == [8, 1, 1]


def test_equal_divides_again_what_small_groups_leave() -> None:
    assert rows([100, 100, 100], 30, rule="equal") == [10, 10, 10]
    assert rows([100, 100, 2], 30, rule="equal") == [14, 14, 2]
    assert rows([100, 3, 2], 30, rule="equal") == [25, 3, 2]


def test_without_a_variation_the_variance_rule_is_equal() -> None:
    assert rows([100, 50, 2], 30) == rows([100, 50, 2], 30, rule="equal")
    assert rows([100, 50, 2], 30, variation=[0.0, 0.0, 0.0]) == rows([100, 50, 2], 30, rule="equal")


def test_the_variance_rule_goes_by_the_two_thirds_power() -> None:
    """Of groups without end: 8 times the variation, 4 times the rows."""
    assert rows([10**9, 10**9], 500, variation=[0.1, 0.8]) == [100, 400]


def test_a_group_that_does_not_vary_keeps_one_row() -> None:
    assert rows([1000, 1000], 50, variation=[0.0, 0.3]) == [1, 49]


def test_a_group_that_would_lose_less_than_half_is_kept_whole() -> None:
    assert rows([10**6, 10], 60, variation=[1.0, 1.0]) == [50, 10]


def test_rows_that_nothing_needs_are_used_all_the_same() -> None:
    assert rows([5, 100, 100], 25, variation=[2.0, 0.0, 0.0]) == [5, 10, 10]


def test_the_variance_rule_is_near_the_best_of_all_divisions() -> None:
    chosen = np.random.default_rng(1)
    gaps, equals = [], []
    for _ in range(60):
        sizes = chosen.integers(1, 10, chosen.integers(2, 5))
        c = chosen.lognormal(0.0, 1.2, len(sizes))

        def error(n: np.ndarray, N: np.ndarray = sizes, c: np.ndarray = c) -> float:
            return float((c * np.sqrt(np.maximum(0.0, 1.0 / n - 1.0 / N))).sum() / c.sum())

        budget = int(chosen.integers(len(sizes), sizes.sum() + 1))
        every = (np.array(n) for n in product(*(range(1, N + 1) for N in sizes)) if sum(n) == budget)
        best = min(map(error, every))
        gaps.append(error(allocate(sizes, budget, variation=c).rows) - best)
        equals.append(error(allocate(sizes, budget, rule="equal").rows) - best)
    assert max(gaps) < 0.07
    assert np.mean(gaps) < 0.002
    assert np.mean(equals) > 0.02


def test_all_rows_fit() -> None:
    found = allocate(np.array([3, 4]), 9)
    assert found.rows.tolist() == [3, 4]
    assert found.reason == "all 7 rows fit into the budget."


def test_more_groups_than_rows_exceed_the_budget_or_go_missing() -> None:
    more = allocate(np.array([50, 50, 50]), 2)
    assert more.rows.tolist() == [1, 1, 1]
    assert (more.missing, more.chance) == (0, 1.0)
    assert more.reason == "3 rows instead of 2 give each of 3 groups 1 (all of it where it has fewer)."
    fewer = allocate(np.array([50, 50, 50]), 2, exceed=False, order=np.array([7, 9, 1]))
    assert fewer.rows.tolist() == [1, 0, 1]
    assert (fewer.missing, fewer.chance) == (1, 2 / 3)
    assert "1 is missing" in fewer.reason


def test_a_floor_that_does_not_fit_falls() -> None:
    assert rows([50, 50, 1], 9, at_least=5, exceed=False, rule="equal") == [4, 4, 1]
    assert rows([50, 50, 1], 9, at_least=5) == [5, 5, 1]


def test_ties_go_by_the_order_and_not_by_the_place() -> None:
    assert rows([10, 10, 10], 4, rule="equal", order=[5, 9, 2]) == [1, 1, 2]


def test_no_groups_and_no_rows() -> None:
    assert rows([], 5) == []
    assert rows([4, 4], 0) == [1, 1]
    assert rows([4, 4], 0, exceed=False) == [0, 0]


def test_many_groups_are_divided_at_once() -> None:
    sizes = np.random.default_rng(0).zipf(1.5, 100_000).clip(max=10_000)
    found = allocate(sizes, 200_000, variation=np.linspace(0.0, 3.0, len(sizes)))
    assert found.rows.sum() == 200_000
    assert ((found.rows >= 1) & (found.rows <= sizes)).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rule": "variances"}, "did you mean 'variance'"),
        ({"budget": -1}, "budget = -1"),
        ({"budget": 2.5}, "budget = 2.5"),
        ({"at_least": 0}, "at_least = 0"),
        ({"sizes": np.array([3, 0])}, "one number of rows >= 1"),
        ({"variation": np.array([1.0])}, "one finite number >= 0 for each group"),
        ({"variation": np.array([1.0, np.nan])}, "one finite number >= 0 for each group"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], said: str) -> None:
    given: dict[str, object] = {"sizes": np.array([3, 4]), "budget": 5, **options}
    with pytest.raises(SpillwayError, match=said):
        allocate(given.pop("sizes"), given.pop("budget"), **given)  # type: ignore[arg-type]
