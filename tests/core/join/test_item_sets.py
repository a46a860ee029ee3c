"""Columns as sets of items: every kind of column, nulls, times, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.data.times import times_of
from spillway.core.data.vocabulary import EMPTY, Vocabulary
from spillway.core.join import equality, inner_product, overlap, run
from spillway.core.join.item_sets import rows_of, shape_of
from spillway.errors import SpillwayError

PAIR = pa.struct([("item", pa.int64()), ("weight", pa.float64())])


def sets(column: Any, weighted: bool = False) -> list[Any]:
    table = pa.table({"ts": [0] * len(column), "v": column})
    rows = rows_of(
        table,
        column="v",
        time="ts",
        shape=shape_of(table, "v", "left"),
        weighted=weighted,
        first_number=0,
        types=np.zeros(len(column), np.int64),
        encode=Vocabulary().encode,
    )
    found = []
    for low, high in zip(rows.starts, rows.starts[1:], strict=False):
        items = rows.items[low:high].tolist()
        found.append(list(zip(items, rows.weights[low:high].tolist(), strict=True)) if weighted else items)
    return found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[3, 1, 3], [], None, [2, None]], pa.list_(pa.int64())),
        ([[3, 1, 3], [], None, [2, None]], pa.large_list(pa.int16())),
        ([[(3, 1.0), (1, 0.0)], [], None, [(2, 1.0)]], pa.map_(pa.int32(), pa.float64())),
        (
            [[{"item": 3, "weight": 1}, {"item": 1, "weight": 1}], [], None, [{"item": 2, "weight": None}]],
            pa.list_(PAIR),
        ),
    ],
)
def test_sets_are_sorted_and_without_doubles_and_nulls(values: list[Any], kind: Any) -> None:
    assert sets(pa.array(values, kind)) == [[1, 3], [EMPTY], [2]]


def test_columns_of_other_layouts() -> None:
    assert sets(pa.array([[3, 1], [2, 2]], pa.list_(pa.int64(), 2))) == [[1, 3], [2]]
    assert sets(pa.array([7, None, 8], pa.uint8())) == [[7], [8]]
    sliced = pa.array([[9], [3, 1], [2], [5]], pa.list_(pa.int64())).slice(1, 2)
    assert sets(sliced) == [[1, 3], [2]]
    maps = pa.array([[(9, 1.0)], [(3, 2.0)]], pa.map_(pa.int64(), pa.float64())).slice(1)
    assert sets(maps, weighted=True) == [[(3, 2.0)]]
    large = list(range(100, 0, -1))
    assert sets(pa.array([large, [5]])) == [sorted(large), [5]]
    words = sets(pa.array(["b", "a", "b"]).dictionary_encode())
    assert words[0] == words[2] != words[1]


def test_weights_of_an_item_that_comes_twice_are_added_and_of_a_plain_list_are_one() -> None:
    twice = [{"item": 5, "weight": 0.5}, {"item": 4, "weight": None}, {"item": 5, "weight": 2.0}]
    assert sets(pa.array([twice], pa.list_(PAIR)), weighted=True) == [[(4, 0.0), (5, 2.5)]]
    assert sets(pa.array([[5, 4, 5], []]), weighted=True) == [[(4, 1.0), (5, 1.0)], [(EMPTY, 0.0)]]
    assert sets(pa.array([5]), weighted=True) == [[(5, 1.0)]]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2]), [1_000_000, 2_000_000]),
        (pa.array([0.1, -2.5]), [100_000, -2_500_000]),
        (pa.array([1, -1], pa.timestamp("s")), [1_000_000, -1_000_000]),
        (pa.array([1, -1], pa.timestamp("ms")), [1000, -1000]),
        (pa.array([1, -1], pa.timestamp("us", "UTC")), [1, -1]),
        (pa.array([1999, -1], pa.timestamp("ns")), [1, -1]),
        (pa.array([datetime(1970, 1, 2, tzinfo=UTC)]), [86_400_000_000]),
    ],
)
def test_times_are_whole_microseconds(column: Any, expected: list[int]) -> None:
    times, valid = times_of(pa.table({"ts": column}), "ts")
    assert times.tolist() == expected
    assert valid.all()


GOOD = pa.table({"ts": [0.0], "v": [[1]], "w": [["a"]], "x": [0.5], "words": ["a"]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": overlap("vv", at_least=1)}, "on, left column = 'vv' .* did you mean 'v'"),
        ({"on": equality("x")}, "items of type double: expected integers or strings"),
        ({"on": equality("v", "w")}, "items of type string, the other side has integer"),
        ({"time": "v"}, "time = 'v' has type list<.*: expected a timestamp"),
        ({"time": "tss"}, "did you mean 'ts'"),
        ({"time": ("ts", "ts", "ts")}, "one value, or two"),
        ({"on": "v"}, r"on = 'v' is not allowed: expected a predicate such as overlap"),
        ({"within_s": -1}, "within_s = -1"),
        ({"within_s": "20 s"}, "within_s = '20 s'"),
        ({"budget": -1}, "budget = -1"),
        ({"budget": float("nan")}, "budget = nan"),
        ({"shedding": "selctive"}, "did you mean 'selective'"),
        ({"access": "hash"}, "access = 'hash'"),
        ({"salt": 2**63}, "salt"),
        ({"left": None}, None),
        ({"left": None, "period_s": 1.0}, None),
        ({"left": [1]}, "left = 'list' is not allowed: expected a pyarrow Table"),
        ({"period_s": 0}, "period_s = 0"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], message: str | None) -> None:
    given: dict[str, Any] = {
        "left": GOOD,
        "right": GOOD,
        "on": overlap("v", at_least=1),
        "within_s": 1,
        "time": "ts",
    }
    given |= change
    left, right = given.pop("left"), given.pop("right")
    if message is None:
        assert run(left, right, **given).num_rows == 0
        return
    with pytest.raises(SpillwayError, match=message):
        run(left, right, **given)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([2**63], pa.uint64()), "does not fit"),
        (pa.array([EMPTY]), "reserved"),
        (pa.array([[(1, float("inf"))]], pa.map_(pa.int64(), pa.float64())), "not finite"),
    ],
)
def test_items_and_weights_that_cannot_be_read(column: Any, message: str) -> None:
    table = pa.table({"ts": [0], "v": column})
    with pytest.raises(SpillwayError, match=message):
        run(table, table, on=inner_product("v", at_least=1), within_s=1, time="ts")


@pytest.mark.parametrize(
    "times", [pa.array([float("nan")]), pa.array([float("inf")]), pa.array([2**60]), pa.array([1e300])]
)
def test_times_that_are_no_times(times: Any) -> None:
    table = pa.table({"ts": times, "v": [1]})
    with pytest.raises(SpillwayError, match="time = 'ts' holds a value"):
        run(table, table, on=equality("v"), within_s=1, time="ts")
