"""The mark ``few`` leaves as few cases as show everything that occurs."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.conftest import covering

SIZES = (2, 4, 3)
CASES = [dict(zip("abc", at, strict=True)) for at in product(*map(range, SIZES))]


@pytest.mark.parametrize(("together", "most"), [(1, 4), (2, 14), (3, 24)])
def test_all_values_that_occur_together_do_so_in_the_few(together: int, most: int) -> None:
    def seen(cases: list[dict[str, int]]) -> set[object]:
        return {part for case in cases for part in combinations(sorted(case.items()), together)}

    chosen = covering(CASES, together)
    assert seen([CASES[place] for place in chosen]) == seen(CASES)
    assert len(chosen) <= most


def test_parameters_that_are_given_together_stay_together() -> None:
    rows = [{"query": n, "types": n, "find": find} for n in range(3) for find in range(2)]
    assert covering(rows, 1) == {0, 3, 4}
