"""The shards of a join on Spark, without Spark: exact by the definition, whatever the order and the shards."""

from __future__ import annotations

import pickle
import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.join import (
    JoinConfig,
    Predicate,
    Shedding,
    Utility,
    equality,
    inner_product,
    overlap,
    subset,
    superset,
)
from spillway.errors import SpillwayError
from spillway.spark.join.shard import Live, Output, ShardLogic
from spillway.spark.shards.grid import Grid
from spillway.spark.shards.task import ShardTask
from tests.core.join import oracle
from tests.core.spark.shards.join_shards import FakeState, Shards, Told, with_order

DELAY_US = 2_000_000
GRID = Grid(2, 3, False, (10, 11, 12, 13, 14, 15))
HASHED = Grid(3, 3, True, (20, 21, 22))
ALONE = Grid(1, 1, False, (3,))
US = 1_000_000


def a_set(chance: random.Random) -> list[int] | None:
    if chance.random() < 0.05:
        return None
    return [chance.randrange(12) for _ in range(chance.choice((0, 1, 3, 5)))]


def weighted(chance: random.Random) -> Any:
    return [(f"w{item}", chance.choice((0.5, 1.0, 2.0))) for item in set(a_set(chance) or [1])]


def single(chance: random.Random) -> str | None:
    return None if chance.random() < 0.1 else f"key {chance.randrange(6)}"


CASES: dict[str, tuple[Predicate, Any, Any]] = {
    "overlap": (overlap("v", at_least=2), a_set, pa.list_(pa.int64())),
    "subset": (subset("v"), a_set, pa.list_(pa.int32())),
    "superset": (superset("v"), a_set, pa.list_(pa.int64())),
    "inner_product": (inner_product("v", at_least=1.5), weighted, pa.map_(pa.string(), pa.float64())),
    "equality": (equality("v"), single, pa.string()),
}


def logic(on: Predicate, **options: Any) -> ShardLogic:
    access = "index" if on.kind == "equality" else "scan"
    config = JoinConfig(
        on=on,
        within_s=(1.5, 0.8),
        time="ts",
        late="drop",
        access=access,
        shedding=options.pop("shedding", "selective"),
        salt=options.pop("salt", 0),
    )
    return ShardLogic(
        config, Output(("l", "lt", "lv"), ("r", "rt", "rv"), "score"), (DELAY_US, DELAY_US), **options
    )


def rows(chance: random.Random, make: Any, kind: Any, batches: int, rate: int) -> list[pa.Table]:
    """Rows of one side, a second for each batch, out of order by up to the watermark's delay."""
    ids = list(range(batches * rate))
    times = [int((n / rate + 10) * 10) * 100_000 for n in ids]  # tenths of a second, so that there are ties
    values = [make(chance) for _ in ids]
    order = sorted(ids, key=lambda n: times[n] + chance.randrange(DELAY_US - 200_000))
    found = []
    for batch in range(batches):
        some = order[batch * rate : (batch + 1) * rate]
        table = pa.table(
            {
                "id": pa.array(some, pa.int64()),
                "ts": pa.array([times[n] for n in some], pa.timestamp("us", "UTC")),
                "v": pa.array([values[n] for n in some], kind),
            }
        )
        found.append(with_order(table))
    return found


def parts(on: Predicate, grid: Grid) -> Any:
    """Stand in for Spark's hash of a row, or of its key."""

    def part_of(side: int, table: pa.Table) -> pa.Array:
        def of(row: int, value: Any) -> int | None:
            if value is None or (not value and not on.sees_empty):
                return None
            key = sum(map(ord, value)) if grid.hashed else row * 7
            return key % grid.parts(side)

        found = map(of, table["id"].to_pylist(), table["v"].to_pylist())
        return pa.array(list(found), pa.int32())

    return part_of


def plain(tables: list[pa.Table]) -> list[oracle.Row]:
    rows = sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["id"])
    return [
        (round(10 * row["ts"].timestamp()), row["v"]) for row in rows
    ]  # tenths, in which nothing is rounded


def expected(on: Predicate, left: list[pa.Table], right: list[pa.Table], until_us: int) -> set[oracle.Pair]:
    sides = plain(left), plain(right)
    pairs = oracle.join(*sides, on.kind, on.at_least, (15, 8))
    until = until_us // 100_000
    return {pair for pair in pairs if max(sides[0][pair[0]][0] or 0, sides[1][pair[1]][0] or 0) <= until}


def latest(tables: list[pa.Table]) -> int:
    return max(int(np.max(table["ts"].cast(pa.int64()).to_numpy())) for table in tables)


def pairs_of(table: pa.Table | None) -> list[oracle.Pair]:
    if table is None:
        return []
    return list(zip(*(table[name].to_pylist() for name in ("l", "r", "score")), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_all_pairs_come_once_and_in_time_whatever_the_order_and_the_shards(name: str) -> None:
    on, make, kind = CASES[name]
    grid = HASHED if name == "equality" else GRID
    chance = random.Random(5)
    left, right = rows(chance, make, kind, 6, 40), rows(chance, make, kind, 6, 15)
    shards = [
        Shards(logic(on), grid, seed=seed, forgetful=seed == 1, part_of=parts(on, grid)) for seed in (0, 1)
    ]
    found: list[oracle.Pair] = []
    for batch in zip(left, right, strict=True):
        first, second = (pairs_of(each.feed(*batch)) for each in shards)
        assert sorted(first) == sorted(second), "from memory and from state, in whatever order rows come"
        found += first
    assert len(found) == len(set(found))
    until = min(latest(left), latest(right)) - DELAY_US
    assert set(found) == expected(on, left, right, until)
    assert len(found) > 20
    counts = shards[0].counts
    assert counts["waiting"] > 0
    assert counts["late"] == 0


def test_a_budget_is_kept_and_gives_some_of_the_pairs_the_same_on_replay() -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(7)
    left, right = rows(chance, make, kind, 6, 60), rows(chance, make, kind, 6, 60)
    runs = []
    for seed in (0, 1):
        shards = Shards(logic(on), GRID, seed=seed, forgetful=seed == 1, part_of=parts(on, GRID))
        found = []
        for batch in zip(left, right, strict=True):
            found += pairs_of(shards.feed(*batch, budget=1_200.0))
            assert shards.counts["spent"] <= 1_200
            assert shards.counts["demand"] >= shards.counts["spent"]
        runs.append(found)
    assert sorted(runs[0]) == sorted(runs[1])
    exact = expected(on, left, right, min(latest(left), latest(right)) - DELAY_US)
    assert set(runs[0]) < exact
    assert 0.02 < len(runs[0]) / len(exact) < 0.9


def worth(even: float) -> Shedding:
    worths = {row: (even, 1.0)[row % 2] for row in range(360)}
    return Shedding(utility=Utility("id", worths), period_s=0.5)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"on": overlap("v", at_least=1)}, {"on": overlap("v", at_least=3)}),
        ({"shedding": Shedding(sample=0.01)}, {"shedding": Shedding(sample=0.9, memory=0.0)}),
        ({"shedding": worth(0.0)}, {"shedding": worth(9.0)}),
        ({"salt": 1, "shedding": "random"}, {"salt": 2, "shedding": "random"}),
    ],
    ids=["threshold", "shedding", "utility", "salt"],
)
def test_a_process_that_is_used_again_takes_other_options_from_the_next_start(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(5)
    left, right = rows(chance, make, kind, 6, 60), rows(chance, make, kind, 6, 60)
    found: dict[str, list[list[oracle.Pair]]] = {}
    for process, second in (("kept on", before), ("used again", after), ("fresh", after)):
        shards = Shards(logic(**{"on": on, **before}), ALONE, part_of=parts(on, ALONE))
        found[process] = []
        for number, batch in enumerate(zip(left, right, strict=True)):
            if number == 3:
                shards.logic = logic(**{"on": on, **second})
                shards.forgetful = process == "fresh"
            found[process].append(pairs_of(shards.feed(*batch, budget=600.0)))
    assert found["used again"] == found["fresh"] != found["kept on"]


def test_a_process_remembers_a_shard_of_the_same_options(monkeypatch: pytest.MonkeyPatch) -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(5)
    left, right = rows(chance, make, kind, 4, 20), rows(chance, make, kind, 4, 20)
    made: list[Any] = []
    restored = Live.restored
    monkeypatch.setattr(Live, "restored", lambda *given: made.append(given) or restored(*given))
    shards = Shards(logic(on), ALONE, part_of=parts(on, ALONE))
    for number, batch in enumerate(zip(left, right, strict=True)):
        shards.logic = pickle.loads(pickle.dumps(logic(on)))
        shards.forgetful = number == 3
        shards.feed(*batch)
        assert len(made) == (number == 3)


def test_what_is_shed_at_random_counts_the_rows_and_the_demand_before() -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(7)
    left, right = rows(chance, make, kind, 6, 200), rows(chance, make, kind, 6, 200)
    exact, thinned = (Shards(logic(on, shedding="random"), ALONE, part_of=parts(on, ALONE)) for _ in range(2))
    demand = dropped = 0.0
    for batch in zip(left, right, strict=True):
        exact.feed(*batch)
        thinned.feed(*batch, budget=8_000.0)
        demand += thinned.counts["demand"] - exact.counts["demand"]
        dropped += thinned.counts["dropped"]
    assert dropped > 300
    assert abs(demand) < 0.3 * 159_611, "of what all comparisons would be"


def test_equality_keeps_to_a_budget_by_dropping_rows_and_counts_them() -> None:
    on, make, kind = CASES["equality"]
    chance = random.Random(7)
    left, right = rows(chance, make, kind, 10, 200), rows(chance, make, kind, 10, 200)
    budget = 6_000.0
    exact, thinned = (Shards(logic(on), HASHED, part_of=parts(on, HASHED)) for _ in range(2))
    again = Shards(logic(on), HASHED, seed=1, forgetful=True, part_of=parts(on, HASHED))
    totals: Counter[str] = Counter()
    found: list[oracle.Pair] = []
    for batch in zip(left, right, strict=True):
        exact.feed(*batch)
        some = pairs_of(thinned.feed(*batch, budget=budget))
        assert sorted(some) == sorted(pairs_of(again.feed(*batch, budget=budget)))
        found += some
        totals.update({name: int(thinned.counts[name]) for name in ("spent", "demand", "dropped")})
        totals["exact"] += int(exact.counts["demand"])
    known = expected(on, left, right, min(latest(left), latest(right)) - DELAY_US)
    assert len(found) == len(set(found))
    assert set(found) < known
    assert len(found) > 0.02 * len(known)
    assert 0.5 * 10 * budget < totals["spent"] < 1.1 * 10 * budget
    assert abs(totals["demand"] / totals["exact"] - 1.0) < 0.2, "what all rows would have taken"
    assert totals["dropped"] > 1_500


def test_keys_that_are_skewed_get_more_of_the_budget() -> None:
    chance = random.Random(7)
    on, kind = CASES["equality"][0], pa.string()
    often = [f"key {key}" for key in (0, 0, 0, 0, 0, 0, 3, 1, 2)]
    left, right = (rows(chance, lambda chance: chance.choice(often), kind, 8, 200) for _ in range(2))
    shards = Shards(logic(on), HASHED, part_of=parts(on, HASHED))
    spent = 0.0
    for batch in zip(left, right, strict=True):
        shards.feed(*batch, budget=100_000.0)
        spent += shards.counts["spent"]
        assert shards.counts["spent"] < 110_000
    assert spent > 0.5 * 8 * 100_000, "0.39 if all had the same"


def test_copies_of_a_row_on_a_grid_are_dropped_alike_and_counted_once() -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(5)
    left, right = rows(chance, make, kind, 6, 60), rows(chance, make, kind, 6, 60)
    made = logic(on, shedding="random")
    made = replace(made, config=replace(made.config, within_s=60.0))  # so that all that is kept can be seen
    shards = Shards(made, GRID, part_of=parts(on, GRID))
    came = dropped = waiting = 0
    held: dict[tuple[int, int], set[int]] = defaultdict(set)
    for batch in zip(left, right, strict=True):
        shards.feed(*batch, budget=3_000.0)
        came += int(shards.counts["arrived"] - shards.counts["unmatched"])
        dropped += int(shards.counts["dropped"])
        waiting = int(shards.counts["waiting"])
        for side, keys in [
            *((0, keys) for keys in GRID.targets(0)),
            *((1, keys) for keys in GRID.targets(1)),
        ]:
            new = []
            for key in keys:
                now = kept_numbers(shards, key, side)
                new.append(now - held[side, key])
                held[side, key] = now
            new.sort(key=len)
            assert all(few <= more for few, more in pairwise(new)), (
                "a cell that keeps more keeps those as well"
            )
    counting = [(side, key) for key in GRID.keys for side in (0, 1) if GRID.counts(key)[side]]
    assert dropped == came - waiting - sum(len(held[each]) for each in counting)
    assert 0.2 * came < dropped < 0.8 * came


def kept_numbers(shards: Shards, key: int, side: int) -> set[int]:
    store = shards.logic.begin(shards.states[key].get).join.stores[side]
    return set(store.numbers[store.live].tolist())


def test_observing_compares_everything() -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(7)
    left, right = rows(chance, make, kind, 4, 40), rows(chance, make, kind, 4, 40)
    shards = Shards(logic(on), GRID, enforce=False, part_of=parts(on, GRID))
    found = [pairs_of(shards.feed(*batch, budget=0.0)) for batch in zip(left, right, strict=True)]
    exact = expected(on, left, right, min(latest(left), latest(right)) - DELAY_US)
    assert {pair for some in found for pair in some} == exact


def one(ident: int, seconds: float, value: list[int] | None = None) -> pa.Table:
    table = pa.table(
        {
            "id": pa.array([ident], pa.int64()),
            "ts": pa.array([int(seconds * US)], pa.timestamp("us", "UTC")),
            "v": pa.array([[1, 2] if value is None else value], pa.list_(pa.int64())),
        }
    )
    return with_order(table)


NOTHING = one(0, 0).slice(0, 0)


def test_an_idle_side_is_waited_for_unless_told_otherwise_and_late_rows_are_counted_once() -> None:
    on = overlap("v", at_least=2)
    for idle_us, waited in ((None, 2), (3 * US, 0)):
        shards = Shards(logic(on, idle_us=idle_us), GRID, part_of=parts(on, GRID))
        assert shards.feed(one(0, 100), one(0, 100)) is None
        assert shards.counts["waiting"] == 2, "until the watermark, 2 seconds later, has come to them"
        assert pairs_of(shards.feed(one(1, 101), NOTHING)) == []
        found = pairs_of(shards.feed(one(2, 106), NOTHING))
        assert found == ([] if waited else [(0, 0, 2.0), (1, 0, 2.0)][: len(found)])
        assert bool(found) == (not waited)
        shards.feed(one(3, 107), NOTHING)
        late = pairs_of(shards.feed(NOTHING, one(1, 99.5)))
        assert late == []
        assert shards.counts["late"] == (0 if waited else 1)


def test_rows_that_wait_for_long_are_told_of_at_each_doubling() -> None:
    on = overlap("v", at_least=2)
    shards = Shards(logic(on), ALONE, part_of=parts(on, ALONE))
    state = FakeState()

    def said(side: int, table: pa.Table) -> str | None:
        frames = [packed.to_pandas() for packed in shards._pack(side, table)]
        task = ShardTask(shards.logic, ALONE, Told("patience", None, 0), True)
        (first,) = list(task((np.int32(3),), iter(frames), state))  # type: ignore[arg-type]
        return first["note"][0]

    told_at = (61, 121, 300)  # ten windows of 1.5 s and delays of 2 s are less than a minute
    for after in (0, 30, 61, 100, 121, 200, 300):
        note = said(0, one(after, 100 + after))
        assert (note is not None) == (after in told_at)
        assert note is None or f"right side is behind, and the rows of {after} s wait" in note
    assert said(1, one(0, 400)) is None, "only the last ones wait"
    assert said(1, one(1, 455)) is None
    assert "left side is behind" in str(said(1, one(2, 462)))


def test_who_says_how_long_to_wait_is_not_told() -> None:
    shards = Shards(logic(overlap("v", at_least=2), idle_us=3600 * US), ALONE)
    live = shards.logic.begin(None)
    for second in (100, 1_000, 3_000):
        _, counts = shards.logic.step(live, (one(second, second), None), (second * US, 0))
        assert counts.note == ""


def test_sparks_own_watermark_counts_where_it_is_ahead() -> None:
    on = overlap("v", at_least=2)
    shards = Shards(logic(on), GRID, part_of=parts(on, GRID))
    assert shards.feed(one(0, 100), one(0, 100)) is None
    wakes = [state.wake_ms for state in shards.states.values() if state.wake_ms is not None]
    assert set(wakes) == {99_999}, "asked to be called when the watermark is at 100 s"
    found = shards.feed(NOTHING, NOTHING, watermark_ms=100_000)
    assert pairs_of(found) == [(0, 0, 2.0)]
    assert all(state.wake_ms is None for state in shards.states.values())


def test_state_is_bounded_by_the_windows() -> None:
    on, make, kind = CASES["overlap"]
    chance = random.Random(3)
    left, right = rows(chance, make, kind, 40, 60), rows(chance, make, kind, 40, 60)
    shards = Shards(logic(on), ALONE, part_of=parts(on, ALONE))
    sizes = []
    for batch in zip(left, right, strict=True):
        shards.feed(*batch)
        sizes.append(shards.counts["state_bytes"])
    assert max(sizes[20:]) < 1.25 * max(sizes[5:20])


def test_what_cannot_match_is_set_aside_and_counted() -> None:
    on = overlap("v", at_least=2)
    shards = Shards(logic(on), GRID, part_of=parts(on, GRID))
    shards.feed(one(0, 100, []), one(0, 100))
    assert (shards.counts["arrived"], shards.counts["unmatched"]) == (2, 1)


def test_columns_that_have_changed_are_told() -> None:
    on = overlap("v", at_least=2)
    shards = Shards(logic(on), GRID, forgetful=True, part_of=parts(on, GRID))
    shards.feed(one(0, 100), one(0, 100))
    with pytest.raises(SpillwayError, match="columns have changed"):
        shards.feed(one(2, 101).append_column("new", pa.array([1])), NOTHING)
