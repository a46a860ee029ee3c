"""The oracle by hand: small streams with the matches worked out on paper, and laws that any semantics must keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.language import parse
from spillway.core.cep.language.syntax import Query
from tests.core.cep.oracle import matches
from tests.core.cep.strategies import Row, queries, streams


def found(pattern: str, events: str, **columns: list[Any]) -> list[Any]:
    """Matches over one row per microsecond; ``events`` are their types, a dot is a row of another type."""
    rows = [
        {"ts": n, "type": kind, **{name: values[n] for name, values in columns.items()}}
        for n, kind in enumerate(events)
    ]
    return sorted(matches(parse(f"PATTERN {pattern}"), rows))


def test_the_window_is_open_unless_it_is_inclusive() -> None:
    assert found("SEQ(A a, B b) WITHIN 2 us", "A.B") == []
    assert found("SEQ(A a, B b) WITHIN 2 us INCLUSIVE", "A.B") == [(0, 2)]
    assert found("SEQ(A a, B b) WITHIN 3 us", "A.B") == [(0, 2)]


def test_rows_of_one_time_keep_their_order_and_late_rows_are_sorted() -> None:
    rows = [{"ts": ts, "type": kind} for ts, kind in [(5, "B"), (5, "A"), (5, "B"), (3, "A"), (None, "B")]]
    assert sorted(matches(parse("PATTERN SEQ(A a, B b) WITHIN 1 us"), rows)) == [(1, 2)]
    assert sorted(matches(parse("PATTERN SEQ(A a, B b) WITHIN 1 s"), rows)) == [(1, 2), (3, 0), (3, 2)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip_till_any_match", [(0, (1,), 4), (0, (1, 3), 4), (0, (3,), 4)]),
        ("skip_till_next_match", [(0, (1, 3), 4)]),
        ("strict_contiguity", []),
    ],
)
def test_policies(policy: str, expected: list[Any]) -> None:
    assert found(f"SEQ(A a, B+ b[], C c) WITHIN 9 us UNDER {policy}", "AB.BC") == expected


def test_a_row_that_can_be_taken_in_two_ways_is_taken_in_both() -> None:
    pattern = "SEQ(A+ a[], (A|B) b) WITHIN 9 us UNDER skip_till_next_match"
    assert found(pattern, "AA.B") == [((0,), 1), ((0, 1), 3), ((1,), 3)]


def test_next_skips_rows_that_fail_a_condition_and_takes_those_that_fail_later() -> None:
    ahead = "SEQ(A a, B b, C c) WHERE a.v = b.v WITHIN 9 us UNDER skip_till_next_match"
    later = "SEQ(A a, B b, C c) WHERE b.v = c.v WITHIN 9 us UNDER skip_till_next_match"
    assert found(ahead, "ABBC", v=[1, 2, 1, 1]) == [(0, 2, 3)]
    assert found(later, "ABBC", v=[1, 2, 1, 1]) == []


def test_next_ends_a_sequence_where_its_conditions_let_it_end() -> None:
    pattern = "SEQ(A+ a[], B b) WHERE sum(a[i].v) >= 3 WITHIN 9 us UNDER skip_till_next_match"
    assert found(pattern, "ABAB", v=[1, 0, 2, 0]) == [((0, 2), 3)]


def test_lengths() -> None:
    assert found("SEQ(A{2,3} a[]) WITHIN 9 us UNDER strict_contiguity", "AAAA") == [
        *[((0, 1),), ((0, 1, 2),), ((1, 2),), ((1, 2, 3),), ((2, 3),)],
    ]
    assert len(found("SEQ(A{2} a[]) WITHIN 9 us", "AAAA")) == 6


def test_i_is_every_row_and_i_plus_one_every_pair() -> None:
    v = [1, 2, 4, 3]
    assert found("SEQ(A{3,} a[]) WHERE a[i].v != 4 WITHIN 9 us", "AAAA", v=v) == [((0, 1, 3),)]
    assert found("SEQ(A{3,} a[]) WHERE a[i+1].v > a[i].v WITHIN 9 us", "AAAA", v=v) == [
        ((0, 1, 2),),
        ((0, 1, 3),),
    ]
    assert found("SEQ(A+ a[]) WHERE a[i+1].v > a[i].v WITHIN 1 us", "A", v=[1]) == [((0,),)]
    ends = "SEQ(A{2,} a[]) WHERE a[first].v = 1 AND a[last].v = 3 AND count(a[]) < 3 WITHIN 9 us"
    assert found(ends, "AAAA", v=v) == [((0, 3),)]


def test_or_stands_behind_every() -> None:
    # Each row is 1 or the last is 9: not that each row is 1, or that the last is 9.
    pattern = "SEQ(A{2} a[]) WHERE (a[i].v = 1 OR a[i].w = 1) WITHIN 9 us"
    assert found(pattern, "AA", v=[1, 0], w=[0, 1]) == [((0, 1),)]


@pytest.mark.parametrize(
    ("pattern", "events", "expected"),
    [
        ("SEQ(A a, NEG B b, C c) WITHIN 9 us", "ACBC", [(0, 1)]),
        ("SEQ(A a, NEG B b, NEG D d, C c) WITHIN 9 us", "ACDC", [(0, 1)]),
        ("SEQ(NEG B b, A a, C c) WITHIN 3 us", "BAC", []),
        ("SEQ(NEG B b, A a, C c) WITHIN 2 us", "BAC", [(1, 2)]),
        ("SEQ(NEG B b, A a, C c) WITHIN 2 us INCLUSIVE", "BAC", []),
        ("SEQ(A a, C c, NEG B b) WITHIN 3 us", "ACB", []),
        ("SEQ(A a, C c, NEG B b) WITHIN 2 us", "ACB", [(0, 1)]),
        ("SEQ(A+ a[], NEG B b, C c) WITHIN 9 us", "ABAC", [((0, 2), 3), ((2,), 3)]),
    ],
)
def test_negation(pattern: str, events: str, expected: list[Any]) -> None:
    assert found(pattern, events) == expected


def test_a_negated_row_forbids_only_if_its_conditions_hold() -> None:
    pattern = "SEQ(A a, NEG B b, C c) WHERE a.id = b.id AND b.v > c.v WITHIN 9 us"
    assert found(pattern, "ABC", id=[1, 1, 1], v=[0, 2, 1]) == []
    assert found(pattern, "ABC", id=[1, 2, 1], v=[0, 2, 1]) == [(0, 2)]
    assert found(pattern, "ABC", id=[1, 1, 1], v=[0, 1, 1]) == [(0, 2)]
    assert found(pattern, "ABC", id=[1, None, 1], v=[0, 2, 1]) == [(0, 2)]


@pytest.mark.parametrize(
    ("condition", "v", "holds"),
    [
        ("a.v = 1", None, False),
        ("NOT a.v = 1", None, False),
        ("a.v != 1", float("nan"), False),
        ("(a.v = 1 OR a.w = 1)", None, True),
        ("NOT (a.v = 1 AND a.w = 1)", None, False),
        ("NOT (a.v = 1 AND a.w = 2)", None, True),
        ("a.v NOT IN {1, 2}", None, False),
        ("NOT (1 / a.v = 1)", 0, False),
        ("NOT sqrt(a.v) = 1", -1, False),
        ("NOT log(a.v) = 1", 0, False),
        ("a.v ^ -1 != 1", 0, False),
        ("a.v % 3 = -1", -7, True),
        ("a.v / 2 = 3.5", 7, True),
        ("round(a.v) = -3", -2.5, True),
        ("a.v² = 49 AND -a.v^2 = -49", 7, True),
        ("2 ^ 3 ^ 2 = 512 * a.w", 0, True),
    ],
)
def test_unknown_values_and_numbers(condition: str, v: float | None, holds: bool) -> None:
    assert bool(found(f"SEQ(A a) WHERE {condition} WITHIN 1 us", "A", v=[v], w=[1])) is holds


def test_aggregates_pass_over_unknown_values() -> None:
    for condition in (
        "avg(a[].v) = 2",
        "sum(a[].v) = 4",
        "min(a[].v) = 1",
        "max(a[].v) = 3",
        "count(a[]) = 3",
    ):
        pattern = f"SEQ(A{{3}} a[]) WHERE {condition} WITHIN 9 us"
        assert found(pattern, "AAA", v=[1, None, 3]) == [((0, 1, 2),)]
    for condition in ("avg(a[].v) = 2", "NOT sum(a[].v) = 2"):
        assert found(f"SEQ(A+ a[]) WHERE {condition} WITHIN 9 us", "A", v=[None]) == []


@given(queries(), streams())
def test_policies_nest(query: Query, rows: list[Row]) -> None:
    strict, following, every = (matches(replace(query, policy=p), rows) for p in ("strict", "next", "any"))
    assert strict <= following <= every


@given(queries(policies=("any",), negation=False), streams(), st.data())
def test_fewer_rows_invent_no_match(query: Query, rows: list[Row], data: st.DataObject) -> None:
    kept = [n for n in range(len(rows)) if data.draw(st.booleans())]
    fewer = matches(query, [rows[n] for n in kept])
    assert {tuple(_renamed(part, kept) for part in match) for match in fewer} <= matches(query, rows)


@given(queries(negation=False), streams())
def test_a_longer_window_loses_no_match_of_all(query: Query, rows: list[Row]) -> None:
    every = replace(query, policy="any", closed=False)
    assert matches(every, rows) <= matches(replace(every, closed=True), rows)
    assert matches(every, rows) <= matches(replace(every, within_us=query.within_us + 3), rows)


def _renamed(part: int | tuple[int, ...], names: list[int]) -> int | tuple[int, ...]:
    return tuple(names[n] for n in part) if isinstance(part, tuple) else names[part]
