"""Stored states of patterns and of the shards of one: how they were made, and what comes out of further rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from spillway.core.cep import PatternConfig, Patterns
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.spark.match.shard import MatchLogic
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import CLASSES
from spillway.spark.shards.packets import ORDER, PART
from tests.core.spark.shards.match_shards import MatchShards
from tests.core.stored_rows import US, drawn, with_states

HELD = (
    "PATTERN SEQ(A a, B+ b[], C c, NEG D d) "
    "WHERE [id] AND a.v < c.v AND a.name = c.name AND d.v > 5 WITHIN 40 s"
)
SPLIT = Tree.of([(1, 4.5), 0, 1])  # by the second feature of a state
STREAM = 200


def steps(first: int, rows: int) -> pa.Table:
    """Return rows of four types, a second apart and out of order by up to four."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "ts": pa.array([(n + n * 7 % 5) * US for n in numbers], pa.timestamp("us")),
            "type": ["ABBCCD"[drawn(n) % 6] for n in numbers],
            "id": pa.array([drawn(n) // 6 % 2 for n in numbers], pa.int64()),
            "v": pa.array([drawn(n) // 12 % 10 for n in numbers], pa.int64()),
            "name": [f"name {drawn(n) // 120 % 2}" for n in numbers],
        }
    )


def patterns_of(state: bytes | None = None) -> Patterns:
    """Return an operator that has all parts that a state may have."""
    config = PatternConfig(
        HELD,
        steps(0, 1).schema,
        time="ts",
        type="type",
        tracked=True,
        classes=2,
        timeouts=True,
        compile=False,
        most_runs=300,
        late="drop",
    )
    return config.build(state)


def stepped(patterns: Patterns, first: int, rows: int) -> list[Any]:
    """Match rows up to a watermark; four seconds of them wait."""
    found = patterns.process(steps(first, rows), until_us=(first + rows - 4) * US)
    return [list(match.values()) for match in found.to_pylist()]


def make_patterns() -> bytes:
    """Return a state with runs of both classes, chains, held matches, timeouts, rows that wait and forbid."""
    patterns = patterns_of()
    patterns.classify([SPLIT, SPLIT, SPLIT, None][: len(patterns.plan.elements)])
    patterns.refuse(0.1, salt=5)
    stepped(patterns, 0, STREAM)
    patterns.shed(0.2, salt=3)
    return patterns.snapshot()


def go_on_matching(state: bytes) -> Any:
    """Return what there was, and all that comes out of further rows."""
    patterns = patterns_of(state)
    told: dict[str, Any] = {
        "size": {name: n for name, n in asdict(patterns.size).items() if name != "bytes"},
        "alive": patterns.alive().tolist(),
        "rows_in_use": patterns.rows_in_use().tolist(),
        "matches": [stepped(patterns, STREAM + 30 * n, 30) for n in range(2)],
        "shed": patterns.shed(0.3, salt=9).tolist(),
        "after": stepped(patterns, STREAM + 60, 30),
        "timed_out": [list(run.values()) for run in patterns.timed_out().to_pylist()],
        "counted": [part.tolist() for part in patterns.counted()],
        "refused": patterns.refused.tolist(),
    }
    told["flushed"] = [list(match.values()) for match in patterns.flush().to_pylist()]
    return told


LONG = "PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v + b.v < c.v WITHIN 200 us"
PER_BATCH, LEARNED_AFTER = 300, 4
MATCH_BUDGET = 2_500.0


def events(first: int, rows: int) -> pa.Table:
    """Return rows of three types, a microsecond apart, with the shard that each belongs to."""
    numbers = range(first, first + rows)
    draws = list(map(drawn, numbers))
    table = pa.table(
        {
            "ts": pa.array(numbers, pa.timestamp("us")),
            "type": ["ABC"[x % 3] for x in draws],
            "id": pa.array([x // 3 % 4 for x in draws], pa.int64()),
            "v": pa.array([x // 12 % 3 for x in draws], pa.int64()),
            "row": pa.array(numbers, pa.int64()),
        }
    )
    shard = pa.array([x // 3 % 2 for x in draws], pa.int32())
    return table.append_column(ORDER, pa.array(numbers, pa.int64())).append_column(PART, shard)


def match_shards(states: Sequence[Any] = ()) -> MatchShards:
    """Return two shards of a pattern, at their beginning or as they were."""
    spec = SheddingSpec("hybrid")
    config = PatternConfig(
        LONG,
        events(0, 1).drop([ORDER, PART]).schema,
        time="ts",
        type="type",
        compile=False,
        tracked=True,
        classes=CLASSES,
        slices=spec.slices,
        most_runs=10_000,
        late="drop",
    )
    logic = MatchLogic(config, ("row",), ("first_time", "last_time"), 4, spec, salt=11)
    shards = MatchShards(logic, shards=2, forgetful=True)
    shards.states = with_states(shards.grid.keys, states)
    return shards


def fed_matches(shards: MatchShards, batches: range) -> list[Any]:
    """Feed batches within a budget; return the matches and what was shed."""
    told = []
    for batch in batches:
        parts = shards.feed(events(PER_BATCH * batch, PER_BATCH), MATCH_BUDGET)
        rows = [[match[name]["row"] for name in "abc"] for part in parts for match in part.to_pylist()]
        counts = {name: shards.counts[name] for name in ("spent", "dropped", "shed_runs", "waiting")}
        told.append({"matches": sorted(rows), **counts})
    return told


def ignorant(shards: MatchShards) -> list[bool]:
    """Return of each shard whether it has nothing yet to shed by."""
    begun = (shards.logic.of_shard(key).begin(state.get) for key, state in shards.states.items())
    return [live.shedder.ignorant for live in begun]


def make_match_shards(batches: int) -> list[Any]:
    """Return the states of both shards after some batches."""
    shards = match_shards()
    fed_matches(shards, range(batches))
    assert ignorant(shards) == [batches < LEARNED_AFTER] * 2
    return [shards.states[key].value for key in shards.grid.keys]


def go_on_in_match_shards(states: list[Any]) -> Any:
    """Return what further batches give; the shards know what was learned."""
    shards = match_shards(states)
    assert ignorant(shards) == [False, False]
    return fed_matches(shards, range(LEARNED_AFTER, LEARNED_AFTER + 2))


def go_on_learning(states: list[Any]) -> Any:
    """Return what the next batch gives, and whether with those of before there is enough to learn from."""
    shards = match_shards(states)
    before = ignorant(shards)
    told = fed_matches(shards, range(1, LEARNED_AFTER - 1))
    return {"before": before, "first": told[0], "after": ignorant(shards)}
