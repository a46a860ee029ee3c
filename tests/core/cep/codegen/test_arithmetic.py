"""What is computed in conditions, at the edges of numbers: compiled, interpreted and by the oracle it is the same."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from spillway.core.cep.language import parse
from tests.core.cep.engine.streams import patterns
from tests.core.cep.oracle import value

WHOLE = (0, 1, 2, -3, 7, -8, 2**52 + 1, 2**61, -(2**61) + 1, None)
WHOLE += (2**31, 2**40, -3037000499, 3037000500, 2**62, -(2**62), 2**63 - 1, -(2**63) + 2)
FRACTIONS = (
    0.0,
    -0.0,
    0.5,
    -1.5,
    2.5,
    0.49999999999999994,
    2.0**52 + 1,
    1e308,
    -1e308,
    *(math.inf, -math.inf),
)
CONDITIONS = (
    "a.v % 3 = 1",
    "a.v % -3 <= 0",
    "(a.v + 1) % a.w != 0",
    "a.x % 2 >= 0",
    "3 % a.x = 3",
    "a.x % a.v != 1",
    "a.v / a.w > 0",
    "NOT a.v / a.w > 0",
    "a.v / a.w NOT IN {1, 2}",
    "a.x / a.x != 2",
    "a.x - a.x != 5",
    "a.x * 0 NOT IN {1, 2}",
    "a.x ^ 2 > 0",
    "a.x ^ -1 > 0",
    "a.v ^ 0.5 >= 0",
    "NOT a.v ^ 0.5 >= 0",
    "(a.x - 1) ^ 3 < 5",
    "2 ^ a.x > 0",
    "a.w ^ a.v > 1",
    "-a.x ^ 2 < 0",
    "exp(a.x) > 1",
    "NOT exp(a.v) > 1",
    "sqrt(a.x) >= 0",
    "sqrt(a.v) != 1",
    "log(a.x) < 1",
    "log10(a.v) != 0",
    "floor(a.x) >= 0",
    "floor(a.v) = a.v",
    "floor(a.x) % 2 = 0",
    "ceil(a.x) <= 0",
    "round(a.x) = a.x",
    "round(a.x) = 0",
    "round(a.v) = a.v",
    "round(a.x / 2) > 1",
    "sign(a.x) = -1",
    "abs(a.v) > 2 AND abs(a.x) < 3",
    "least(a.v, a.x) < greatest(a.w, 0.5)",
    "avg(a.v, a.x) > 0",
    "a.x = a.v",
    "a.v IN {0.0, 7.0, 4503599627370497}",
    "a.x NOT IN {0, 2.5}",
    "-7 % 3 = a.v - 1",
    "7 / 2 > a.v",
    "a.v + 1 > 0",
    "NOT a.v + a.v > 0",
    "a.v - 3 < 0",
    "a.w - a.v != 0",
    "a.v * a.v > 0",
    "NOT a.v * a.v > 0",
    "a.v * a.w NOT IN {1, 2}",
    "a.v * 2 - a.v = a.v",
    "-a.v * (a.v + 1) <= 0",
    "9223372036854775807 + a.w > 0",
)


def rows() -> list[dict[str, Any]]:
    """One row for each condition and each pair of values."""
    values = [(v, FRACTIONS[n % len(FRACTIONS)]) for n, v in enumerate(WHOLE)] + [(1, x) for x in FRACTIONS]
    values += [(2, None), (3, math.nan)]
    return [
        {"k": k, "v": v, "x": x, "w": (n * 5 + k) % 4 - 1}
        for k in range(len(CONDITIONS))
        for n, (v, x) in enumerate(values)
    ]


@pytest.mark.parametrize("compile_", [False, True], ids=["interpreted", "compiled"])
def test_every_operation_at_its_edges(compile_: bool) -> None:
    """All conditions stand in one query, each for rows of its own: it is compiled once."""
    given = rows()
    kinds = {"k": pa.int64(), "v": pa.int64(), "x": pa.float64(), "w": pa.int64()}
    table = pa.table({name: pa.array([row[name] for row in given], kind) for name, kind in kinds.items()})
    table = table.append_column("ts", pa.array(range(len(given)))).append_column(
        "type", pa.array(["A"] * len(given))
    )
    text = " AND ".join(f"(a.k != {k} OR ({condition}))" for k, condition in enumerate(CONDITIONS))
    query = f"PATTERN SEQ(A a) WHERE {text} WITHIN 1 us"
    found = patterns(query, table, compile=compile_).process(table)["a"].to_pylist()
    conditions = [parse(f"PATTERN SEQ(A a) WHERE {each} WITHIN 1 us").conditions for each in CONDITIONS]
    expected = [
        n
        for n, row in enumerate(given)
        if all(value(c, {"a": [row]}, {}) is True for c in conditions[row["k"]])
    ]
    differ = {(CONDITIONS[given[n]["k"]], *given[n].values()) for n in set(found) ^ set(expected)}
    assert differ == set()
    assert len({given[n]["k"] for n in found}) == len(CONDITIONS) - 1  # a root is never negative
