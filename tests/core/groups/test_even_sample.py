"""Rows drawn evenly over time: exact numbers, each row as likely, better where neighbours are alike, intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spillway.core.groups import Ratio, Sampled, draws, estimate, evenly, shed
from spillway.core.groups.even_sample import places_along
from spillway.core.groups.intervals import mean, total
from spillway.core.groups.paper.window_scan import gaps_between
from spillway.core.groups.student import t_quantile
from spillway.errors import SpillwayError


def steps(rows: int = 1000, groups: int = 4) -> pa.Table:
    """Each group's values stand still for 25 of its rows, and then jump."""
    chosen = np.random.default_rng(3)
    n = np.arange(rows)
    levels = chosen.normal(10.0, 3.0, (groups, rows // 25 + 1))
    return pa.table({"id": n, "ts": n, "g": n % groups, "v": levels[n % groups, n // groups // 25]})


def test_one_row_of_each_part() -> None:
    codes = np.zeros(100, dtype=np.int64)
    order = draws(pa.table({"n": range(100)}), None, salt=1)
    for n in (2, 7, 10, 50, 99, 100):
        kept, weights = evenly(codes, order, sizes=np.array([100]), rows=np.array([n]))
        gaps = np.diff(np.append(kept, kept[0] + 100))  # around the ring
        assert len(set(kept.tolist())) == n
        assert gaps.max() < 2 * -(-100 // n)
        assert weights.tolist() == pytest.approx([100 / n] * n)


def test_every_row_is_as_likely() -> None:
    codes, sizes, rows = np.array([0] * 7 + [1] * 5), np.array([7, 5]), np.array([3, 2])
    found = np.zeros(12)
    for salt in range(3000):
        kept, _ = evenly(codes, draws(pa.table({"n": range(12)}), None, salt=salt), sizes=sizes, rows=rows)
        found[kept] += 1
    assert found / 3000 == pytest.approx(np.array([3 / 7] * 7 + [2 / 5] * 5), abs=4 * np.sqrt(0.25 / 3000))


def test_single_rows_and_groups_without_rows() -> None:
    table = steps(200)
    kept = shed(table, by="g", keep_ratio=0.02, along="ts")
    assert sorted(kept["g"].to_pylist()) == [0, 1, 2, 3]
    some = shed(table, by="g", keep_ratio=0.01, exceed=False, along="ts")
    assert (some.num_rows, some["weight"].to_pylist()) == (2, [100.0, 100.0])
    assert gaps_between(3, N=9, n=0) == [9]


def test_the_order_of_the_table_does_not_matter_and_ties_go_by_hash() -> None:
    table = steps().set_column(1, "ts", pa.array(np.arange(1000) // 300))
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(1000)))
    kept = [shed(each, by="g", keep_ratio=0.1, along="ts") for each in (table, shuffled)]
    assert set(kept[0]["id"].to_pylist()) == set(kept[1]["id"].to_pylist())
    assert kept[0]["id"].to_pylist() == sorted(kept[0]["id"].to_pylist()), "in the order of the table"


def errors(table: pa.Table, salts: range, **options: Any) -> np.ndarray:
    truth = np.bincount(table["g"].to_numpy(), table["v"].to_numpy()) / np.bincount(table["g"].to_numpy())
    found = []
    for salt in salts:
        kept = shed(table, by="g", keep_ratio=0.06, rule="equal", salt=salt, **options)
        rows = np.bincount(kept["g"].to_numpy())
        found.append(np.bincount(kept["g"].to_numpy(), kept["v"].to_numpy()) / rows / truth - 1.0)
    return np.array(found)


def test_errors_are_smaller_where_neighbours_are_alike_and_the_same_where_not() -> None:
    table = steps()
    assert errors(table, range(60), along="ts").std() < 0.75 * errors(table, range(60)).std()
    mixed = table.set_column(3, "v", table["v"].take(pa.array(np.random.default_rng(1).permutation(1000))))
    assert errors(mixed, range(60), along="ts").std() == pytest.approx(
        errors(mixed, range(60)).std(), rel=0.15
    )


def test_the_variance_goes_by_successive_differences() -> None:
    values, weights = np.array([1.0, 2.0, 4.0, 5.0]), np.full(4, 10.0)
    even = Sampled(np.zeros(4, dtype=np.int64), weights, 1, design="even")
    t = t_quantile(0.95, np.array([8 / 3]))[0]  # of n rows two thirds, as each is in two differences
    half = t * np.sqrt((1 + 4 + 1 + 16) / 2 / 4 * (1 / 4 - 1 / 40))  # the last one is that of the two ends
    found = mean(even, values)
    assert (found.value[0], found.high[0] - 3.0) == pytest.approx((3.0, half), rel=1e-5)
    assert total(even, values).high[0] - 120.0 == pytest.approx(40 * half, rel=1e-5)
    gap = mean(even, np.array([1.0, np.nan, 4.0, 5.0]))
    assert gap.high[0] - gap.value[0] == pytest.approx(
        4.302653 * np.sqrt((9 + 1 + 16) / 2 / 3 * (1 / 3 - 1 / 30)), rel=1e-5
    )
    two = Sampled(np.array([0, 1, 0, 1]), weights, 2, design="even")
    apart = Sampled(np.array([0, 1, 0, 1]), weights, 2)
    assert mean(two, values).high == pytest.approx(mean(apart, values).high), "two rows differ once"


def test_intervals_hold_the_truth_in_95_of_100_samples_or_more_and_are_narrower() -> None:
    table = steps(4000)
    truth = np.bincount(table["g"].to_numpy(), table["v"].to_numpy()) / 1000
    held, widths = [], []
    for salt in range(100):
        kept = shed(table, by="g", keep_ratio=0.06, rule="equal", salt=salt, along="ts")
        found = [estimate(kept, by="g", value="v", **how) for how in ({"along": "ts"}, {})]
        low, high = (found[0][name].to_numpy() for name in ("low", "high"))
        at = found[0]["g"].to_numpy()
        held += ((low <= truth[at]) & (truth[at] <= high)).tolist()
        widths.append([(each["high"].to_numpy() - each["low"].to_numpy()).mean() for each in found])
    assert np.mean(held) > 0.93
    assert np.mean(widths, axis=0)[0] < 0.95 * np.mean(widths, axis=0)[1], "narrower than if drawn at random"


def covered(found: pa.Table, truth: float) -> bool:
    row = found.to_pylist()[0]
    return bool(row["low"] <= truth <= row["high"])


@pytest.mark.parametrize("aggregate", ["mean", "sum", Ratio("one")], ids=repr)
@pytest.mark.parametrize("keep_ratio", [0.02, 0.1])
def test_the_ends_of_a_trend_are_in_the_interval_too(aggregate: Any, keep_ratio: float) -> None:
    """One part of the ring holds the earliest and the latest rows: which it gives is most of the error."""
    n = np.arange(2000)
    rising = 100.0 + n / 20.0
    table = pa.table({"id": n, "ts": n, "g": np.zeros(2000, dtype=int), "v": rising, "one": np.ones(2000)})
    truth = rising.sum() if aggregate == "sum" else rising.mean()
    held, widths = [], []
    for salt in range(60):
        kept = shed(table, by="g", keep_ratio=keep_ratio, salt=salt, along="ts")
        found = estimate(kept, by="g", value="v", aggregate=aggregate, along="ts")
        held.append(covered(found, truth))
        random = estimate(kept, by="g", value="v", aggregate=aggregate)
        widths.append([each["high"][0].as_py() - each["low"][0].as_py() for each in (found, random)])
    assert np.mean(held) >= 0.95
    assert np.mean(widths, axis=0)[0] < 0.6 * np.mean(widths, axis=0)[1]


def test_a_trend_among_flat_groups_is_in_its_interval() -> None:
    chosen, n = np.random.default_rng(1), np.arange(2000)
    flat = 100.0 + chosen.normal(0.0, 0.5, (10, 200))
    table = pa.table(
        {
            "id": np.arange(4000),
            "ts": np.concatenate([n, np.tile(np.arange(200) * 10, 10)]),
            "g": np.concatenate([np.zeros(2000, dtype=int), np.repeat(np.arange(1, 11), 200)]),
            "v": np.concatenate([100.0 + n / 20.0, flat.ravel()]),
        }
    )
    held = []
    for salt in range(60):
        kept = shed(table, by="g", keep_ratio=0.1, rule="equal", salt=salt, key="id", along="ts")
        found = estimate(kept, by="g", value="v", along="ts")
        held.append(covered(found.filter(pc.equal(found["g"], 0)), 149.975))
    assert np.mean(held) >= 0.95


def test_of_rows_in_no_order_95_in_100_intervals_hold_the_truth_with_few_rows_too() -> None:
    chosen = np.random.default_rng(0)
    for n in (2, 3, 4, 6, 20):
        values = chosen.normal(0.0, 1.0, (20_000, n))
        codes = np.repeat(np.arange(20_000), n)
        found = mean(Sampled(codes, np.full(codes.shape, 1e6), 20_000, design="even"), values.ravel())
        assert np.mean((found.low <= 0.0) & (found.high >= 0.0)) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(
    ("along", "said"), [("t", "did you mean 'ts'"), ("name", "expected times or numbers")]
)
def test_wrong_columns_are_told(along: str, said: str) -> None:
    table = steps(50).append_column("name", pa.array(["x"] * 50))
    with pytest.raises(SpillwayError, match=said):
        shed(table, by="g", keep_ratio=0.5, along=along)
    with pytest.raises(SpillwayError, match=said):
        places_along(along, table)
