"""Patterns over a stream: tables of rows in, tables of matches out, with the runs in between as state.

``process`` reads a table, lets the compiled program of the query go over its rows, and makes room for it where it asks
for some. Matches come in the order of the stream: a match is there when its last row is, or, where the pattern ends
with a negated element, when its window has passed.

**State.** Runs, the chains of repeated elements, rows that may be forbidden, matches that are held, and rows that wait
for a watermark. ``snapshot()`` is all of it. ``size`` says how many runs there are and what memory they take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.cep import chains, store
from spillway.core.cep.codegen import FAIL, HEAD, NODES, OUTPUT, PAUSE, RECORDED, RECORDS, ROW, SERIAL, Program
from spillway.core.cep.compiled import compiled, interpreted
from spillway.core.cep.config import PatternConfig, require_tracked
from spillway.core.cep.numbering import Numbering
from spillway.core.cep.output import Output
from spillway.core.cep.plan import Plan
from spillway.core.cep.reading import Bools, Ints, Reader, Rows, kinds_of
from spillway.core.cep.snapshot import from_bytes, to_bytes
from spillway.core.cep.syntax import Constant, Expression, Operation, Call
from spillway.core.cep.terms import NULL
from spillway.core.cep.tracking import Tracking, choose
from spillway.core.chance import mix, threshold
from spillway.core.join.vocabulary import Vocabulary
from spillway.errors import SpillwayError, invalid

FOREVER = 2**62
_ALWAYS = 2**62


@dataclass
class Work:
    """What one call of ``process`` did.

    ``spent`` is in units: 1 for each row that was looked at, each run that was looked at, each run that was made, and
    each match. ``per_row`` and ``matches_per_row`` are the same for each row, in the order of the stream.
    """

    rows: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    spent: int = 0
    matches: int = 0
    per_row: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    matches_per_row: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Size:
    """How much is kept: runs (each counted in every index it lies in), nodes of chains, waiting rows, and bytes."""

    runs: int
    nodes: int
    waiting_rows: int
    bytes: int


class Patterns:
    """The matches of one query in one stream."""

    def __init__(self, config: PatternConfig, state: bytes | None = None) -> None:
        self.config, self.query = config, config.tree
        self._words = Vocabulary()
        texts = list(dict.fromkeys(_texts(self.query.conditions)))
        codes = self._words.encode(pa.array(texts, pa.string()))
        self._fixed = codes
        self.plan = Plan(
            self.query,
            kinds_of(config.kinds),
            dict(zip(texts, codes.tolist(), strict=True)),
            config.index,
            config.tracked,
        )
        program = Program(self.plan)
        self._layout = program.layout
        self.source = program.source()
        self._program = compiled(self.source) if config.compile else interpreted(self.source)
        self._reader = Reader(config.time, config.type, self.plan.types, self.plan.attributes, self._words)
        self._waiting = self._reader.none()
        self._numbering = Numbering()
        self._output = Output(self.plan.elements)
        self._cursor = self._output.cursor
        self._shapes = self._layout.shapes
        self._stores = [store.empty(shape) for shape in self._shapes]
        whole, fractions = self._layout.node_columns()
        self._node_shape = len(whole), len(fractions)
        self._chains = chains.empty(*self._node_shape)
        self._within = self.query.within_us + self.query.closed
        self._now = self._limit = self._swept = NULL
        self.tracking: Tracking | None = None
        if config.tracked:
            names = [self.feature_names(k) for k in range(len(self.plan.elements))]
            self.tracking = Tracking(names, config.classes, config.slices)
        self.work = Work()
        if state is not None:
            self._restore(state)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the matches."""
        return self._output.schema

    def feature_names(self, state: int) -> tuple[str, ...]:
        """The features of runs of a state, in the order in which trees count them."""
        from spillway.core.cep.terms import words  # noqa: PLC0415

        return tuple(words(ref) for ref in self.plan.features(state))

    def process(
        self,
        table: pa.Table | None,
        budget: float | None = None,
        until_us: int | None = None,
        keep: Bools | None = None,
    ) -> pa.Table:
        """Process rows and return their matches.

        Once the budget is spent the rows that are left are dropped; rows that ``keep`` says no to are dropped as
        well. They have a number but are not looked at. With ``until_us``, a watermark, rows that are later than it
        wait, and matches that were held come out if their window has passed by then.
        """
        self.work = Work()
        rows = self._reader.none() if table is None else self._reader.read(table, keep)
        if len(self._waiting):
            rows = self._waiting.then(rows)
            self._waiting = self._reader.none()
        if until_us is not None:
            ready = int(np.searchsorted(rows.times, until_us, side="right"))
            self._waiting, rows = rows.part(ready), rows.part(0, ready)
        rows = self._timely(rows)
        self._advance(rows, _ALWAYS if budget is None else max(0, int(budget)), until_us)
        self._settle()
        return self._output.table(self._numbering)

    def flush(self) -> pa.Table:
        """Let all rows that wait through and all matches that are held out: nothing more will come."""
        waiting = self.process(None)
        return pa.concat_tables([waiting, self.process(None, until_us=FOREVER)])

    def _timely(self, rows: Rows) -> Rows:
        late = int(np.searchsorted(rows.times, self._now, side="left"))
        if late and self.config.late == "error":
            raise SpillwayError(
                f"time = {self.config.time!r}: {late} rows are earlier than rows that have been processed.",
                hint="process rows in the order of time, pass until_us, or late='drop'",
            )
        self.work.late_rows = late
        return rows.part(late) if late else rows

    def _advance(self, rows: Rows, budget: int, until_us: int | None) -> None:
        count = len(rows)
        base = self._numbering.next
        self._numbering.add(rows.times, rows.numbers)
        pause = until_us is not None and self.plan.held
        if pause:
            rows = _with_pause(rows, max(int(until_us or 0) + 1, self._now))
        high = len(rows)
        spent, found = np.zeros(high, np.int64), np.zeros(high, np.int64)
        keep = rows.keep
        self._cursor[ROW] = 0
        left = budget
        while self._cursor[ROW] < high:
            if left <= 0 and keep[self._cursor[ROW] : count].any():
                keep = keep.copy()
                keep[self._cursor[ROW] : count] = False
            before = int(spent.sum()) if left < _ALWAYS else 0
            self._limit = self._call(rows, keep, high, base, _ALWAYS if left <= 0 else left, spent, found)
            if left < _ALWAYS:
                left -= int(spent.sum()) - before
            self._make_room(int(self._cursor[FAIL]))
        if high:
            self._now = max(self._now, int(rows.times[-1]))
        self.work.rows, self.work.dropped_rows = count, int(count - keep[:count].sum())
        self.work.per_row, self.work.matches_per_row = spent[:count], found[:count]
        self.work.spent, self.work.matches = int(spent.sum()), int(found.sum())

    def _call(
        self, rows: Rows, keep: Bools, high: int, base: int, budget: int, spent: Ints, found: Ints
    ) -> int:
        return self._program(
            high,
            *(rows.times, rows.kinds, keep, rows.ints, rows.floats),
            *(base, self._within, budget),
            tuple(map(tuple, self._stores)),
            tuple(self._chains),
            *(self._output.rows, self._output.values, self._cursor, spent, found),
            () if self.tracking is None else self.tracking.arrays(),
        )

    # Room.

    def _make_room(self, fail: int) -> None:
        if fail < 0:
            return
        if fail == OUTPUT:
            self._output.make_room(self._numbering)
        elif fail == RECORDS:
            self._take_records()
        elif fail == NODES:
            self._collect()
        else:
            self._sweep(fail)

    def _sweep(self, number: int, drop: Bools | None = None) -> None:
        self._stores[number] = store.sweep(self._stores[number], self._shapes[number], self._limit, drop)
        if self.plan.held and number == self._layout.held + 1:
            self._cursor[HEAD] = 0

    def _collect(self) -> None:
        """Free the nodes that no run leads to."""
        for number in range(len(self._stores)):
            self._sweep(number)
        columns = self._node_cells()
        heads = [self._stores[number].ints[column, places] for number, column, places in columns]
        self._chains, moved = chains.collect(self._chains, heads)
        for (number, column, places), old in zip(columns, heads, strict=True):
            self._stores[number].ints[column, places] = moved[old]

    def _node_cells(self) -> list[tuple[int, int, Ints]]:
        found = []
        for number, leaves in enumerate(self._layout.leaves):
            places = store.live(self._stores[number])
            for leaf in leaves:
                if leaf.which == "node":
                    found.append((number, self._layout.column(number, leaf)[1], places))
        return found

    def _settle(self) -> None:
        """Free what has expired, once per window at least."""
        if self.tracking is not None and self.tracking.record.size:
            self._take_records()
        if self._now == NULL:
            return
        self._limit = max(self._limit, self._now - self._within)
        self._numbering.forget(self._limit)
        if self._now - self._swept >= self._within or self._swept == NULL:
            self._swept = self._now
            self._collect()
            self._words.forget(self._used)

    def _used(self) -> Ints:
        parts = [self._fixed, self._waiting.ints.ravel(), self._chains.ints.ravel()]
        parts += [part for s in self._stores for part in (s.ints.ravel(), s.keys.ravel())]
        return np.concatenate(parts)

    # What is there.

    @property
    def size(self) -> Size:
        """How much is kept."""
        runs = sum(int(s.meta[store.LIVE]) for s in self._stores[: self._layout.first_ban])
        memory = sum(map(store.size_bytes, self._stores)) + sum(array.nbytes for array in self._chains)
        return Size(runs, int(self._chains.top[0]), len(self._waiting), memory)

    def oldest_row(self) -> int:
        """Return the first row that may still be in a match; payloads before it may be let go."""
        kept = self._numbering.oldest(self._limit)
        numbers = [] if kept is None else [kept]
        if len(self._waiting):
            numbers.append(int(self._waiting.numbers.min()))
        return min(numbers, default=self._reader.next_number)

    # Shedding.

    def classify(self, trees: Any) -> None:
        """Take a decision tree for each state; new runs get their class from it."""
        require_tracked(self.config)
        assert self.tracking is not None
        self.tracking.classify(trees)

    def alive(self) -> Ints:
        """Return how many runs there are by [state, class, slice]."""
        tracking = self._tracked()
        table = np.zeros((tracking.states, tracking.classes, tracking.slices), np.int64)
        for state in range(tracking.states):
            serials, kinds, slices = self._runs_of(state)
            _, at = np.unique(serials, return_index=True)
            np.add.at(table[state], (kinds[at], slices[at]), 1)
        return table

    def shed(self, share: Any, salt: int = 0, spare: float = 0.0) -> Ints:
        """Drop the given share, by [state, class, slice], of the runs that live; return how many by state.

        The age of a run is that at the time of the last row. Runs are chosen by a hash of the salt and their serial
        number; the share ``spare`` of them, always the same ones, is never dropped.
        """
        tracking = self._tracked()
        limits = tracking.thresholds_of(share)
        salts, spared = np.array([mix(salt), tracking.salt[1]]), threshold(spare)
        gone = np.zeros(tracking.states, np.int64)
        for state in range(tracking.states):
            if (limits[state] == NULL).all():
                continue
            dropped = [np.empty(0, np.int64)]
            for number in self._stores_of(state):
                serials, kinds, slices = self._runs_in(number)
                drop = np.zeros(len(serials), np.bool_)
                choose(salts, spared, limits[state, kinds, slices], serials, drop)
                if drop.any():
                    dropped.append(serials[drop])
                    self._sweep(number, drop)
            gone[state] = len(np.unique(np.concatenate(dropped)))
        return gone

    def start_recording(self) -> None:
        """Record all runs from now on; ``tracking.recorded()`` gives them."""
        self._tracked().start_recording()
        self._cursor[RECORDED] = 0

    def _tracked(self) -> Tracking:
        require_tracked(self.config)
        assert self.tracking is not None
        return self.tracking

    def _take_records(self) -> None:
        self._tracked().more_records(int(self._cursor[RECORDED]))
        self._cursor[RECORDED] = 0

    def _stores_of(self, state: int) -> list[int]:
        return [number for number, index in enumerate(self.plan.indexes) if index.state == state]

    def _runs_in(self, number: int) -> tuple[Ints, Ints, Ints]:
        assert self.tracking is not None
        ints = self._stores[number].ints[:, store.live(self._stores[number])]
        ages = np.minimum(np.maximum(0, self._now - ints[0]), self._within - 1)
        return ints[1], ints[2], ages * self.tracking.slices // self._within

    def _runs_of(self, state: int) -> tuple[Ints, Ints, Ints]:
        parts = [self._runs_in(number) for number in self._stores_of(state)]
        none = np.empty(0, np.int64)
        joined = [np.concatenate([none, *column]) for column in zip(*parts, strict=True)]
        return (joined[0], joined[1], joined[2]) if parts else (none, none, none)

    # State.

    def snapshot(self) -> bytes:
        """Return the state as bytes, from which ``build(state)`` goes on exactly."""
        self._collect()
        meta = {
            "config": self._identity(),
            "now": self._now,
            "limit": self._limit,
            "swept": self._swept,
            "serial": int(self._cursor[SERIAL]),
            "next_number": self._reader.next_number,
        }
        arrays: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {
            "words": self._words.snapshot(),
            "rows": self._numbering.snapshot(),
            "waiting": self._waiting.snapshot(),
            "chains": chains.snapshot(self._chains),
            "tracking": {} if self.tracking is None else self.tracking.snapshot(),
        }
        parts |= {f"store{n}": store.snapshot(s) for n, s in enumerate(self._stores)}
        for part, found in parts.items():
            arrays |= {f"{part}.{name}": array for name, array in found.items()}
        return to_bytes(meta, arrays)

    def _restore(self, state: bytes) -> None:
        meta, arrays = from_bytes(state)
        if meta["config"] != self._identity():
            raise SpillwayError(
                f"state: made by {meta['config']}, this is {self._identity()}.",
                hint="restore with the same query, columns and tracking, or start without a state",
            )
        self._now, self._limit, self._swept = meta["now"], meta["limit"], meta["swept"]
        self._cursor[SERIAL] = meta["serial"]
        self._reader.next_number = meta["next_number"]
        self._words.restore(_under("words.", arrays))
        self._numbering.restore(_under("rows.", arrays))
        self._waiting = Rows(**_under("waiting.", arrays))
        self._chains = chains.restore(_under("chains.", arrays), *self._node_shape)
        if self.tracking is not None:
            self.tracking.restore(_under("tracking.", arrays))
        self._stores = [store.restore(_under(f"store{n}.", arrays), s) for n, s in enumerate(self._shapes)]

    def _identity(self) -> str:
        """Return what must not change over the life of a state, in words."""
        config = self.config
        tracked = f", tracked {config.classes} x {config.slices}" if config.tracked else ""
        named = [f"{name} {kind}" for name, kind in self.plan.attributes]
        return f"{_tree(self.query)} over {', '.join(named)}, index {config.index}{tracked}"


def _tree(query: Any) -> str:
    from spillway.core.cep.language import to_text  # noqa: PLC0415

    return to_text(query)


def _texts(expressions: tuple[Expression, ...]) -> list[str]:
    found: list[str] = []
    for expression in expressions:
        match expression:
            case Constant(value=str(value)):
                found.append(value)
            case Operation(operands=inner) | Call(arguments=inner):
                found += _texts(inner)
            case _:
                pass
    return found


def _with_pause(rows: Rows, time: int) -> Rows:
    """Return the rows and after them a moment without a row."""
    one = np.ones(1, np.int64)
    end = Rows(
        one * time,
        one * PAUSE,
        np.ones(1, np.bool_),
        one * -1,
        np.zeros((len(rows.ints), 1), np.int64),
        np.zeros((len(rows.floats), 1)),
    )
    pairs = zip(rows.snapshot().values(), end.snapshot().values(), strict=True)
    return Rows(*(np.concatenate(pair, axis=-1) for pair in pairs))


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


__all__ = ["Patterns", "Size", "Work", "invalid"]
