"""What a pattern's shard keeps: rows that may still come out, and no others; late rows are counted and left out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.language import parse
from spillway.core.cep.language.syntax import Query
from spillway.spark.match.shard import Live
from spillway.spark.shards.packets import from_bytes, to_bytes
from tests.core.cep.oracle import matches
from tests.core.cep.strategies import Row, queries, streams
from tests.core.spark.match.test_shard import AFTER, DELAY_US, HEAVY, fed, found, logic, numbered, rides
from tests.core.spark.shards.match_shards import MatchShards


def lives(shards: MatchShards) -> list[Live]:
    """Return the shards as they are made from their states."""
    return [
        shards.logic.of_shard(key).begin(state.get) for key, state in shards.states.items() if state.exists
    ]


def kept(shards: MatchShards) -> list[int]:
    """Return the rows that the states hold, but for those that wait."""
    return sorted(n for live in lives(shards) if live.rows for n in live.rows["row"].to_pylist())


def test_rows_that_no_run_is_of_are_not_in_the_state() -> None:
    hot = parse("PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v > 100 WITHIN 1000 us")
    shards = MatchShards(logic(hot, most_runs=10), shards=1)
    for at in range(0, 2_000, 200):
        shards.feed(rides(2_000).slice(at, 200))
    assert shards.counts["runs"] == 0
    assert kept(shards) == []
    size = shards.counts["state_bytes"]
    some = parse("PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v > 1 WITHIN 1000 us")
    shards = MatchShards(logic(some, most_runs=10), shards=1)
    for at in range(0, 2_000, 200):
        shards.feed(rides(2_000).slice(at, 200))
    assert 0 < len(kept(shards)) <= 20, "two rows at most for each of ten runs"
    assert size < 20_000


@given(queries(), streams(), st.integers(0, 2), st.data())
def test_what_is_kept_is_enough_and_goes_on_from_any_state(
    query: Query, rows: list[Row], timeouts: int, data: st.DataObject
) -> None:
    """The rows of all matches are told, those of timeouts too, and in the end nothing is left."""
    whole = numbered(rows, backwards=False)
    options: dict[str, Any] = {"order": "row", "complete": "complete" if timeouts == 0 else None}
    shards = MatchShards(logic(query, **options), forgetful=True)
    parts, at = [], 0
    while at < len(rows):
        size = data.draw(st.integers(1, len(rows) - at))
        parts += shards.feed(whole.slice(at, size))
        at += size
        for live in lives(shards):
            used = live.patterns.rows_in_use().tolist()
            told = [] if live.rows is None else live.rows[live.rows.column_names[-1]].to_pylist()
            assert told == used, "no more than is needed, and no less"
    parts += shards.feed(None, watermark_ms=AFTER)
    told = [row for part in parts for row in part.to_pylist()]
    complete = [row for row in told if row.get("complete", True)]
    assert {tuple(match) for match in found([pa.Table.from_pylist(complete)])} == matches(query, rows)
    assert kept(shards) == []


def test_a_state_that_has_all_rows_of_the_window_is_read_as_well() -> None:
    """As version 1 was written: numbers without gaps, told by the first of them."""
    whole = rides(1_200)
    exact, old = (MatchShards(logic(HEAVY), shards=1, forgetful=True) for _ in range(2))
    result = fed(exact, whole, None)
    parts = old.feed(whole.slice(0, 300))
    (state,) = old.states.values()
    (live,) = lives(old)
    assert state.value is not None
    assert live.rows is not None
    first = live.next_row - 250
    columns = live.rows.column_names[:-1]
    window = whole.slice(first, 250).select(columns).cast(live.rows.select(columns).schema)
    state.value = (1, *state.value[1:5], to_bytes(window, "zstd"), first, *state.value[7:])
    for at in range(300, 1_200, 300):
        parts += old.feed(whole.slice(at, 300))
    assert found(parts + old.feed(None, watermark_ms=AFTER)) == result
    assert state.value[0] == 2
    assert from_bytes(state.value[5]).num_rows == 0


def test_more_forbidding_rows_than_runs_are_told_once() -> None:
    forbidden = parse("PATTERN SEQ(A a, NEG B b, C c) WHERE [id] AND a.v > 100 WITHIN 1000 us")
    shards = MatchShards(logic(forbidden, most_runs=50), shards=1)
    for at in range(0, 1_000, 100):
        shards.feed(rides(1_000).slice(at, 100))
    (note,) = shards.notes
    assert "rows of negated elements, more than most_runs = 50" in note
    assert "A shorter WITHIN" in note
    assert kept(shards) == [], "their columns are told of in no match"


def test_late_rows_are_counted_and_left_out() -> None:
    """A row is late if it is earlier than the time up to which rows were matched: by more than the delay."""
    whole, until = rides(300), 199 - DELAY_US
    missing = [*range(20, 180, 8), until - 1, until]
    shards, without = (MatchShards(logic(HEAVY), shards=2, forgetful=True) for _ in range(2))
    parts = shards.feed(whole.take([n for n in range(200) if n not in missing]))
    parts += shards.feed(whole.take(missing))
    assert shards.counts["late"] == len(missing) - 1, "but for the one that is out of order by just the delay"
    assert shards.counts["arrived"] == len(missing)
    parts += shards.feed(whole.slice(200))
    assert shards.counts["late"] == 0
    rest = without.feed(whole.take([n for n in range(300) if n not in missing[:-1]]))
    result = found(parts + shards.feed(None, watermark_ms=AFTER))
    assert sorted(result) == sorted(found(rest + without.feed(None, watermark_ms=AFTER)))
    assert len(result) > 50
