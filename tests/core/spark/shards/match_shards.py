"""A pattern's shards without Spark: packing, shuffling, state and decisions by hand."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.cep.language import correlation
from spillway.spark.match.shard import MatchLogic
from spillway.spark.match.shared_model import Sharing
from spillway.spark.shards.grid import Grid
from spillway.spark.shards.packets import PART, Pack, Unpack
from spillway.spark.shards.task import REMEMBERED, ShardTask
from tests.core.spark.shards.join_shards import FakeState, Told

COUNTED = (
    *("arrived", "unmatched", "late", "waiting", "demand", "spent", "matches", "dropped", "shed_runs"),
    *("runs", "state_bytes", "more_waiting", "more_runs", "more_bytes"),
)


@dataclass(frozen=True)
class Numbered(Sharing):
    """Sharing between the shards of a batch whose number is the last in a list."""

    batches: list[int] = field(default_factory=lambda: [0])

    def batch(self) -> int:
        return self.batches[-1]


@dataclass
class MatchShards:
    """All shards of a pattern, fed batch by batch; tasks and shuffle have an order of their own each time."""

    logic: MatchLogic
    shards: int = 3
    forgetful: bool = False
    enforce: bool = True
    seed: int = 0
    states: dict[int, FakeState] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.logic.config
        self.key = correlation(config.tree, config.schema)
        count = self.shards if self.key is not None else 1
        self.grid = Grid(count, count, True, tuple(range(20, 20 + count)))

    def feed(
        self, table: pa.Table | None, budget: float | None = None, watermark_ms: int = 0
    ) -> list[pa.Table]:
        """Match a batch; without a table only the watermark has moved."""
        chance = random.Random(self.seed)
        sent: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
        rows = [] if table is None else list(range(table.num_rows))
        chance.shuffle(rows)
        cut = chance.randint(0, len(rows))
        for task in (rows[:cut], rows[cut:]):
            if task and table is not None:
                for packed in self._pack(table.take(task)):
                    for row in range(packed.num_rows):
                        sent[packed["key"][row].as_py()].append(packed.slice(row, 1))
        found = []
        self.counts = dict.fromkeys(COUNTED, 0.0)
        for key in self.grid.keys:
            state = self.states.setdefault(key, FakeState())
            state.watermark_ms = watermark_ms
            batches = sent[key]
            chance.shuffle(batches)
            due = state.wake_ms is not None and watermark_ms > state.wake_ms
            if batches or due:
                found += self._call(key, [batch.to_pandas() for batch in batches], state, budget)
        return found

    def _pack(self, table: pa.Table) -> list[pa.RecordBatch]:
        config = self.logic.config
        if PART not in table.column_names:
            parts = [self._part(row) for row in table.to_pylist()]
            table = table.append_column(PART, pa.array(parts, pa.int32()))
        (batch,) = table.combine_chunks().to_batches()
        return list(Pack(0, self.grid.targets(0), self.grid.keys, config.time, None)([batch]))

    def _part(self, row: dict[str, Any]) -> int | None:
        config = self.logic.config
        if row[config.time] is None:
            return None
        if config.tree.policy == "strict":
            return 0
        kind = row[config.type]
        if not any(kind in element.types for element in config.tree.elements):
            return None
        if self.key is None:
            return 0
        values = [row[name] for name in self.key.by[kind]]
        unknown = any(value is None or (isinstance(value, float) and math.isnan(value)) for value in values)
        return None if unknown else random.Random(repr(values)).randrange(self.shards)

    def _call(self, key: int, frames: list[Any], state: FakeState, budget: float | None) -> list[pa.Table]:
        if self.forgetful:
            REMEMBERED._shards.clear()
        task = ShardTask(self.logic, self.grid, Told("here", None, 0, budget), self.enforce)
        state.wake_ms = None
        results = list(task((np.int32(key),), iter(frames), state))  # type: ignore[arg-type]
        first = results[0].iloc[0]
        for name in COUNTED:
            self.counts[name] += first[name] if first[name] == first[name] else 0
        self.notes += [first["note"]] if first["note"] else []
        packed = [pa.RecordBatch.from_pandas(frame[["results"]]) for frame in results]
        return [pa.Table.from_batches(list(Unpack()(packed)))] if first["results"] is not None else []
