"""The shards of a pattern on Spark, without Spark: exact by the definition, whatever the order and the batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.syntax import Query
from spillway.spark.join_pack import ORDER
from spillway.spark.match_shard import MatchLogic
from tests.core.cep.oracle import Match, matches
from tests.core.cep.strategies import SCHEMA, Row, queries, streams, table
from tests.core.spark_parts.match_shards import MatchShards

DELAY_US = 4
AFTER = 10_000  # a time at which all windows are over


def logic(query: Query, **options: Any) -> MatchLogic:
    schema = SCHEMA.append(pa.field("row", pa.int64()))
    config = PatternConfig(query, schema, time="ts", type="type", compile=False, late="drop")
    return MatchLogic(config, ("row", "tag"), ("first_time", "last_time"), DELAY_US, **options)


def found(parts: list[pa.Table]) -> list[Match]:
    """Return matches by the rows that they tell."""
    result = []
    for match in (row for part in parts for row in part.to_pylist()):
        rows = [match[name] for name in match if name not in ("first_time", "last_time")]
        named = [tuple(r["row"] for r in part) if isinstance(part, list) else part["row"] for part in rows]
        result.append(tuple(named))
    return result


def numbered(rows: list[Row], backwards: bool) -> pa.Table:
    """Rows with their number, and a hash that puts those of the same time in that order or the other way round."""
    whole = table(rows).append_column("row", pa.array(range(len(rows)), pa.int64()))
    order = [-n for n in range(len(rows))] if backwards else list(range(len(rows)))
    return whole.append_column(ORDER, pa.array(order, pa.int64()))


@given(queries(), streams(), st.booleans(), st.booleans(), st.data())
def test_all_matches_come_once_however_the_stream_is_cut(
    query: Query, rows: list[Row], named_order: bool, forgetful: bool, data: st.DataObject
) -> None:
    """Rows come out of order within the watermark, in batches, on shards; state is remembered or read again."""
    whole = numbered(rows, backwards=named_order)
    shards = MatchShards(
        logic(query, order="row" if named_order else None),
        seed=data.draw(st.integers(0, 9)),
        forgetful=forgetful,
    )
    jitter = [data.draw(st.integers(0, DELAY_US)) for _ in rows]
    arriving = sorted(range(len(rows)), key=lambda n: rows[n]["ts"] + jitter[n])
    parts: list[pa.Table] = []
    while arriving:
        size = data.draw(st.integers(1, len(arriving)))
        parts += shards.feed(whole.take(arriving[:size]))
        assert shards.counts["late"] == 0
        arriving = arriving[size:]
    parts += shards.feed(None, watermark_ms=AFTER)
    result = found(parts)
    assert len(set(result)) == len(result)
    assert set(result) == matches(query, rows)
    assert shards.feed(None, watermark_ms=2 * AFTER) == [], "nothing is left"
