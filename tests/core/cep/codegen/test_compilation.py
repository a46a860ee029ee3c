"""Machine code against the definition: every kind of column, of index and of aggregate, in three queries.

To compile a query takes seconds, so conditions share one. Rows come in groups that are farther apart than the window,
and a condition is asked of the rows of its own group only.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep.language import parse
from tests.core.cep.engine.streams import patterns
from tests.core.cep.oracle import matches

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        *(("ts", pa.timestamp("us")), ("type", pa.string()), ("k", pa.int16())),
        *(("v", pa.int32()), ("u", pa.uint64()), ("x", pa.float32()), ("m", pa.decimal128(10, 2))),
        *(("tag", pa.dictionary(pa.int32(), pa.string())), ("flag", pa.bool_())),
        *(("d", pa.date32()), ("z", pa.timestamp("ns", tz="Europe/Berlin")), ("big", pa.int64())),
    ]
)
DAYS = (date(2020, 1, 1), date(2020, 1, 2))
VALUES: dict[str, tuple[Any, ...]] = {
    "v": (-1, 0, 1, 2, None),
    "u": (0, 1, 3),
    "x": (-1.5, -0.0, 0.0, 1.0, 2.5, math.nan, None),
    "m": (Decimal("0.25"), Decimal("0.50"), None),
    "tag": ("p", "q", "", None),
    "flag": (True, False, None),
    "d": (*DAYS, None),
    "z": (*(datetime(day.year, day.month, day.day) for day in DAYS), None),
    "big": (2**62, 2**62, -(2**62), 5, None),
}
PAIRS = (
    "exp(a.v) + log10(b.v + 4) + ceil(b.x) + sign(a.x) < 4 OR round(a.x) = round(b.x)",
    "a.tag IN {'p', ''} AND b.flag IN {true} OR a.flag = b.flag AND NOT b.flag",
    "a.tag NOT IN {'p'} AND a.tag != b.tag",
    "least(a.v, b.x) <= greatest(a.x, b.v, 1) AND avg(a.v, b.x) < 1",
    "a.d = b.z OR seconds(a.d, b.z) > 0",
    "a.d <= b.d AND NOT a.z < b.z",
    "a.m = b.m OR a.m + b.u > 3",
    "a.v ^ 2 = b.v ^ 2 AND -a.v ^ 2 <= 0",
    "a.v / b.v = 1 OR a.v % b.u = 1",
    "sqrt(a.v) = sqrt(b.v) OR log(a.v) = log(b.v)",
    "floor(a.x) = floor(b.x) AND abs(a.x) >= b.v",
    "a.big * b.v > a.big - b.big",
    "a.flag AND (NOT b.flag OR a.x != b.x)",
)
REPEATED = (
    "sum(b[i].v) > a.v",
    "sum(b[i].big) > 0",
    "avg(b[i].big) >= c.v",
    "avg(b[i].x) <= c.x",
    "min(b[i].v) = c.v OR max(b[i].x) > 2",
    "count(b[]) = c.u + 1",
    "sum(b[i].v * a.v) >= sum(b[i].x)",
    "b[i+1].v >= b[i].v",
    "b[first].v < b[last].v",
    "b[i].v != c.v",
    "b[i].flag OR b[i].tag = a.tag",
)
KEYS = """a.x = b.v AND a.tag = b.tag AND a.d = b.z AND floor(a.x) = floor(b.x) AND a.v + b.u = b.v + 1
          AND a.x * 0 = b.x * 0"""


def drawn(seed: int, groups: list[str]) -> list[Row]:
    """Rows of the types of each group, 1 us apart, and groups 1 ms apart."""
    luck = np.random.default_rng(seed)
    return [
        {"ts": 1_000 * k + n, "type": kind, "k": k}
        | {name: values[luck.integers(len(values))] for name, values in VALUES.items()}
        for k, types in enumerate(groups)
        for n, kind in enumerate(types)
    ]


def table(rows: list[Row]) -> pa.Table:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


def plain(row: Row) -> Row:
    """A row as the oracle takes it: times in microseconds, decimals as fractions."""
    days = {name: row[name] and (row[name].toordinal() - 737_425) * 86_400 * 10**6 for name in ("d", "z")}
    return {**row, **days, "m": row["m"] and float(row["m"])}


def compare(elements: str, conditions: tuple[str, ...], rows: list[Row], compile_: bool) -> int:
    """Compare all groups with the oracle, and return in how many conditions something was found."""
    text = " AND ".join(f"(a.k != {k} OR ({each}))" for k, each in enumerate(conditions))
    text = text if len(conditions) > 1 else conditions[0]
    given = table(rows)
    finder = patterns(f"PATTERN SEQ({elements}) WHERE {text} WITHIN 100 us", given, compile=compile_)
    found = [tuple(match.values()) for match in finder.process(given).to_pylist()]
    mine = [tuple(tuple(part) if isinstance(part, list) else part for part in match) for match in found]
    assert len(set(mine)) == len(mine)
    hit = 0
    for k, each in enumerate(conditions):
        query = parse(f"PATTERN SEQ({elements}) WHERE {each} WITHIN 100 us")
        numbers = [n for n, row in enumerate(rows) if row["k"] == k or len(conditions) == 1]
        expected = matches(query, [plain(rows[n]) for n in numbers])
        first = numbers[0]
        here = {match for match in mine if match[0] in numbers}
        assert {_moved(match, -first) for match in here} == expected, each
        hit += len(expected) > 0
    return hit


def _moved(match: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    return tuple(tuple(n + by for n in part) if isinstance(part, tuple) else part + by for part in match)


COMPILE = pytest.mark.parametrize("compile_", [False, True], ids=["interpreted", "compiled"])


@COMPILE
def test_columns_of_all_kinds(compile_: bool) -> None:
    rows = drawn(1, ["AB" * 12] * len(PAIRS))
    assert compare("A a, B b", PAIRS, rows, compile_) == len(PAIRS)


@COMPILE
def test_sequences_and_aggregates(compile_: bool) -> None:
    rows = drawn(3, ["ABBABBCBCC"] * len(REPEATED))
    assert compare("A a, B+ b[], C c", REPEATED, rows, compile_) == len(REPEATED)


@COMPILE
def test_indexes_of_all_kinds(compile_: bool) -> None:
    rows = drawn(3, ["A" * 40 + "B" * 50])
    assert compare("A a, B b", (KEYS,), rows, compile_) == 1
