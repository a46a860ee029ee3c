"""The compiled engine: exact counts, the same as interpreted, memory that is freed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep import PatternConfig, run
from spillway.core.cep.language.listings import Q4
from tests.core.cep.engine.streams import Q1, ds1, patterns, typed

KLEENE = """PATTERN SEQ(A a, B+ b[], NEG D d, (C|D) c) WHERE [ID] AND b[i].V >= a.V AND sum(b[i].V) < 20
            AND c.V + avg(b[i].V) != a.V AND b[i].V > c.V AND d.V = a.V WITHIN 150 us"""


@pytest.mark.parametrize(("window_ms", "count"), [(1, 381_752), (2, 1_520_000)])
def test_the_known_numbers_of_matches(window_ms: int, count: int) -> None:
    table = ds1(100_000)
    finder = patterns(Q1.format(window_ms), table, compile=True)
    found = finder.process(table)
    assert found.num_rows == count == finder.work.matches == finder.work.matches_per_row.sum()
    columns = [found[name].to_numpy() for name in "abc"]
    assert (columns[0] < columns[1]).all()
    assert (columns[1] < columns[2]).all()
    assert (columns[2] - columns[0] < 1000 * window_ms).all()
    assert (np.diff(columns[2]) >= 0).all(), "in the order of the stream"
    assert finder.work.per_row.sum() == finder.work.spent


@pytest.mark.parametrize("query", [Q1.format(1), Q4, KLEENE], ids=["q1", "q4", "kleene"])
def test_compiled_is_interpreted(query: str) -> None:
    """Cut into tables with snapshots between them; matches, work and runs are the same."""
    table = ds1(600, seed=7)
    config = PatternConfig(query, table.schema, time="ts", type="type")
    compiled, found, spent = config.build(), [], 0
    for low, high in ((0, 100), (100, 350), (350, 600)):
        found.append(compiled.process(table.slice(low, high - low)))
        spent += compiled.work.spent
        compiled = config.build(compiled.snapshot())
    found.append(compiled.flush())
    slow = patterns(query, table)
    expected = pa.concat_tables([slow.process(table), slow.flush()])
    assert expected.num_rows > 0
    assert pa.concat_tables(found).equals(expected)
    again = patterns(query, table)
    again.process(table)
    assert spent == again.work.spent


def test_one_signature_for_all_tables() -> None:
    """A program is compiled once, whatever the arrays of a table are like."""
    table = ds1(400)
    finder = patterns(Q1.format(1), table, compile=True)
    order = pa.array(np.random.default_rng(1).permutation(100))
    finder.process(table.slice(0, 100).take(order))
    finder.process(table.slice(100, 100), keep=np.ones(100, np.bool_))
    finder.process(pa.concat_tables([table.slice(200, 1), table.slice(201, 99)]), until_us=250)
    finder.process(None)
    finder.process(table.slice(0, 0))
    assert len(finder._program.signatures) == 1  # type: ignore[attr-defined]


def test_expired_runs_are_freed() -> None:
    table = ds1(20_000)
    finder = patterns(Q1.format(1), table, compile=True)
    sizes = []
    for low in range(0, 20_000, 2_000):
        finder.process(table.slice(low, 2_000))
        sizes.append(finder.size)
    assert max(size.bytes for size in sizes[5:]) <= 2 * max(size.bytes for size in sizes[:5])
    alive = sizes[-1].runs
    assert 0 < alive < 20_000
    finder.process(None, until_us=10**9)
    assert finder.size.runs == 0
    assert finder.size.bytes < 20_000


def test_keys_that_never_come_back_are_forgotten() -> None:
    count = 20_000
    table = pa.table({"ts": np.arange(count) / 1e3, "type": ["A"] * count, "k": np.arange(count)})
    finder = patterns("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 100 ms", table)
    sizes = []
    for low in range(0, count, 1_000):
        finder.process(table.slice(low, 1_000))
        sizes.append(finder.size.bytes)
    assert max(sizes[10:]) <= max(sizes[:10])
    assert finder.size.runs <= 1_100


def test_chains_that_nobody_holds_are_freed() -> None:
    table = pa.table({"ts": np.arange(900) / 1e3, "type": list("ABC") * 300})
    finder = patterns("PATTERN SEQ(A a, B{1,3} b[], C c) WITHIN 12 ms", table)
    counts = [finder.process(table.slice(low, 90)).num_rows for low in range(0, 900, 90)]
    assert len(set(counts[1:])) == 1, "every part is like the others"
    assert finder.size.nodes < 200


def test_lists_longer_than_the_buffers() -> None:
    """One match with a list of thousands of rows: the output has to make room for it at once."""
    table = pa.table({"ts": np.arange(5_001), "type": ["A"] + ["B"] * 4_999 + ["C"]})
    query = "PATTERN SEQ(A a, B{4999,} b[], C c) WITHIN 6000 s UNDER skip_till_next_match"
    assert patterns(query, table).process(table).to_pylist() == [
        {"a": 0, "b": list(range(1, 5_000)), "c": 5_000}
    ]


def test_any_number_of_repeated_elements() -> None:
    names = [f"T{n}" for n in range(20)]
    table = pa.table({"ts": range(21), "type": [*names, names[-1]]})
    query = f"PATTERN SEQ({', '.join(f'{name}+ v{name}[]' for name in names)}) WITHIN 99 s"
    found = run(query, table, time="ts", type="type").to_pylist()
    ends = [[19], [19, 20], [20]]
    assert [list(match.values()) for match in found] == [[*([n] for n in range(19)), end] for end in ends]


def test_a_window_with_equal_times_and_its_edge() -> None:
    table = typed("ABB")
    same = table.set_column(0, "ts", pa.array([5, 5, 7]))
    pair = "PATTERN SEQ(A a, B b) WITHIN 2 s"
    assert run(pair, same, time="ts", type="type").to_pylist() == [{"a": 0, "b": 1}]
    assert run(pair + " INCLUSIVE", same, time="ts", type="type").num_rows == 2
    swapped = same.take(pa.array([1, 0, 2]))
    assert run(pair, swapped, time="ts", type="type").num_rows == 0, "equal times: in the table's order"
