"""Patterns in memory under a bound: some of the matches, the same ones each time, and errors that help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep import Shed, parse, run, run_with_timeouts
from spillway.core.cep.language import QueryError
from spillway.core.cep.shed import INVENTED, invented
from spillway.core.cep.shedding.draws import draws
from spillway.errors import SpillwayError
from tests.sizes import size

QUERY = """PATTERN SEQ(A a, B{1,2} b[], C c) WHERE a.id = c.id AND b[i].id = a.id AND a.v + b[last].v <= c.v
           WITHIN 100 us"""
NAMES = ("hybrid", "state", "input", "random_input", "selective_input", "random_state", "selective_state")
PAIR = "PATTERN SEQ(A a, B b) WITHIN 5 s"


def stream(rows: int, salt: int) -> pa.Table:
    """One row a microsecond, but in any order, and some rows have no time."""
    kind, key, value = (draws(np.arange(rows), salt + n) for n in range(3))
    times = np.argsort(draws(np.arange(rows), salt + 3))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us"), mask=value > 0.99),
            "type": np.array(list("ABCD"))[(kind * 4).astype(int)],
            "id": (key * 3).astype(int),
            "v": (value * 10).astype(int),
        }
    )


def steady(rows: int, salt: int) -> pa.Table:
    """The same in order, and each row has a time."""
    return stream(rows, salt).set_column(0, "ts", pa.array(np.arange(rows), pa.timestamp("us")))


def found(table: pa.Table) -> set[str]:
    rows = [str(row) for row in table.to_pylist()]
    assert len(set(rows)) == len(rows)
    return set(rows)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return stream(1500, salt=1)


@pytest.fixture(scope="module")
def history() -> pa.Table:
    return stream(800, salt=11)


@pytest.fixture(scope="module")
def everything(table: pa.Table) -> set[str]:
    return found(run(QUERY, table, time="ts", type="type"))


@pytest.mark.parametrize("name", NAMES)
def test_some_of_the_matches_are_found_and_no_other(
    name: str, table: pa.Table, history: pa.Table, everything: set[str]
) -> None:
    how = Shed(strategy=name, bound_ratio=0.4, history=history, smooth_events=200, check_events=50)  # type: ignore[arg-type]
    some = run(QUERY, table, time="ts", type="type", shedding=how)
    assert 0 < some.num_rows < len(everything)
    assert found(some) < everything
    if name == "hybrid":
        assert run(QUERY, table, time="ts", type="type", shedding=how).equals(some), "the same ones each time"


@pytest.mark.parametrize(
    "options",
    [
        {"select": "exact"},
        {"select": "greedy", "delay_events": 150},
        {"resource": "length", "slices": 8, "clusters": None},
    ],
)
def test_all_of_it_can_be_chosen(
    options: dict[str, Any], table: pa.Table, history: pa.Table, everything: set[str]
) -> None:
    past = history if options.get("select") == "exact" else history.slice(0, 300)
    plain = Shed(bound_ratio=0.4, history=past, smooth_events=200, check_events=50)
    some, usual = (
        found(run(QUERY, table, time="ts", type="type", shedding=how))
        for how in (replace(plain, **options), plain)
    )
    assert some < everything
    assert some != usual
    assert len(some) > 0


def test_nothing_is_lost_without_need(table: pa.Table, everything: set[str]) -> None:
    for how in (Shed(strategy="none"), Shed(strategy="random_state", bound_s=1.0)):
        assert found(run(QUERY, table, time="ts", type="type", shedding=how)) == everything


def test_a_tighter_bound_finds_less(table: pa.Table, everything: set[str]) -> None:
    sizes = [len(everything)]
    for bound in (20e-6, 10e-6, 5e-6):
        how = Shed(strategy="random_state", bound_s=bound, smooth_events=200)
        sizes.append(run(QUERY, table, time="ts", type="type", shedding=how).num_rows)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 2


def test_a_ratio_is_one_of_the_percentile_that_is_bounded() -> None:
    """A bound of the 95th percentile itself takes next to nothing; one of the mean would take most."""
    table, history = (steady(size(1500, full=3000), salt) for salt in (1, 11))
    query = QUERY.replace("100 us", "300 us")
    everything = run(query, table, time="ts", type="type").num_rows
    plain = Shed(bound_ratio=1.0, history=history, percentile=95.0, index="attributes")
    whole, half, mean = (
        run(query, table, time="ts", type="type", shedding=replace(plain, **options)).num_rows
        for options in ({}, {"bound_ratio": 0.5}, {"percentile": None, "bound_ratio": 0.5})
    )
    assert 0.85 * everything < whole <= everything
    assert 0.4 * mean < half < 0.9 * everything


def test_the_latency_of_matches_is_another_bound() -> None:
    """Where only events that complete matches count, discarding some of them does not make the others faster."""
    table, history = (steady(size(1500, full=3000), salt) for salt in (2, 12))
    query = QUERY.replace("100 us", "300 us")
    everything = found(run(query, table, time="ts", type="type"))
    tight = Shed(bound_ratio=0.2, history=history, index="attributes")
    of_all, of_matches = (
        found(run(query, table, time="ts", type="type", shedding=replace(tight, over=over)))
        for over in ("all", "completing")
    )
    assert of_all < everything
    assert of_matches < everything
    assert of_matches != of_all
    assert len(of_matches) > 0.05 * len(everything)


def test_partial_matches_that_timed_out_are_a_second_table() -> None:
    table = pa.table({"ts": [0, 1, 2, 3, 9, 9], "type": list("ABBCAB")})
    query = "PATTERN SEQ(A a, B{1,2} b[], C c) WITHIN 5 s"
    matches, timed_out = run_with_timeouts(query, table, time="ts", type="type")
    assert matches.equals(run(query, table, time="ts", type="type"))
    assert timed_out.to_pylist() == [{"a": 4, "b": [5], "c": None}]
    forbidden = run_with_timeouts("PATTERN SEQ(A a, NEG B b) WITHIN 5 s", table, time="ts", type="type")
    assert [each.num_rows for each in forbidden] == [0, 0]
    with pytest.raises(SpillwayError, match="table = 'list'"):
        run_with_timeouts(query, [1], time="ts", type="type")  # type: ignore[arg-type]


@pytest.mark.parametrize("find", [run, run_with_timeouts])
@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 s", "A" + 40 * "B" + "C"),
        ("PATTERN SEQ(A a, B b, NEG C c) WITHIN 1 s", 20 * "A" + 20 * "B"),
        ("PATTERN SEQ(A a, NEG C c) WITHIN 1 s", 90 * "A"),
    ],
)
def test_too_many_partial_matches_are_an_error(find: Any, query: str, types: str) -> None:
    table = pa.table({"ts": pa.array(range(len(types)), pa.timestamp("us")), "type": list(types)})
    with pytest.raises(SpillwayError, match=r"more than 60 partial matches at once.*B\{1,5\}.*Shed"):
        find(query, table, time="ts", type="type", most_runs=60)
    few = table.slice(0, 4)
    assert find(query, few, time="ts", type="type", most_runs=60) == find(query, few, time="ts", type="type")
    with pytest.raises(SpillwayError, match="most_runs = 0"):
        find(query, few, time="ts", type="type", most_runs=0)


def test_too_many_partial_matches_are_an_error_with_shedding_as_well(
    table: pa.Table, history: pa.Table
) -> None:
    loose = Shed(strategy="random_state", bound_s=1.0)
    with pytest.raises(SpillwayError, match=r"more than 20 partial matches at once.*tight enough"):
        run(QUERY, table, time="ts", type="type", shedding=loose, most_runs=20)
    tight = Shed(strategy="random_input", bound_s=2e-6, check_events=10, smooth_events=100)
    enough = run(QUERY, table, time="ts", type="type", shedding=tight, most_runs=2_000)
    assert enough.equals(run(QUERY, table, time="ts", type="type", shedding=tight))
    learning = Shed(bound_ratio=0.4, history=history, check_events=50)
    assert run(QUERY, table, time="ts", type="type", shedding=learning, most_runs=10**5).num_rows > 0
    with pytest.raises(SpillwayError, match="most_runs = 0"):
        run(QUERY, table, time="ts", type="type", shedding=tight, most_runs=0)


@pytest.mark.parametrize(
    ("query", "strategies"),
    [
        (QUERY, ()),
        ("PATTERN SEQ(A a, NEG B b, C c) WHERE [id] WITHIN 20 us", ("random_input", "selective_input")),
        (
            "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 20 us UNDER skip_till_next_match",
            ("hybrid", "input", "random_input", "selective_input"),
        ),
    ],
)
def test_matches_that_may_be_invented_are_told(
    query: str, strategies: tuple[str, ...], table: pa.Table
) -> None:
    tree, some = parse(query), table.slice(0, 90)
    assert {name for name in NAMES if invented(tree, name) is not None} == set(strategies)
    everything = run(query, some, time="ts", type="type")
    assert everything.schema.metadata is None
    how = Shed(strategy="random_input", bound_s=2e-6, smooth_events=20, check_events=10)
    for rows in (some, some.slice(0, 0)):
        told = run(query, rows, time="ts", type="type", shedding=how).schema.metadata
        why = invented(tree, "random_input")
        assert told == (None if why is None else {INVENTED: why.encode()})
    by_state = replace(how, strategy="random_state")
    assert found(run(query, some, time="ts", type="type", shedding=by_state)) <= found(everything)


def test_types_that_no_row_can_have_are_told() -> None:
    def found(types: Any, pattern: str) -> list[Any]:
        table = pa.table({"ts": [0, 1], "type": types})
        return run(f"PATTERN SEQ({pattern}) WITHIN 5 s", table, time="ts", type="type").to_pylist()

    numbers = pa.array([1, 2])
    for whole in (numbers.cast(pa.int8()), numbers.cast(pa.uint64()), numbers.dictionary_encode()):
        assert found(whole, "'1' a, '2' b") == [{"a": 0, "b": 1}]
        for pattern in ("'1' a, B b", "'1' a, '02' b", "'1' a, ('2'|'2.0') b"):
            with pytest.raises(
                QueryError, match=r"(?s)column 20: no row is of the type .* SEQ\('1' a, '2' b\)"
            ):
                found(whole, pattern)
    assert found([True, False], "'true' a, 'false' b") == [{"a": 0, "b": 1}]
    with pytest.raises(QueryError, match="no row is of the type 'True', for the types are truth values"):
        found([True, False], "'True' a")
    with pytest.raises(SpillwayError, match=r"type = 'ts' .* another column than that with the time"):
        run(PAIR, pa.table({"ts": [0]}), time="ts", type="ts")


def test_short_and_empty_tables() -> None:
    how = Shed(strategy="random_input", bound_s=1.0)
    table = pa.table({"ts": [2, 1, None], "type": ["B", "A", "A"]})
    assert run(PAIR, table, time="ts", type="type", shedding=how).to_pylist() == [{"a": 1, "b": 0}]
    assert run(PAIR, table.slice(2), time="ts", type="type", shedding=how).num_rows == 0
    assert run(PAIR, table.slice(0, 0), time="ts", type="type", shedding=how).column_names == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "hybrit", "bound_s": 1.0}, "did you mean 'hybrid'"),
        ({"strategy": "random_state", "bound_s": 0.0}, "bound_s = 0.0"),
        ({"strategy": "random_state", "bound_s": 1.0, "bound_ratio": 0.5}, "there is one bound"),
        ({"strategy": "random_state", "bound_ratio": 0.5}, "it is a share of what that took"),
        ({"bound_s": 1.0, "history": [1]}, "history = 'list'"),
        ({"strategy": "none", "check_events": 0}, "check_events = 0"),
        ({"strategy": "none", "smooth_events": 0}, "smooth_events = 0"),
        ({"strategy": "none", "percentile": 101}, "percentile = 101"),
        ({"strategy": "none", "percentile": 0.95}, r"percentile = 0.95 .* that share is 95"),
        ({"strategy": "none", "over": "completed"}, "did you mean 'completing'"),
        ({"strategy": "none", "index": "attribute"}, "did you mean 'attributes'"),
        ({"strategy": "none", "unit_s": -1}, "unit_s = -1"),
        ({"strategy": "none", "salt": 0.5}, "salt = 0.5"),
        ({"strategy": "none", "delay_events": -1}, "delay_events = -1"),
        ({"strategy": "none", "select": "exakt"}, "did you mean 'exact'"),
        ({"strategy": "none", "resource": "lenght"}, "did you mean 'length'"),
        ({"strategy": "none", "clusters": 0}, "clusters = 0"),
        ({"strategy": "none", "slices": 0}, "slices = 0"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpillwayError, match=message):
        Shed(**options)  # type: ignore[arg-type]


def test_wrong_arguments_are_told(table: pa.Table) -> None:
    with pytest.raises(SpillwayError, match=r"shedding = 'hybrid' .* a Shed"):
        run(QUERY, table, time="ts", type="type", shedding="hybrid")  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match="table = 'list'"):
        run(QUERY, [1], time="ts", type="type")  # type: ignore[arg-type]
    for how, message in (
        (Shed(strategy="random_state"), r"bound_s = None .* bound_ratio=0.5 is half"),
        (Shed(bound_s=1.0), "a table that 'hybrid' can learn from"),
    ):
        with pytest.raises(SpillwayError, match=message):
            run(QUERY, table, time="ts", type="type", shedding=how)
    for history, message in (
        (table.set_column(1, "type", pa.array(["D"] * table.num_rows)), "no rows .* begins: of type A"),
        (table.drop_columns("v"), "history: line 1, column .* no attribute 'v'"),
        (table.drop_columns("ts"), "history: time = 'ts'"),
        (table.set_column(3, "v", table["v"].cast(pa.float64())), "'int' as in the table, not 'float'"),
        (table.slice(0, 0), "a table over 0 windows.* 1.5 windows or more"),
    ):
        with pytest.raises(SpillwayError, match=message):
            run(QUERY, table, time="ts", type="type", shedding=Shed(bound_s=1.0, history=history))
