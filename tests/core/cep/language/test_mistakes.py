"""Every wrong query is refused at its place, with words that help."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep import run
from spillway.core.cep.language import QueryError, check, parse
from spillway.core.cep.language.listings import LISTINGS
from spillway.core.cep.language.syntax import Place
from spillway.errors import SpillwayError

KINDS = {
    "id": "int",
    "v": "int",
    "x": "float",
    "name": "text",
    "flag": "bool",
    "ts": "time",
    "tags": "list<text>",
}


def refused(text: str, pointed: bool = True) -> QueryError:
    """The error of a query, in which § stands before the place that is to be pointed at."""
    before, _, _ = text.partition("§")
    with pytest.raises(QueryError) as caught:
        check(parse(text.replace("§", "")), KINDS)
    error = caught.value
    assert (error.line, error.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    lines = str(error).splitlines()
    if len(lines) > 1 and pointed:
        assert lines[2][error.column + 1] == "^"
    return error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("§", "nothing here, expected PATTERN."),
        ("§SEQ(A a) WITHIN 1 s", "begins with PATTERN SEQ("),
        ("§PATERN SEQ(A a) WITHIN 1 s", "did you mean 'PATTERN'?"),
        ("PATTERN §A a WITHIN 1 s", "found 'A', expected SEQ."),
        ("PATTERN SEQ(§) WITHIN 1 s", "expected an element such as A a, B+ b[] or NEG C c."),
        ("PATTERN SEQ(A§) WITHIN 1 s", "found ')', expected a variable, as in A a or B+ b[]."),
        ("PATTERN SEQ(A a§", "the query ends here, expected a comma or )."),
        ("PATTERN §A a WITHIN 1 s", "a pattern is written SEQ("),
        (
            "PATTERN §AND(A a, B b) WITHIN 1 s",
            "a query for each order: SEQ(A a, B b), and another one SEQ(B b, A a)",
        ),
        ("PATTERN §all(A a, B b) WITHIN 1 s", "a query for each order"),
        ("PATTERN §OR(A a, B b) WITHIN 1 s", "(B|C) b; other alternatives are queries"),
        ("PATTERN SEQ(A a §; B b) WITHIN 1 s", "found ';', expected a comma or )."),
        ("PATTERN SEQ(A a§; B b) WITHIN 1 s", "elements are separated by commas"),
        ("PATTERN SEQ(A a, B+ b[]§; C c) WITHIN 1 s", "elements are separated by commas"),
        ("PATTERN SEQ(B{2§;3} b[]) WITHIN 1 s", "lists have commas"),
        ("PATTERN SEQ(A a)\nWHERE a.v IN (1§; 2) WITHIN 1 s", "lists have commas"),
        ("PATTERN SEQ(A a) WHERE a.v IN (1 §2 3) WITHIN 1 s", "lists have commas"),
        ("PATTERN SEQ(A a) WHERE least(a.v§; 3) = 1 WITHIN 1 s", "lists have commas"),
        ("PATTERN SEQ(A a) WHERE a.v = 1§; WITHIN 1 s", "ends without a semicolon"),
        ("PATTERN SEQ(A a §B b) WITHIN 1 s", "elements are separated by commas"),
        ("PATTERN SEQ(A a, B+ b[] §C c) WITHIN 1 s", "elements are separated by commas"),
        ("PATTERN SEQ(A a) WHERE a.v = 1§--2 WITHIN 1 s", "-- begins a comment"),
        ("PATTERN SEQ(A a) WHERE a.v = 1§_000 WITHIN 1 s", "a number in plain digits"),
        ("PATTERN SEQ(A a) WHERE a.v = 0§x10 WITHIN 1 s", "a number in plain digits"),
        ("PATTERN SEQ(A a)§", "expected WHERE or WITHIN."),
        ("PATTERN SEQ(A a)§ -- and then\n\n", "a pattern needs a window, such as WITHIN 10 s"),
        ("PATTERN SEQ(A a) §WHER a.v = 1 WITHIN 1 s", "did you mean 'WHERE'?"),
        ("PATTERN SEQ(A§* a[]) WITHIN 1 s", "at least one row: B+ b[]"),
        ("PATTERN SEQ(A+§{2,3} a[]) WITHIN 1 s", "lengths stand in the place of the plus"),
        ("PATTERN SEQ(A a) WHERE §WITHIN 1 s", "found 'WITHIN', expected a condition such as a.v > 3."),
        ("PATTERN SEQ(A a) WHERE a.v = §WITHIN 1 s", "expected a value such as a.v, 3 or 'x'."),
        ("PATTERN SEQ(A a) WHERE a.v = 1 §a.x = 2 WITHIN 1 s", "joined by AND or OR"),
        ("PATTERN SEQ(A a) WHERE a.v = 1 §ADN a.x = 2 WITHIN 1 s", "did you mean 'AND'?"),
        ("PATTERN SEQ(A a) WHERE a.v §# 2 WITHIN 1 s", "found '#', expected an operator (+ - * / % ^)"),
        ("PATTERN SEQ(A a)\nWHERE (a.v = 1\n§WITHIN 1 s", "expected )."),
        ("PATTERN SEQ(A a) WHERE a.name = §'x WITHIN 1 s", "ends with it, on the same line"),
        ("PATTERN SEQ(A a) WHERE a.v§.x = 1 WITHIN 1 s", "stands in backticks"),
        ("PATTERN SEQ(A a) WHERE a.v IN {§} WITHIN 1 s", "expected a constant such as 3 or 'x'."),
        ("PATTERN SEQ(A a) WHERE a.v IN {1, §a.id} WITHIN 1 s", "expected a constant such as 3 or 'x'."),
        ("PATTERN SEQ(A a) WITHIN §8", "a window has a unit: WITHIN 8 ms"),
        ("PATTERN SEQ(A a) WITHIN §8 secnds", "did you mean 'second'?"),
        ("PATTERN SEQ(A a) WITHIN §8 mss", "did you mean 'ms'?"),
        ("PATTERN SEQ(A a) WITHIN §8 rows", "units are us, ms, s, min, h, days and weeks"),
        ("PATTERN SEQ(A a) WITHIN §1,000 ms", "a number has no comma"),
        ("PATTERN SEQ(A a) WITHIN §-5 s", "a window is longer than nothing"),
        ("PATTERN SEQ(A a) WITHIN §.5 s", "write 0.5 s"),
        ("PATTERN SEQ(A a) WITHIN §0 s", "a window is longer than nothing"),
        ("PATTERN SEQ(A a) WITHIN §0.5 us", "a whole number of microseconds"),
        ("PATTERN SEQ(A a) WITHIN §9999999 weeks", "longer than time stamps reach"),
        ("PATTERN SEQ(A a) WITHIN 1 s §inclusiv", "did you mean 'INCLUSIVE'?"),
        ("PATTERN SEQ(A a) WITHIN 1 s UNDER §skip_til_next_match", "did you mean 'skip_till_next_match'?"),
        ("PATTERN SEQ(A a) WITHIN 1 s §WHERE a.v = 1", "WHERE stands before WITHIN"),
        ("PATTERN SEQ(A a) §UNDER strict_contiguity WITHIN 1 s", "UNDER stands behind the window"),
        ("PATTERN SEQ(A a) §AND a.v = 1 WITHIN 1 s", "conditions begin with WHERE"),
        ("PATTERN SEQ(A a) WITHIN 1 s§;", "ends without a semicolon"),
        ("PATTERN SEQ(A a) §// two\nWITHIN 1 s", "a comment begins with --"),
        ("PATTERN SEQ(A a) WITHIN 1 s §LIMIT 3", "expected the end of the query, INCLUSIVE or UNDER."),
    ],
)
def test_what_cannot_be_read(text: str, said: str) -> None:
    assert said in str(refused(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A a, §B a", "variable 'a' stands twice"),
        ("A a, B §not", "found 'not', expected a variable"),
        ("A+ §a", "write a[]"),
        ("A a§[]", "a[] is not repeated."),
        ("A+ a§[i]", "write a[]"),
        ("A§{3,2} a[]", "the smaller number comes first"),
        ("A§{0,2} a[]", "at least one row"),
        ("NEG §A a", "all elements are negated"),
        ("B b, NEG §A+ a[]", "write NEG A a"),
        ("§where a", "where is a keyword: as a type it stands in quotes, 'where' a"),
        ("A §where", "where is a keyword: take another name"),
        ("A+ §in[]", "in is a keyword: take another name"),
        ("§1 a", "a type that is no word stands in quotes: '1' a"),
        ("A§? a", "two queries, one of them without it"),
        ("A a, §OR(B b, C c)", "(B|C) b; other alternatives are queries"),
        ("A a, ANY§(B b, C c)", "(B|C) b; other alternatives are queries"),
        ("A a, §AND(B b, C c)", "a query for each order"),
        ("A a, ALL§(B b, C c)", "a query for each order"),
        ("A§{2,9999999999} a[]", "at most 1,000,000,000 rows"),
    ],
)
def test_elements(text: str, said: str) -> None:
    assert said in str(refused(f"PATTERN SEQ({text}) WITHIN 1 s"))


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("a.id = §e.id", "no variable 'e', expected one of 'a', 'b', 'c', 'd', 'f'."),
        ("a.id = §foo", "write 'foo' for a text, or a.foo for an attribute"),
        ("§a = f.id", "a is a row: which attribute of it?"),
        ("§a[i].id = 1", "write a.id"),
        ("§c[last].id = 1", "c is negated and stands for one row."),
        ("§b.id = 1", "b[i] for every row, b[first], b[last]"),
        ("b§[2].id = 1", "[i], [i+1], [first] and [last]"),
        ("b§[i-1].id = b[i].id", "compare b[i+1] with b[i]"),
        ("§b[i+1].id = a.id", "b[i] stands for every row"),
        ("b[i].id = §f[i].id", "over the rows of b and of f at once"),
        ("§c.id = d.id", "names two negated elements, c and d"),
        ("§[id] OR a.v = 1", "stands on its own or beside AND"),
        ("NOT §[id]", "stands on its own or beside AND"),
        ("a.v = 1 AND §1 = 1", "this condition names no row"),
        ("a.v = §3 = 4", "these two name no row: the chain x = y = z means x = y AND y = z."),
        ("a.v = 1 AND §1 < 2 < a.v", "join comparisons by AND"),
        ("a.v = §3 = (1 + 3) * 2", "the chain x = y = z means"),
        ("a.v < 1 < §b.v", "b[i] for every row, b[first], b[last]"),
        ("§a.v + 1", "a value, where a condition is expected"),
        ("§count(b[])", "a value, where a condition is expected"),
        ("§avg(a.v) > 1", "over the rows of one variable, such as b[i], here is none"),
        ("§avg(a[i].v) > 1", "a is not repeated"),
        ("§avg(b[i].v + f[i].v) > 1", "here is b[i] and f[i]"),
        ("avg(b[i].v - §b[last].v) > 1", "stands as b[i] only"),
        ("avg(b[i].v + §sum(b[i].v)) > 1", "an aggregate within an aggregate"),
        ("sum(b[i].v * §f[last].v) > 1", "f[last].v * sum(b[i].v)"),
        ("avg(b[i].v - §c.v) > 1", "c, which is negated and has no row."),
        ("§count(b[].v) > 1", "write count(b[])"),
        ("§sum(e[i].v) > 1", "no variable 'e'"),
        ("§sqr(a.v) > 1", "did you mean 'sqrt'?"),
        ("§sqrt(a.v, 2) > 1", "sqrt takes one value, here are 2."),
        ("§least(a.v) > 1", "least takes two or more values, here are 1."),
        ("a.v = §99999999999999999999", "64 bits"),
        ("a.x = §1e999", "too large for a number"),
    ],
)
def test_conditions(condition: str, said: str) -> None:
    text = f"PATTERN SEQ(A a, B+ b[], NEG C c, NEG D d, F+ f[]) WHERE {condition} WITHIN 1 s"
    assert said in str(refused(text))


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("a.v = 1 §&& a.x = 1", "write AND"),
        ("a.v = 1 §|| a.x = 1", "write OR"),
        ("a.v §− 1 = 0", "write -"),
        ("a.v *§* 2 = 1", "write ^"),
        ("a.v /§/ 2 = 1", "write floor(x / y)"),
        ("a.v =§> 1", "write >="),
        ("a.v ==§= 1", "write ="),
        ("a.v = 1§)", "a parenthesis too many"),
        ("a.name = §“x”", "straight quotes"),
        ("a.name IN §'x'", "constants stand in braces"),
        ("a.§'end station' = 1", "stands in backticks"),
        ("a.end §station = 1", "a name of two words stands in backticks"),
        ("a §v = 1", "write a.v"),
        ("sqrt §a.v = 1", "write sqrt(...)"),
        ("[a§.id]", "the name alone"),
        ("count(§*) > 1", "write count(b[])"),
        ("a.v §IS NULL", "there is no IS NULL"),
        ("a.v = §NULL", "there is none with NULL"),
        ("a.v §BETWEEN 1 AND 2", "write 1 <= a.v <= 5"),
        ("seconds(a.ts, b.ts) < 5 §ms", "a number has no unit"),
    ],
)
def test_the_habits_of_other_languages(condition: str, said: str) -> None:
    assert said in str(refused(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 1 s"))


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("§a.idd = 1", "no attribute 'idd', expected one of 'flag', 'id', 'name', 'tags', 'ts', 'v', 'x'."),
        ("§a.ID = 1", "did you mean 'id'?"),
        ("§[Name]", "did you mean 'name'?"),
        ("a.id = §a.name", "a text, where a number is expected."),
        ("a.name = §1", "a number, where a text is expected."),
        ("a.name IN {'x', §1}", "a number, where a text is expected."),
        ("a.v < 1 AND sum(c[i].v) = §'x'", "a text, where a number is expected."),
        ("§a.flag < b.flag", "truth values have no order"),
        ("§a.name < b.name", "compare them with =, != or IN"),
        ("1 + §a.name = 1", "a text, where a number is expected."),
        ("-§a.flag = 1", "a truth value, where a number is expected."),
        ("§a.v", "a number, where a truth value is expected."),
        ("NOT §a.name", "a text, where a truth value is expected."),
        ("a.ts = §1", "a number, where a time is expected."),
        ("a.ts > §'2026-01-01'", "and times with times"),
        ("a.ts > §5", "a time is compared with a time"),
        ("§a.ts - b.ts < 5", "seconds(x, y) is the time from x to y"),
        ("seconds(a.ts, §b.v) < 5", "a number, where a time is expected."),
        ("sqrt(§a.name) = 1", "a text, where a number is expected."),
        ("avg(c[i].v, §c[i].name) = 1", "a text, where a number is expected."),
        ("sum(§c[i].name) = 1", "a text, where a number is expected."),
        ("(§a.v = 1) + 1 = 2", "a condition, where a number is expected."),
        ("(§a.v = 1) = a.flag", "a condition, where"),
        ("§a.tags = 1", "tags has the type list<text>, which conditions cannot use."),
    ],
)
def test_kinds(condition: str, said: str) -> None:
    assert said in str(refused(f"PATTERN SEQ(A a, B b, C+ c[]) WHERE {condition} WITHIN 1 s"))


@pytest.mark.parametrize("condition", ["§a.m = b.m", "§[m]", "b.v = 1 AND 1 + §a.m > 2"])
def test_decimals_that_would_be_rounded_are_refused(condition: str) -> None:
    query = parse(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 1 s".replace("§", ""))
    column = f"PATTERN SEQ(A a, B b) WHERE {condition}".index("§") + 1
    for wide in (pa.decimal128(16, 2), pa.decimal128(20, 0), pa.decimal256(60, 0)):
        schema = pa.schema([("m", wide), ("v", pa.int64())])
        with pytest.raises(QueryError, match=r"m has the type decimal.* 64 bits\.") as error:
            check(query, schema)
        assert error.value.column == column
        assert error.value.hint == "cast it to bigint or string, or to decimal(15, s)"
        check(parse("PATTERN SEQ(A a) WHERE a.v = 1 WITHIN 1 s"), schema)
    check(query, pa.schema([("m", pa.decimal128(15, 2)), ("v", pa.int64())]))


def test_a_single_row_is_like_itself() -> None:
    assert "there is but one row" in str(refused("PATTERN SEQ(A a) WHERE a.v = 1 AND §[id] WITHIN 1 s"))


def test_a_query_is_a_text() -> None:
    with pytest.raises(SpillwayError, match="query = 3 is not allowed"):
        parse(3)  # type: ignore[arg-type]


def test_deep_nesting_is_refused_at_its_condition_and_moderate_nesting_is_not() -> None:
    def nested(depth: int) -> str:
        return f"PATTERN SEQ(A a) WHERE a.x = 1 AND\n §{'(' * depth}a.v{' + 1)' * depth} = 1 WITHIN 1 s"

    parse(nested(50).replace("§", ""))
    assert "this condition is nested too deeply." in str(refused(nested(5000), pointed=False))


@pytest.mark.parametrize(
    ("opened", "closed", "most"),
    [("(", " + a.v)", 150), ("(", " ^ 2)", 75), ("avg(", ", a.x)", 50), ("round(", ")", 50)],
)
def test_what_is_not_nested_too_deeply_can_be_run(opened: str, closed: str, most: int) -> None:
    def nested(depth: int) -> str:
        return f"PATTERN SEQ(A a) WHERE §{opened * depth}a.x{closed * depth} > -1 WITHIN 1 s"

    table = pa.table({"ts": [0], "type": ["A"], "v": [1], "x": [1.0]})
    assert run(nested(most).replace("§", ""), table, time="ts", type="type").num_rows == 1
    assert "nested too deeply" in str(refused(nested(most + 1)))


def test_of_a_long_line_the_part_is_shown_that_matters() -> None:
    sums = " + ".join(["a.v"] * 90)
    error = refused(
        f"PATTERN SEQ(A a) WHERE {sums} = 1 AND §a.idd = 1 AND {sums} = 2 WITHIN 1 s", pointed=False
    )
    _, shown, caret = str(error).splitlines()
    assert len(shown) < 170
    assert shown[caret.index("^") :].startswith("a.idd = 1")
    start = refused(f"PATTERN SEQ(A a) WHERE §a.idd = 1 AND {sums} = 2 WITHIN 1 s")
    assert str(start).splitlines()[1].startswith("  PATTERN")


SLIPS = (
    *"()[]{}<>=!+-*/%^.,;'\"`|&#?²µ∈≥−“\n\0 1x",
    "AND",
    "NOT",
    "IN",
    "WITHIN",
    "--",
    "sum(",
    "b[i]",
    "1e999",
)


@given(
    st.sampled_from(list(LISTINGS.values())),
    st.lists(
        st.tuples(st.integers(0, 200), st.booleans(), st.sampled_from(("", *SLIPS))), min_size=1, max_size=3
    ),
)
def test_whatever_is_wrong_is_told_at_a_place(text: str, slips: list[tuple[int, bool, str]]) -> None:
    """Words are lost, replaced and put in between."""
    words = re.findall(r"\w+|\s+|.", text)
    for at, instead, slip in slips:
        words[at % len(words)] = slip if instead else words[at % len(words)] + slip
    query = "".join(words)
    place = Place(1, 1)
    try:
        parse(query)
    except QueryError as error:
        place = error.place
    lines = query.split("\n")
    assert 1 <= place.line <= len(lines)
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1


def test_errors_travel() -> None:
    error = refused("PATTERN SEQ(A a) WHERE §a.idd = 1 WITHIN 1 s")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.place, again.hint) == (str(error), error.place, error.hint)


def test_a_tree_is_checked_as_a_text_is() -> None:
    """Whoever changes a query, or builds one, gets the same errors."""
    read = parse("PATTERN SEQ(A a, B+ b[]) WHERE sum(b[i].v * a.v) > 3 WITHIN 1 s")
    turned = replace(read, elements=read.elements[::-1])
    with pytest.raises(QueryError, match="line 1, column 45: sum over the rows of b cannot use a"):
        check(turned, {"v": "int"})
