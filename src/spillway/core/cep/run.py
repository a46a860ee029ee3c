"""Patterns in memory: what ``Spillway.match`` does to a stream, done to a pyarrow Table."""

from __future__ import annotations

import pyarrow as pa

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.shed import Shed, shed_matches, shed_of
from spillway.core.cep.syntax import Query
from spillway.errors import invalid

_SHORT = 100  # rows; for so few it does not pay to compile the query


def run(
    query: str | Query, table: pa.Table, *, time: str, type: str, shedding: Shed | None = None
) -> pa.Table:
    """Return the matches of a pattern in a table: a column per variable with row numbers, lists where it is repeated.

    Rows are taken in the order of time, whatever their order in the table.

    >>> rides = pa.table({"ts": [0, 1, 2, 3], "type": ["A", "B", "B", "C"], "id": [7, 7, 7, 7]})
    >>> run("PATTERN SEQ(A a, B+ b[], C c) WHERE [id] WITHIN 5 s", rides, time="ts", type="type").to_pylist()
    [{'a': 0, 'b': [1], 'c': 3}, {'a': 0, 'b': [1, 2], 'c': 3}, {'a': 0, 'b': [2], 'c': 3}]

    With ``shedding`` these are the matches that are found although an event may take only so long on average, in
    virtual time. See :class:`~spillway.core.cep.shed.Shed`.

    >>> busy = pa.table({"ts": range(90), "type": list("ABC") * 30, "id": [1] * 90})
    >>> pair = "PATTERN SEQ(A a, B b, C c) WHERE [id] WITHIN 20 s"
    >>> everything = run(pair, busy, time="ts", type="type")
    >>> by_chance = Shed(strategy="random_state", bound_s=20, unit_s=1, check_events=5)
    >>> some = run(pair, busy, time="ts", type="type", shedding=by_chance)
    >>> 0 < some.num_rows < everything.num_rows
    True
    >>> all(match in everything.to_pylist() for match in some.to_pylist())
    True
    """
    if not isinstance(table, pa.Table):
        raise invalid("table", table.__class__.__name__, "a pyarrow Table")
    how = shed_of(shedding)
    rows = table.num_rows + (0 if how is None or how.history is None else how.history.num_rows)
    config = PatternConfig(query, table.schema, time=time, type=type, compile=rows > _SHORT)
    if how is not None:
        return shed_matches(config, table, how)
    patterns = config.build()
    return pa.concat_tables([patterns.process(table), patterns.flush()])
