"""The join in memory: it does to two pyarrow Tables what ``Spillway.join`` does to two streams."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Ints
from spillway.core.checks import require_number
from spillway.core.data.tables import table_of
from spillway.core.data.times import MICROSECONDS, times_of
from spillway.core.join.adaptations import Shedding, SheddingName
from spillway.core.join.config import Access, JoinConfig
from spillway.core.join.operator import SCHEMA
from spillway.core.join.predicates import Predicate


def run(
    left: pa.Table | None,
    right: pa.Table | None,
    *,
    on: Predicate,
    within_s: float | tuple[float, float],
    time: str | tuple[str, str],
    budget: float | None = None,
    shedding: SheddingName | Shedding | str = "selective",
    salt: int = 0,
    period_s: float | None = None,
    access: Access = "scan",
) -> pa.Table:
    """Join two tables as if they were streams, and return the pairs: ``left_row``, ``right_row`` and ``score``.

    A left and a right row are a pair if they match and neither is older than its window when the other comes:
    ``-within_s[1] <= right time - left time <= within_s[0]``. Rows are taken in the order of time, whatever their
    order in the tables. Rows without a time or a value are in no pair. None stands for a table without rows.

    ``budget`` is how many units of work the join may spend: comparisons for a scan, for an index those of
    :mod:`spillway.core.join.work`. It applies to the whole input or, with ``period_s``, to each such period of the
    rows' time. ``shedding`` decides which comparisons are given up to keep it.

    >>> from spillway.core.join import overlap
    >>> cnn = pa.table({"ts": [0, 30], "words": [["oil", "price", "opec"], ["rain", "flood"]]})
    >>> reuters = pa.table({"ts": [20, 90], "words": [["oil", "opec", "talks"], ["flood", "rain"]]})
    >>> run(cnn, reuters, on=overlap("words", at_least=2), within_s=60, time="ts").to_pydict()
    {'left_row': [0, 1], 'right_row': [0, 1], 'score': [2.0, 2.0]}
    """
    config = JoinConfig(on=on, within_s=within_s, time=time, shedding=shedding, access=access, salt=salt)
    join = config.build()
    if budget is not None:
        require_number("budget", budget, 0.0)
    left, right = (t if t is None else table_of(side, t) for side, t in (("left", left), ("right", right)))
    if period_s is None:
        return join.process(left, right, budget)
    require_number("period_s", period_s, 1e-6)
    length = max(1, round(period_s * MICROSECONDS))
    timed = [_periods(table, name, length) for table, name in zip((left, right), config.times, strict=True)]
    periods = np.union1d(timed[0][0], timed[1][0])
    found = []
    for period in periods:
        parts = []
        for (numbers, rows), table in zip(timed, (left, right), strict=True):
            low, high = np.searchsorted(numbers, [period, period + 1])
            parts.append(None if table is None else table.take(pa.array(rows[low:high])))
        found.append(join.process(parts[0], parts[1], budget))
    pairs = pa.concat_tables(found) if found else SCHEMA.empty_table()
    left_rows, right_rows = (side[1][pairs[i].to_numpy()] for i, side in enumerate(timed))
    return pa.table([pa.array(left_rows), pa.array(right_rows), pairs[2]], schema=SCHEMA)


def _periods(table: pa.Table | None, time: str, length: int) -> tuple[Ints, Ints]:
    """Return the period of each row that has a time, ascending, and the rows in that order."""
    if table is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    times, timed = times_of(table, time)
    rows = np.flatnonzero(timed)
    rows = rows[np.argsort(times[rows], kind="stable")]
    return times[rows] // length, rows
