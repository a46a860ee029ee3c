"""The function that Spark calls for a shard: it takes the rows of a batch and the state, and returns packed results.

The logic of the operator says what a shard does (join/shard.py, match/shard.py); this module has the common part.

Making a shard from its state takes time: bit sets and indexes are built anew. Spark reuses its Python processes, so a
process remembers the shards that it had last. A remembered shard is used only if its last state has the same checksum
as the state that Spark passes, and if the same logic made it. Otherwise (another process had the shard in between, a
batch is run again, a query was started with other options) the shard is made from the state. The results are the same
in both cases.

**Shares.** A batch has one budget for all shards. The cells of a grid have about the same amount of work, so they get
equal parts. Keys may be skewed, and the part of a shard without rows would be lost, so there half of the budget is
divided by rows:

    share of shard k = (1 / K + n_k / n) / 2        K shards, n rows in the batch, n_k of them for shard k

The other half is for rows that have waited: they may become due in a batch that brings the shard no rows. The
numbers come with the rows, so the budget of a batch that is run again is divided in the same way.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import functions as F

from spillway.spark.control_row import ControlRow
from spillway.spark.quick_acknowledgement import acknowledge_at_once
from spillway.spark.shards.grid import Grid
from spillway.spark.shards.packets import LONG_AGO, from_bytes, to_bytes

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.streaming.state import GroupState

RESULT = (
    "results binary, arrived bigint, unmatched bigint, arrival_missing bigint, first_arrival double, "
    "arrivals double, timed bigint, late bigint, waiting bigint, dropped bigint, demand double, spent double, "
    "pairs bigint, matches bigint, shed_runs bigint, runs bigint, state_bytes bigint, more_waiting bigint, "
    "more_runs bigint, more_bytes bigint, work_s double, aside_s double, task_s double, began_s double, "
    "ended_s double, note string"
)
COLUMNS = [part.split()[0] for part in RESULT.split(", ")]


@dataclass
class Counts:
    """The counts of a shard in a batch. A row is counted in one shard, even if several shards have a copy.

    ``dropped`` counts rows, ``shed_runs`` the partial matches that were discarded, ``runs`` those that are held.
    ``aside_s`` is time that was spent once, neither on rows nor on units, such as for learning. ``note`` is for the
    status.

    ``waiting``, ``runs`` and ``state_bytes`` are the amounts after the batch; ``more_waiting``, ``more_runs`` and
    ``more_bytes`` are the changes in the batch. A batch without rows calls only some of the shards, so the amount
    that all shards hold is then the earlier amount plus the changes.
    """

    late: int = 0
    waiting: int = 0
    dropped: int = 0
    demand: float = 0.0
    spent: float = 0.0
    pairs: int = 0
    matches: int = 0
    shed_runs: int = 0
    runs: int = 0
    state_bytes: int = 0
    more_waiting: int = 0
    more_runs: int = 0
    more_bytes: int = 0
    work_s: float = 0.0
    aside_s: float = 0.0
    note: str = ""


class Shard(Protocol):
    """A shard between two batches."""

    def state(self) -> tuple[Any, ...]:
        """Return the state from which the shard can be made again."""


class Logic(Protocol):
    """The work of all shards of an operator. Picklable, because it is sent to the task."""

    def prepare(self) -> None:
        """Load compiled code."""

    def of_shard(self, key: int) -> Logic:
        """Return the logic with a separate salt for the shard."""

    def begin(self, state: tuple[Any, ...] | None) -> Any:
        """Return the shard of a state, or a new shard if there is no state."""

    def advance(
        self,
        live: Any,
        arrived: Arrived,
        *,
        watermark_us: int,
        budget: float | None,
    ) -> tuple[pa.Table, Counts]:
        """Take in the rows of a batch; return the results as row numbers, and the counts."""

    def tables(self, live: Any, found: pa.Table) -> Iterator[pa.Table]:
        """Yield the results with the columns of their rows, some thousands at a time."""

    def forget(self, live: Any) -> None:
        """Discard rows that cannot be in a result any more."""

    def wakes_ms(self, live: Any) -> int | None:
        """Return the time at which Spark's watermark should wake the shard, None if there is nothing to do."""


@dataclass(frozen=True)
class ShardTask:
    """Does the work of one shard in one batch. Picklable, because it is sent to the task.

    ``made_by`` identifies the logic: it is a digest of the pickled logic, computed where the query is built.
    """

    logic: Logic
    grid: Grid
    control: ControlRow
    enforce: bool
    made_by: bytes = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(cloudpickle.dumps(self.logic), digest_size=16).digest()  # type: ignore[no-untyped-call]
        object.__setattr__(self, "made_by", digest)

    def __call__(
        self, key: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Yield the packed results, with the counts in the first row."""
        _quieten()
        self.logic.prepare()
        began_s, began = time.time(), time.perf_counter()
        acknowledge_at_once()
        shard = int(key[0])
        logic = self.logic.of_shard(shard)
        place = (self.control.folder, self.control.stage, shard)
        before = state.get if state.exists else None
        live = None if before is None else REMEMBERED.take(place, self.made_by, before)
        if live is None:
            live = logic.begin(before)
        arrived = Arrived.of(frames, self.grid.counts(shard))
        budget, note = self._budget(self.grid.share(arrived.here, arrived.sent))
        watermark_ms = state.getCurrentWatermarkMs()
        results, counts = logic.advance(
            live,
            arrived,
            watermark_us=watermark_ms * 1000 if watermark_ms > 0 else LONG_AGO,
            budget=budget if self.enforce else None,
        )
        gathering = time.perf_counter()
        packed = [to_bytes(table) for table in logic.tables(live, results)]
        counts.work_s += time.perf_counter() - gathering
        logic.forget(live)
        after = live.state()
        state.update(after)
        REMEMBERED.put(place, self.made_by, after, live)
        wakes_ms = logic.wakes_ms(live)
        if wakes_ms is not None:
            state.setTimeoutTimestamp(max(1, watermark_ms, wakes_ms))
        counts.state_bytes = _size(after)
        counts.more_bytes = counts.state_bytes - _size(before or ())
        first = {**asdict(counts), **arrived.counts, "note": note or counts.note or None}
        first |= {
            "began_s": began_s,
            "task_s": time.perf_counter() - began - counts.aside_s,
            "ended_s": time.time() - counts.aside_s,
        }
        yield _frame([{**first, "results": packed[0] if packed else None}])
        for table in packed[1:]:
            yield _frame([{"results": table}])

    def _budget(self, share: float) -> tuple[float | None, str]:
        """Return the shard's part of the batch's budget (None: no limit), and a note."""
        decision, note = self.control.decision_here()
        budget = None if decision is None else decision.work_budget_of(self.control.stage)
        return (None if budget is None else budget * share), note


def metrics() -> list[Column]:
    """Return the metrics: sums and extremes over the shards of a batch."""
    sums: list[Any] = [
        F.sum(name).alias(name)
        for name in (
            *("arrived", "unmatched", "arrival_missing", "late", "waiting", "dropped", "demand", "spent"),
            *("pairs", "matches", "shed_runs", "runs", "state_bytes", "work_s", "task_s"),
            *("more_waiting", "more_runs", "more_bytes"),
        )
    ]
    return [
        *sums,
        F.sum("arrived").alias("kept"),
        F.max("aside_s").alias("aside_s"),
        F.min("first_arrival").alias("first_arrival"),
        (F.sum("arrivals") / F.nullif(F.sum("timed"), F.lit(0))).alias("mean_arrival"),
        F.min("began_s").alias("began_s"),
        F.max("ended_s").alias("ended_s"),
        F.max("note").alias("note"),
    ]


class Memory:
    """The few shards that a process had last, by their place."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._shards: OrderedDict[tuple[str, int, int], tuple[Any, Shard]] = OrderedDict()

    def take(self, place: tuple[str, int, int], made_by: bytes, state: tuple[Any, ...]) -> Any:
        """Return the shard of this logic that left exactly this state, None if it is not here."""
        left, live = self._shards.pop(place, (None, None))
        return live if left == (made_by, *_fingerprint(state)) else None

    def put(self, place: tuple[str, int, int], made_by: bytes, state: tuple[Any, ...], live: Shard) -> None:
        """Remember a shard with its logic and the state that it has left."""
        self._shards[place] = ((made_by, *_fingerprint(state)), live)
        while len(self._shards) > self._most:
            self._shards.popitem(last=False)


REMEMBERED = Memory()


def _fingerprint(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a fingerprint of a state, in which long parts are replaced by their length and checksum."""
    return tuple(
        (len(part), zlib.crc32(part)) if isinstance(part, bytes | bytearray) else part for part in state
    )


def _size(state: tuple[Any, ...]) -> int:
    """Return how many bytes a state has."""
    return sum(len(part) for part in state if isinstance(part, bytes | bytearray))


class Arrived:
    """The rows and counts that the packing tasks have sent to a shard; it counts the rows of ``counted`` sides.

    ``here`` is the number of its rows, ``sent`` that of the rows of all shards.
    """

    def __init__(self, counted: tuple[bool, bool] = (True, True)) -> None:
        self.counted = counted
        self.packed: tuple[list[bytes], list[bytes]] = ([], [])
        self.latest_us = [LONG_AGO, LONG_AGO]
        self.here = self.sent = 0
        self.counts: dict[str, Any] = {}

    @classmethod
    def of(cls, frames: Iterable[pd.DataFrame], counted: tuple[bool, bool] = (True, True)) -> Arrived:
        """Read all frames that Spark passes."""
        found = cls(counted)
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
        self.here += int(row["here"])
        self.sent += int(row["sent"])
        for name in ("arrived", "unmatched", "arrival_missing", "arrivals", "timed"):
            self.counts[name] = self.counts.get(name, 0) + row[name]
        first = row["first_arrival"]
        if first is not None and not math.isnan(first):
            self.counts["first_arrival"] = min(first, self.counts.get("first_arrival", first))


@cache
def _quieten() -> None:
    """Ignore a pandas warning: Spark appends empty rows to a group in a way that pandas will change in the future."""
    warnings.filterwarnings("ignore", "The behavior of DataFrame concatenation", FutureWarning)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415  only the task needs it

    return pd.DataFrame(rows, columns=COLUMNS)
