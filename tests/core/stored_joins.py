"""Stored states of joins and of the shards of one: how they were made, and what comes out of further rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from spillway.core.join import (
    Join,
    JoinConfig,
    Predicate,
    Shedding,
    Utility,
    equality,
    inner_product,
    overlap,
)
from spillway.spark.join.shard import Output, ShardLogic
from spillway.spark.shards.grid import Grid
from tests.core.spark.shards.join_shards import Shards, with_order
from tests.core.stored_rows import US, with_states

WORDS = tuple(f"word {n}" for n in range(23))
PER_CALL, CALLS, FURTHER = 60, 5, 2


def sides(call: int, value: Callable[[int], Any], kind: pa.DataType) -> list[pa.Table]:
    """Return the rows of both sides in a call: 20 ms apart, and some out of order by less than 0.2 s."""
    tables = []
    for side in (0, 1):
        numbers = [2 * n + side for n in range(call * PER_CALL, (call + 1) * PER_CALL)]
        times = [n * 10_000 - n * 31 % 180 * 1_000 + US for n in numbers]
        columns = {
            "ts": pa.array(times, pa.timestamp("us")),
            "v": pa.array([value(n) for n in numbers], kind),
            "kind": ["ab"[n % 7 % 2] for n in numbers],
        }
        tables.append(pa.table(columns))
    return tables


def a_set(number: int) -> list[str] | None:
    """Return some words of a row, few of them again and again."""
    return None if number % 17 == 0 else [WORDS[(number * number + number * k * k) % 23] for k in range(4)]


def weights(number: int) -> list[tuple[str, float]]:
    """Return words with weights."""
    return [(word, 0.5 + k) for k, word in enumerate(dict.fromkeys(a_set(number) or ()))]


def a_key(number: int) -> int | None:
    """Return a single number of a row."""
    return None if number % 19 == 0 else number * number % 13


WORTH = Shedding(utility=Utility("kind", {"a": 3.0, "b": 1.0}), period_s=0.5)
JOINS: dict[str, tuple[Predicate, str, Any, Any, Any, float]] = {
    "scan": (overlap("v", at_least=2), "scan", WORTH, a_set, pa.list_(pa.string()), 2_000.0),
    "index": (
        inner_product("v", at_least=2.5),
        "index",
        Shedding(period_s=0.5),
        weights,
        pa.map_(pa.string(), pa.float64()),
        6_000.0,
    ),
    "sorted_index": (
        overlap("v", at_least=2),
        "sorted_index",
        Shedding(period_s=0.5),
        a_set,
        pa.list_(pa.string()),
        6_000.0,
    ),
    "equality": (equality("v"), "index", "selective", a_key, pa.int64(), 500.0),
}


def join_of(name: str, state: bytes | None = None) -> Join:
    """Return a join at its beginning or as it was."""
    on, access, shedding, _, _, _ = JOINS[name]
    config = JoinConfig(
        on=on,
        within_s=(0.8, 1.2),
        time="ts",
        shedding=shedding,
        access=access,  # type: ignore[arg-type]
        late="drop",
        salt=7,
    )
    return config.build(state)


def joined(name: str, join: Join, calls: range) -> list[Any]:
    """Feed some calls within a budget and return their pairs; rows of the last fifth of a second wait."""
    _, _, _, value, kind, budget = JOINS[name]
    told = []
    for call in calls:
        until_us = (call + 1) * PER_CALL * 20_000 + US - 200_000
        pairs = join.process(*sides(call, value, kind), budget, until_us=until_us)
        told.append([list(column) for column in zip(*map(dict.values, pairs.to_pylist()), strict=True)])
    return told


def make_join(name: str) -> bytes:
    """Return a join's state with rows in its windows, rows that wait, and what was learned."""
    join = join_of(name)
    joined(name, join, range(CALLS))
    return join.snapshot()


def go_on_joining(name: str, state: bytes) -> Any:
    """Return the next pairs, and after them how the join stands."""
    join = join_of(name, state)
    oldest = join.oldest_rows()
    told = joined(name, join, range(CALLS, CALLS + FURTHER))
    return {"oldest": list(oldest), "pairs": told, "oldest_after": list(join.oldest_rows())}


SHARD_GRID = Grid(1, 2, False, (10, 11))


def join_shards(states: Sequence[Any] = ()) -> Shards:
    """Return the two shards of a join on a grid, at their beginning or as they were."""
    config = JoinConfig(on=overlap("v", at_least=2), within_s=(1.0, 0.6), time="ts", late="drop", salt=3)
    output = Output(("l", "lt", "lv"), ("r", "rt", "rv"), "score")
    shards = Shards(
        ShardLogic(config, output, (300_000, 300_000)), SHARD_GRID, forgetful=True, part_of=a_part
    )
    shards.states = with_states(SHARD_GRID.keys, states)
    return shards


def a_part(side: int, table: pa.Table) -> pa.Array:
    """Return which part of its side a row belongs to."""
    return pa.array([n % (1, 2)[side] for n in table["id"].to_pylist()], pa.int32())


def fed_pairs(shards: Shards, calls: range) -> list[Any]:
    """Feed some batches and return their pairs."""
    told = []
    for call in calls:
        tables = []
        for table in sides(call, a_set, pa.list_(pa.string())):
            ids = pa.array(range(call * PER_CALL, (call + 1) * PER_CALL), pa.int64())
            table = table.drop(["kind"]).add_column(0, "id", ids)  # noqa: PLW2901
            tables.append(with_order(table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))))
        pairs = shards.feed(*tables, budget=900.0)
        told.append(sorted(map(list, zip(pairs["l"].to_pylist(), pairs["r"].to_pylist(), strict=True))))
    return told


def make_join_shards() -> list[Any]:
    """Return the states of both shards."""
    shards = join_shards()
    fed_pairs(shards, range(CALLS))
    return [shards.states[key].value for key in SHARD_GRID.keys]


def go_on_in_join_shards(states: list[Any]) -> Any:
    """Return the pairs of further batches."""
    return fed_pairs(join_shards(states), range(CALLS, CALLS + FURTHER))
