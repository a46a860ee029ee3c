"""Random queries and random streams that fit each other, for tests against the oracle.

A query is drawn as text and read by the language, so that whatever can be written is tried: all policies, repeated
and negated elements anywhere, types in common, aggregates, functions, ``or`` and ``not``, unknown values. Numbers are
small halves, for which sums are exact in any order, and few values are drawn from, so that equal ones are common.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from spillway.core.cep.language import parse
from spillway.core.cep.language.syntax import Query

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("type", pa.string()),
        ("id", pa.int64()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("tag", pa.string()),
        ("flag", pa.bool_()),
    ]
)
TYPES = ("A", "B", "C")
POLICIES = ("any", "next", "strict")
UNDER = {"any": "", "next": " UNDER skip_till_next_match", "strict": " UNDER strict_contiguity"}
COMPARISONS = ("=", "<=", ">=", "<", ">", "!=", "<=", ">=")
FUNCTIONS = (
    "abs({})",
    "sqrt({})",
    "floor({})",
    "ceil({})",
    "round({})",
    "sign({})",
    "-({})",
    "({})^2",
    "log({})",
    "log10({})",
    "exp({})",
)
PAIRS = (
    "({} + {})",
    "({} - {})",
    "({} * {})",
    "({} / {})",
    "({} % {})",
    "least({}, {})",
    "max({}, {})",
    "avg({}, {}, 1)",
)

Row = dict[str, Any]


def streams(max_rows: int = 8, nulls: bool = True) -> st.SearchStrategy[list[Row]]:
    """Rows in the order of time, some at the same time, some with nulls."""

    def one_of(*values: Any) -> st.SearchStrategy[Any]:
        return st.sampled_from([*values * 3, None] if nulls else values)

    row = st.fixed_dictionaries(
        {
            "ts": st.sampled_from([1, 1, 1, 0, 2, 5]),
            "type": st.sampled_from([*TYPES * 4, "D", *([None] if nulls else [])]),
            "id": one_of(0, 0, 0, 1),
            "v": one_of(1, 1, 0, 2, -1),
            "x": one_of(0.5, 0.5, 1.0, 0.0, 2.5, -1.5, *([math.nan] if nulls else [])),
            "tag": one_of("p", "p", "q"),
            "flag": one_of(True, True, False),
        }
    )
    lengths = st.sampled_from([max_rows - 2, max_rows - 2, 0])
    return lengths.flatmap(lambda least: st.lists(row, min_size=least, max_size=max_rows)).map(_in_time)


def _in_time(rows: list[Row]) -> list[Row]:
    """The rows with the times since the one before added up."""
    times = itertools.accumulate(row["ts"] for row in rows)
    return [{**row, "ts": at} for row, at in zip(rows, times, strict=True)]


def table(rows: list[Row]) -> pa.Table:
    """Rows as the engine gets them; NaN stays NaN."""
    columns = {field.name: [row[field.name] for row in rows] for field in SCHEMA}
    return pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names})


@st.composite
def queries(
    draw: st.DrawFn,
    policies: tuple[str, ...] = POLICIES,
    negation: bool = True,
    kleene: bool = True,
    max_elements: int = 3,
) -> Query:
    """A query of one to ``max_elements`` elements, besides up to two negated ones."""
    plain, repeated, negated, elements = [], [], [], []
    for variable in "abcd"[: draw(st.integers(1, max_elements))]:
        if kleene and len(repeated) < 2 and draw(st.booleans()):
            length = draw(st.sampled_from(["+", "+", "{2,}", "{1,2}", "{2,3}", "{2}"]))
            elements.append(f"{draw(types())}{length} {variable}[]")
            repeated.append(variable)
        else:
            elements.append(f"{draw(types())} {variable}")
            plain.append(variable)
    for variable in "mn"[: draw(st.sampled_from([0, 0, 1, 1, 2])) if negation else 0]:
        elements.insert(draw(st.integers(0, len(elements))), f"NEG {draw(types())} {variable}")
        negated.append(variable)
    several = draw(st.sampled_from([1, 1, 2, 0, 0, 3]))
    conditions = [draw(conditions_over(plain, repeated, negated)) for _ in range(several)]
    if (len(elements) > 1 or repeated) and draw(st.integers(0, 2)) == 0:
        conditions.insert(0, draw(st.sampled_from(["[id]", "[id]", "[tag]", "[v]"])))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    window = f"WITHIN {draw(st.sampled_from([6, 10, 50, 3]))} us{draw(st.sampled_from(['', ' INCLUSIVE']))}"
    policy = draw(st.sampled_from(policies))
    return parse(f"PATTERN SEQ({', '.join(elements)}){where} {window}{UNDER[policy]}")


def types() -> st.SearchStrategy[str]:
    return st.sampled_from([*TYPES, "(A|B)", "(B|C)", "(A|C)", "(A|B|C)"])


@st.composite
def conditions_over(draw: st.DrawFn, plain: list[str], repeated: list[str], negated: list[str]) -> str:
    """A condition that names rows only as a query may: of one variable [i], of one at most a negated one."""
    rows = [*plain, *(f"{name}[{which}]" for name in repeated for which in ("first", "last"))]
    rows += [draw(st.sampled_from(negated))] * 2 if negated and draw(st.booleans()) else []
    pair = None
    if repeated and draw(st.booleans()):
        name = draw(st.sampled_from(repeated))
        rows += [f"{name}[i]"] * 2
        pair = name if draw(st.booleans()) else None
    return draw(joined_tests(rows, repeated, pair, 1))


@st.composite
def joined_tests(draw: st.DrawFn, rows: list[str], repeated: list[str], pair: str | None, depth: int) -> str:  # noqa: PLR0911
    """A test of some rows, or two or three of them joined."""
    if depth and draw(st.integers(0, 3)) == 0:
        parts = [draw(joined_tests(rows, repeated, pair, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        joined = f" {draw(st.sampled_from(['OR', 'OR', 'AND']))} ".join(parts)
        return f"{draw(st.sampled_from(['', 'NOT ']))}({joined})"
    row, other = draw(st.sampled_from(rows)), draw(st.sampled_from(rows))
    if pair is not None:
        row, other = draw(
            st.permutations([f"{pair}[i+1]", draw(st.sampled_from([f"{pair}[i]", f"{pair}[first]"]))])
        )
    sign = draw(st.sampled_from(COMPARISONS))
    equal = draw(st.sampled_from(["=", "=", "!="]))
    shape = draw(st.integers(0, 11 if pair is None else 5))
    if shape <= 2:
        name = draw(st.sampled_from(["id", "v", "x"]))
        return f"{row}.{name} {sign} {other}.{name}"
    if shape == 3:
        return f"{row}.tag {equal} {other}.tag"
    if shape == 4:
        return f"seconds({row}.ts, {other}.ts) {sign} {draw(st.integers(-3, 3))}e-6"
    if shape == 5:
        return f"{row}.v + {other}.id {sign} {draw(numbers(rows, repeated, 1))}"
    if shape == 6:
        return f"{row}.tag {draw(st.sampled_from(['= ', '!= ']))}'{draw(st.sampled_from('pqr'))}'"
    if shape == 7:
        return f"{row}.v {draw(st.sampled_from(['IN', 'NOT IN']))} {{0, 1, -2}}"
    if shape == 8:
        return f"{draw(st.sampled_from(['', 'NOT ']))}{row}.flag"
    if shape == 9:
        return f"-1 <= {row}.v {draw(st.sampled_from(['<', '<=']))} {draw(numbers(rows, repeated, 1))}"
    if shape == 10 and repeated:
        over = draw(st.sampled_from(repeated))
        return f"count({over}[]) {sign} {draw(st.integers(1, 3))}"
    return f"{row}.x {sign} {draw(numbers(rows, repeated, 2))}"


@st.composite
def numbers(draw: st.DrawFn, rows: list[str], repeated: list[str], depth: int) -> str:
    """A number computed from rows and constants."""
    shape = draw(st.integers(0, 5)) if depth else draw(st.integers(0, 1))
    if shape == 0:
        return draw(st.sampled_from(["0", "1", "2", "0.5", "-1", "3"]))
    if shape == 1:
        return f"{draw(st.sampled_from(rows))}.{draw(st.sampled_from(['id', 'v', 'x']))}"
    if shape == 2:
        return draw(st.sampled_from(FUNCTIONS)).format(draw(numbers(rows, repeated, depth - 1)))
    if shape == 3 and repeated:
        over = draw(st.sampled_from(repeated))
        inner = draw(st.sampled_from(["{}.v", "{}.x", "{}.v * {}.v", "{}.x - 1", "abs({}.v)"]))
        return f"{draw(st.sampled_from(['avg', 'sum', 'min', 'max']))}({inner.replace('{}', f'{over}[i]')})"
    pair = [draw(numbers(rows, repeated, depth - 1)) for _ in range(2)]
    return draw(st.sampled_from(PAIRS)).format(*pair)
