"""A shard as Spark calls it: the rows of a batch and its state in, packed pairs and counts out.

Making a shard from its state takes time: bit sets and indexes are built anew. Spark uses its Python processes again,
so a process remembers the shards it had last. A shard is taken from there only if the state that Spark hands over is,
to the checksum, the one that it left; where it is not (another process had it in between, a batch is done again), it
is made from the state. What comes out is the same.
"""

from __future__ import annotations

import math
import time
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from spillway.core.chance import mix
from spillway.core.join.config import Access
from spillway.core.join.warm_up import warm_up
from spillway.spark.join_grid import Grid
from spillway.spark.join_pack import LONG_AGO, from_bytes, to_bytes
from spillway.spark.join_shard import Live, ShardLogic
from spillway.spark.plane import ControlRow
from spillway.spark.quickack import acknowledge_at_once

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.streaming.state import GroupState

RESULT = (
    "pairs binary, arrived bigint, unmatched bigint, arrival_missing bigint, first_arrival double, arrivals double, "
    "timed bigint, late bigint, waiting bigint, dropped bigint, demand double, spent double, pair_count bigint, "
    "state_bytes bigint, work_s double, task_s double, began_s double, ended_s double, note string"
)
COLUMNS = [part.split()[0] for part in RESULT.split(", ")]


@dataclass(frozen=True)
class ShardTask:
    """Joins one shard's rows of one batch. Picklable: it travels to the task."""

    logic: ShardLogic
    grid: Grid
    control: ControlRow
    enforce: bool

    def __call__(
        self, key: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Yield the pairs, packed, and in the first row what was done."""
        _prepare(self.logic.config.access)
        began_s, began = time.time(), time.perf_counter()
        acknowledge_at_once()
        shard = int(key[0])
        logic = self._of_shard(shard)
        place = (self.control.folder, self.control.stage, shard)
        live = REMEMBERED.take(place, state.get) if state.exists else Live.new(logic.config)
        if live is None:
            live = Live.restored(logic.config, state.get)
        arrived = Arrived.of(frames)
        budget, note = self._budget()
        watermark_ms = state.getCurrentWatermarkMs()
        pairs, counts = logic.step(
            live,
            arrived.tables(),
            (arrived.latest_us[0], arrived.latest_us[1]),
            watermark_us=watermark_ms * 1000 if watermark_ms > 0 else LONG_AGO,
            budget=budget if self.enforce else None,
            counted=self.grid.counts(shard),
        )
        gathering = time.perf_counter()
        packed = [to_bytes(table) for table in logic.tables(live, pairs)]
        counts.work_s += time.perf_counter() - gathering
        logic.forget(live)
        after = live.state()
        state.update(after)
        REMEMBERED.put(place, after, live)
        _wake_up(state, live, watermark_ms)
        counts.state_bytes = sum(len(part) for part in after if isinstance(part, bytes))
        found = asdict(counts)
        found["pair_count"] = found.pop("pairs")
        first = {**found, **arrived.counts, "note": note or None}
        first |= {"began_s": began_s, "task_s": time.perf_counter() - began, "ended_s": time.time()}
        yield _frame([{**first, "pairs": packed[0] if packed else None}])
        for table in packed[1:]:
            yield _frame([{"pairs": table}])

    def _of_shard(self, key: int) -> ShardLogic:
        """Return the logic with a salt of the shard's own."""
        config = self.logic.config
        return replace(self.logic, config=replace(config, salt=mix(config.salt, key)))

    def _budget(self) -> tuple[float | None, str]:
        """Return the shard's part of what the batch may compare, None for everything, and a note."""
        from pyspark import TaskContext  # noqa: PLC0415  only the task has one

        context = TaskContext.get()
        told = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        decision, note = self.control.decision_for(int(told) if told is not None else -1, query)
        budget = None if decision is None else decision.work_budget_of(self.control.stage)
        return (None if budget is None else budget / len(self.grid.keys)), note


class Memory:
    """The shards that a process had last, by their place; no more than a few."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._shards: OrderedDict[tuple[str, int, int], tuple[Any, Live]] = OrderedDict()

    def take(self, place: tuple[str, int, int], state: tuple[Any, ...]) -> Live | None:
        """Return the shard that left this very state, None if it is not here."""
        left, live = self._shards.pop(place, (None, None))
        return live if left == _fingerprint(state) else None

    def put(self, place: tuple[str, int, int], state: tuple[Any, ...], live: Live) -> None:
        """Remember a shard with the state that it leaves."""
        self._shards[place] = (_fingerprint(state), live)
        while len(self._shards) > self._most:
            self._shards.popitem(last=False)


REMEMBERED = Memory()


def _fingerprint(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what tells states apart: long parts by their length and checksum."""
    return tuple(
        (len(part), zlib.crc32(part)) if isinstance(part, bytes | bytearray) else part for part in state
    )


class Arrived:
    """What the packing tasks have sent to a shard."""

    def __init__(self) -> None:
        self.packed: tuple[list[bytes], list[bytes]] = ([], [])
        self.latest_us = [LONG_AGO, LONG_AGO]
        self.counts: dict[str, Any] = {}

    @classmethod
    def of(cls, frames: Iterable[pd.DataFrame]) -> Arrived:
        """Read all of it."""
        found = cls()
        for frame in frames:
            for row in frame.to_dict("records"):
                found._add(row)
        return found

    def tables(self) -> tuple[pa.Table | None, pa.Table | None]:
        """Return the rows of both sides."""
        import pyarrow as pa  # noqa: PLC0415

        left, right = (
            pa.concat_tables(map(from_bytes, packed)).combine_chunks() if packed else None
            for packed in self.packed
        )
        return left, right

    def _add(self, row: dict[str, Any]) -> None:
        side = int(row["side"])
        if row["rows"] is not None:
            self.packed[side].append(bytes(row["rows"]))
        self.latest_us[side] = max(self.latest_us[side], int(row["latest_us"]))
        for name in ("arrived", "unmatched", "arrival_missing", "arrivals", "timed"):
            self.counts[name] = self.counts.get(name, 0) + row[name]
        first = row["first_arrival"]
        if first is not None and not math.isnan(first):
            self.counts["first_arrival"] = min(first, self.counts.get("first_arrival", first))


@cache
def _prepare(access: Access) -> None:
    """Load the compiled code, once per process and before anything is timed."""
    # Spark puts empty rows behind those of a group, in a way that pandas will do otherwise one day.
    warnings.filterwarnings("ignore", "The behavior of DataFrame concatenation", FutureWarning)
    warm_up((access,))


def _wake_up(state: GroupState, live: Live, watermark_ms: int) -> None:
    """Ask to be called when Spark's watermark has come to the first row that waits."""
    waiting = [int(side.rows.times[0]) for side in live.join.waiting if len(side.rows)]
    if waiting:
        state.setTimeoutTimestamp(max(1, watermark_ms, -(-min(waiting) // 1000) - 1))


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415  only the task needs it

    return pd.DataFrame(rows, columns=COLUMNS)
