"""What the pattern engine promises, over random queries and streams, against the definition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.plan import IndexBy
from spillway.core.cep.syntax import Query
from tests.core.cep.oracle import Match, matches
from tests.core.cep.strategies import SCHEMA, Row, queries, streams, table


def found(parts: list[pa.Table]) -> list[Match]:
    rows = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    return [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows]


def config(query: Query, index: IndexBy = "all", **options: Any) -> PatternConfig:
    return PatternConfig(query, SCHEMA, time="ts", type="type", index=index, compile=False, **options)


@given(queries(), streams(), st.sampled_from(["all", "all", "attributes", "none"]), st.data())
def test_all_matches_come_out_once(
    query: Query, rows: list[Row], index: IndexBy, data: st.DataObject
) -> None:
    """However the stream is cut into tables, and with a snapshot between any two of them."""
    how = config(query, index)
    patterns, parts, at = how.build(), [], 0
    while at < len(rows):
        size = data.draw(st.integers(1, len(rows) - at)) if at else data.draw(st.integers(0, len(rows)))
        parts.append(patterns.process(table(rows[at : at + size])))
        at += size
        if data.draw(st.booleans()):
            patterns = how.build(patterns.snapshot())
    parts.append(patterns.flush())
    result = found(parts)
    assert len(set(result)) == len(result)
    assert set(result) == matches(query, rows)
