"""The pattern operator on a stream: it reads tables of rows, returns tables of matches, and keeps runs as state.

``process`` reads a table, runs the compiled program of the query over its rows, and makes room when the program
asks for it. Matches are in the order of the stream: a match is returned with its last row or, where the pattern
ends with a negated element, when its window has passed.

**State.** Runs, the chains of repeated elements, rows of negated elements, matches that are held, and rows that wait
for a watermark. ``snapshot()`` has all of these. ``size`` says how many runs there are and how much memory they take.

**Errors.** Where ``process`` refuses a table or a budget, the state is as it was before the call.

**Shedding.** With ``tracked`` runs have classes, are counted, and can be dropped, refused and recorded: see
``run_control``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Bools, Ints
from spillway.core.cep.codegen.compilation import compiled, interpreted
from spillway.core.cep.codegen.program import Program
from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine.match_table import Output
from spillway.core.cep.engine.row_numbers import Numbering
from spillway.core.cep.engine.row_reader import Reader, Rows, kinds_of, with_pause
from spillway.core.cep.engine.run_control import Handles
from spillway.core.cep.engine.run_counters import RECORD, Tracking
from spillway.core.cep.engine.run_store import live
from spillway.core.cep.engine.runs import Runs
from spillway.core.cep.engine.timeouts import Timeouts
from spillway.core.cep.engine.work import Size, Work
from spillway.core.cep.language import to_text
from spillway.core.cep.plan.condition_placement import texts_of
from spillway.core.cep.plan.layout import BEGAN, CROWDED, FAIL, HEAD, NODES, OUTPUT, RECORDS, ROW, SERIAL
from spillway.core.cep.plan.plan import Plan
from spillway.core.cep.plan.terms import NULL
from spillway.core.checks import require_number
from spillway.core.data.vocabulary import Vocabulary
from spillway.core.state.blob import BlobFormat, together, under
from spillway.errors import SpillwayError

FOREVER = 2**62
_FORMAT = BlobFormat(b"SPCEPS", version=2, owner="a pattern")  # in checkpoints
_ALL = 2**62  # a budget that is never spent
_ENOUGH = 0.95  # of ``most_runs``: how many runs are left after some were shed


class Patterns(Handles):
    """The operator that finds the matches of one query in one stream."""

    def __init__(self, config: PatternConfig, state: bytes | None = None) -> None:
        self.config, self.query = config, config.tree
        self._words = Vocabulary()
        texts = list(dict.fromkeys(texts_of(self.query.conditions)))
        self._codes = self._words.encode(pa.array(texts, pa.string()))
        codes = dict(zip(texts, self._codes.tolist(), strict=True))
        tracked = config.tracked or config.timeouts
        self.plan = Plan(self.query, kinds_of(config.kinds), codes, config.index, tracked, config.slices)
        program = Program(self.plan)
        self.source = program.source()
        self._program = compiled(self.source) if config.compile else interpreted(self.source)
        self._reader = Reader(config.time, config.type, self.plan.types, self.plan.attributes, self._words)
        self._waiting = self._reader.none()
        self._numbering = Numbering()
        self._output = Output(self.plan.elements)
        self._cursor = self._output.cursor
        self._within = self.query.within_us + self.query.closed
        self._runs = Runs(program.layout, self._within)
        self._now = self._limit = self._swept = NULL
        self._tracking: Tracking | None = None
        if tracked:
            names = [self.feature_names(k) for k in range(len(self.plan.elements))]
            self._tracking = Tracking(names, config.classes, config.slices)
        self._timeouts = Timeouts(self.plan.elements) if config.timeouts else None
        if self._tracking is not None and self._timeouts is not None:
            self._tracking.start_recording(kept=False)
        # Called when there are more than ``most_runs``; if there still are afterwards, random runs are shed.
        self.relieve: Callable[[Patterns], object] | None = None
        # A clock in seconds; with it ``worked_s`` is the time in the compiled program alone, over the whole life.
        self.clock: Callable[[], float] | None = None
        self.worked_s = 0.0
        self.work = Work()
        self.span_us: tuple[int, int] | None = (
            None  # the times of the first and the last row of the last table
        )
        if state is not None:
            self._restore(state)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the matches."""
        return self._output.schema

    @property
    def columns(self) -> list[str]:
        """The columns of a table that are read."""
        named = (name for name, _ in self.plan.attributes)
        return list(dict.fromkeys((self.config.time, self.config.type, *named)))

    def process(
        self,
        table: pa.Table | None,
        budget: float | None = None,
        until_us: int | None = None,
        keep: Bools | None = None,
    ) -> pa.Table:
        """Process rows and return their matches.

        Once the budget, in units of work, is spent, the remaining rows are dropped; None and infinity are no limit.
        Rows for which ``keep`` is false are dropped as well. They have a number but are not processed. With
        ``until_us``, a watermark, later rows wait; rows up to the watermark that arrive after this call are late;
        what has expired by then is freed, and held matches whose window has passed by then are returned.
        """
        units = _units(budget)
        rows = self._reader.none() if table is None else self._reader.read(table, keep)
        span_us = (int(rows.times[0]), int(rows.times[-1])) if len(rows) else None
        rows = self._waiting.then(rows) if len(self._waiting) else rows
        ready = len(rows) if until_us is None else int(np.searchsorted(rows.times, until_us, side="right"))
        late = self._late(rows.times[:ready])
        # The state changes only from here on: a caller whose table was refused can continue with another.
        self._reader.next_number += 0 if table is None else table.num_rows
        self._waiting = rows.part(ready) if ready < len(rows) else self._reader.none()
        self.work, self.span_us = Work(late_rows=late), span_us
        self._advance(rows.part(late, ready), units, until_us)
        matches = self._output.table(self._numbering)
        self.work.matches = matches.num_rows
        self._settle()
        return matches

    def flush(self) -> pa.Table:
        """Process all rows that wait and return all held matches: the stream has ended."""
        waiting = self.process(None)
        return pa.concat_tables([waiting, self.process(None, until_us=FOREVER)])

    def _late(self, times: Ints) -> int:
        """Return how many of the sorted times are late; raise if late rows are an error."""
        late = int(np.searchsorted(times, self._now, side="left"))
        if late and self.config.late == "error":
            raise SpillwayError(
                f"time = {self.config.time!r}: {late} rows are earlier than rows that have been processed.",
                hint="process rows in the order of time, pass until_us, or late='drop'",
            )
        return late

    def _advance(self, rows: Rows, budget: int, until_us: int | None) -> None:
        count, base = len(rows), self._numbering.next
        self._numbering.add(rows.times, rows.numbers)
        if until_us is not None and self.plan.held:
            rows = with_pause(rows, max(until_us + 1, self._now))
        high, keep = len(rows), rows.keep
        spent, found = np.zeros(high, np.int64), np.zeros(high, np.int64)
        self._cursor[ROW], fail = 0, -1
        while self._cursor[ROW] < high:
            left = budget if budget == _ALL else budget - int(spent.sum())
            if fail >= 0:
                left = max(1, left)  # the program stopped inside a row, which is always finished
            elif left <= 0:  # the remaining rows are skipped, but held matches are still returned
                left, keep = _ALL, keep.copy()
                keep[self._cursor[ROW] : count] = False
            self._call(rows, keep, high, base, left, spent, found)
            fail = int(self._cursor[FAIL])
            self._make_room(fail)
            if fail == CROWDED:
                self._now = int(rows.times[self._cursor[ROW] - 1])
                self._relieve(base + int(self._cursor[ROW]))
        if count:
            self._now = int(rows.times[count - 1])
        if until_us is not None:
            self._now = max(self._now, until_us + 1)
        self.work.rows, self.work.dropped_rows = count, count - int(keep[:count].sum())
        self.work.per_row, self.work.matches_per_row = spent[:count], found[:count]
        self.work.spent = int(spent.sum())

    def _call(
        self, rows: Rows, keep: Bools, high: int, base: int, budget: int, spent: Ints, found: Ints
    ) -> None:
        most = _ALL if self.config.most_runs is None else self.config.most_runs
        began = 0.0 if self.clock is None else self.clock()
        limit = self._program(
            *(high, rows.times, rows.kinds, keep, rows.ints, rows.floats, base, self._within, budget, most),
            *self._runs.arrays(),
            *(self._output.rows, self._output.values, self._cursor, spent, found),
            () if self._tracking is None else self._tracking.arrays(),
        )
        if self.clock is not None:
            self.worked_s += self.clock() - began
        self._limit = max(self._limit, limit)

    def warm_up(self) -> None:
        """Compile the query, or load what was compiled before, ahead of the first row."""
        none, nothing = self._reader.none(), np.empty(0, np.int64)
        self._call(none, none.keep, 0, self._numbering.next, _ALL, nothing, nothing)

    def _relieve(self, place: int) -> None:
        """Free what has expired. If there are still too many runs, shed some; the row's place is the salt.

        Runs are shed until there are somewhat fewer than allowed, or this would be repeated at the next row. Held
        matches are all worth the same: of these the share that has to go of all runs is shed at random.
        """
        self._limit = max(self._limit, self._now - self._within)
        self.sweep()
        before, most = self._runs.count, self.config.most_runs or 0
        if before <= most:
            return
        enough = math.ceil(_ENOUGH * most)
        if self.relieve is not None and before > self._runs.held:
            self.relieve(self)
        self._shed_held(1.0 - enough / before, place)
        while self._runs.count > enough:
            share = 1.0 - enough / self._runs.count
            self.shed(share, salt=place)
            self._shed_held(share, place)
            place += 1
        self.work.crowded_out += before - self._runs.count

    def _make_room(self, fail: int) -> None:
        if fail == OUTPUT:
            self._output.make_room(self._numbering)
        elif fail == RECORDS:
            self._take_records()
        elif fail == NODES:
            self.sweep()
        elif fail >= 0:
            self._runs.sweep(fail, self._limit)
            if self.plan.held and fail == self._runs.layout.held + 1:
                self._cursor[HEAD] = 0

    def sweep(self) -> None:
        """Free everything that has expired; ``size`` counts it until then."""
        self._runs.collect(self._limit)
        self._cursor[HEAD] = 0

    def _settle(self) -> None:
        """Free what has expired, at least once per window."""
        if self._tracking is not None and self._tracking.recording:
            self._take_records()
        if self._now == NULL:
            return
        self._limit = max(self._limit, self._now - self._within)
        if self._timeouts is not None:
            self._timeouts.expire(self._limit)
        self._numbering.forget(self._limit)
        if self._swept == NULL or self._now - self._swept >= self._within:
            self._swept = self._now
            self.sweep()
            self._words.forget(
                lambda: np.concatenate([self._codes, self._waiting.ints.ravel(), *self._runs.used()])
            )

    def timed_out(self) -> pa.Table:
        """Return the runs that timed out since the last call, like matches but with nulls; see ``timeouts``."""
        if self._timeouts is None:
            raise SpillwayError("runs that time out are not kept.", hint="pass timeouts=True")
        return self._timeouts.table()

    @property
    def size(self) -> Size:
        """How much is kept."""
        runs, lost = self._runs, self._timeouts
        return Size(
            runs=runs.count,
            nodes=int(runs.chains.top[0]),
            waiting_rows=len(self._waiting),
            bytes=runs.bytes + (0 if lost is None else lost.bytes),
            held_matches=runs.held,
            forbidding_rows=runs.forbidding,
            recorded_runs=0 if lost is None else lost.count,
        )

    def oldest_row(self) -> int:
        """Return the first row that may still be in a match; payloads before it may be discarded."""
        kept = self._numbering.oldest(self._limit)
        numbers = [] if kept is None else [kept]
        numbers += [int(self._waiting.numbers.min())] if len(self._waiting) else []
        return min(numbers, default=self._reader.next_number)

    def rows_in_use(self) -> Ints:
        """Return the numbers of the rows that may still be output, in order; payloads of all others may be discarded.

        These are the rows of runs, held matches, the record of timeouts, and rows that wait. Rows of negated elements
        are kept too, in their indexes, but are in no match.
        """
        runs, low = self._runs, self._numbering.low
        used = np.zeros(self._numbering.next - low, np.bool_)
        for number, leaves in enumerate(runs.layout.leaves):
            if number < runs.layout.first_ban or number == runs.layout.held:
                ints, places = runs.stores[number].ints, live(runs.stores[number])
                places = places[ints[0, places] > self._limit]
                for leaf in leaves:
                    if leaf.which == "row":
                        used[ints[runs.layout.column(number, leaf)[1], places] - low] = True
        chained = runs.chains.links[0, : runs.chains.top[0]]
        used[chained[chained >= low] - low] = True
        found = [self._numbering.numbers(low + np.flatnonzero(used)), self._waiting.numbers]
        if self._timeouts is not None:
            found += [part[RECORD.index("row")] for part in self._timeouts.snapshot().values()]
        return np.unique(np.concatenate(found))

    # State.

    def snapshot(self) -> bytes:
        """Return the state as bytes; an operator from ``build(state)`` continues exactly from here."""
        self.sweep()
        meta = {
            "config": self._identity(),
            "times": [self._now, self._limit, self._swept],
            "serial": int(self._cursor[SERIAL]),
            "next_number": self._reader.next_number,
        }
        parts: dict[str, dict[str, Any]] = {
            "words": self._words.snapshot(),
            "rows": self._numbering.snapshot(),
            "waiting": self._waiting.snapshot(),
            "runs": self._runs.snapshot(),
            "tracking": {} if self._tracking is None else self._tracking.snapshot(),
            "timeouts": {} if self._timeouts is None else self._timeouts.snapshot(),
        }
        return _FORMAT.write(meta, together(parts))

    def _restore(self, state: bytes) -> None:
        meta, arrays = _FORMAT.read(state)
        if meta["config"] != self._identity():
            raise SpillwayError(
                f"state: made by {meta['config']}, this is {self._identity()}.",
                hint="restore with the same query, columns and tracking, or start without a state",
            )
        self._now, self._limit, self._swept = meta["times"]
        self._cursor[SERIAL] = self._cursor[BEGAN] = meta["serial"]
        self._reader.next_number = meta["next_number"]
        self._words.restore(under("words.", arrays))
        self._numbering.restore(under("rows.", arrays))
        self._waiting = Rows(**under("waiting.", arrays))
        self._runs.restore(under("runs.", arrays))
        if self._tracking is not None:
            self._tracking.restore(under("tracking.", arrays))
        if self._timeouts is not None:
            self._timeouts.restore(under("timeouts.", arrays))

    def _identity(self) -> str:
        """Return in words the settings that must not change over the life of a state."""
        config = self.config
        tracked = f", tracked {config.classes} x {config.slices}" if self.plan.tracked else ""
        tracked += ", with timeouts" if config.timeouts else ""
        named = ", ".join(f"{name} {kind}" for name, kind in self.plan.attributes)
        return f"{to_text(self.query)} over {named}, index {config.index}{tracked}"


def _units(budget: float | None) -> int:
    """Return a budget in whole units of work; a negative one becomes 0."""
    if budget is None or budget == math.inf:
        return _ALL
    number = budget.item() if isinstance(budget, np.generic) else budget
    require_number("budget", number, hint="None or infinity is no limit")
    return min(_ALL, max(0, int(number)))
