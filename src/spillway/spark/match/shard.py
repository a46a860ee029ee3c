"""One shard of a pattern on Spark: how it matches the rows of a batch, and what it keeps in the state.

**Time.** Rows are matched up to the time U, before which no row can arrive any more; later rows wait in the state:

    U = max(latest time seen in the stream - the watermark's delay, Spark's watermark)

Rows earlier than the U of the batch before are late: they are left out and counted. The latest time is that of all
rows of the stream, not only of the shard's rows, so all shards have the same U.

**Order.** The rows that waited and the new rows are sorted by time, rows of the same time by the column ``order`` if
it was given, and finally by a hash of the row. If rows are out of order by less than the watermark's delay, this is
one order of the whole stream: neither the order nor the matches depend on how the stream was cut into batches. A row
that is out of order by exactly the delay has the time U when it comes. It is matched, but after rows of the same time
that came before.

**Negation at the end.** A match that a row could still forbid is held until U has passed the last time of its window.

**State.** The parts of the state, and their bounds:

=====================================  =====================================================================
part                                   bounded by
=====================================  =====================================================================
runs and held matches                  ``most_runs``
columns of the rows in these           the same, and the window: a row that is in no run is discarded
rows of negated elements, their keys   the window: a missing row would cause false matches
time and number of each row            the window, 16 bytes a row before compression
rows that wait                         the delay of the watermark
learned values for shedding            a number of classes
=====================================  =====================================================================

Rows are numbered in the order in which they are matched, and rows that are kept have their numbers in a column. A
shard that keeps more rows of negated elements than ``most_runs`` reports it. shard_shedder.py describes how a shard
keeps within its budget.

**Learning.** The values of partial matches are learned once, at the end of a batch. That takes up to two seconds
(training_stretch.py). This time is not part of the work from which the cost of a unit is learned, but it makes that
batch longer, and the delay of its rows.

**Timeouts.** If they are requested, runs whose window has passed are output, too, with nulls for the elements that
they have not reached. A run that was shed is not output, because it was not kept until its window passed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.engine.work import Size
from spillway.core.data.times import times_of
from spillway.core.random import mix
from spillway.errors import SpillwayError
from spillway.spark.control_row import PREFIX
from spillway.spark.match.shard_shedder import Shedder, Spent
from spillway.spark.match.shared_model import Sharing
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import load_estimators
from spillway.spark.shards.packets import LONG_AGO, ORDER, from_bytes, to_bytes, together
from spillway.spark.shards.task import Arrived, Counts

VERSION = 2  # version 1 had all rows of the window, without a column of row numbers
STATE = (
    "version int, latest_us bigint, until_us bigint, engine binary, engine_bytes bigint, rows binary, first bigint, "
    "waiting binary, shedding binary"
)
_NUMBER = f"{PREFIX}number"
_CODEC = "zstd"
_ROWS_AT_ONCE = 200_000  # the rows of the matches that are built at once


@dataclass
class Live:
    """A shard between two batches: the engine, the progress of time, rows with their numbers, and rows that wait.

    ``next_row`` is the number of the next row that is matched.
    """

    shedder: Shedder
    latest_us: int = LONG_AGO
    until_us: int = LONG_AGO
    rows: pa.Table | None = None
    next_row: int = 0
    waiting: pa.Table | None = None
    crowded: bool = False  # in the last batch; it is not in the state, because only the status uses it

    @property
    def patterns(self) -> Patterns:
        """The engine."""
        return self.shedder.patterns

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        return 0 if self.waiting is None else self.waiting.num_rows

    @classmethod
    def restored(cls, logic: MatchLogic, state: tuple[Any, ...]) -> Live:
        """Return the shard of a state that an earlier batch has left."""
        version, latest_us, until_us, engine, engine_bytes, rows, next_row, waiting, shedding = state
        if version not in (1, VERSION):
            raise SpillwayError(
                f"the pattern's state has version {version}, expected {VERSION}.",
                hint="finish with the Spillway that wrote it, or start with a new checkpoint",
            )
        blob = pa.Codec(_CODEC).decompress(bytes(engine), engine_bytes, asbytes=True)
        held, later = (None if packed is None else from_bytes(bytes(packed)) for packed in (rows, waiting))
        shedder = Shedder(logic.config.build(blob), logic.shedding, logic.salt, bytes(shedding))
        if version == 1 and held is not None:
            held, next_row = _numbered(held, next_row), next_row + held.num_rows
        return cls(shedder, latest_us, until_us, held, next_row, later)

    def state(self) -> tuple[Any, ...]:
        """Return the state, from which :meth:`restored` makes the shard again."""
        blob = self.patterns.snapshot()
        engine = pa.Codec(_CODEC).compress(blob, asbytes=True)
        rows, waiting = (
            None if table is None else to_bytes(table, _CODEC) for table in (self.rows, self.waiting)
        )
        known = self.shedder.snapshot()
        return VERSION, self.latest_us, self.until_us, engine, len(blob), rows, self.next_row, waiting, known


@dataclass(frozen=True)
class MatchLogic:
    """The work of all shards of a pattern.

    ``columns`` are output for each row of a match, ``order`` is the column that orders rows of the same time,
    ``times`` are the names of a match's first and last time, ``delay_us`` is the delay of the watermark. ``complete``
    is the name of the column that is false for timeouts, None if only matches are output. ``sharing`` is how shards
    get values that were learned from training rows or by other shards.
    """

    config: PatternConfig
    columns: tuple[str, ...]
    times: tuple[str, str]
    delay_us: int
    shedding: SheddingSpec
    order: str | None = None
    salt: int = 0
    complete: str | None = None
    sharing: Sharing | None = None

    def prepare(self) -> None:
        """Load the compiled program and the libraries for learning, once per process and before time is measured."""
        _warm_up_once(self.config)
        if self.shedding.learns and (self.sharing is None or not self.sharing.written()):
            load_estimators()

    def of_shard(self, key: int) -> MatchLogic:
        """Return the logic with a separate salt for the shard."""
        return replace(self, salt=mix(self.salt, key))

    def begin(self, state: tuple[Any, ...] | None) -> Live:
        """Return the shard of a state, or a new shard if there is no state."""
        if state is not None:
            return Live.restored(self, state)
        return Live(Shedder(self.config.build(), self.shedding, self.salt))

    def advance(
        self,
        live: Live,
        arrived: Arrived,
        *,
        watermark_us: int,
        budget: float | None,
    ) -> tuple[pa.Table, Counts]:
        """Match the rows that have arrived."""
        counts, before = Counts(), live.until_us
        waited, held = live.waiting_rows, live.patterns.size
        self._hear(live)
        live.latest_us = max(live.latest_us, arrived.latest_us[0])
        live.until_us = max(before, live.latest_us - self.delay_us, watermark_us)
        ready, counts.late = self._ready(live, arrived.tables()[0], before)
        counts.waiting = live.waiting_rows
        counts.more_waiting = counts.waiting - waited
        worked_s = live.shedder.worked_s
        found: list[pa.Table] = []
        if ready is not None:
            self._hold(live, ready)
            found, spent = live.shedder.process(ready, budget)
            counts.spent, counts.demand, counts.dropped = spent.units, spent.demand, spent.dropped
            counts.matches, counts.shed_runs = spent.matches, spent.shed_runs
        found.append(live.patterns.process(None, until_us=live.until_us - 1))
        counts.matches += live.patterns.work.matches
        results = self._with_timeouts(live, pa.concat_tables(found))
        live.patterns.sweep()  # the state is written without expired runs
        size = live.patterns.size
        counts.runs, counts.more_runs = size.runs, size.runs - held.runs
        counts.work_s = live.shedder.worked_s - worked_s
        notes = [self._overgrown(held, size)]
        if ready is not None:
            began = time.perf_counter()
            self._learn(live, ready, spent)
            counts.aside_s = time.perf_counter() - began
            notes += [live.shedder.note, self._crowded(live, spent)]
        counts.note = "; ".join(filter(None, notes))
        return results, counts

    def _crowded(self, live: Live, spent: Spent) -> str:
        """Return a note when partial matches begin to be shed for lack of room, not of time."""
        before, live.crowded = live.crowded, spent.crowded_out > 0
        if before or not live.crowded:
            return ""
        return (
            f"a shard came to most_runs = {self.config.most_runs or 0:,} partial matches and shed "
            f"{spent.crowded_out:,} that had no room. A shorter WITHIN, a bound such as B{{1,5}}, more conditions "
            "or a larger most_runs keeps them"
        )

    def _overgrown(self, before: Size, now: Size) -> str:
        """Return a note when the rows of negated elements become more than ``most_runs``."""
        most = self.config.most_runs or 0
        if not before.forbidding_rows <= most < now.forbidding_rows:
            return ""
        return (
            f"a shard keeps {now.forbidding_rows:,} rows of negated elements, more than most_runs = {most:,}: all of "
            "a window are kept, as a missing one would invent matches. A shorter WITHIN, more shards or a condition "
            "on these rows alone makes them fewer"
        )

    def _hear(self, live: Live) -> None:
        """Start with values that were learned from training rows or by another shard."""
        if self.sharing is not None and live.shedder.ignorant:
            learned = self.sharing.known()
            if learned is not None:
                live.shedder.know(learned)

    def _learn(self, live: Live, ready: pa.Table, spent: Spent) -> None:
        """Learn from the rows of a batch, and share the learned values with other shards."""
        learned = live.shedder.learn(ready, spent)
        if learned is not None and self.sharing is not None:
            self.sharing.offer(learned)

    def _with_timeouts(self, live: Live, found: pa.Table) -> pa.Table:
        if self.complete is None:
            return found
        gone = live.patterns.timed_out()
        both = pa.concat_tables([found.cast(gone.schema), gone])
        complete = np.arange(both.num_rows) < found.num_rows
        return both.append_column(self.complete, pa.array(complete))

    def tables(self, live: Live, found: pa.Table) -> Iterator[pa.Table]:
        """Yield the matches with the columns of their rows."""
        flags = [] if self.complete is None else [self.complete]
        variables = [name for name in found.column_names if name not in flags]
        names = [*variables, *self.times, *flags]
        for some in self._parts(found):
            columns, ends = [], []
            for name in variables:
                numbers = some[name].combine_chunks()
                if pa.types.is_list(numbers.type):
                    column, first, last = self._lists(live, numbers)
                else:
                    column, first, last = self._structs(live, numbers), numbers, numbers
                columns.append(column)
                ends.append((first, last))
            last = pc.coalesce(*(end for _, end in reversed(ends)))
            for numbers in (ends[0][0], last):
                columns.append(self._taken(live, numbers)[self.config.time].combine_chunks())
            columns += [some[name].combine_chunks() for name in flags]
            yield pa.table(columns, names=names)

    def forget(self, live: Live) -> None:
        """Discard rows that cannot be in a match any more, because they are in no run."""
        if live.rows is None:
            return
        places = np.searchsorted(live.rows[_NUMBER].to_numpy(), live.patterns.rows_in_use())
        if len(places) < live.rows.num_rows:
            live.rows = live.rows.take(pa.array(places)).combine_chunks()

    def wakes_ms(self, live: Live) -> int | None:
        """Return the time at which the watermark reaches the first waiting row, or the end of a held window."""
        found = []
        if live.waiting is not None:
            found.append(-(-int(times_of(live.waiting.slice(0, 1), self.config.time)[0][0]) // 1000) - 1)
        held = live.patterns.plan.held or self.complete is not None
        if held and live.rows is not None and live.rows.num_rows:
            first_us = int(times_of(live.rows.slice(0, 1), self.config.time)[0][0])
            query = live.patterns.query
            found.append(-(-(first_us + query.within_us + query.closed) // 1000) - 1)
        return min(found, default=None)

    def _ready(self, live: Live, table: pa.Table | None, before: int) -> tuple[pa.Table | None, int]:
        """Return the rows to match now, in order, and the number of late rows; keep the rows that have to wait."""
        late = 0
        if table is not None:
            timely = pa.array(times_of(table, self.config.time)[0] >= before)
            late = table.num_rows - (timely.true_count or 0)
            table = table.filter(timely) if late else table
        table = together(live.waiting, table, what="the rows that wait", kind="pattern")
        live.waiting = None
        if table is None or not table.num_rows:
            return None, late
        times, _ = times_of(table, self.config.time)
        keys = [table[ORDER].to_numpy(), times]
        if self.order is not None:
            keys.insert(1, pc.fill_null(table[self.order].cast(pa.int64()), -(2**63)).to_numpy())
        order = np.lexsort(keys)
        cut = int(np.searchsorted(times[order], live.until_us, side="right"))
        if cut < len(order):
            live.waiting = table.take(pa.array(order[cut:]))
        return (table.take(pa.array(order[:cut])) if cut else None), late

    def _hold(self, live: Live, ready: pa.Table) -> None:
        """Append the new rows, with the columns that matches need, to the rows that are held."""
        told = dict.fromkeys((*self.columns, self.config.time))
        new = _numbered(ready.select(list(told)), live.next_row)
        live.rows = together(live.rows, new, what="the columns", kind="pattern")
        live.next_row += new.num_rows

    def _parts(self, found: pa.Table) -> Iterator[pa.Table]:
        """Yield some matches at a time, so that the tables that are built stay small."""
        width = sum(
            len(column.combine_chunks().flatten()) if pa.types.is_list(column.type) else len(column)
            for column in found.columns
        )
        step = max(1, _ROWS_AT_ONCE * found.num_rows // max(1, width))
        for begin in range(0, found.num_rows, step):
            yield found.slice(begin, step)

    def _lists(self, live: Live, numbers: pa.ListArray) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return lists of rows, and the numbers of the first and the last row of each."""
        lengths = pc.fill_null(pc.list_value_length(numbers), 0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        flat, none = numbers.flatten(), lengths == 0
        column = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()),
            self._structs(live, flat),
            mask=pa.array(none) if none.any() else None,
        )
        first, last = (flat.take(pa.array(at, mask=none)) for at in (offsets[:-1], offsets[1:] - 1))
        return column, first, last

    def _structs(self, live: Live, numbers: pa.Array) -> pa.Array:
        taken = self._taken(live, numbers)
        return pa.StructArray.from_arrays(
            [taken[name].combine_chunks() for name in self.columns],
            list(self.columns),
            mask=numbers.is_null() if numbers.null_count else None,
        )

    def _taken(self, live: Live, numbers: pa.Array) -> pa.Table:
        assert live.rows is not None
        places = np.searchsorted(live.rows[_NUMBER].to_numpy(), pc.fill_null(numbers, -1).to_numpy())
        return live.rows.take(pa.array(places, mask=np.asarray(numbers.is_null())))


def _numbered(rows: pa.Table, first: int) -> pa.Table:
    """Return rows with a column of their numbers."""
    return rows.append_column(_NUMBER, pa.array(np.arange(first, first + rows.num_rows)))


_WARM: set[str] = set()


def _warm_up_once(config: PatternConfig) -> None:
    text = f"{config.query} {config.schema} {config.index} {config.tracked}"
    if text not in _WARM:
        _WARM.add(text)
        config.build().warm_up()
