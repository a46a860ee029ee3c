"""What the join promises, over random streams, against nested loops: all pairs without a budget, some with one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.join import JoinConfig, Predicate, Shedding, Utility, run
from tests.core.join.oracle import Pair, Row, join

KINDS = ("equality", "subset", "superset", "overlap", "inner_product")
ACCESSES = ("scan", "index", "sorted_index")
# Eighths, so that sums of products are exact in any order.
weights = st.integers(-8, 24).map(lambda n: n / 8)
integers = st.integers(-3, 6) | st.sampled_from([2**40, -(2**62), 10**15])
strings = st.sampled_from(["", "a", "b", "ab", "oil", "öl", "x" * 70])


def values_of(items: Any) -> dict[str, tuple[Any, Any]]:
    """Strategies for values of each kind of column, and the column's type."""
    item_type = pa.int64() if items is integers else pa.string()
    some = items | st.none()
    entry = st.tuples(some, weights | st.none())
    pair = pa.struct([("item", item_type), ("weight", pa.float64())])
    return {
        "single": (items, item_type),
        "set": (st.lists(some, max_size=6), pa.list_(item_type)),
        "map": (
            st.dictionaries(items, weights, max_size=5).map(lambda d: list(d.items())),
            pa.map_(item_type, pa.float64()),
        ),
        "structs": (st.lists(entry, max_size=5), pa.list_(pair)),
    }


VALUES = {"integers": values_of(integers), "strings": values_of(strings)}


@dataclass
class Case:
    left: list[Row]
    right: list[Row]
    types: tuple[Any, Any]
    on: Predicate
    within: tuple[float, float]

    def tables(self) -> tuple[pa.Table, pa.Table]:
        tables = []
        for rows, kind in zip((self.left, self.right), self.types, strict=True):
            values = [_arrow(value, kind) for _, value in rows]
            times = pa.array([time for time, _ in rows], pa.float64())
            tables.append(pa.table({"ts": times, "v": pa.array(values, kind)}))
        return tables[0], tables[1]

    def expected(self) -> list[Pair]:
        return join(self.left, self.right, self.on.kind, self.on.at_least, self.within)


def _arrow(value: Any, kind: Any) -> Any:
    if value is not None and pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return [{"item": item, "weight": weight} for item, weight in value]
    return value


@st.composite
def cases(draw: st.DrawFn) -> Case:
    of = VALUES[draw(st.sampled_from(list(VALUES)))]
    forms = [draw(st.sampled_from(list(of))) for _ in range(2)]
    times = draw(st.sampled_from([st.integers(0, 12), st.floats(-4, 20).map(lambda t: round(t, 6))]))
    kind = draw(st.sampled_from(KINDS))
    at_least = {"overlap": st.integers(1, 3), "inner_product": st.sampled_from([0.125, 1.0, 2.5])}
    sides = [
        draw(st.lists(st.tuples(times | st.none(), of[form][0] | st.none()), max_size=25)) for form in forms
    ]
    within = st.sampled_from([0, 0.5, 1, 3, 7.25, 40])
    return Case(
        sides[0],
        sides[1],
        (of[forms[0]][1], of[forms[1]][1]),
        Predicate(kind, "v", "v", draw(at_least[kind]) if kind in at_least else 0.0),
        (draw(within), draw(within)),
    )


def pairs(table: pa.Table) -> list[Pair]:
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


@pytest.mark.parametrize("access", ACCESSES)
@given(case=cases())
def test_without_a_budget_all_pairs_come_out_in_order(access: Any, case: Case) -> None:
    left, right = case.tables()
    found = run(left, right, on=case.on, within_s=case.within, time="ts", access=access)
    assert pairs(found) == case.expected()


sheddings = st.sampled_from(["random", "newest", "timecorr", "selective"]) | st.builds(
    Shedding,
    time_correlation=st.booleans(),
    direction=st.booleans(),
    direct_by=st.sampled_from(["basic_window", "window"]),
    basic_window_s=st.sampled_from([0.3, 1.0, 5.0]),
    sample=st.sampled_from([0.0, 0.1, 1.0]),
    period_s=st.sampled_from([0.5, 3.0]),
    memory=st.sampled_from([0.0, 0.8]),
    learn_from=st.sampled_from(["all", "full"]),
    slide=st.sampled_from(["step", "smooth"]),
)


@given(
    case=cases(),
    share=st.floats(0, 1),
    shedding=sheddings,
    salt=st.integers(0, 5),
    access=st.sampled_from(["scan", *ACCESSES]),
)
def test_with_a_budget_some_pairs_come_out_in_order(
    case: Case, share: float, shedding: Any, salt: int, access: Any
) -> None:
    left, right = case.tables()
    config = JoinConfig(
        on=case.on, within_s=case.within, time="ts", shedding=shedding, salt=salt, access=access
    )
    join = config.build()
    join.process(left, right)
    budget = int(share * (join.work.demand if access == "scan" else join.work.spent))
    join = config.build()
    found = pairs(join.process(left, right, budget))
    expected = case.expected()
    assert not Counter(found) - Counter(expected)
    places = [expected.index(pair) for pair in found]
    assert places == sorted(places)
    if shedding != "random" and access == "scan":
        assert join.work.comparisons <= budget
        if budget == join.work.demand:
            assert found == expected
    assert pairs(config.build().process(left, right, budget)) == found


@given(case=cases(), share=st.floats(0, 1), shedding=sheddings)
def test_every_access_path_finds_the_same_for_the_same_fraction(
    case: Case, share: float, shedding: Any
) -> None:
    left, right = case.tables()
    found = []
    for access in ACCESSES:
        config = JoinConfig(on=case.on, within_s=case.within, time="ts", shedding=shedding, access=access)
        found.append(pairs(config.build().process(left, right, fraction=share)))
    assert found[1] == found[2]
    if not all(
        kind in (pa.int64(), pa.string()) for kind in case.types
    ):  # else a hash index is all or nothing
        assert found[0] == found[1]


@given(
    case=cases(),
    cuts=st.lists(st.floats(-4, 20), max_size=4),
    access=st.sampled_from(ACCESSES),
    shedding=sheddings,
    share=st.sampled_from([0.2, 0.6, 1.0]),
)
def test_a_snapshot_goes_on_exactly(
    case: Case, cuts: list[float], access: Any, shedding: Any, share: float
) -> None:
    config = JoinConfig(on=case.on, within_s=case.within, time="ts", shedding=shedding, access=access)
    going, restored = config.build(), config.build()
    for left, right in batches(case, cuts):
        found = going.process(left, right, fraction=share)
        again = restored.process(left, right, fraction=share)
        assert again.equals(found)
        assert restored.work == going.work
        state = going.snapshot()
        restored = config.build(state)
        assert restored.snapshot() == state
        assert restored.oldest_rows() == going.oldest_rows()


@given(case=cases(), cuts=st.lists(st.floats(-4, 20), max_size=4), access=st.sampled_from(ACCESSES))
def test_batches_give_what_one_table_gives(case: Case, cuts: list[float], access: Any) -> None:
    join = JoinConfig(on=case.on, within_s=case.within, time="ts", access=access).build()
    found = Counter[tuple[Any, ...]]()
    rows: tuple[list[int], list[int]] = ([], [])
    for left, right in batches(case, cuts):
        for side, table in enumerate((left, right)):
            rows[side].extend(table["row"].to_pylist())
        for left_row, right_row, score in pairs(join.process(left, right)):
            found[rows[0][left_row], rows[1][right_row], score] += 1
    assert found == Counter(case.expected())


def batches(case: Case, cuts: list[float]) -> list[tuple[pa.Table, pa.Table]]:
    """The tables cut at given times; the first batch also has the rows without a time."""
    tables = [table.append_column("row", pa.array(range(table.num_rows))) for table in case.tables()]
    bounds = [-np.inf, *sorted(cuts), np.inf]
    found = []
    for low, high in pairwise(bounds):
        parts = []
        for table in tables:
            times = np.array([-1e9 if time is None else time for time in table["ts"].to_pylist()])
            parts.append(table.filter(pa.array((times >= low) & (times < high), pa.bool_())))
        found.append((parts[0], parts[1]))
    return found


@given(case=cases(), data=st.data(), access=st.sampled_from(ACCESSES), restart=st.booleans())
def test_rows_that_come_out_of_order_wait_for_those_before_them(
    case: Case, data: st.DataObject, access: Any, restart: bool
) -> None:
    """Rows come in any order, a watermark follows behind, and the pairs are those of the sorted streams, in order."""
    config = JoinConfig(on=case.on, within_s=case.within, time="ts", access=access, late="drop")
    join, found = config.build(), list[Pair]()
    tables = [table.append_column("row", pa.array(range(table.num_rows))) for table in case.tables()]
    left = [
        table.take(pa.array(data.draw(st.permutations(range(table.num_rows))), pa.int64()))
        for table in tables
    ]
    rows: tuple[list[int], list[int]] = ([], [])
    while any(table.num_rows for table in left):
        batch = []
        for side, table in enumerate(left):
            count = data.draw(st.integers(0, table.num_rows))
            batch.append(table.slice(0, count))
            left[side] = table.slice(count)
            rows[side].extend(batch[side]["row"].to_pylist())
        times = [time for table in left for time in table["ts"].to_pylist() if time is not None]
        until = round(min(times) * 1e6) - 1 if times else None
        for left_row, right_row, score in pairs(join.process(batch[0], batch[1], until_us=until)):
            found.append((rows[0][left_row], rows[1][right_row], score))
        if restart:
            join = config.build(join.snapshot())
        if not any(count.num_rows for count in batch) and times:
            break
    if not any(table.num_rows for table in left):
        assert join.work.late_rows == 0
        assert Counter(found) == Counter(case.expected())
        times_of = [max(case.left[a][0], case.right[b][0]) for a, b, _ in found]  # type: ignore[type-var]
        assert times_of == sorted(times_of)  # type: ignore[type-var]


@given(case=cases(), share=st.floats(0, 1), function=st.sampled_from(["max", "mean"]))
def test_types_and_utilities_give_some_of_the_pairs_within_the_budget(
    case: Case, share: float, function: Any
) -> None:
    left, right = (
        table.append_column("kind", pa.array(["ab?"[n % 3] for n in range(table.num_rows)]))
        for table in case.tables()
    )
    shedding = Shedding(utility=Utility("kind", {"a": 3.0, "b": 1.0}, function), period_s=2)
    config = JoinConfig(on=case.on, within_s=case.within, time="ts", shedding=shedding)
    join = config.build()
    assert pairs(join.process(left, right)) == case.expected()
    budget = int(share * join.work.demand)
    join = config.build()
    found = pairs(join.process(left, right, budget))
    assert not Counter(found) - Counter(case.expected())
    assert join.work.comparisons <= budget
