"""Uniform and OASRS, reservoirs, and how many rows an accuracy needs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.groups import (
    Accuracy,
    Oasrs,
    OasrsConfig,
    ReservoirConfig,
    accuracy_of,
    draws,
    rate_needed,
    rows_needed,
    uniform,
)
from spillway.errors import SpillwayError


def rows(n: int = 1000, groups: int = 4) -> pa.Table:
    return pa.table({"id": range(n), "g": [i % groups for i in range(n)]})


def test_uniform_of_a_fixed_size_and_by_coins() -> None:
    fixed = uniform(rows(), keep_ratio=0.1)
    assert (fixed.num_rows, set(fixed["weight"].to_pylist())) == (100, {10.0})
    assert fixed["id"].to_pylist() == sorted(fixed["id"].to_pylist())
    coins = [uniform(rows(), keep_ratio=0.1, method="bernoulli", salt=s).num_rows for s in range(200)]
    assert np.mean(coins) == pytest.approx(100, abs=2)
    assert np.std(coins) == pytest.approx(90**0.5, rel=0.2)


def test_uniform_keeps_all_or_nothing_if_told_so() -> None:
    for method in ("fixed", "bernoulli"):
        assert uniform(rows(), keep_ratio=1.0, method=method).num_rows == 1000  # type: ignore[arg-type]
        assert uniform(rows(), keep_ratio=0.0, method=method).num_rows == 0  # type: ignore[arg-type]
    assert uniform(rows(0), keep_ratio=0.5).num_rows == 0


def test_oasrs_has_one_reservoir_size_for_all_and_leaves_what_small_groups_do_not_use() -> None:
    table = pa.table({"id": range(110), "g": ["a"] * 60 + ["b"] * 48 + ["c"] * 2})
    kept = OasrsConfig(keep_ratio=30 / 110).build().shed(table, by="g")
    found = kept.group_by("g").aggregate([("weight", "count"), ("weight", "sum")]).sort_by("g").to_pydict()
    assert found["weight_count"] == [10, 10, 2]
    assert found["weight_sum"] == pytest.approx([60.0, 48.0, 2.0])


def test_oasrs_adapts_from_interval_to_interval() -> None:
    sampler = OasrsConfig(keep_ratio=0.1).build()
    assert sampler.shed(rows(groups=20), by="g").num_rows == 100
    assert sampler.shed(rows(groups=4), by="g").num_rows == 4 * 5  # there were 20 groups just before
    assert sampler.shed(rows(groups=4), by="g").num_rows == 4 * 25
    assert sampler.shed(rows(groups=500), by="g").num_rows == 500  # at least a row of each


def test_oasrs_goes_on_from_a_snapshot() -> None:
    sampler = OasrsConfig(keep_ratio=0.1).build()
    sampler.shed(rows(groups=20), by="g")
    again = OasrsConfig(keep_ratio=0.1).build(json.loads(json.dumps(sampler.snapshot())))
    assert again.shed(rows(), by="g").to_pylist() == sampler.shed(rows(), by="g").to_pylist()
    with pytest.raises(SpillwayError, match="state"):
        Oasrs(OasrsConfig(keep_ratio=0.1), {"kind": "spread", "version": 1, "groups": 1})


def test_oasrs_is_what_a_reservoir_per_group_keeps() -> None:
    """Row by row, with reservoirs that shrink: the same rows as all at once."""
    table = rows(300, groups=7)
    order = draws(table, None, salt=3).tolist()
    budget, reservoirs = 60, {}
    for place, group in enumerate(table["g"].to_pylist()):
        reservoirs.setdefault(group, []).append((order[place], place))
        for kept in reservoirs.values():
            kept.sort()
            del kept[max(1, budget // len(reservoirs)) :]
    streamed = sorted(place for kept in reservoirs.values() for _, place in kept)
    assert OasrsConfig(keep_ratio=0.2).build().shed(table, by="g", salt=3)["id"].to_pylist() == streamed


def test_a_reservoir_keeps_the_smallest_coins_of_all_it_has_seen() -> None:
    reservoir = ReservoirConfig(rows=5, salt=2).build()
    full = ReservoirConfig(rows=1000, salt=2).build()
    for key in range(1000):
        reservoir.add(key, key)
        full.add(key, key)
        assert len(reservoir) == min(5, key + 1)
    assert reservoir.items() == full.items()[:5]
    assert reservoir.seen == 1000


def test_every_row_is_as_likely_to_be_in_a_reservoir() -> None:
    times = np.zeros(20)
    for salt in range(2000):
        reservoir = ReservoirConfig(rows=5, salt=salt).build()
        for key in range(20):
            reservoir.add(key, key)
        times[reservoir.items()] += 1
    assert times / 2000 == pytest.approx(np.full(20, 0.25), abs=0.04)


def test_a_row_that_comes_twice_is_in_once() -> None:
    reservoir = ReservoirConfig(rows=5).build()
    assert [reservoir.add(7, "row"), reservoir.add(7, "row")] == [True, True]
    assert reservoir.items() == ["row"]


def test_reservoirs_of_other_salts_do_not_merge_and_foreign_states_are_refused() -> None:
    with pytest.raises(SpillwayError, match="cannot be merged"):
        ReservoirConfig(rows=5).build().merged(ReservoirConfig(rows=5, salt=1).build())
    state = ReservoirConfig(rows=5).build().snapshot()
    with pytest.raises(SpillwayError, match="state"):
        ReservoirConfig(rows=5).build({**state, "kind": "spread"})
    with pytest.raises(SpillwayError, match="at most 1"):
        ReservoirConfig(rows=1).build({**state, "items": [[1, "a"], [2, "b"]]})
    with pytest.raises(SpillwayError, match="rows = 0"):
        ReservoirConfig(rows=0)


@pytest.mark.parametrize(
    ("text", "error", "confidence"),
    [
        ("1 % at 95 %", 0.01, 0.95),
        ("0.5% at 99.9%", 0.005, 0.999),
        ("2 percent at 90 percent", 0.02, 0.9),
        ("1%@95%", 0.01, 0.95),
        (" 10 % at 68 % confidence ", 0.1, 0.68),
    ],
)
def test_accuracies_as_people_write_them(text: str, error: float, confidence: float) -> None:
    found = accuracy_of(text)
    assert (found.error, found.confidence) == pytest.approx((error, confidence))


@pytest.mark.parametrize(
    "text",
    ["", "1 %", "1 at 95", "95 %", "-1 % at 95 %", "1 % at 100 %", "0 % at 95 %", "one % at 95 %", 5, None],
)
def test_nonsense_is_no_accuracy(text: Any) -> None:
    with pytest.raises(SpillwayError, match="such as '1 % at 95 %'"):
        accuracy_of(text)


def test_rows_needed_by_hand() -> None:
    assert (
        rows_needed("10 % at 95 %", mean=10.0, deviation=5.0, rows=10**9) == 97
    )  # (1.96 · 0.5 / 0.1)² = 96.04
    assert rows_needed("10 % at 95 %", mean=10.0, deviation=5.0, rows=97) == 49  # half of them, about
    assert rows_needed("10 % at 95 %", mean=-10.0, deviation=5.0, rows=97) == 49
    assert rows_needed("1 % at 95 %", mean=10.0, deviation=0.0, rows=1000) == 1
    assert rows_needed("1 % at 95 %", mean=0.0, deviation=5.0, rows=1000) == 1000
    assert rows_needed("1 % at 95 %", mean=3.0, deviation=5.0, rows=0) == 0
    assert rate_needed("10 % at 95 %", mean=10.0, deviation=5.0, rows=970) == pytest.approx(88 / 970)


def test_the_accuracy_asked_for_is_met() -> None:
    values = np.random.default_rng(0).gamma(2.0, 3.0, 20_000)
    n = rows_needed("3 % at 95 %", mean=values.mean(), deviation=values.std(), rows=len(values))
    table = pa.table({"n": range(20_000), "y": values})
    hits = [
        abs(uniform(table, keep_ratio=n / 20_000, salt=s, key="n")["y"].to_numpy().mean() / values.mean() - 1)
        <= 0.03
        for s in range(300)
    ]
    assert 0.91 <= np.mean(hits) <= 0.99


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"deviation": -1.0}, "the deviation >= 0"),
        ({"mean": float("nan")}, "finite numbers"),
        ({"rows": 2.5}, "rows = 2.5"),
    ],
)
def test_wrong_numbers_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said):
        rows_needed("1 % at 95 %", **{"mean": 1.0, "deviation": 1.0, "rows": 10, **options})


def test_wrong_options_of_the_baselines_are_told() -> None:
    with pytest.raises(SpillwayError, match="did you mean 'bernoulli'"):
        uniform(rows(), keep_ratio=0.5, method="bernouli")  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match="keep_ratio = 2"):
        OasrsConfig(keep_ratio=2)
    with pytest.raises(SpillwayError, match="a share between 0 and 1"):
        Accuracy(1.0)
    table = uniform(rows(), keep_ratio=0.5)
    with pytest.raises(SpillwayError, match="pass weight= another name"):
        OasrsConfig(keep_ratio=0.5).build().shed(table, by="g")
