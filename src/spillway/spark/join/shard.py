"""One shard of a join on Spark: how it joins the rows of a batch, and what it keeps in the state.

**Order.** Rows reach a shard in any order that the shuffle produces. They are sorted by time, and rows of the same
time by a hash of the row, so that the rows of a replayed batch are numbered and joined in the same way.

**Time.** Rows are joined up to the time U, before which no row can arrive any more; later rows wait in the state:

    L_i = latest time seen on side i - its watermark's delay       over all rows of the stream, not only the shard's
    U   = max(min(L_1, L_2), max(L_1, L_2) - idle, Spark's watermark)

That is Spark's own watermark, but with its value after this batch instead of before it, so rows need not wait for the
next batch to be joined. Spark's watermark is part of the maximum, because it may be ahead (a filter after
``withWatermark``, or the policy ``max``). All shards have the same U. A row that is older than the U of the batch
before is late; it is left out and counted.

**Random draws.** A random draw is a hash of a salt and the row's number. On a grid several cells have a copy of a
row. All of them give it the same number, since they get the same rows of its part in the same order, and all have the
same salt: a row that a cell keeps is also kept by all cells that keep more. (Rows of two parts that have the same
number share a draw, which changes no average.) A dropped row is counted in the one cell that counts the row.

**State.** It has the state of the join itself (the rows in the windows as numbers, the learned values), and the
columns of the rows that may still be in a pair, as Arrow. Both are bounded by the windows and by the rows that wait.
They are compressed, because Spark copies, sends and writes all of the state in every batch: 65 ms per megabyte,
measured on 2 cores.

======  ==================================================================
symbol  meaning
======  ==================================================================
L_i     progress of time on side i
U       ``until_us``, the time up to which rows are joined
idle    how far one side may lag before the join stops waiting for it
======  ==================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.data.times import times_of
from spillway.core.join.config import Access, JoinConfig
from spillway.core.join.operator import Join
from spillway.core.join.warm_up import warm_up
from spillway.core.random import mix
from spillway.errors import SpillwayError
from spillway.spark.join.patience import Patience
from spillway.spark.shards.packets import LONG_AGO, ORDER, from_bytes, to_bytes, together
from spillway.spark.shards.task import Arrived, Counts

VERSION = 1
STATE = (
    "version int, left_us bigint, right_us bigint, until_us bigint, join binary, join_bytes bigint, left binary, "
    "right binary, left_first bigint, right_first bigint"
)
_CODEC = "zstd"
_PAIRS_AT_ONCE = 50_000


@dataclass(frozen=True)
class Output:
    """The names of both sides' columns in a pair, and of its score."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    score: str


class Timed:
    """A finder that measures the time it takes (comparisons and index), and the number of rows it was given."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder
        self.seconds = 0.0
        self.new = (0, 0)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.finder, name)
        if name not in ("added", "find", "expired"):
            return found

        def timed(*arguments: Any) -> Any:
            if name == "added":
                self.new = arguments[1]
            began = time.perf_counter()
            try:
                return found(*arguments)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


@dataclass
class Live:
    """A shard between two batches: the join, the progress of time, and the columns of rows by row number."""

    join: Join
    latest: list[int]
    until: int
    rows: list[pa.Table | None]
    first: list[int]

    @classmethod
    def new(cls, config: JoinConfig) -> Live:
        """Return a new shard, which has seen no rows."""
        return cls(config.build(), [LONG_AGO, LONG_AGO], LONG_AGO, [None, None], [0, 0])

    @classmethod
    def restored(cls, config: JoinConfig, state: tuple[Any, ...]) -> Live:
        """Return the shard of a state that an earlier batch has left."""
        version, left_us, right_us, until, join, join_bytes, left, right, *first = state
        if version != VERSION:
            raise SpillwayError(
                f"the join's state has version {version}, expected {VERSION}.",
                hint="finish with the Spillway that wrote it, or start with a new checkpoint",
            )
        rows = [None if packed is None else from_bytes(bytes(packed)) for packed in (left, right)]
        blob = pa.Codec(_CODEC).decompress(bytes(join), join_bytes, asbytes=True)
        return cls(config.build(blob), [left_us, right_us], until, rows, first)

    def state(self) -> tuple[Any, ...]:
        """Return the state, from which :meth:`restored` makes the shard again."""
        packed = [None if table is None else to_bytes(table, _CODEC) for table in self.rows]
        blob = self.join.snapshot()
        join = pa.Codec(_CODEC).compress(blob, asbytes=True)
        return (VERSION, *self.latest, self.until, join, len(blob), *packed, *self.first)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many rows of each side wait."""
        left, right = (len(side.rows) for side in self.join.waiting)
        return left, right

    @property
    def oldest_waiting(self) -> int | None:
        """The time of the oldest row that waits."""
        times = [int(side.rows.times[0]) for side in self.join.waiting if len(side.rows)]
        return min(times, default=None)

    @property
    def waited_us(self) -> int:
        """How far the oldest waiting row is behind the latest time that was seen."""
        oldest = self.oldest_waiting
        return 0 if oldest is None else max(self.latest) - oldest


@dataclass(frozen=True)
class ShardLogic:
    """The work of all shards of a join; ``delays_us`` are the delays of the two watermarks."""

    config: JoinConfig
    output: Output
    delays_us: tuple[int, int]
    idle_us: int | None = None

    def prepare(self) -> None:
        """Load the compiled code, once per process and before anything is timed."""
        _warm_up_once(self.config.access)

    def of_shard(self, key: int) -> ShardLogic:
        """Return the logic with a separate salt for the shard, if no other shard has copies of its rows."""
        if self.config.on.kind != "equality":
            return self
        return replace(self, config=replace(self.config, salt=mix(self.config.salt, key)))

    def begin(self, state: tuple[Any, ...] | None) -> Live:
        """Return the shard of a state, or a new shard if there is no state."""
        return Live.new(self.config) if state is None else Live.restored(self.config, state)

    def advance(
        self,
        live: Live,
        arrived: Arrived,
        *,
        watermark_us: int,
        budget: float | None,
    ) -> tuple[pa.Table, Counts]:
        """Join the rows that have arrived."""
        return self.step(
            live,
            arrived.tables(),
            (arrived.latest_us[0], arrived.latest_us[1]),
            watermark_us=watermark_us,
            budget=budget,
            counted=arrived.counted,
        )

    def wakes_ms(self, live: Live) -> int | None:
        """Return the time at which the watermark reaches the oldest row that waits."""
        oldest = live.oldest_waiting
        return None if oldest is None else -(-oldest // 1000) - 1

    def step(
        self,
        live: Live,
        tables: tuple[pa.Table | None, pa.Table | None],
        latest_us: tuple[int, int],
        *,
        watermark_us: int = LONG_AGO,
        budget: float | None = None,
        counted: tuple[bool, bool] = (True, True),
    ) -> tuple[pa.Table, Counts]:
        """Join the rows of a batch; return the pairs as row numbers, and the counts."""
        counts = Counts()
        before, waited_us = live.until, live.waited_us
        live.latest = [max(known, new) for known, new in zip(live.latest, latest_us, strict=True)]
        live.until = max(before, self._until(live.latest), watermark_us)
        arriving: list[pa.Table | None] = []
        waited = live.waiting
        ready = list(waited)
        for side in (0, 1):
            table, late = self._ordered(side, tables[side], before)
            counts.late += late * counted[side]
            ready[side] += 0 if table is None else table.num_rows
            arriving.append(None if table is None else self._take(live, side, table))
        finder = live.join.finder = Timed(live.join.finder)
        pairs = live.join.process(arriving[0], arriving[1], budget, until_us=live.until)
        live.join.finder = finder.finder
        work = live.join.work
        counts.demand, counts.spent = max(work.needed_by_all, float(work.spent)), float(work.spent)
        counts.pairs, counts.work_s = work.pairs, finder.seconds
        for side in (0, 1):
            if counted[side]:
                counts.waiting += live.waiting[side]
                counts.more_waiting += live.waiting[side] - waited[side]
                counts.dropped += ready[side] - live.waiting[side] - finder.new[side]
        counts.note = self._impatience(live, waited_us)
        return pairs, counts

    def tables(self, live: Live, pairs: pa.Table) -> Iterator[pa.Table]:
        """Yield the pairs with the columns of both rows, some thousands at a time."""
        for begin in range(0, pairs.num_rows, _PAIRS_AT_ONCE):
            some = pairs.slice(begin, _PAIRS_AT_ONCE)
            columns: list[Any] = []
            for side, name in ((0, "left_row"), (1, "right_row")):
                at = pc.subtract(some[name], live.first[side])
                columns += live.rows[side].take(at).columns  # type: ignore[union-attr]
            names = [*self.output.left, *self.output.right, self.output.score]
            yield pa.table([*columns, some["score"]], names=names)

    def forget(self, live: Live) -> None:
        """Discard rows that cannot be in a pair any more."""
        for side, oldest in enumerate(live.join.oldest_rows()):
            table = live.rows[side]
            if table is not None:
                live.rows[side] = table.slice(oldest - live.first[side]).combine_chunks()
                live.first[side] = oldest

    def _impatience(self, live: Live, before_us: int) -> str:
        """Return a note if rows wait too long; it is empty if the user has set ``idle``."""
        if self.idle_us is not None:
            return ""
        came = [at - delay for at, delay in zip(live.latest, self.delays_us, strict=True)]
        patience = Patience.of(self.config.windows, self.delays_us)
        return patience.said(before_us, live.waited_us, "left" if came[0] < came[1] else "right")

    def _until(self, latest: list[int]) -> int:
        left, right = (at - delay for at, delay in zip(latest, self.delays_us, strict=True))
        both = min(left, right)
        return both if self.idle_us is None else max(both, max(left, right) - self.idle_us)

    def _ordered(self, side: int, table: pa.Table | None, before: int) -> tuple[pa.Table | None, int]:
        """Return the rows that are not late, in the order in which they are joined, and the number of late rows."""
        if table is None:
            return None, 0
        times, _ = times_of(table, self.config.times[side])
        order = np.lexsort((table[ORDER].to_numpy(), times))
        late = int(np.searchsorted(times[order], before, side="left"))
        return table.take(pa.array(order[late:])).drop_columns([ORDER]), late

    def _take(self, live: Live, side: int, table: pa.Table) -> pa.Table:
        """Append new rows to the rows that are held."""
        what = f"{('left', 'right')[side]}: the columns"
        live.rows[side] = together(live.rows[side], table, what=what, kind="join")
        return table


@cache
def _warm_up_once(access: Access) -> None:
    warm_up((access,))
