"""Tables shed by group: which rows are groups, which are kept, what they weigh, what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.groups import (
    METADATA,
    RULES,
    SpreadConfig,
    draws,
    estimate,
    group_keys,
    pilot_spread,
    shed,
    strata_of,
    stratified,
    uniform,
)
from spillway.errors import SpillwayError


def rides(rows: int = 1000) -> pa.Table:
    n = np.arange(rows)
    route = np.where(n % 100 == 0, "rare", np.where(n % 10 == 0, "few", "busy"))
    return pa.table({"id": n, "route": route, "fare": (n * 7919 % 101).astype(float)})


def counts(kept: pa.Table) -> dict[Any, tuple[int, float]]:
    found = kept.group_by("route").aggregate([("weight", "count"), ("weight", "sum")]).to_pylist()
    return {row["route"]: (row["weight_count"], row["weight_sum"]) for row in found}


def told(kept: pa.Table) -> dict[str, Any]:
    return json.loads(kept.schema.metadata[METADATA])  # type: ignore[no-any-return]


def test_each_rule_keeps_the_budget_and_every_group() -> None:
    for rule in RULES:
        kept = shed(rides(), by="route", keep_ratio=0.05, rule=rule, value="fare")  # type: ignore[arg-type]
        found = counts(kept)
        assert kept.num_rows == 50
        assert {route: total for route, (_, total) in found.items()} == pytest.approx(
            {"busy": 900, "few": 90, "rare": 10}
        )
        assert told(kept)["missing_groups"] == 0
    assert counts(shed(rides(), by="route", keep_ratio=0.05, rule="proportional"))["rare"][0] == 1
    assert counts(shed(rides(), by="route", keep_ratio=0.05, rule="equal"))["rare"] == (10, 10.0)


def test_kept_rows_are_rows_of_the_table_in_its_order() -> None:
    table = rides()
    kept = shed(table, by="route", keep_ratio=0.1)
    ids = kept["id"].to_pylist()
    assert ids == sorted(ids)
    assert kept.drop_columns("weight").to_pylist() == table.take(pa.array(ids)).to_pylist()


def test_the_same_salt_keeps_the_same_rows_in_whatever_order_they_come() -> None:
    table = rides()
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows)))
    options: dict[str, Any] = {"by": "route", "keep_ratio": 0.07, "value": "fare", "key": "id"}
    first, again = (set(shed(each, **options, salt=3)["id"].to_pylist()) for each in (table, shuffled))
    assert first == again
    assert first != set(shed(table, **options, salt=4)["id"].to_pylist())


def test_more_rows_of_a_group_are_more_of_the_same() -> None:
    few, many = (shed(rides(), by="route", keep_ratio=ratio, rule="equal") for ratio in (0.03, 0.2))
    assert set(few["id"].to_pylist()) < set(many["id"].to_pylist())


def test_nulls_nans_and_signed_zeros_are_groups_as_in_spark() -> None:
    table = pa.table({"g": pa.array([None, 0.0, -0.0, float("nan"), None, float("nan")])})
    strata = strata_of(table, "g")
    assert strata.codes.tolist() == [0, 1, 1, 2, 0, 2]
    assert strata.sizes.tolist() == [2, 2, 2]
    assert shed(table, by="g", keep_ratio=0.5).num_rows == 3


def test_groups_of_several_columns() -> None:
    table = pa.table({"a": [1, 1, 2, 1, None], "b": ["x", "y", "x", "x", "x"], "n": range(5)})
    strata = strata_of(table, ["a", "b"])
    assert strata.sizes.tolist() == [2, 1, 1, 1]
    assert strata.labels.to_pylist()[0] == {"a": 1, "b": "x"}
    assert shed(table, by=["a", "b"], keep_ratio=0.8).num_rows == 4


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.array([1, 2, 1], pa.uint64()),
        pa.array([True, None, True]),
        pa.array([datetime(2026, 1, 1), datetime(2026, 1, 2), datetime(2026, 1, 1)]),
    ],
    ids=lambda column: str(column.type),
)
def test_groups_of_any_type(column: pa.Array) -> None:
    kept = shed(pa.table({"g": column, "n": [1, 2, 3]}), by="g", keep_ratio=0.67)
    assert kept.num_rows == 2
    assert kept["weight"].to_pylist() == [2.0, 1.0] or kept["weight"].to_pylist() == [1.0, 2.0]
    assert kept.schema.field("g").type == column.type


def test_equal_rows_are_drawn_apart() -> None:
    """Without numbers of their own, copies would stay or go together, and a mean over salts would miss the truth."""
    table = pa.table({"g": ["a"] * 3, "v": [1.0, 1.0, 7.0]})
    means = [shed(table, by="g", keep_ratio=0.34, salt=salt)["v"][0].as_py() for salt in range(1200)]
    assert np.mean(means) == pytest.approx(3.0, abs=0.25)
    assert len(set(draws(pa.table({"k": [5, 5, 5]}), None, salt=1).tolist())) == 3


def test_columns_that_cannot_be_hashed_are_no_part_of_the_key() -> None:
    table = pa.table({"g": ["a"] * 50, "tags": [["x"]] * 50})
    assert shed(table, by="g", keep_ratio=0.2).num_rows == 10
    with pytest.raises(SpillwayError, match="cannot be a row key"):
        shed(table, by="g", keep_ratio=0.2, key="tags")


def test_more_groups_than_rows() -> None:
    table = pa.table({"g": range(100)}).append_column("n", pa.array(range(100)))
    doubled = pa.concat_tables([table, table])
    more = shed(doubled, by="g", keep_ratio=0.1)
    assert (more.num_rows, told(more)["missing_groups"]) == (100, 0)
    assert told(more)["reason"].startswith("100 rows instead of 20")
    fewer = shed(doubled, by="g", keep_ratio=0.1, exceed=False)
    assert (fewer.num_rows, told(fewer)["missing_groups"]) == (20, 80)
    assert fewer["weight"].to_pylist() == [10.0] * 20


def test_what_is_known_of_the_groups_moves_rows_to_those_that_vary() -> None:
    table = pa.table({"id": range(2000), "g": ["calm", "wild"] * 1000, "v": [10.0, 0.0] * 1000})
    values = np.random.default_rng(0).lognormal(0.0, 1.5, 1000)
    table = table.set_column(2, "v", pa.array(np.stack([np.full(1000, 10.0), values], axis=1).ravel()))
    for options in ({}, {"spread": _spread(table)}):
        kept = shed(table, by="g", keep_ratio=0.05, value="v", **options)
        found = dict(zip(*np.unique(kept["g"].to_pylist(), return_counts=True), strict=True))
        assert found["wild"] > 4 * found["calm"]


def _spread(table: pa.Table) -> Any:
    spread = SpreadConfig().build()
    strata = strata_of(table, "g")
    spread.learn(group_keys(strata.labels), codes=strata.codes, values=table["v"].to_numpy())
    return spread


def test_a_pilot_can_be_had_apart_to_estimate_with() -> None:
    options: dict[str, Any] = {"by": "route", "keep_ratio": 0.02, "value": "fare", "salt": 3}
    learned = pilot_spread(rides(), **options)
    kept = shed(rides(), **options)
    assert kept.equals(shed(rides(), **options, spread=learned)), "shed learns the same by itself"
    by: dict[str, Any] = {"by": "route", "value": "fare"}
    assert not estimate(kept, **by).equals(estimate(kept, **by, spread=learned))


def test_values_that_are_missing_are_passed_over() -> None:
    table = rides().set_column(2, "fare", pa.array([None if n % 3 else 1.0 * n for n in range(1000)]))
    assert shed(table, by="route", keep_ratio=0.05, value="fare").num_rows == 50
    nothing = rides().set_column(2, "fare", pa.nulls(1000, pa.float64()))
    assert shed(nothing, by="route", keep_ratio=0.05, value="fare").num_rows == 50


def test_no_rows_and_all_rows() -> None:
    empty = shed(rides(0), by="route", keep_ratio=0.5, value="fare")
    assert (empty.num_rows, empty.column_names) == (0, ["id", "route", "fare", "weight"])
    assert shed(rides(), by="route", keep_ratio=1.0)["weight"].to_pylist() == [1.0] * 1000
    assert shed(rides(), by="route", keep_ratio=0.0, exceed=False).num_rows == 0


def test_a_table_in_chunks_is_the_same() -> None:
    table = rides()
    chunked = pa.concat_tables([table.slice(0, 300), table.slice(300)])
    options: dict[str, Any] = {"by": "route", "keep_ratio": 0.1, "value": "fare"}
    assert shed(chunked, **options).to_pylist() == shed(table, **options).to_pylist()


def test_a_sample_has_exactly_the_rows_it_should() -> None:
    codes, order = np.array([1, 0, 1, 1, 0]), np.array([4, 5, 1, 9, 2])
    kept, weights = stratified(codes, order, sizes=np.array([2, 3]), rows=np.array([1, 2]))
    assert kept.tolist() == [0, 2, 4]
    assert weights.tolist() == [1.5, 1.5, 2.0]
    none, _ = stratified(codes, order, sizes=np.array([2, 3]), rows=np.array([0, 0]))
    assert none.tolist() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "rout"}, "did you mean 'route'"),
        ({"by": []}, "the name of a column, or a list of names"),
        ({"by": 7}, "the name of a column, or a list of names"),
        ({"by": ["route", "route"]}, "each name once"),
        ({"keep_ratio": 1.5}, "a number from 0 to 1"),
        ({"keep_ratio": float("nan")}, "a number from 0 to 1"),
        ({"keep_ratio": True}, "a number from 0 to 1"),
        ({"keep_ratio": "2 %"}, "a number from 0 to 1"),
        ({"rule": "equals"}, "did you mean 'equal'"),
        ({"value": "fair"}, "did you mean 'fare'"),
        ({"value": "route"}, "expected a number"),
        ({"key": "uuid"}, "key = 'uuid'"),
        ({"weight": "fare"}, "pass weight= another name"),
        ({"at_least": 0.5}, "a whole number >= 1"),
        ({"salt": 2**70}, "a whole number of 64 bits"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said):
        shed(rides(), **{"by": "route", "keep_ratio": 0.1, **options})


def test_lists_make_no_groups() -> None:
    with pytest.raises(SpillwayError, match="rows cannot be grouped by that"):
        shed(pa.table({"g": [["a"], ["b"]]}), by="g", keep_ratio=0.5)


@pytest.mark.parametrize(
    "values",
    [
        [1e200 * (n % 7) for n in range(100)],
        [float("inf") if n % 9 == 0 else 1.0 for n in range(100)],
        [0.0] * 100,
        [float(n % 11 - 5) for n in range(100)],
    ],
    ids=["huge", "infinite", "zero", "around zero"],
)
def test_odd_values_break_nothing(values: list[float]) -> None:
    table = pa.table({"n": range(100), "g": [n % 5 for n in range(100)], "v": values})
    for rule in RULES:
        kept = shed(table, by="g", keep_ratio=0.2, rule=rule, value="v")  # type: ignore[arg-type]
        assert kept.num_rows == 20
        for aggregate in ("mean", "sum", "median"):
            assert estimate(kept, by="g", value="v", aggregate=aggregate).num_rows == 5


def test_groups_whose_keys_cannot_be_hashed_are_known_by_their_text() -> None:
    table = pa.table({"g": [Decimal("1.5"), Decimal("2.5")] * 50, "n": range(100)})
    labels = strata_of(table, "g").labels
    assert group_keys(labels).tolist() == group_keys(labels.take(pa.array([1, 0]))).tolist()[::-1]
    assert shed(table, by="g", keep_ratio=0.1).num_rows == 10


def test_chunks_with_dictionaries_of_their_own() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    assert strata_of(pa.table({"g": pa.chunked_array(chunks)}), "g").codes.tolist() == [0, 1, 2, 0]


def test_what_is_no_table_of_named_columns_is_refused() -> None:
    twice = pa.table([[1, 2], [3, 4]], names=["route", "route"])
    kept = shed(rides(), by="route", keep_ratio=0.1)
    for table, said in (
        (rides().to_batches()[0], "table is of type RecordBatch"),
        (rides().to_pandas(), "table is of type DataFrame"),
        (twice, "more than one column 'route'"),
    ):
        with pytest.raises(SpillwayError, match=said):
            shed(table, by="route", keep_ratio=0.1)
        with pytest.raises(SpillwayError, match=said):
            uniform(table, keep_ratio=0.1)
        with pytest.raises(SpillwayError, match=said):
            pilot_spread(table, by="route", value="fare", keep_ratio=0.1)
        with pytest.raises(SpillwayError, match=said):
            estimate(table, by="route", aggregate="count")
    assert estimate(kept, by="route", aggregate="count").num_rows == 3


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b"], pa.string_view()),
        pa.array([b"a", b"b"], pa.binary_view()),
        pa.array([(1, 2, 3), (1, 2, 4)], pa.month_day_nano_interval()),
    ],
)
def test_keys_that_cannot_be_taken_out_of_a_table_are_refused(column: pa.Array) -> None:
    with pytest.raises(SpillwayError, match="rows cannot be grouped by that"):
        shed(pa.table({"route": column}), by="route", keep_ratio=0.5)


def test_bytes_of_one_length_are_keys() -> None:
    keys = pa.array([b"\xff\xfe", b"ab", None, b"ab"], pa.binary(2))
    kept = shed(pa.table({"id": range(4), "route": keys}), by="route", keep_ratio=1.0)
    assert counts(kept) == {b"\xff\xfe": (1, 1.0), b"ab": (2, 2.0), None: (1, 1.0)}
    same = pa.table({"route": keys.cast(pa.binary())})
    assert group_keys(pa.table({"route": keys})).tolist() == group_keys(same).tolist()


def test_rows_are_drawn_along_short_floats_too() -> None:
    along = np.arange(1000) % 64
    short, long = (rides().append_column("ts", pa.array(along.astype(kind))) for kind in ("f2", "f4"))
    options: dict[str, Any] = {"by": "route", "keep_ratio": 0.1, "along": "ts", "key": "id"}
    assert shed(short, **options)["id"].equals(shed(long, **options)["id"])


def test_a_group_of_nulls_has_no_sum() -> None:
    kept = pa.table({"route": ["a", "a", "b"], "fare": [None, None, 2.0], "weight": [3.0, 3.0, 1.0]})
    found = estimate(kept, by="route", value="fare", aggregate="sum").to_pylist()
    assert [(row["value"], row["low"], row["high"]) for row in found] == [(None,) * 3, (2.0, 2.0, 2.0)]


@pytest.mark.parametrize(("weight", "said"), [(float("inf"), "inf"), (float("nan"), "nan")])
def test_weights_are_finite(weight: float, said: str) -> None:
    with pytest.raises(SpillwayError, match=f"weights = {said}"):
        estimate(pa.table({"route": ["a"], "weight": [weight]}), by="route", aggregate="count")


def test_columns_whose_rows_cannot_be_taken_are_told() -> None:
    viewed = pa.table({"route": [1, 2], "name": pa.array(["a", "b"], pa.string_view())})
    with pytest.raises(SpillwayError, match="rows cannot be taken"):
        shed(viewed, by="route", keep_ratio=0.5)
    with pytest.raises(SpillwayError, match="rows cannot be taken"):
        uniform(viewed, keep_ratio=0.5)
