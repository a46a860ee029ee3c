"""Packs rows into Arrow tables on their way to the shards, and unpacks the results.

Spark passes the rows to a stateful function as pandas, in which a list of words is a Python object per row. So rows
are packed before they are shuffled: a task turns the rows that it reads into one Arrow table for each part of its
side (grid.py), and only a few binary values are shuffled, grouped and turned into pandas. ::

    left   -> mapInArrow(Pack) ┐
                               ├ union -> groupBy(key).applyInPandasWithState(Shard) -> observe -> mapInArrow(Unpack)
    right  -> mapInArrow(Pack) ┘

At the end of its rows each task also sends two numbers to **every** shard: the latest time that it has seen, so that
all shards know the progress of time on both sides, even without rows of their own; and how many rows it has sent to
all shards together, so that each shard knows its share of the budget. The task sends its counts to the first shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import SpillwayError
from spillway.spark.control_row import PREFIX
from spillway.spark.quick_acknowledgement import acknowledge_at_once

PART, ORDER = f"{PREFIX}part", f"{PREFIX}order"
PACKED = (
    "key int, side int, rows binary, here bigint, sent bigint, latest_us bigint, arrived bigint, unmatched bigint, "
    "first_arrival double, arrivals double, timed bigint, arrival_missing bigint"
)
_SCHEMA = pa.schema(
    {
        "key": pa.int32(),
        "side": pa.int32(),
        "rows": pa.binary(),
        "here": pa.int64(),
        "sent": pa.int64(),
        "latest_us": pa.int64(),
        "arrived": pa.int64(),
        "unmatched": pa.int64(),
        "first_arrival": pa.float64(),
        "arrivals": pa.float64(),
        "timed": pa.int64(),
        "arrival_missing": pa.int64(),
    }
)
LONG_AGO = -(2**62)
_MOST_ROWS, _MOST_BYTES = 100_000, 32_000_000
_NOTHING = {
    "here": 0,
    "sent": 0,
    "latest_us": LONG_AGO,
    "arrived": 0,
    "unmatched": 0,
    "arrivals": 0.0,
    "timed": 0,
    "arrival_missing": 0,
}


@dataclass
class Tally:
    """The counts of a task for the rows of its side."""

    arrived: int = 0
    unmatched: int = 0
    arrival_missing: int = 0
    timed: int = 0
    arrivals: float = 0.0
    first_arrival: float | None = None
    latest_us: int = LONG_AGO

    def see(self, batch: pa.RecordBatch, time: str, arrival: str | None) -> None:
        """Count the rows of a batch. Rows without a part can match nothing."""
        self.arrived += batch.num_rows
        self.unmatched += batch.column(PART).null_count
        latest = pc.max(_micros(batch.column(time))).as_py()
        self.latest_us = max(self.latest_us, LONG_AGO if latest is None else latest)
        if arrival is not None:
            at = _micros(batch.column(arrival))
            self.arrival_missing += at.null_count
            self.timed += len(at) - at.null_count
            self.arrivals += (pc.sum(at.cast(pa.float64())).as_py() or 0.0) / 1e6
            first = pc.min(at).as_py()
            if first is not None:
                self.first_arrival = min(self.first_arrival or first / 1e6, first / 1e6)


@dataclass(frozen=True)
class Pack:
    """Packs the rows of one side. Picklable, because it is sent to the task.

    ``targets`` are the keys of the shards that get the rows of each part, ``everyone`` the keys of all shards.
    """

    side: int
    targets: tuple[tuple[int, ...], ...]
    everyone: tuple[int, ...]
    time: str
    arrival: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows, and at the end the counts."""
        acknowledge_at_once()
        tally, held = Tally(), Held()
        for batch in batches:
            tally.see(batch, self.time, self.arrival)
            held.add(batch.filter(batch.column(PART).is_valid()))
            if held.rows >= _MOST_ROWS or held.size >= _MOST_BYTES:
                yield from self._packed(held.taken())
        if held.rows:
            yield from self._packed(held.taken())
        if tally.arrived:
            yield self._seen(tally)

    def _packed(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        parts = table[PART].to_numpy()
        for part in np.unique(parts):
            mine = table.filter(pa.array(parts == part)).drop_columns([PART])
            packed = {"side": self.side, "rows": to_bytes(mine), "here": mine.num_rows}
            yield _records([{"key": key, **packed} for key in self.targets[part]])

    def _seen(self, tally: Tally) -> pa.RecordBatch:
        told = {"side": self.side, "sent": tally.arrived - tally.unmatched, "latest_us": tally.latest_us}
        records: list[dict[str, Any]] = [{"key": key, **told} for key in self.everyone]
        records[0] |= vars(tally)
        return _records(records)


@dataclass
class Held:
    """Rows that have not been packed yet."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def taken(self) -> pa.Table:
        """Return all held rows and forget them."""
        table = pa.Table.from_batches(self.batches)
        self.batches, self.rows, self.size = [], 0, 0
        return table


class Unpack:
    """Turns the packed results of the shards back into rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all tables."""
        acknowledge_at_once()
        for batch in batches:
            for packed in batch.column(0):
                if packed.is_valid:
                    yield from from_bytes(packed.as_buffer()).to_batches()


def to_bytes(table: pa.Table, compression: str | None = None) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_bytes(packed: bytes | pa.Buffer) -> pa.Table:
    """Read back the output of :func:`to_bytes`.

    >>> from_bytes(to_bytes(pa.table({"id": [3, 4]}))).to_pydict()
    {'id': [3, 4]}
    """
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_all()


def together(held: pa.Table | None, table: pa.Table | None, *, what: str, kind: str) -> pa.Table | None:
    """Return held rows and new rows as one table; refuse new rows with other columns.

    >>> together(pa.table({"id": [3]}), pa.table({"id": [4]}), what="the columns", kind="join").to_pydict()
    {'id': [3, 4]}
    """
    if held is None or table is None:
        return held if table is None else table
    if held.schema != table.schema:
        try:
            held = held.cast(table.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise SpillwayError(
                f"{what} have changed since the state was written: {error}.",
                hint=f"give the {kind} the same columns as before, or start with a new checkpoint",
            ) from error
    return pa.concat_tables([held, table]).combine_chunks()


def _records(records: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return records as an Arrow batch. No whole number is null, because pandas would turn its column into floats."""
    return pa.RecordBatch.from_pylist([{**_NOTHING, **record} for record in records], schema=_SCHEMA)


def _micros(times: pa.Array) -> pa.Array:
    """Return timestamps as whole numbers of microseconds, which is Spark's resolution."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
