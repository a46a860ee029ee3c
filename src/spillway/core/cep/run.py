"""Pattern matching in memory: it does to a pyarrow Table what ``Spillway.match`` does to a stream."""

from __future__ import annotations

import pyarrow as pa

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.language.syntax import Query
from spillway.core.cep.shed import Shed, give_up, shed_matches, shed_of
from spillway.core.checks import require_whole
from spillway.core.data.tables import table_of

_SHORT = 100  # rows; for so few it does not pay to compile the query
_MOST = 10_000_000  # partial matches, some gigabytes


def run(
    query: str | Query,
    table: pa.Table,
    *,
    time: str,
    type: str,
    shedding: Shed | None = None,
    most_runs: int = _MOST,
) -> pa.Table:
    """Return the matches of a pattern in a table: a column per variable with row numbers, lists where it is repeated.

    Rows are taken in the order of time, whatever their order in the table.

    >>> rides = pa.table({"ts": [0, 1, 2, 3], "type": ["A", "B", "B", "C"], "id": [7, 7, 7, 7]})
    >>> run("PATTERN SEQ(A a, B+ b[], C c) WHERE [id] WITHIN 5 s", rides, time="ts", type="type").to_pylist()
    [{'a': 0, 'b': [1], 'c': 3}, {'a': 0, 'b': [1, 2], 'c': 3}, {'a': 0, 'b': [2], 'c': 3}]

    More than ``most_runs`` partial matches at once are an error, counted as in
    :class:`~spillway.core.cep.config.PatternConfig`. This holds with ``shedding`` too, which sheds only to keep the
    bound.

    With ``shedding`` the table has the matches that are found while an event takes no longer than the bound, in
    virtual time. See :class:`~spillway.core.cep.shed.Shed`. Where some of them may be invented, the metadata of the
    table's schema say why, under :data:`~spillway.core.cep.shed.INVENTED`.

    >>> busy = pa.table({"ts": range(90), "type": list("ABC") * 30, "id": [1] * 90})
    >>> pair = "PATTERN SEQ(A a, B b, C c) WHERE [id] WITHIN 20 s"
    >>> everything = run(pair, busy, time="ts", type="type")
    >>> by_chance = Shed(strategy="random_state", bound_s=10, unit_s=1, check_events=5)
    >>> some = run(pair, busy, time="ts", type="type", shedding=by_chance)
    >>> 0 < some.num_rows < everything.num_rows
    True
    >>> all(match in everything.to_pylist() for match in some.to_pylist())
    True
    """
    how = shed_of(shedding)
    table = table_of("table", table)
    require_whole("most_runs", most_runs, 1, 2**40)
    rows = table.num_rows + (0 if how is None or how.history is None else how.history.num_rows)
    config = PatternConfig(
        query, table.schema, time=time, type=type, tracked=True, most_runs=most_runs, compile=rows > _SHORT
    )
    if how is not None:
        return shed_matches(config, table, how)
    return _all_matches(config.build(), table)


def run_with_timeouts(
    query: str | Query, table: pa.Table, *, time: str, type: str, most_runs: int = _MOST
) -> tuple[pa.Table, pa.Table]:
    """Return the matches as :func:`run` does, and the partial matches that timed out.

    These are the runs whose window passed, or that the end of the table cut off, and from which neither a match nor
    a longer run was made. Variables that they had not reached are null. A match that a negated element at the end
    forbids is in neither table.

    >>> rides = pa.table({"ts": [0, 1, 2, 9], "type": ["A", "B", "A", "C"]})
    >>> matches, timed_out = run_with_timeouts("PATTERN SEQ(A a, B b, C c) WITHIN 5 s", rides, time="ts", type="type")
    >>> matches.num_rows, timed_out.to_pylist()
    (0, [{'a': 0, 'b': 1, 'c': None}, {'a': 2, 'b': None, 'c': None}])
    """
    table = table_of("table", table)
    config = PatternConfig(
        query,
        table.schema,
        time=time,
        type=type,
        tracked=True,
        most_runs=most_runs,
        compile=table.num_rows > _SHORT,
        timeouts=True,
    )
    patterns = config.build()
    return _all_matches(patterns, table), patterns.timed_out()


def _all_matches(patterns: Patterns, table: pa.Table) -> pa.Table:
    """Return all matches in a table, or raise an error if there are more runs than ``most_runs``."""
    patterns.relieve = give_up
    matches = patterns.process(table)
    if patterns.work.crowded_out:  # held matches are shed without a call of ``relieve``
        give_up(patterns)
    return pa.concat_tables([matches, patterns.flush()])
