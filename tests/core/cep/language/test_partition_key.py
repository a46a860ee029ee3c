"""The key of a query: found where it is one, not where it is none, and right by the oracle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from spillway.core.cep.language import correlation, parse
from spillway.core.cep.language.syntax import Query
from spillway.errors import SpillwayError
from tests.core.cep.oracle import Match, matches
from tests.core.cep.strategies import SCHEMA, Row, queries, streams

NEXT = "UNDER skip_till_next_match"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("SEQ(A a, B b, C c) WHERE a.id = b.id AND b.id = c.id", {"A": "id", "B": "id", "C": "id"}),
        ("SEQ(A a, B b, C c) WHERE a.id = b.user AND c.key = b.user", {"A": "id", "B": "user", "C": "key"}),
        ("SEQ(A a, B b) WHERE a.id = b.user AND a.id = b.id", {"A": "id", "B": "id"}),
        ("SEQ(A a, B b) WHERE [id] AND a.v < b.v", {"A": "id", "B": "id"}),
        ("SEQ(A a, NEG B b, C c) WHERE [id]", {"A": "id", "B": "id", "C": "id"}),
        ("SEQ(A a, NEG B b, C c) WHERE a.id = c.id", None),
        ("SEQ(A a, B b, C c) WHERE a.id = b.id", None),
        ("SEQ(A a, B b) WHERE (a.id = b.id OR a.v = 1)", None),
        ("SEQ(A a, B b) WHERE a.id + 1 = b.id", None),
        ("SEQ(A a, B b)", None),
        ("SEQ(A a, A b) WHERE a.start = b.end", None),
        ("SEQ(A a, A b) WHERE a.id = b.id", {"A": "id"}),
        ("SEQ((A|B) a, (B|C) b) WHERE a.id = b.id", {"A": "id", "B": "id", "C": "id"}),
        ("SEQ(A a, B+ b[]) WHERE a.id = b[i].id", {"A": "id", "B": "id"}),
        ("SEQ(A a, B+ b[]) WHERE a.id = b[last].id", None),
        ("SEQ(A a, B+ b[]) WHERE a.id = b[last].id AND b[i+1].id = b[i].id", {"A": "id", "B": "id"}),
        ("SEQ(A a, B+ b[]) WHERE a.id = b[first].id AND b[i].id = b[first].id", {"A": "id", "B": "id"}),
        ("SEQ(A a, B+ b[]) WHERE a.id = b[first].id AND b[i+1].start = b[i].end", None),
        ("SEQ(A a, B+ b[]) WHERE a.id = b[first].id AND b[i].id = b[i].user", None),
        ("SEQ(A+ a[], B+ b[]) WHERE [id]", {"A": "id", "B": "id"}),
        ("SEQ(A a, NEG N n, B b) WHERE a.id = n.id AND n.id = b.id", None),
        (
            "SEQ(A a, NEG N n, B b) WHERE a.id = n.x AND n.id = n.x AND a.id = b.id",
            {"A": "id", "N": "id", "B": "id"},
        ),
        ("SEQ(A a, NEG N n, B b, NEG M m) WHERE a.id = b.id AND n.id = a.id AND m.id = 1", None),
        ("SEQ(A a, NEG N n) WHERE a.id = n.x", {"A": "id", "N": "x"}),
        ("SEQ(A+ a[], NEG N n) WHERE a[i].id = n.id", None),
    ],
)
def test_keys(pattern: str, expected: dict[str, str] | None) -> None:
    found = correlation(parse(f"PATTERN {pattern} WITHIN 1 s"))
    assert (found and {name: names for name, (names,) in found.by.items()}) == expected
    assert correlation(parse(f"PATTERN {pattern} WITHIN 1 s UNDER strict_contiguity")) is None


def test_several_attributes_make_one_key() -> None:
    found = correlation(parse("PATTERN SEQ(A a, B b) WHERE [id, user] AND a.v = b.w WITHIN 1 s"))
    assert found is not None
    assert found.by == {"A": ("id", "user", "v"), "B": ("id", "user", "w")}
    assert found.attributes is None
    same = correlation(parse("PATTERN SEQ(A a, B b) WHERE [id, user] WITHIN 1 s"))
    assert same is not None
    assert same.attributes == ("id", "user")


def test_attributes_of_two_kinds_make_no_key() -> None:
    query = parse("PATTERN SEQ(A a, B b) WHERE a.id = b.x WITHIN 1 s")
    assert correlation(query) is not None
    assert correlation(query, {"id": "int", "x": "float"}) is None
    assert correlation(query, pa.schema([("id", pa.int64()), ("x", pa.int32())])) is not None


@pytest.mark.parametrize(
    ("pattern", "tied"),
    [
        ("SEQ(A a, B b, C c) WHERE [id]", True),
        ("SEQ(A a, B b, C c) WHERE a.id = c.id AND b.id = c.id", False),
        ("SEQ(A+ a[], B b) WHERE a[i+1].id = a[i].id AND a[last].id = b.id", True),
        ("SEQ(A+ a[], B b) WHERE a[i].id = b.id", False),
        ("SEQ(A+ a[], B b) WHERE a[i].id = a[last].id AND a[last].id = b.id", False),
        ("SEQ(NEG C c, A a, B b) WHERE c.id = b.id AND a.id = b.id", True),
    ],
)
def test_under_next_rows_of_other_keys_must_not_fit(pattern: str, tied: bool) -> None:
    assert correlation(parse(f"PATTERN {pattern} WITHIN 1 s")) is not None
    assert (correlation(parse(f"PATTERN {pattern} WITHIN 1 s {NEXT}")) is not None) == tied


@given(queries(), streams())
def test_partitions_can_be_matched_each_for_itself(query: Query, rows: list[Row]) -> None:
    _require_the_same_apart(query, rows)


@st.composite
def equalities(draw: st.DrawFn) -> Query:
    """Patterns with little else than equations, of which negated variables have their share."""
    elements, variables = [], []
    for v in "abc"[: draw(st.integers(1, 3))]:
        repeated = draw(st.booleans())
        elements.append(f"{draw(st.sampled_from(['A', 'B', '(A|B)']))}{f'+ {v}[]' if repeated else f' {v}'}")
        variables += [f"{v}[{which}]" for which in ("i", "i+1", "first", "last")] if repeated else [v]
    if draw(st.booleans()):
        elements.insert(draw(st.integers(0, len(elements))), f"NEG {draw(st.sampled_from('AN'))} n")
        variables += ["n", "n"]
    side = st.builds("{}.{}".format, st.sampled_from(variables), st.sampled_from(["id", "id", "v"]))
    sides = draw(st.lists(st.tuples(side, side), min_size=1, max_size=4))
    conditions = " AND ".join(f"{x} = {y}" for x, y in sides)
    policy = draw(st.sampled_from(["", NEXT]))
    try:
        return parse(f"PATTERN SEQ({', '.join(elements)}) WHERE {conditions} WITHIN 9 us {policy}")
    except SpillwayError:
        reject()


@given(equalities(), st.lists(st.tuples(*map(st.sampled_from, ["ABN", [0, 1, None], [0, 1]])), max_size=8))
def test_conditions_on_rows_that_forbid_do_not_tie_those_of_a_match(
    query: Query, rows: list[tuple[str, int | None, int]]
) -> None:
    named = [{"ts": n, "type": kind, "id": id_, "v": v} for n, (kind, id_, v) in enumerate(rows)]
    _require_the_same_apart(query, named)


def _require_the_same_apart(query: Query, rows: list[Row]) -> None:
    """Rows without a key are set aside unless they may be matches by themselves, as on Spark."""
    key = correlation(query, SCHEMA)
    if key is None:
        return
    parts: dict[tuple[object, ...], list[int]] = {}
    for n, row in enumerate(rows):
        if row["type"] in key.by:
            values = tuple(row[name] for name in key.by[row["type"]])
            lacks = any(value is None or str(value) == "nan" for value in values)
            if not lacks or key.alone:
                parts.setdefault(() if lacks else values, []).append(n)
    apart: set[Match] = set()
    for numbers in parts.values():
        apart |= {_renamed(match, numbers) for match in matches(query, [rows[n] for n in numbers])}
    assert apart == matches(query, rows)


def _renamed(match: Match, names: list[int]) -> Match:
    return tuple(tuple(names[n] for n in part) if isinstance(part, tuple) else names[part] for part in match)
