"""Sheds every window of a table in memory, and answers each of its groups with an estimate and its interval.

Windows are processed in the order of their ends (Figure 6). The concept, here the exact sizes of the groups, gives
each group its number of rows; these rows are drawn and answer the query; and the variation that they show is kept for
the next window (:class:`~spillway.core.groups.spread.Spread`). So the variance rule uses only rows that were
processed anyway, and the first window is divided equally. With ``pilot`` it also uses a pilot of each
window, as many rows as are kept, of which only the value is read.

**Overlapping windows** draw independently: the order of a row is a hash of (salt, row key, window). With a single
order for all windows, a window would draw again the rows from which its own sample sizes were derived, and would be
biased towards them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.aggregates import Aggregate, Ratio, answer, require_aggregate
from spillway.core.groups.estimate import answered, prior_of
from spillway.core.groups.even_sample import evenly
from spillway.core.groups.intervals import Design, Estimates, Sampled
from spillway.core.groups.paper.window_scan import coin_number
from spillway.core.groups.pilot import PILOT, pilot
from spillway.core.groups.random_order import Draw, draws, group_draws, mixed
from spillway.core.groups.rates import RULES, Rule, allocate
from spillway.core.groups.shed import METADATA
from spillway.core.groups.spread import Spread, SpreadConfig, group_keys
from spillway.core.groups.strata import numbers_of, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.student import require_level
from spillway.core.groups.table_checks import budget_of, require_table
from spillway.core.groups.window_assignment import Session, Times, cuts, require_window, times_of
from spillway.core.random import mix
from spillway.core.windows import Window
from spillway.core.windows.lengths import Unit
from spillway.errors import SpillwayError, unknown


def run(
    table: pa.Table,
    *,
    by: str | Sequence[str],
    time: str | None,
    window: Window | Session,
    keep_ratio: float,
    rule: Rule = "variance",
    value: str | None = None,
    aggregate: Aggregate = "mean",
    salt: int = 0,
    key: str | Sequence[str] | None = None,
    at_least: int = 1,
    exceed: bool = True,
    level: float = 0.95,
    spread: Spread | None = None,
    pilot: bool = False,
    draw: Draw = "even",
) -> pa.Table:
    """Return one row for each window and group: ``start``, ``end``, the columns of ``by``, and the estimate.

    The estimate is ``value`` with ``low`` and ``high``, the ``rows`` that the group has in the window, and how
    many of them were ``sampled``. A group that is missing, for lack of budget and with ``exceed=False``, has a
    null value.

    - ``time`` is a timestamp column if the window is in durations, a number column if not. With None windows are
      count-based: sizes are in rows, and only full windows are answered. Rows without a time are left out.
    - ``window`` is ``tumbling(...)``, ``sliding(...)`` or ``session(...)``.
    - ``aggregate`` is ``"count"``, ``"sum"``, ``"mean"``, ``"median"``, ``"min"`` or ``"max"``, a ``Quantile`` or a
      ``Ratio``, a function of values and weights, or (init, incr, final).
    - ``spread`` is what has been learned about the groups so far; it continues to learn.
    - ``draw`` is ``"even"``, over the time of a group's rows in the window, or ``"random"``.
    - The other options are those of :func:`~spillway.core.groups.shed.shed`.

    >>> from spillway.core.windows import tumbling
    >>> n = np.arange(200)
    >>> rides = pa.table({"ts": n, "route": n % 4 == 0, "fare": n % 5})
    >>> found = run(rides, by="route", time="ts", window=tumbling(100), keep_ratio=0.2, value="fare")
    >>> found.column_names
    ['start', 'end', 'route', 'value', 'low', 'high', 'rows', 'sampled']
    >>> found["rows"].to_pylist(), found["sampled"].to_pylist()
    ([25, 75, 25, 75], [10, 10, 12, 8])
    """
    require_table(table)
    require_level(level)
    require_aggregate(aggregate, value)
    budget_of(keep_ratio, 0)
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    if draw not in get_args(Draw):
        raise unknown("draw", draw, get_args(Draw))
    window = require_window(window, counted=time is None)
    stream = _stream(table, by, value, aggregate.to if isinstance(aggregate, Ratio) else None, key, salt)
    rows, times = _in_time(table, time, window, stream.order)
    query = _Query(aggregate, level, rule, keep_ratio, at_least, exceed, pilot, draw, salt)
    spread = SpreadConfig().build() if spread is None else spread
    told = dict.fromkeys(("windows", "rows", "kept_rows", "missing_groups"), 0)
    parts, bounds = [], []
    for number, start, end, first, last in cuts(times, window, full=time is None):
        found, kept, missing = query.window(stream, rows[first:last], number, spread)
        parts.append(found)
        bounds.append((start, end, found.num_rows))
        for name, more in zip(told, (1, last - first, kept, missing), strict=True):
            told[name] += more
    answers = pa.concat_tables(parts) if parts else query.empty(stream)
    answers = _bounded(answers, bounds, _kind(table, time, window), window.unit)
    return answers.replace_schema_metadata({METADATA: json.dumps(told).encode()})


@dataclass(frozen=True, slots=True)
class _Stream:
    """The columns of a table that the query reads, one entry per row, or per group (labels, keys, ties)."""

    codes: Ints
    order: Ints
    values: Floats | None
    others: Floats | None
    labels: pa.Table
    keys: Ints
    ties: Ints


@dataclass(frozen=True, slots=True)
class _Query:
    """What to compute for each window, and how to shed its rows."""

    aggregate: Aggregate
    level: float
    rule: Rule
    keep_ratio: float
    at_least: int
    exceed: bool
    pilot: bool
    draw: Draw
    salt: int

    def window(self, stream: _Stream, inside: Ints, number: int, spread: Spread) -> tuple[pa.Table, int, int]:
        """Shed and answer one window; return its groups' estimates and how many rows are kept and groups missing."""
        groups, codes = np.unique(stream.codes[inside], return_inverse=True)
        sizes, keys, order = np.bincount(codes).astype(np.int64), stream.keys[groups], stream.order[inside]
        y = None if stream.values is None else stream.values[inside]
        budget = budget_of(self.keep_ratio, len(inside))
        rows = allocate(
            sizes,
            budget,
            rule=self.rule,
            variation=self._variation(codes, sizes, order, y, keys, number, spread, budget),
            at_least=self.at_least,
            exceed=self.exceed,
            order=stream.ties[groups],
        ).rows
        even = self.draw == "even"
        design: Design = "even" if even else "fixed"
        kept, weights = (evenly if even else stratified)(
            codes, mixed(order, coin_number(self.salt, number)), sizes=sizes, rows=rows
        )
        sampled = Sampled(codes[kept], weights, len(groups), self.level, design)
        found = self._answer(stream, sampled, inside[kept], keys, spread)
        if self.aggregate == "count":  # arrived rows were counted exactly: there is nothing to estimate
            N = sizes.astype(np.float64)
            found = Estimates(N, N, N)
        if y is not None:
            spread.learn(keys, codes=codes[kept], values=y[kept])
        answers = answered(stream.labels.take(pa.array(groups)), found, sizes, rows)
        return answers, len(kept), int(np.count_nonzero(rows == 0))

    def empty(self, stream: _Stream) -> pa.Table:
        """Return the answer for a table without windows."""
        none = np.empty(0)
        whole = none.astype(np.int64)
        return answered(stream.labels.slice(0, 0), Estimates(none, none, none), whole, whole)

    def _variation(
        self,
        codes: Ints,
        sizes: Ints,
        order: Ints,
        y: Floats | None,
        keys: Ints,
        number: int,
        spread: Spread,
        budget: int,
    ) -> Floats | None:
        if self.rule != "variance" or y is None:
            return None
        if self.pilot:
            at = pilot(codes, mixed(order, mix(PILOT, number)), sizes=sizes, budget=budget)
            spread = spread.copy()
            spread.learn(keys, codes=codes[at], values=y[at])
        return spread.variation(keys) if len(spread) else None

    def _answer(self, stream: _Stream, sampled: Sampled, rows: Ints, keys: Ints, spread: Spread) -> Estimates:
        y = None if stream.values is None else stream.values[rows]
        others = None if stream.others is None else stream.others[rows]
        prior = None if y is None else prior_of(sampled, y, keys, spread)
        return answer(self.aggregate, sampled, y, others=others, prior=prior)


def _stream(
    table: pa.Table,
    by: str | Sequence[str],
    value: str | None,
    to: str | None,
    key: str | Sequence[str] | None,
    salt: int,
) -> _Stream:
    strata = strata_of(table, by)
    return _Stream(
        codes=strata.codes,
        order=draws(table, key, salt=salt),
        values=None if value is None else numbers_of("value", value, table),
        others=None if to is None else numbers_of("to", to, table),
        labels=strata.labels,
        keys=group_keys(strata.labels),
        ties=group_draws(strata.labels, salt=salt),
    )


def _in_time(table: pa.Table, time: str | None, window: Window | Session, ties: Ints) -> tuple[Ints, Times]:
    """Return the rows that have a time, sorted by it (ties do not depend on the table's order), and their times."""
    if time is None:
        rows = np.arange(table.num_rows)
        return rows, rows
    times, valid = times_of(table, time, window)
    rows = np.flatnonzero(valid)
    rows = rows[np.lexsort((ties[rows], times[rows]))]
    return rows, times[rows]


def _kind(table: pa.Table, time: str | None, window: Window | Session) -> pa.DataType:
    if time is not None and window.timed:
        return pa.timestamp("us", table.schema.field(time).type.tz)
    whole = time is None or pa.types.is_integer(table.schema.field(time).type)
    return pa.int64() if whole and isinstance(window.unit, int) else pa.float64()


def _bounded(
    answers: pa.Table, bounds: list[tuple[float, float, int]], kind: pa.DataType, unit: Unit
) -> pa.Table:
    """Insert the start and the end of each row's window as the first columns."""
    scale = 1 if isinstance(unit, str) else unit
    repeats = [rows for _, _, rows in bounds]
    for place, name in enumerate(("start", "end")):
        if name in answers.column_names:
            raise SpillwayError(
                f"by has a column {name!r}, which is also a column of the answer.", hint="rename it before"
            )
        ends = np.array([bound[place] * scale for bound in bounds])
        column = pa.array(np.repeat(ends, repeats) if bounds else [])
        answers = answers.add_column(place, name, column.cast(kind, safe=False))
    return answers
