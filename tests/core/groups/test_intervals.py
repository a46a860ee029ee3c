"""Estimates and their intervals: quantiles of t from tables, formulas by hand, coverage on made-up groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.groups import Prior, Quantile, Ratio, Sampled, estimate, shed
from spillway.core.groups.aggregates import answer
from spillway.core.groups.intervals import Estimates, count, mean, pooled, quantile, ratio, total
from spillway.core.groups.shed import group_chance
from spillway.core.groups.student import t_quantile, z_quantile
from spillway.errors import SpillwayError
from tests.sizes import size


def one(weights: list[float], **options: Any) -> Sampled:
    return Sampled(np.zeros(len(weights), dtype=np.int64), np.array(weights), 1, **options)


def ends(found: Estimates) -> tuple[float, float, float]:
    return found.value[0], found.low[0], found.high[0]


def weighted_mean(y: np.ndarray, w: np.ndarray) -> float:
    return float((w * y).sum() / w.sum())


def no_number(y: np.ndarray, w: np.ndarray) -> str:
    return f"{len(y)} of {w.sum()}"


@pytest.mark.parametrize(
    ("level", "dof", "expected"),
    [
        (0.95, 1, 12.7062),
        (0.95, 3, 3.1824),
        (0.95, 7.5, 2.3330),
        (0.99, 10, 3.1693),
        (0.90, 30, 1.6973),
        (0.95, 150, 1.9759),
        (0.95, 250, 1.9695),
        (0.99, 1e6, 2.5758),
    ],
)
def test_quantiles_of_t(level: float, dof: float, expected: float) -> None:
    assert t_quantile(level, np.array([dof]))[0] == pytest.approx(expected, abs=6e-5)


def test_t_without_degrees_of_freedom_is_infinite_and_the_two_ways_meet() -> None:
    assert t_quantile(0.95, np.array([0.0]))[0] == np.inf
    near, far = t_quantile(0.95, np.array([199.999, 200.001]))
    assert near == pytest.approx(far, abs=1e-6)
    assert z_quantile(0.6827) == pytest.approx(1.0, abs=1e-3)


def test_a_mean_by_hand() -> None:
    """Four of ten rows: s = 2, the error √(1/4 - 1/10) of it, and t(3) times that."""
    half = 3.182446 * 2.0 * (1 / 4 - 1 / 10) ** 0.5
    found = mean(one([2.5] * 4), np.array([1.0, 3.0, 3.0, 5.0]) * np.sqrt(6.0) / 2)
    middle = 3.0 * np.sqrt(6.0) / 2
    assert ends(found) == pytest.approx((middle, middle - half, middle + half))


def test_sum_and_count_by_hand() -> None:
    values = np.array([1.0, 3.0, 5.0])
    half = 4.302653 * 2.0 * 12 * (1 / 3 - 1 / 12) ** 0.5
    assert ends(total(one([4.0] * 3), values)) == pytest.approx((36.0, 36.0 - half, 36.0 + half))
    assert ends(count(one([4.0] * 3))) == (12.0, 12.0, 12.0)
    coins = one([4.0] * 3, design="independent")
    half = 3.182446 * (3 * 12.0) ** 0.5
    assert ends(count(coins)) == pytest.approx((12.0, 3.0, 12.0 + half))  # three rows there are for sure
    half = 3.182446 * (12.0 * (1 + 9 + 25)) ** 0.5
    assert ends(total(coins, values)) == pytest.approx((36.0, 36.0 - half, 36.0 + half))


def test_a_ratio_by_hand() -> None:
    y, x = np.array([2.0, 4.0, 9.0]), np.array([1.0, 2.0, 2.0])
    e = y - 3.0 * x
    half = 4.302653 * (12.0 * (e**2).sum() * 3 / 2) ** 0.5 / 20.0
    assert ends(ratio(one([4.0] * 3), y, x)) == pytest.approx((3.0, 3.0 - half, 3.0 + half))


def test_nothing_shed_is_exact_whatever_is_asked() -> None:
    values = np.array([3.0, 1.0, 2.0])
    for aggregate in ("count", "sum", "mean", "median", "min", "max", Quantile(0.9), weighted_mean):
        found = answer(aggregate, one([1.0] * 3), values, prior=Prior(np.array([9.0]), np.array([5.0])))  # type: ignore[arg-type]
        assert found.low == found.value == found.high


def test_weights_that_differ_within_a_group_are_taken_as_they_are() -> None:
    """As after chained shedding: rows of weight 1 are sure, the others carry the doubt."""
    found = mean(one([1.0, 3.0, 3.0]), np.array([6.0, 1.0, 3.0]))
    centre = (6.0 + 3.0 + 9.0) / 7
    half = 12.706205 * (6.0 * ((1 - centre) ** 2 + (3 - centre) ** 2) * 2) ** 0.5 / 7
    assert ends(found) == pytest.approx((centre, centre - half, centre + half), rel=1e-6)


def test_one_row_knows_nothing_without_a_prior() -> None:
    assert ends(mean(one([9.0]), np.array([5.0]))) == (5.0, -np.inf, np.inf)
    found = mean(one([9.0]), np.array([5.0]), Prior(np.array([2.0]), np.array([5.0])))
    half = 2.570582 * 2.0 * (1 - 1 / 9) ** 0.5
    assert ends(found) == pytest.approx((5.0, 5.0 - half, 5.0 + half), abs=1e-5)


def test_a_prior_counts_as_so_many_rows() -> None:
    values = np.array([4.0, 6.0])
    found = mean(one([10.0] * 2), values, Prior(np.array([3.0]), np.array([5.0])))
    s = ((5.0 * 9.0 + 1.0 * 2.0) / 6.0) ** 0.5
    assert found.high[0] - 5.0 == pytest.approx(2.446912 * s * (1 / 2 - 1 / 20) ** 0.5)


def test_equal_rows_do_not_make_a_group_certain() -> None:
    codes, weights = np.array([0, 0, 0, 1, 1, 1]), np.full(6, 20.0)
    values = np.array([5.0, 5.0, 5.0, 2.0, 6.0, 4.0])
    sampled = Sampled(codes, weights, 2)
    bare, drawn = mean(sampled, values), mean(sampled, values, pooled(sampled, values))
    assert bare.high[0] == bare.low[0]
    assert drawn.high[0] - drawn.low[0] > 1.0


def test_groups_of_one_row_each_fall_back_on_the_deviation_between_them() -> None:
    sampled = Sampled(np.array([0, 1, 2]), np.array([9.0, 9.0, 1.0]), 3)
    assert pooled(sampled, np.array([1.0, 2.0, 3.0])).deviation.tolist() == [1.0] * 3
    alone = pooled(one([9.0]), np.array([4.0]))
    assert alone.deviation[0] == np.inf
    assert ends(mean(one([9.0]), np.array([4.0]), alone)) == (4.0, -np.inf, np.inf)


def test_missing_values_and_missing_groups() -> None:
    sampled = Sampled(np.array([0, 0, 0, 1]), np.array([2.0, 2.0, 2.0, 2.0]), 3)
    values = np.array([1.0, np.nan, 3.0, np.nan])
    found = mean(sampled, values)
    assert found.value[0] == 2.0
    assert np.isnan(found.value[1:]).all()
    summed = total(sampled, values)
    assert summed.value[0] == 8.0
    assert all(np.isnan(each[1:]).all() for each in (summed.value, summed.low, summed.high)), "as in SQL"
    assert np.isnan(quantile(sampled, values, 0.5).value[1:]).all()


def test_quantiles() -> None:
    whole = one([1.0] * 5)
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert [quantile(whole, values, at).value[0] for at in (0.0, 0.2, 0.5, 0.81, 1.0)] == [1, 1, 3, 5, 5]
    found = quantile(one([10.0] * 100), np.arange(100.0), 0.5)
    assert (found.value[0], 38 <= found.low[0] <= 42, 57 <= found.high[0] <= 61) == (49.0, True, True)
    few = quantile(one([10.0] * 3), np.array([1.0, 2.0, 3.0]), 0.5)
    assert ends(few) == (2.0, -np.inf, np.inf)
    least = quantile(one([10.0] * 3), np.array([1.0, 2.0, 3.0]), 0.0)
    assert ends(least) == (1.0, -np.inf, 1.0)


@pytest.mark.parametrize("aggregate", ["mean", "sum", "median", Quantile(0.8)])
def test_about_95_in_100_intervals_hold_the_truth(aggregate: Any) -> None:
    chosen = np.random.default_rng(3)
    sizes = np.array([60, 200, 1000, 4000, 10, 500])
    codes = np.repeat(np.arange(6), sizes)
    values = chosen.gamma(4.0, 1.0, len(codes)) * np.array([1, 5, 2, 9, 3, 4])[codes]
    table = pa.table({"n": np.arange(len(codes)), "g": codes, "y": values})
    truth = answer(aggregate, Sampled(codes, np.ones(len(codes)), 6), values).value
    held = []
    for salt in range(size(60, full=150)):
        kept = shed(table, by="g", keep_ratio=0.05, value="y", salt=salt, key="n")
        for row in estimate(kept, by="g", value="y", aggregate=aggregate).to_pylist():
            if row["sampled"] < row["rows"]:
                held.append(row["low"] <= truth[row["g"]] <= row["high"])
    assert 0.93 <= np.mean(held) <= 0.99


def test_functions_of_your_own_have_intervals_too() -> None:
    chosen = np.random.default_rng(5)
    table = pa.table({"n": range(3000), "g": [0] * 3000, "y": chosen.normal(10.0, 2.0, 3000)})

    def deviation(y: np.ndarray, w: np.ndarray) -> float:
        centre = (w * y).sum() / w.sum()
        return float(((w * (y - centre) ** 2).sum() / w.sum()) ** 0.5)

    fed = (list, lambda seen, x: [*seen, x], lambda seen: float(np.std(seen)))
    truth = float(np.std(table["y"].to_numpy()))
    for aggregate in (deviation, fed):
        held = []
        for salt in range(60):
            kept = shed(table, by="g", keep_ratio=0.04, salt=salt, key="n")
            row = estimate(kept, by="g", value="y", aggregate=aggregate).to_pylist()[0]
            held.append(row["low"] <= truth <= row["high"])
        assert np.mean(held) >= 0.88


@pytest.mark.parametrize("design", ["fixed", "even"])
def test_functions_of_your_own_have_the_same_intervals_in_any_order(design: Any) -> None:
    """Rows dealt in turn would spread a wave over all parts, and leave intervals of almost no width."""
    wave = 100.0 + 50.0 * np.sin(2 * np.pi * np.arange(4000) / 4000)
    table = pa.table({"n": range(4000), "g": [0] * 4000, "y": wave})
    held = []
    for salt in range(100):
        along = {"along": "n"} if design == "even" else {}
        kept = shed(table, by="g", keep_ratio=0.05, value="y", salt=salt, key="n", **along)
        row = estimate(kept, by="g", value="y", aggregate=weighted_mean, **along).to_pylist()[0]
        held.append(row["low"] <= wave.mean() <= row["high"])
        if salt < 5:
            turned = kept.take(pa.array(np.random.default_rng(salt).permutation(kept.num_rows)))
            again = estimate(turned, by="g", value="y", aggregate=weighted_mean).to_pylist()[0]
            assert [again["low"], again["high"]] == pytest.approx([row["low"], row["high"]])
    assert np.mean(held) >= 0.9


def test_equal_values_are_dealt_apart() -> None:
    """Were ones and noughts dealt in turn, each part would have as many of them as the others."""
    chosen = np.random.default_rng(2)
    halves = []
    for _ in range(40):
        found = answer(weighted_mean, one([50.0] * 400), chosen.integers(0, 2, 400).astype(np.float64))
        halves.append(found.high[0] - found.value[0])
    assert np.mean(halves) == pytest.approx(2.09 * 0.5 / 20 * np.sqrt(0.98), rel=0.1)


@pytest.mark.parametrize("along", [None, "n"])
def test_dropped_groups_make_counts_and_sums_uncertain(along: str | None) -> None:
    """Five of ten groups keep a row, so each stands for two groups: 200 rows, of which only 100 are its own."""
    table = pa.table({"n": range(1000), "g": [n // 100 for n in range(1000)], "y": [2.0] * 1000})
    kept = shed(table, by="g", keep_ratio=0.005, exceed=False, salt=1, along=along)
    for aggregate, truth in (("count", 100.0), ("sum", 200.0)):
        for row in estimate(kept, by="g", value="y", aggregate=aggregate, along=along).to_pylist():
            assert row["value"] == 2 * truth
            assert row["low"] <= truth < row["value"] < row["high"]
    again = shed(kept, by="g", keep_ratio=0.4, exceed=False, weight="more")
    assert group_chance(again) == pytest.approx(0.5 * 0.4)
    whole = shed(table, by="g", keep_ratio=0.1, exceed=False)
    assert set(estimate(whole, by="g", aggregate="count")["high"].to_pylist()) == {100.0}


def test_a_dropped_group_by_hand() -> None:
    sampled = one([8.0], chance=0.25)
    half = 1.959964 * np.sqrt(0.75) * 8.0
    assert ends(count(sampled)) == pytest.approx((8.0, 1.0, 8.0 + half))  # one row there is for sure
    found = total(sampled, np.array([3.0]), Prior(np.array([0.0]), np.array([5.0])))
    assert ends(found) == pytest.approx((24.0, 24.0 - 3.0 * half, 24.0 + 3.0 * half))
    coins = one([8.0] * 3, chance=0.25, design="independent")
    assert count(coins).high[0] > count(one([8.0] * 3, design="independent")).high[0]


def test_estimates_of_a_table() -> None:
    table = pa.table(
        {"g": ["a", "a", None], "y": [1.0, 3.0, 5.0], "x": [1.0, 1.0, 2.0], "weight": [2.0, 2.0, 1.0]}
    )
    found = estimate(table, by="g", value="y", aggregate=Ratio("x"))
    assert found.column_names == ["g", "value", "low", "high", "rows", "sampled"]
    assert found["value"].to_pylist() == [2.0, 2.5]
    assert found["rows"].to_pylist() == [4.0, 1.0]
    assert estimate(table, by="g", aggregate="count")["value"].to_pylist() == [4.0, 1.0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight": "w"}, "rows without weights cannot be estimated from"),
        ({"level": 95}, "write 95 % as 0.95"),
        ({"design": "fix"}, "did you mean 'fixed'"),
        ({"aggregate": "average"}, "aggregate = 'average'"),
        ({"aggregate": 3}, "aggregate = 3"),
        ({"value": None}, "the name of the column that 'mean' reads"),
        ({"aggregate": Ratio("z")}, "to = 'z'"),
        ({"aggregate": no_number}, "which is no number"),
        ({"by": "value"}, "which is also a column of the answer"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], said: str) -> None:
    table = pa.table({"g": ["a"], "value": [1.0], "y": [1.0], "weight": [2.0]})
    with pytest.raises(SpillwayError, match=said):
        estimate(table, **{"by": "g", "value": "y", **options})


def test_wrong_weights_and_shares_are_told() -> None:
    with pytest.raises(SpillwayError, match="numbers >= 1"):
        one([0.5])
    with pytest.raises(SpillwayError, match="a number from 0 to 1, above 0"):
        one([2.0], chance=0.0)
    with pytest.raises(SpillwayError, match="one number for each row"):
        Sampled(np.array([0, 0]), np.array([1.0]), 1)
    for at in (1.5, -0.1, True):
        with pytest.raises(SpillwayError, match="a share from 0 to 1"):
            Quantile(at)
