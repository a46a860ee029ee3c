"""The operator: what it takes, what it refuses, what it reports."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep import PatternConfig, run
from spillway.errors import SpillwayError
from tests.core.cep.engine.streams import patterns, typed

PAIR = "PATTERN SEQ(A a, B b) WITHIN 10 s"


def test_rows_are_taken_in_the_order_of_time() -> None:
    table = typed("ABAB").take(pa.array([3, 1, 0, 2]))
    assert run(PAIR, table, time="ts", type="type").to_pylist() == [
        {"a": 2, "b": 1},
        {"a": 2, "b": 0},
        {"a": 3, "b": 0},
    ]


def test_rows_without_time_or_type_have_a_number_but_no_match() -> None:
    table = pa.table({"ts": [0, None, 1, 2], "type": ["A", "B", None, "B"]})
    assert run(PAIR, table, time="ts", type="type").to_pylist() == [{"a": 0, "b": 3}]


def test_late_rows() -> None:
    table = typed("AB")
    finder = patterns(PAIR, table)
    finder.process(table.slice(1))
    with pytest.raises(SpillwayError, match="1 rows are earlier"):
        finder.process(table.slice(0, 1))
    finder = patterns(PAIR, table, late="drop")
    finder.process(table.slice(1))
    assert finder.process(table.slice(0, 1)).num_rows == 0
    assert finder.work.late_rows == 1


def test_a_table_that_is_refused_leaves_all_as_it_was() -> None:
    table = typed("ABAB")
    finder = patterns(PAIR, table)
    finder.process(table.slice(1), until_us=1_500_000)
    size, work, state = finder.size, finder.work, finder.snapshot()
    assert (size.waiting_rows, work.rows) == (2, 1)
    for refused in (table.slice(0, 1), table.drop(["type"]), table.set_column(1, "type", [[[1]]] * 4)):
        with pytest.raises(SpillwayError):
            finder.process(refused)
        with pytest.raises(SpillwayError):
            finder.process(table.slice(3), budget=float("nan"))
        assert (finder.size, finder.work, finder.snapshot()) == (size, work, state)
    assert finder.flush().to_pylist() == [{"a": 1, "b": 2}], "the rows that waited, and their numbers"
    assert finder.oldest_row() == 3


def test_dropped_rows_have_a_number_and_no_work() -> None:
    table = typed("AABB")
    finder = patterns(PAIR, table)
    found = finder.process(table, keep=np.array([False, True, True, False]))
    assert found.to_pylist() == [{"a": 1, "b": 2}]
    assert finder.work.per_row.tolist()[0] == finder.work.per_row.tolist()[3] == 0
    assert finder.work.dropped_rows == 2
    assert finder.work.matches_per_row.tolist() == [0, 0, 1, 0]


def test_a_dropped_row_is_still_between_its_neighbours() -> None:
    table = typed("ADB")
    finder = patterns(PAIR + " UNDER strict_contiguity", table)
    assert finder.process(table, keep=np.array([True, False, True])).num_rows == 0


def test_rows_beyond_the_budget_are_dropped() -> None:
    table = typed("AAABBB")
    whole = patterns(PAIR, table)
    whole.process(table)
    finder = patterns(PAIR, table)
    found = finder.process(table, budget=whole.work.spent - 1)
    assert finder.work.dropped_rows == 0, "the row that uses it up is the last"
    found = patterns(PAIR, table).process(table, budget=int(whole.work.per_row[:4].sum()))
    assert found.to_pylist() == [{"a": 0, "b": 3}, {"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert patterns(PAIR, table).process(table, budget=0).num_rows == 0


@pytest.mark.parametrize("budget", [None, np.inf, np.float64("inf"), 1e30, 10**30, np.int64(10**6), 1e6])
def test_a_budget_may_be_no_limit(budget: float | None) -> None:
    table = typed("AAABBB")
    finder = patterns(PAIR, table)
    assert finder.process(table, budget=budget).num_rows == 9
    assert finder.work.dropped_rows == 0


@pytest.mark.parametrize("budget", [np.nan, -np.inf, "x", True])
def test_a_budget_is_a_number(budget: float) -> None:
    table = typed("AB")
    with pytest.raises(SpillwayError, match=r"^budget = .* Hint: None or infinity is no limit$"):
        patterns(PAIR, table).process(table, budget=budget)
    assert patterns(PAIR, table).process(table, budget=-1).num_rows == 0, "what is spent already"


def test_a_budget_ends_between_rows_wherever_the_program_had_to_stop() -> None:
    """One that has run for a while has larger buffers than one that was restored: both finish the row."""
    count = 3_000
    table = typed("A" * count + "B" * 6)
    query = "PATTERN SEQ(A a, B b) WHERE a.ts <= b.ts WITHIN 9999 s"
    warm = patterns(query, table)
    warm.process(table.slice(0, count + 1))
    fresh = PatternConfig(query, table.schema, time="ts", type="type", compile=False).build(warm.snapshot())
    for finder in (warm, fresh):
        assert finder.process(table.slice(count + 1, 3), budget=1_500).num_rows == count
        assert (finder.work.dropped_rows, finder.work.spent) == (2, 2 * count + 1)


def test_rows_wait_for_the_watermark() -> None:
    table = typed("ABAB")
    finder = patterns(PAIR, table)
    assert finder.process(table.take(pa.array([3, 1])), until_us=-1).num_rows == 0
    assert finder.size.waiting_rows == 2
    assert finder.process(table.take(pa.array([0])), until_us=1_500_000).to_pylist() == [{"a": 2, "b": 1}]
    assert finder.oldest_row() == 0, "the row that waits"
    assert finder.flush().to_pylist() == [{"a": 2, "b": 0}]
    assert finder.oldest_row() == 3


def test_payloads_may_be_let_go() -> None:
    table = typed("ABAB" * 5)
    finder = patterns(PAIR.replace("10", "3"), table)
    assert finder.oldest_row() == 0
    finder.process(table)
    assert finder.oldest_row() == 17


def test_a_match_that_ends_with_a_negated_element_waits() -> None:
    query = "PATTERN SEQ(A a, B b, NEG C c) WITHIN 5 s"
    table = typed("AB.........")
    finder = patterns(query, table)
    assert finder.process(table.slice(0, 5)).num_rows == 0
    assert finder.process(table.slice(5, 1)).to_pylist() == [{"a": 0, "b": 1}]
    finder = patterns(query, table)
    finder.process(table.slice(0, 2))
    assert finder.process(None, until_us=4_000_000).num_rows == 0
    assert finder.process(None, until_us=4_999_999).num_rows == 1, "no row before 5 s will come any more"
    assert run(query, typed("ABC"), time="ts", type="type").num_rows == 0
    finder = patterns(query, table)
    found = finder.process(table, budget=5, until_us=20_000_000)
    assert found.num_rows == 1
    assert finder.work.per_row.tolist() == [2, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0], (
        "the match that comes out is work"
    )
    assert finder.work.spent == 6, "a watermark is none"


def test_texts_are_compared_and_forgotten() -> None:
    count = 5_000
    names = [f"name {n // 2}" for n in range(count)]
    table = pa.table({"ts": np.arange(count), "type": list("AB") * (count // 2), "name": names})
    finder = patterns("PATTERN SEQ(A a, B b) WHERE a.name = b.name AND a.name != 'name 3' WITHIN 10 s", table)
    found = sum(finder.process(table.slice(low, 500)).num_rows for low in range(0, count, 500))
    assert found == count // 2 - 1
    assert len(finder._words) < 2_500


def test_what_is_null_is_no_key() -> None:
    table = typed("AB", k=pa.array([None, None], pa.int64()))
    assert (
        run("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 5 s", table, time="ts", type="type").num_rows == 0
    )


def test_types_may_be_numbers() -> None:
    table = pa.table({"ts": [0, 1], "type": [3, 4]})
    assert run("PATTERN SEQ('3' a, '4' b) WITHIN 5 s", table, time="ts", type="type").num_rows == 1


def test_a_state_belongs_to_its_query() -> None:
    table = typed("AB")
    state = patterns(PAIR, table).snapshot()
    with pytest.raises(SpillwayError, match="restore with the same query"):
        PatternConfig(PAIR.replace("10", "11"), table.schema, time="ts", type="type").build(state)
    with pytest.raises(SpillwayError, match="not the state of a pattern"):
        PatternConfig(PAIR, table.schema, time="ts", type="type").build(b"x" * 100)
    torn = bytearray(state)
    torn[-10] ^= 1
    with pytest.raises(SpillwayError, match="torn"):
        PatternConfig(PAIR, table.schema, time="ts", type="type").build(bytes(torn))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "tss"}, "did you mean 'ts'"),
        ({"type": "typ"}, "did you mean 'type'"),
        ({"index": "some"}, "expected one of 'all', 'attributes', 'none'"),
        ({"late": "keep"}, "late = 'keep'"),
        ({"classes": 0}, "classes = 0"),
        ({"slices": 0}, "slices = 0"),
        ({"query": 3}, "query = 3"),
        ({"query": "PATTERN SEQ(A a) WHERE a.x = 1 WITHIN 1 s"}, "no attribute 'x'"),
        ({"schema": None}, "a pyarrow Schema"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], message: str) -> None:
    given = {"query": PAIR, "schema": typed("A").schema, "time": "ts", "type": "type"} | options
    with pytest.raises(SpillwayError, match=message):
        PatternConfig(**given)  # type: ignore[arg-type]


def test_wrong_tables_are_told() -> None:
    finder = patterns(PAIR, typed("AB"))
    with pytest.raises(SpillwayError, match="a pyarrow Table"):
        finder.process([1, 2])  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match="did you mean 'typ'"):
        finder.process(pa.table({"ts": [1], "typ": ["A"]}))
    with pytest.raises(SpillwayError, match="a truth value for each"):
        finder.process(typed("AB"), keep=np.ones(3, np.bool_))
    with pytest.raises(SpillwayError, match="tracked=True"):
        finder.alive()
    with pytest.raises(SpillwayError, match="timeouts=True"):
        finder.timed_out()
