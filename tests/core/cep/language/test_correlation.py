"""The key of a query: found where it is one, not where it is none, and right by the oracle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from spillway.core.cep.language import correlation, parse
from spillway.core.cep.syntax import Query
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
    key = correlation(query, SCHEMA)
    if key is None:
        return
    parts: dict[tuple[str, ...], list[int]] = {}
    for n, row in enumerate(rows):
        if row["type"] in key.by:
            parts.setdefault(tuple(str(row[name]) for name in key.by[row["type"]]), []).append(n)
    apart: set[Match] = set()
    for numbers in parts.values():
        apart |= {_renamed(match, numbers) for match in matches(query, [rows[n] for n in numbers])}
    assert apart == matches(query, rows)


def _renamed(match: Match, names: list[int]) -> Match:
    return tuple(tuple(names[n] for n in part) if isinstance(part, tuple) else names[part] for part in match)
