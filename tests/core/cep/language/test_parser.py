"""What can be written, and the tree that it becomes."""

from __future__ import annotations

import pytest
from hypothesis import given

from spillway.core.cep.language import check, parse, to_text
from spillway.core.cep.language.listings import LISTINGS
from spillway.core.cep.language.syntax import Aggregate, Attribute, Constant, Element, Operation, Place, Query
from tests.core.cep.strategies import SCHEMA, queries

HERE = Place(1, 1)


def element(text: str) -> Element:
    return parse(f"PATTERN SEQ({text}, Z z) WITHIN 1 s").elements[0]


def normal(condition: str) -> list[str]:
    """The conditions that a text becomes, over a plain, a repeated and a negated variable."""
    query = parse(f"PATTERN SEQ(A a, B+ b[], NEG C c, D d) WHERE {condition} WITHIN 1 s")
    lines = to_text(query).splitlines()[1:-1]
    return [line.removeprefix("WHERE ").removeprefix("  AND ") for line in lines]


def same(*conditions: str) -> bool:
    return len({tuple(normal(condition)) for condition in conditions}) == 1


def test_a_query_is_what_it_says() -> None:
    query = parse(
        "PATTERN SEQ(A a, B{2,5} b[]) WHERE a.v < b[last].v WITHIN 8 ms INCLUSIVE UNDER strict_contiguity"
    )
    sides = (Attribute("a", "only", "v", HERE), Attribute("b", "last", "v", HERE))
    assert query == Query(
        (Element(("A",), "a", HERE), Element(("B",), "b", HERE, True, 2, 5)),
        (Operation("<", sides, HERE),),
        8_000,
        "strict",
        True,
    )
    assert query.conditions[0].place == Place(1, 36)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B b", Element(("B",), "b", HERE)),
        ("(A|B) b", Element(("A", "B"), "b", HERE)),
        ("A | B | A b", Element(("A", "B"), "b", HERE)),
        ("'bike trip' b", Element(("bike trip",), "b", HERE)),
        ("`not` b", Element(("not",), "b", HERE)),
        ("B+ b[]", Element(("B",), "b", HERE, True, 1, None)),
        ("(A|B)+ b[ ]", Element(("A", "B"), "b", HERE, True, 1, None)),
        ("B{3} b[]", Element(("B",), "b", HERE, True, 3, 3)),
        ("B{3,} b[]", Element(("B",), "b", HERE, True, 3, None)),
        ("B{,3} b[]", Element(("B",), "b", HERE, True, 1, 3)),
        ("B{2,3} b[]", Element(("B",), "b", HERE, True, 2, 3)),
        *(
            (text, Element(("B",), "b", HERE, negated=True))
            for text in ("NEG B b", "not B b", "!B b", "!(B b)")
        ),
        *((text, Element(("A", "B"), "b", HERE, negated=True)) for text in ("NEG (A|B) b", "NEG((A|B) b)")),
    ],
)
def test_elements(text: str, expected: Element) -> None:
    assert element(text) == expected


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("7us", 7),
        ("7 µs", 7),
        ("8ms", 8_000),
        ("1.5 seconds", 1_500_000),
        ("2 MIN", 120_000_000),
        ("1h", 3_600_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("2 days", 172_800_000_000),
    ],
)
def test_windows(text: str, us: int) -> None:
    assert parse(f"PATTERN SEQ(A a) WITHIN {text}").within_us == us
    assert parse(f"PATTERN SEQ(A a) WITHIN {text} inclusive").closed


@pytest.mark.parametrize("text", ["skip_till_next_match", "SKIP-TILL-NEXT-MATCH", "skip till next match"])
def test_policies(text: str) -> None:
    assert parse(f"PATTERN SEQ(A a) WITHIN 1 s UNDER {text}").policy == "next"


def test_layout_case_and_comments_do_not_matter() -> None:
    lower = "pattern\tseq ( A a ,\n B b ) -- two\nwhere a.id==b.id and -- what they share\n not a.v<3\nwithin 1 s --"
    assert parse(lower) == parse("PATTERN SEQ(A a, B b) WHERE a.id = b.id AND NOT a.v < 3 WITHIN 1 s")


def test_names_may_be_those_of_keywords_behind_a_dot_and_anything_in_backticks() -> None:
    query = parse("PATTERN SEQ(A a) WHERE a.in = 1 AND a.within = 2 AND a.`end station` = 'it''s' WITHIN 1 s")
    assert [c.operands[0].name for c in query.conditions] == ["in", "within", "end station"]  # type: ignore
    assert query.conditions[2].operands[1] == Constant("it's", HERE)  # type: ignore


@pytest.mark.parametrize(
    "spellings",
    [
        ("a.v = 1", "a.v == 1", "NOT a.v <> 1", "NOT (NOT a.v = 1)"),
        ("a.v != 1", "a.v <> 1", "a.v ≠ 1", "NOT a.v = 1", "a.v NOT IN {1}", "a.v ∉ {1}"),
        ("a.v <= 1", "a.v ≤ 1", "NOT a.v > 1"),
        ("a.v IN {1, -2}", "a.v in (1, -2)", "a.v ∈ {1,-2}"),
        ("a.v != 1 AND a.v != 2", "NOT a.v IN {1, 2}", "NOT (a.v = 1 OR a.v = 2)"),
        ("a.v != 1 OR d.v >= 2", "NOT (a.v = 1 AND d.v < 2)"),
        ("1 < a.v AND a.v <= d.v", "1 < a.v <= d.v"),
        ("a.flag", "a.flag = true", "NOT NOT a.flag"),
        ("NOT a.flag", "a.flag = false"),
        ("a.x ^ 2 = 4", "a.x² = 4", "(a.x)^2 = 4", "pow(a.x, 2) = 4", "POW((a.x), 2) = 4"),
        ("a.x + d.x + 1 = 4", "sum(a.x, d.x, 1) = 4", "(a.x + d.x) + 1 = 4"),
        ("least(a.x, d.x) = 4", "min(a.x, d.x) = 4"),
        ("greatest(a.x, d.x) = 4", "max(a.x, d.x) = 4"),
        ("avg(b[i].x) = 4", "AVG(b[].x) = 4", "avg(b[ I ].x) = 4"),
        ("b[i+1].x > b[i].x", "b[ i + 1 ].x > b[i].x"),
        ("(a.v = 1 OR d.v = 1) AND a.w = 1", "((a.v = 1) OR (d.v = 1)) AND (a.w = 1)"),
        ("-a.x^2 = 1", "-(a.x^2) = 1"),
        ("2 ^ a.x ^ 2 = 1", "2 ^ (a.x ^ 2) = 1"),
        ("a.x - d.x - 1 = 1", "(a.x - d.x) - 1 = 1"),
        ("a.x + d.x * 2 % 3 = 1", "a.x + ((d.x * 2) % 3) = 1"),
    ],
    ids=lambda spellings: spellings[0],
)
def test_spellings_of_one_thing(spellings: tuple[str, ...]) -> None:
    assert same(*spellings)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.x - (d.x - 1) = 1", "a.x - d.x - 1 = 1"),
        ("(2 ^ a.x) ^ 2 = 1", "2 ^ a.x ^ 2 = 1"),
        ("(-a.x)^2 = 1", "-a.x^2 = 1"),
    ],
)
def test_parentheses_matter(one: str, other: str) -> None:
    assert not same(one, other)


def test_the_shorthand_ties_all_elements_to_the_first() -> None:
    assert normal("[id]") == ["a.id = b[i].id", "a.id = c.id", "a.id = d.id"]
    assert len(normal("[id, kind]")) == 6
    repeated = parse("PATTERN SEQ(NEG C c, A+ a[], B b) WHERE [id] WITHIN 1 s")
    assert to_text(repeated).splitlines()[1:-1] == [
        "WHERE a[i+1].id = a[i].id",
        "  AND a[first].id = c.id",
        "  AND a[first].id = b.id",
    ]


def test_aggregates() -> None:
    (condition,) = parse("PATTERN SEQ(A a, B+ b[]) WHERE sum(b[].v * a.v) > count(b[]) WITHIN 1 s").conditions
    total, count = condition.operands  # type: ignore
    assert isinstance(total, Aggregate)
    assert (total.function, total.variable) == ("sum", "b")
    assert count == Aggregate("count", "b", None, HERE)


@pytest.mark.parametrize("name", LISTINGS)
def test_the_papers_queries_can_be_read_and_printed(name: str) -> None:
    query = parse(LISTINGS[name])
    assert parse(to_text(query)) == query
    kinds = dict.fromkeys(("ID", "V", "x", "y", "v", "bike", "start", "end", "task_id", "machine"), "int")
    check(query, kinds)


@given(queries())
def test_what_is_printed_is_read_as_the_same_query(query: Query) -> None:
    assert parse(to_text(query)) == query
    check(query, SCHEMA)
