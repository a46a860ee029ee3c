"""A join's shards without Spark: packing, shuffling, state and decisions by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.loop.decision import BatchDecision
from spillway.spark.control_row import ControlRow
from spillway.spark.join.shard import ShardLogic
from spillway.spark.shards.grid import Grid
from spillway.spark.shards.packets import ORDER, PART, Pack, Unpack
from spillway.spark.shards.task import REMEMBERED, ShardTask


class FakeState:
    """A group's state, and Spark's watermark."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None
        self.watermark_ms = 0
        self.wake_ms: int | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.value is not None
        # As Spark does: what comes back are bytearrays, and other objects than those that were given.
        return tuple(bytearray(part) if isinstance(part, bytes) else part for part in self.value)

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self.watermark_ms

    def setTimeoutTimestamp(self, at_ms: int) -> None:  # noqa: N802
        assert at_ms >= self.watermark_ms
        self.wake_ms = at_ms


@dataclass(frozen=True)
class Told(ControlRow):
    """A control row that tells every batch the same, or what is looked up for it."""

    budget: float | None = None

    def decision_for(self, batch: int, query: str | None) -> tuple[BatchDecision | None, str]:  # noqa: ARG002
        return BatchDecision(batch=batch, keep_ratio=1.0, salt=0, cuts=(), work_budgets=(self.budget,)), ""


@dataclass
class Shards:
    """All shards of a join, fed batch by batch."""

    logic: ShardLogic
    grid: Grid
    arrival: str | None = None
    enforce: bool = True
    forgetful: bool = False
    seed: int = 0
    part_of: Callable[[int, pa.Table], Any] | None = None
    states: dict[int, FakeState] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def feed(
        self, left: pa.Table, right: pa.Table, budget: float | None = None, watermark_ms: int = 0
    ) -> pa.Table:
        """Join a batch; tasks and shuffle have the rows in an order of their own each time."""
        chance = random.Random(self.seed)
        sent: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
        for side, table in enumerate((left, right)):
            rows = list(range(table.num_rows))
            chance.shuffle(rows)
            cut = chance.randint(0, len(rows))
            for task in (rows[:cut], rows[cut:]):
                if task:
                    for packed in self._pack(side, table.take(task)):
                        for row in range(packed.num_rows):
                            sent[packed["key"][row].as_py()].append(packed.slice(row, 1))
        found = []
        self.counts = defaultdict(float)
        for key in self.grid.keys:
            state = self.states.setdefault(key, FakeState())
            state.watermark_ms = watermark_ms
            batches = sent[key]
            chance.shuffle(batches)
            if batches or state.wake_ms is not None:
                found += self._call(key, [batch.to_pandas() for batch in batches], state, budget)
        return pa.concat_tables(found) if found else None

    def _pack(self, side: int, table: pa.Table) -> list[pa.RecordBatch]:
        if PART not in table.column_names:
            assert self.part_of is not None
            table = table.append_column(PART, self.part_of(side, table))
        (batch,) = table.combine_chunks().to_batches()
        pack = Pack(
            side, self.grid.targets(side), self.grid.keys, self.logic.config.times[side], self.arrival
        )
        return list(pack([batch]))

    def _call(self, key: int, frames: list[Any], state: FakeState, budget: float | None) -> list[pa.Table]:
        if self.forgetful:
            REMEMBERED._shards.clear()
        task = ShardTask(self.logic, self.grid, Told("here", None, 0, budget), self.enforce)
        state.wake_ms = None
        results = list(task((np.int32(key),), iter(frames), state))  # type: ignore[arg-type]
        first = results[0].iloc[0]
        for name in ("arrived", "unmatched", "late", "waiting", "demand", "spent", "pairs", "dropped"):
            self.counts[name] += first[name] if first[name] == first[name] else 0
        self.counts["state_bytes"] += first["state_bytes"]
        packed = [pa.RecordBatch.from_pandas(frame[["results"]]) for frame in results]
        return [pa.Table.from_batches(list(Unpack()(packed)))] if first["results"] is not None else []


def with_order(table: pa.Table) -> pa.Table:
    """Add a hash of the row's id, in place of Spark's of all columns."""
    ids = table["id"].to_numpy()
    return table.append_column(ORDER, pa.array((ids * 2654435761) % 1_000_003))
