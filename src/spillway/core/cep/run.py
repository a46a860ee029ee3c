"""Patterns in memory: what ``Spillway.match`` does to a stream, done to a pyarrow Table."""

from __future__ import annotations

import pyarrow as pa

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.syntax import Query
from spillway.errors import invalid

_SHORT = 100  # rows; for so few it does not pay to compile the query


def run(query: str | Query, table: pa.Table, *, time: str, type: str, shedding: None = None) -> pa.Table:
    """Return all matches of a pattern in a table: a column per variable with row numbers, lists where it is repeated.

    Rows are taken in the order of time, whatever their order in the table.

    >>> rides = pa.table({"ts": [0, 1, 2, 3], "type": ["A", "B", "B", "C"], "id": [7, 7, 7, 7]})
    >>> run("PATTERN SEQ(A a, B+ b[], C c) WHERE [id] WITHIN 5 s", rides, time="ts", type="type").to_pylist()
    [{'a': 0, 'b': [1], 'c': 3}, {'a': 0, 'b': [1, 2], 'c': 3}, {'a': 0, 'b': [2], 'c': 3}]
    """
    if not isinstance(table, pa.Table):
        raise invalid("table", type.__class__.__name__, "a pyarrow Table")
    if shedding is not None:
        raise invalid("shedding", shedding, "None")
    config = PatternConfig(query, table.schema, time=time, type=type, compile=table.num_rows > _SHORT)
    patterns = config.build()
    return pa.concat_tables([patterns.process(table), patterns.flush()])
