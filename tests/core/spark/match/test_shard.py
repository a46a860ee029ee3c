"""The shards of a pattern on Spark, without Spark: exact by the definition, whatever the order and the batches."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.language import parse
from spillway.core.cep.language.syntax import Query
from spillway.errors import SpillwayError
from spillway.spark.match.shard import MatchLogic
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import CLASSES
from spillway.spark.shards.packets import ORDER
from tests.core.cep.oracle import Match, matches
from tests.core.cep.strategies import SCHEMA, Row, queries, streams, table
from tests.core.spark.shards.match_shards import MatchShards, Numbered

DELAY_US = 4
HELD = {"waiting": "more_waiting", "runs": "more_runs", "state_bytes": "more_bytes"}
AFTER = 10_000  # a time at which all windows are over


def logic(query: Query, **options: Any) -> MatchLogic:
    schema = SCHEMA.append(pa.field("row", pa.int64()))
    most = options.pop("most_runs", 10_000)
    spec = options.pop("spec", None) or SheddingSpec(options.pop("strategy", "hybrid"))
    config = PatternConfig(
        query,
        schema,
        time="ts",
        type="type",
        compile=options.pop("compile", False),
        tracked=True,
        classes=CLASSES,
        slices=spec.slices,
        most_runs=most,
        timeouts=options.get("complete") is not None,
        late="drop",
    )
    return MatchLogic(config, ("row", "tag"), ("first_time", "last_time"), DELAY_US, spec, **options)


def found(parts: list[pa.Table]) -> list[Match]:
    """Return matches by the rows that they tell."""
    return found_of([row for part in parts for row in part.to_pylist()])


def found_of(told: list[dict[str, Any]]) -> list[Match]:
    """Return matches by the rows that they tell; None for what was not come to."""
    result = []
    for match in told:
        rows = [match[name] for name in match if name not in ("first_time", "last_time", "complete")]
        named = [
            tuple(r["row"] for r in part) if isinstance(part, list) else part and part["row"] for part in rows
        ]
        result.append(tuple(named))
    return result


def numbered(rows: list[Row], backwards: bool) -> pa.Table:
    """Rows with their number, and a hash that puts those of the same time in that order or the other way round."""
    whole = table(rows).append_column("row", pa.array(range(len(rows)), pa.int64()))
    order = [-n for n in range(len(rows))] if backwards else list(range(len(rows)))
    return whole.append_column(ORDER, pa.array(order, pa.int64()))


@given(queries(), streams(), st.booleans(), st.booleans(), st.data())
def test_all_matches_come_once_however_the_stream_is_cut(
    query: Query, rows: list[Row], named_order: bool, forgetful: bool, data: st.DataObject
) -> None:
    """Rows come out of order within the watermark, in batches, on shards; state is remembered or read again."""
    whole = numbered(rows, backwards=named_order)
    shards = MatchShards(
        logic(query, order="row" if named_order else None),
        seed=data.draw(st.integers(0, 9)),
        forgetful=forgetful,
    )
    jitter = [data.draw(st.integers(0, DELAY_US - 1)) for _ in rows]
    arriving = sorted(range(len(rows)), key=lambda n: rows[n]["ts"] + jitter[n])
    parts: list[pa.Table] = []
    held = dict.fromkeys(HELD, 0.0)
    while arriving:
        size = data.draw(st.integers(1, len(arriving)))
        parts += shards.feed(whole.take(arriving[:size]))
        assert shards.counts["late"] == 0
        arriving = arriving[size:]
        for name, more in HELD.items():
            held[name] += shards.counts[more]
            assert held[name] == shards.counts[name], "what is more adds up to what there is"
    parts += shards.feed(None, watermark_ms=AFTER)
    assert held["waiting"] + shards.counts["more_waiting"] == 0
    result = found(parts)
    assert len(set(result)) == len(result)
    assert set(result) == matches(query, rows)
    assert shards.feed(None, watermark_ms=2 * AFTER) == [], "nothing is left"


def rides(rows: int, seed: int = 1) -> pa.Table:
    """Rows of three types, a microsecond apart; only those with v = 0 are ever in a match with others."""
    chance = random.Random(seed)
    made = [
        {
            "ts": n,
            "type": chance.choice("ABC"),
            "id": chance.randrange(4),
            "v": chance.randrange(3),
            "x": 0.0,
            "tag": "p",
            "flag": True,
        }
        for n in range(rows)
    ]
    return numbered(made, backwards=False)


def test_the_session_may_have_another_time_zone_after_a_restart() -> None:
    whole = rides(600)
    exact, moved = (MatchShards(logic(HEAVY), shards=2, forgetful=True) for _ in range(2))
    found_here, found_there = [], []
    for at, zone in enumerate(("UTC", "America/New_York", "Asia/Kolkata")):
        batch = whole.slice(200 * at, 200)
        found_here += found(exact.feed(batch))
        there = batch.set_column(0, "ts", batch["ts"].cast(pa.timestamp("us", zone)))
        found_there += found(moved.feed(there))
    assert sorted(found_there) == sorted(found_here)
    assert len(found_here) > 100


HEAVY = parse("PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v + b.v < c.v WITHIN 200 us")
FREE = 900  # rows, after which there is a budget
STRATEGIES = ("none", "hybrid", "input", "random_state")


def fed(shards: MatchShards, whole: pa.Table, budget: float | None, per_batch: int = 300) -> list[Match]:
    """Match all rows, those of the first batches without a budget, and count what becomes of the others."""
    parts = []
    for at in range(0, whole.num_rows, per_batch):
        parts += shards.feed(whole.slice(at, per_batch), budget if at >= FREE else None)
        for name in ("spent", "dropped", "shed_runs", "demand"):
            shards.totals[name] += shards.counts[name] * (at >= FREE)
    return found(parts + shards.feed(None, watermark_ms=AFTER))


@cache
def unshed() -> tuple[list[Match], float]:
    """Return all matches, and the work that they take."""
    exact = MatchShards(logic(HEAVY), shards=2)
    everything = fed(exact, rides(2_100), None)
    assert exact.totals["demand"] == exact.totals["spent"] > 50_000
    return everything, exact.totals["spent"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_within_a_budget_some_matches_come_and_the_same_from_the_state(strategy: str) -> None:
    whole = rides(2_100)
    everything, demand = unshed()
    budget = demand / 4 / 3
    remembered, forgetful = (
        MatchShards(logic(HEAVY, strategy=strategy), shards=2, forgetful=forgetful, seed=3 * forgetful)
        for forgetful in (False, True)
    )
    some = fed(remembered, whole, budget)
    assert fed(forgetful, whole, budget) == some, "a shard made from its state goes on exactly"
    assert len(set(some)) == len(some) > 0.02 * len(everything)
    assert set(some) < set(everything)
    totals = remembered.totals
    assert totals["shed_runs"] > 0 or strategy in ("none", "input", "random_input")
    assert totals["spent"] <= 4 * budget * 1.1
    assert totals["dropped"] + totals["shed_runs"] > 100
    assert totals["demand"] > totals["spent"]


def test_a_state_that_is_full_sheds_and_counts() -> None:
    """A pattern that doubles its partial matches with every row, which nothing else would bound."""
    many = parse("PATTERN SEQ(A a, B+ b[], C c) WITHIN 100 us")
    whole = rides(1_300)
    shards = MatchShards(logic(many, most_runs=200), shards=1)
    result = fed(shards, whole, None, per_batch=100)
    assert len(set(result)) == len(result) > 500
    assert shards.totals["shed_runs"] > 1_000
    (state,) = shards.states.values()
    live = shards.logic.of_shard(20).begin(state.get)
    assert live.patterns.size.runs <= 200
    full = [note for note in shards.notes if "came to most_runs = 200" in note]
    assert full, "the status says that it was room that was missing, not time"
    assert "a larger most_runs keeps them" in full[0]


def knows(shards: MatchShards) -> list[bool]:
    """Return of each shard whether it has something to shed by."""
    return [
        state.exists and not shards.logic.of_shard(key).begin(state.get).shedder.ignorant
        for key, state in shards.states.items()
    ]


def test_a_full_state_lets_go_of_what_is_worth_least() -> None:
    """Of pairs whose sum is 2 or more none is ever in a match. Who has learned nothing sheds any."""
    light = parse("PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v + b.v < c.v WITHIN 400 us")
    whole, most = rides(3_000), 600
    by_worth = MatchShards(logic(light, most_runs=most), shards=1)
    by_chance = MatchShards(logic(light, most_runs=most, strategy="none"), shards=1)
    counted = [len(fed(each, whole, None)) for each in (by_worth, by_chance)]
    assert knows(by_worth) == [True], "also from a state that is full"
    assert counted[0] > 1.3 * counted[1]
    assert all(
        each.counts["runs"] <= most and each.totals["shed_runs"] > 1_000 for each in (by_worth, by_chance)
    )


def test_a_stream_that_is_too_much_from_the_start_is_learned_from() -> None:
    shards = MatchShards(logic(HEAVY), shards=2)
    for at in range(0, 1_200, 300):
        shards.feed(rides(1_200).slice(at, 300), budget=1_000)
        assert shards.counts["dropped"] > 0
    assert knows(shards) == [True, True]


def test_what_one_shard_has_learned_is_there_for_all_from_the_next_batch(tmp_path: Path) -> None:
    whole = rides(700)
    rare = np.arange(whole.num_rows) % 50 == 0
    whole = whole.set_column(whole.schema.get_field_index("id"), "id", pa.array(np.where(rare, 1, 0)))
    sharing = Numbered(str(tmp_path), 0)
    short = replace(HEAVY, within_us=50)
    shards = MatchShards(logic(short, sharing=sharing), shards=2, forgetful=True)
    before: dict[int, Any] = {}
    batch = -1
    while True not in knows(shards):
        before = {key: state.value for key, state in shards.states.items()}
        batch += 1
        sharing.batches.append(batch)
        shards.feed(whole.slice(batch * 100, 100))
    assert sorted(knows(shards)) == [False, True], "one has seen too little"
    after = {key: state.value for key, state in shards.states.items()}
    for key, value in before.items():
        shards.states[key].value = value
    shards.feed(whole.slice(batch * 100, 100))
    assert {key: state.value for key, state in shards.states.items()} == after, "the same on replay"
    sharing.batches.append(batch + 1)
    shards.feed(whole.slice((batch + 1) * 100, 100))
    assert knows(shards) == [True, True]


@pytest.mark.parametrize(
    "query",
    [
        "PATTERN SEQ(A a, B b, C c) WHERE a.v <= b.v AND b.v < c.v WITHIN 9 us",
        "PATTERN SEQ(A a, B{1,3} b[], C c) WHERE a.v != c.v WITHIN 9 us UNDER skip_till_next_match",
        "PATTERN SEQ(A a, B+ b[], NEG C c) WITHIN 6 us",
    ],
)
def test_partial_matches_that_came_to_nothing_are_told_as_well(query: str) -> None:
    """They are those of the engine by itself, whatever the batches."""
    whole = rides(120)
    shards = MatchShards(logic(parse(query), complete="complete", order="row"), shards=1, forgetful=True)
    parts = []
    for at in range(0, whole.num_rows, 17):
        parts += shards.feed(whole.slice(at, 17))
    told = [row for part in parts + shards.feed(None, watermark_ms=AFTER) for row in part.to_pylist()]
    complete, gone = ([row for row in told if row["complete"] == flag] for flag in (True, False))
    alone = shards.logic.config.build()
    matched = pa.concat_tables([alone.process(whole), alone.flush()])
    for rows, exact in ((complete, matched), (gone, alone.timed_out())):
        assert sorted(map(repr, found_of(rows))) == sorted(map(repr, named(exact)))
        assert len(rows) >= 10
    for row in gone:
        rows = [part[-1] if isinstance(part, list) else part for part in (row["a"], row["b"]) if part]
        assert row["first_time"].microsecond == row["a"]["row"]
        assert row["last_time"].microsecond == rows[-1]["row"]


def named(table: pa.Table) -> list[Match]:
    """Return matches by the numbers of their rows."""
    return [
        tuple(tuple(part) if isinstance(part, list) else part for part in row.values())
        for row in table.to_pylist()
    ]


def test_other_columns_another_query_and_another_version_are_told() -> None:
    shards = MatchShards(logic(HEAVY), shards=1)
    shards.feed(rides(300))
    (state,) = shards.states.values()
    other = logic(parse("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 200 us"))
    with pytest.raises(SpillwayError, match="restore with the same query"):
        other.begin(state.get)
    with pytest.raises(SpillwayError, match="version 0"):
        other.begin((0, *state.get[1:]))
    fewer = replace(shards.logic, columns=("row",))
    changed = MatchShards(fewer, shards=1, states=shards.states, forgetful=True)
    with pytest.raises(SpillwayError, match="the columns have changed"):
        changed.feed(rides(600).slice(300))
