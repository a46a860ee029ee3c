"""Rows per key and side of a join: by hand, against all divisions, and the join's results from weights."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.groups import JOIN_RULES, allocate_join, shed_join
from spillway.errors import SpillwayError


def test_keys_that_cannot_match_go_first() -> None:
    found = allocate_join(np.array([100, 0, 8]), np.array([0, 100, 8]), 16)
    assert (found.left.tolist(), found.right.tolist()) == ([0, 0, 8], [0, 0, 8])
    assert found.output_share == 1.0
    assert found.reason.startswith("2 of 3 keys cannot match")


def test_the_output_rule_gathers_rows_where_they_find_most() -> None:
    found = allocate_join(np.array([10, 10]), np.array([2, 10]), 22)
    assert (found.left.tolist(), found.right.tolist()) == ([1, 10], [1, 10])
    partial = allocate_join(np.array([10]), np.array([4]), 10)
    assert (partial.left.tolist(), partial.right.tolist()) == ([6], [4])


def test_the_output_rule_is_near_the_best_of_all_divisions() -> None:
    chosen = np.random.default_rng(2)
    shares = []
    for _ in range(60):
        L, R = chosen.integers(1, 7, 3), chosen.integers(1, 7, 3)
        budget = int(chosen.integers(6, L.sum() + R.sum() + 1))
        every = product(*(range(1, most + 1) for most in (*L, *R)))
        best = max(n[0] * n[3] + n[1] * n[4] + n[2] * n[5] for n in every if sum(n) == budget)
        found = allocate_join(L, R, budget)
        assert found.left.sum() + found.right.sum() == budget
        shares.append((found.left * found.right).sum() / best)
    assert np.mean(shares) > 0.98
    assert min(shares) > 0.7


def test_other_rules_treat_keys_and_sides_alike() -> None:
    sizes = np.array([400, 100]), np.array([100, 400])
    even = allocate_join(*sizes, 100, rule="proportional")
    assert (even.left.tolist(), even.right.tolist()) == ([40, 10], [10, 40])
    equal = allocate_join(*sizes, 100, rule="equal")
    assert (equal.left.tolist(), equal.right.tolist()) == ([25, 25], [25, 25])


def test_budgets_below_two_rows_a_key() -> None:
    sizes = np.full(10, 5)
    more = allocate_join(sizes, sizes, 7)
    assert (more.left.sum(), more.right.sum(), more.chance) == (10, 10, 1.0)
    fewer = allocate_join(sizes, sizes, 7, exceed=False)
    assert (fewer.left.sum(), fewer.right.sum(), fewer.chance) == (3, 3, 0.3)
    assert (fewer.left == fewer.right).all()
    none = allocate_join(sizes, sizes, 1, exceed=False)
    assert (none.left.sum(), none.output_share) == (0, 0.0)


def tables() -> tuple[pa.Table, pa.Table]:
    chosen = np.random.default_rng(4)
    left = pa.table({"k": chosen.zipf(1.6, 300) % 12, "a": chosen.random(300), "n": range(300)})
    right = pa.table({"k": chosen.zipf(1.4, 250) % 14, "b": chosen.random(250), "n": range(250)})
    return left, right


def joined(left: pa.Table, right: pa.Table) -> tuple[float, float]:
    """How many results the join has and what their a · b add up to, by weights."""
    found = left.join(right, "k", join_type="inner", right_suffix="_r").to_pandas()
    w = found["weight"] * found["weight_r"]
    return float(w.sum()), float((w * found["a"] * found["b"]).sum())


def ones(table: pa.Table) -> pa.Table:
    return table.append_column("weight", pa.array(np.ones(table.num_rows)))


def test_every_rule_gives_the_joins_count_exactly_and_its_sums_on_average() -> None:
    left, right = tables()
    count, total = joined(ones(left), ones(right))
    for rule in JOIN_RULES:
        found = [
            joined(*shed_join(left, right, on="k", keep_ratio=0.2, rule=rule, salt=s)) for s in range(60)
        ]  # type: ignore[arg-type]
        assert [c for c, _ in found] == pytest.approx([count] * 60)
        assert np.mean([t for _, t in found]) == pytest.approx(total, rel=0.02)


def test_when_keys_go_missing_the_count_is_right_on_average() -> None:
    left, right = tables()
    count, _ = joined(ones(left), ones(right))
    options: dict[str, Any] = {"on": "k", "keep_ratio": 0.02, "exceed": False}
    found = [joined(*shed_join(left, right, **options, salt=s))[0] for s in range(400)]
    assert np.mean(found) == pytest.approx(count, rel=0.15)


def test_more_results_are_found_by_the_output_rule() -> None:
    left, right = tables()
    found = {}
    for rule in JOIN_RULES:
        kept = shed_join(left, right, on="k", keep_ratio=0.2, rule=rule)  # type: ignore[arg-type]
        assert kept[0].num_rows + kept[1].num_rows == 110
        found[rule] = kept[0].join(kept[1], "k", join_type="inner", right_suffix="_r").num_rows
    assert found["output"] > 2 * found["proportional"] > 2 * found["equal"]


def test_nulls_and_several_columns() -> None:
    left = pa.table({"k": [1, 1, None, 2], "l": ["x", "y", "x", "x"], "n": range(4)})
    right = pa.table({"k": [1, None, 3], "l": ["x", "x", "x"], "n": range(3)})
    kept, others = shed_join(left, right, on=["k", "l"], keep_ratio=0.3)
    assert (kept["n"].to_pylist(), others["n"].to_pylist()) == ([0], [0])
    assert kept["weight"].to_pylist() == [1.0]


def test_wrong_options_are_told() -> None:
    left, right = tables()
    with pytest.raises(SpillwayError, match="did you mean 'output'"):
        shed_join(left, right, on="k", keep_ratio=0.5, rule="outputs")  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match="on = 'b'"):
        shed_join(left, right, on="b", keep_ratio=0.5)
    with pytest.raises(SpillwayError, match="cast one side"):
        shed_join(left, right.set_column(0, "k", pa.array(["x"] * 250)), on="k", keep_ratio=0.5)
    with pytest.raises(SpillwayError, match="one number of rows >= 0"):
        allocate_join(np.array([1]), np.array([1, 2]), 3)


def test_sides_that_are_no_tables_are_told() -> None:
    side = pa.table({"item": [1, 2]})
    with pytest.raises(SpillwayError, match="right is of type RecordBatch"):
        shed_join(side, side.to_batches()[0], on="item", keep_ratio=0.5)
