"""What the pattern engine promises, over random queries and streams, against the definition."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine import chains, match_table, run_counters, run_store
from spillway.core.cep.language import parse
from spillway.core.cep.language.syntax import Query
from spillway.core.cep.plan.plan import IndexBy
from tests.core.cep.oracle import Match, matches
from tests.core.cep.strategies import SCHEMA, Row, queries, streams, table


def found(parts: list[pa.Table]) -> list[Match]:
    rows = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    return [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows]


@contextmanager
def tight(yes: bool) -> Iterator[None]:
    """Let all buffers begin so small that the program has to ask for room all the time."""
    small = [
        (run_store, "_LEAST", 8),
        (chains, "_LEAST", 1),
        (match_table, "_FIRST", 1),
        (run_counters, "_ROOM", 1),
    ]
    with ExitStack() as stack:
        for module, name, value in small if yes else []:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def config(query: Query, index: IndexBy = "all", **options: Any) -> PatternConfig:
    return PatternConfig(query, SCHEMA, time="ts", type="type", index=index, compile=False, **options)


@given(queries(), streams(), st.sampled_from(["all", "all", "attributes", "none"]), st.integers(0, 10**6))
def test_all_matches_come_out_once(query: Query, rows: list[Row], index: IndexBy, seed: int) -> None:
    """However the stream is cut into tables, and with a snapshot between any two of them."""
    luck = random.Random(seed)
    how = config(query, index)
    patterns, parts, at = how.build(), [], 0
    while at < len(rows):
        size = luck.randint(0, len(rows) - at)
        parts.append(patterns.process(table(rows[at : at + size])))
        at += size
        if luck.random() < 0.5:
            patterns = how.build(patterns.snapshot())
    parts.append(patterns.flush())
    result = found(parts)
    assert len(set(result)) == len(result)
    assert set(result) == matches(query, rows)


COMPILED = {  # short ones: a query takes two or three seconds to compile
    "kleene": "PATTERN SEQ(A a, B+ b[]) WHERE a.id = b[i].id AND sum(b[i].v * a.v) >= 1 WITHIN 10 us",
    "negation": """PATTERN SEQ(A a, NEG B m, (B|C) b, NEG A n) WHERE m.v = a.v AND (n.tag = 'p' OR n.x <= b.x)
                   WITHIN 6 us INCLUSIVE""",
    "next": """PATTERN SEQ(A a, B{1,2} b[], C c) WHERE a.v <= b[i].v WITHIN 10 us
               UNDER skip_till_next_match""",
    "strict": "PATTERN SEQ((A|B)+ a[], B b) WHERE count(a[]) <= b.v WITHIN 50 us UNDER strict_contiguity",
}


@pytest.mark.parametrize("text", COMPILED.values(), ids=COMPILED)
def test_machine_code_finds_all_matches(text: str) -> None:
    """A handful of queries, compiled once each, over many streams with a snapshot in between."""
    query = parse(text)
    how = replace(config(query), compile=True)
    sizes = []

    @settings(max_examples=50, deadline=None)
    @given(streams(max_rows=12), st.integers(0, 12))
    def over_streams(rows: list[Row], cut: int) -> None:
        patterns = how.build()
        parts = [patterns.process(table(rows[:cut]))]
        patterns = how.build(patterns.snapshot())
        parts += [patterns.process(table(rows[cut:])), patterns.flush()]
        result = found(parts)
        assert len(set(result)) == len(result)
        assert set(result) == matches(query, rows)
        sizes.append(len(result))

    over_streams()
    assert sum(size > 0 for size in sizes) > len(sizes) / 10, "it is not all about nothing"


@given(queries(policies=("any",), negation=False), streams(), st.integers(0, 10**6))
def test_shedding_loses_matches_and_invents_none(query: Query, rows: list[Row], seed: int) -> None:
    """Rows dropped, runs refused and runs dropped, with a snapshot between any two tables."""
    luck = random.Random(seed)
    shares = [0.0, 0.0, 0.3, 1.0]
    how = config(query, tracked=True, classes=1, slices=2)
    patterns, parts = how.build(), []
    for row in rows:
        patterns.refuse(luck.choice(shares), salt=luck.randint(0, 5))
        parts.append(patterns.process(table([row]), keep=np.array([luck.random() > 0.2])))
        gone = patterns.shed(luck.choice(shares), salt=3, spare=luck.choice(shares))
        assert (gone >= 0).all()
        if luck.random() < 0.5:
            patterns = how.build(patterns.snapshot())
    result = found(parts)
    assert len(set(result)) == len(result)
    assert set(result) <= matches(query, rows)


@given(queries(), streams(), st.none() | st.integers(1, 6), st.integers(0, 10**6))
def test_runs_that_go_invent_no_match(query: Query, rows: list[Row], most: int | None, seed: int) -> None:
    """Refused, dropped or crowded out, under all policies, with negated elements, and with snapshots in between."""
    luck = random.Random(seed)
    shares = [0.0, 0.0, 0.0, 0.3, 0.6]
    how = config(query, tracked=True, classes=1, slices=2, most_runs=most)
    patterns, parts, at = how.build(), [], 0
    while at < len(rows):
        patterns.refuse(luck.choice(shares), salt=luck.randint(0, 5), spare=luck.choice(shares))
        size = luck.randint(1, 4)
        parts.append(patterns.process(table(rows[at : at + size])))
        at += size
        patterns.shed(luck.choice(shares), salt=luck.randint(0, 5), spare=luck.choice(shares))
        if luck.random() < 0.3:
            patterns = how.build(patterns.snapshot())
    parts.append(patterns.flush())
    result = found(parts)
    assert len(set(result)) == len(result)
    assert set(result) <= matches(query, rows)


@given(queries(), streams(), st.integers(1, 4))
def test_tracked_runs_come_to_the_same_matches(query: Query, rows: list[Row], slices: int) -> None:
    """And the counters agree with the record: each match counts for all runs that it was made from."""
    patterns = config(query, tracked=True, slices=slices).build()
    patterns.record()
    parts = [patterns.process(table(rows)), patterns.flush()]
    assert set(found(parts)) == matches(query, rows)
    record, features = patterns.recorded()
    assert len(features) == len(record["serial"])
    parents = dict(zip(record["serial"].tolist(), record["parent"].tolist(), strict=True))
    states = dict(zip(record["serial"].tolist(), record["state"].tolist(), strict=True))
    expected = np.zeros(patterns.plan.last + 1, np.int64)
    single = not patterns.plan.elements[-1].repeated
    for serial in record["serial"][record["complete"] > 0].tolist():
        at = parents[serial] if single else serial
        while at >= 0:
            expected[states[at]] += 1
            at = parents[at]
    completed = patterns.counted().completed
    if not any(element.repeated and element.at_most == 1 for element in patterns.plan.elements):
        assert completed.sum(axis=(1, 2)).tolist() == expected.tolist()
    assert record["complete"].sum() == len(found(parts)), "also of matches that wait, and may be forbidden"
    if single and patterns.plan.last:
        assert patterns.paired()[0].sum() == len(found(parts))


@given(queries(), streams(), st.integers(0, 10**6), st.integers(0, 12))
def test_rows_may_be_out_of_order_up_to_the_watermark(
    query: Query, rows: list[Row], seed: int, delay: int
) -> None:
    """Rows are shuffled within ``delay``, and the watermark is that far behind."""
    luck = random.Random(seed)
    times = [row["ts"] + luck.randint(0, delay) for row in rows]
    order = sorted(range(len(rows)), key=lambda n: times[n])
    how = config(query)
    patterns, parts = how.build(), []
    for n in order:
        parts.append(patterns.process(table([rows[n]]), until_us=times[n] - delay - 1))
        patterns = how.build(patterns.snapshot()) if luck.random() < 0.3 else patterns
    parts.append(patterns.flush())
    result = found(parts)
    shuffled = [rows[n] for n in order]
    assert len(set(result)) == len(result)
    assert set(result) == matches(query, shuffled)


@given(queries(policies=("any", "next"), negation=False), streams(), st.booleans())
def test_what_times_out_is_no_match_and_cannot_go_on(query: Query, rows: list[Row], asked: bool) -> None:
    how = config(query, timeouts=True)
    patterns = how.build()
    patterns.process(table(rows))
    patterns.flush()
    assert patterns.size.runs == patterns.size.nodes == 0, "all is freed"
    ended = found([patterns.timed_out()])
    patterns, lost = how.build(), []
    for part in [[row] for row in rows]:
        patterns.process(table(part))
        lost += [patterns.timed_out()] if asked else []
        patterns = how.build(patterns.snapshot())
    patterns.flush()
    assert found([*lost, patterns.timed_out()]) == ended, (
        "row by row, with snapshots, whenever it is asked for"
    )
    assert len(set(ended)) == len(ended)
    assert not set(ended) & matches(query, rows)
    for run in ended:
        flat = [n for part in run if part is not None for n in (part if isinstance(part, tuple) else (part,))]
        assert flat == sorted(set(flat))
        assert run[0] is not None


@given(
    queries(),
    streams(max_rows=12),
    st.booleans(),
    st.none() | st.integers(0, 30),
    st.none() | st.integers(1, 9),
    st.integers(0, 12),
)
def test_a_program_that_asks_for_room_does_the_same(
    query: Query, rows: list[Row], tracked: bool, budget: int | None, most: int | None, cut: int
) -> None:
    """Matches and their order, work, counters and record do not depend on how often it had to stop.

    Nor on where the budget or the runs that there may be came to an end, nor on a snapshot before that.
    """
    seen = []
    options = {"tracked": tracked or most is not None, "most_runs": most, "timeouts": most is not None}
    for yes, again in ((False, False), (True, False), (False, True), (True, True)):
        with tight(yes):
            how = config(query, **options)
            patterns, result = how.build(), []
            if tracked and not again:
                patterns.record()
            for part in (rows[:cut], rows[cut:]):
                result.append(found([patterns.process(table(part), budget)]))
                work = patterns.work
                result += [work.per_row.tolist(), work.matches_per_row.tolist()]
                result += [work.dropped_rows, work.crowded_out]
                if again:
                    patterns = how.build(patterns.snapshot())
            result.append(found([patterns.flush()]))
            if options["timeouts"]:
                result.append(found([patterns.timed_out()]))
            if options["tracked"]:
                result.append([c.tolist() for c in patterns.counted()])
            recorded = []
            if tracked and not again:
                record, features = patterns.recorded()
                recorded = [column.tolist() for column in record.values()]
                recorded.append(np.nan_to_num(features, nan=-9.0).tolist())
            seen.append((result, recorded))
    assert all(result == seen[0][0] for result, _ in seen)
    assert seen[0][1] == seen[1][1]
