"""Streams for tests of the engine: the paper's first data set, small ones by hand, and a way to look for patterns."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from spillway.core.cep import PatternConfig, Patterns

Q1 = "PATTERN SEQ(A a, B b, C c) WHERE a.ID=b.ID AND a.ID=c.ID AND a.V+b.V=c.V WITHIN {} ms"


def ds1(rows: int, seed: int = 42) -> pa.Table:
    """The data set DS1: one row each microsecond, types A to D."""
    draw = random.Random(seed)
    ranges = {"A": (1, 10), "B": (1, 10), "C": (2, 10), "D": (0, 1)}
    types, values, ids = [], [], []
    for _ in range(rows):
        types.append("ABCD"[draw.randrange(4)])
        values.append(draw.randint(*ranges[types[-1]]))
        ids.append(draw.randint(1, 10))
    times = pa.array(range(1, rows + 1), pa.timestamp("us"))
    return pa.table({"ts": times, "type": types, "V": values, "ID": ids})


def typed(text: str, **columns: list[Any]) -> pa.Table:
    """One row per letter, a second apart, its type being the letter."""
    return pa.table({"ts": list(range(len(text))), "type": list(text), **columns})


def patterns(query: str, table: pa.Table, **options: Any) -> Patterns:
    """The operator for a query, interpreted unless asked otherwise."""
    options = {"compile": False} | options
    return PatternConfig(query, table.schema, time="ts", type="type", **options).build()
