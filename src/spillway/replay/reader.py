"""Which rows of a replay have arrived, and the rows themselves: the ``replay`` source at work.

Row i of the stream arrives at

    a_i = epoch + t_i / speed

where t_i is its time in the trace. At wall-clock time T the stream has n(T) = #{i : a_i ≤ T} rows, and that
is all the source has to know: an offset is a number of rows, a micro-batch is a range of row numbers.

========== ==============================================================================================
offset     meaning
========== ==============================================================================================
rows       the number of rows before this point of the stream
epoch_us   when the stream began, in microseconds since 1970; fixed when a new query first asks
replay     a fingerprint of trace, speed and rows
========== ==============================================================================================

Because the epoch stands in the offset log, a query that is restarted goes on where it was and finds the rows
that arrived meanwhile, as with Kafka. Because everything about row i follows from i, the epoch and the
options, a range that is read twice gives the same bytes, arrival times included. A checkpoint is refused if
trace, speed or rows have changed since it was written, for then the rows already counted would be others.

The wall clock is read in one place. If it is set back, no rows arrive until it has caught up; if it jumps
ahead, the rows of the time between arrive at once. When the trace has ended, no more rows arrive.

Spark keeps one Python process per query for the offsets and sends the reader, pickled, to the tasks. The
reader is small: trace and rows are opened once in each Python process and stay there for the next batches.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spillway.errors import SpillwayError, invalid
from spillway.replay.options import ReplayOptions
from spillway.replay.traces import Rates, Times

Offset = dict[str, Any]


@dataclass(frozen=True)
class Range(InputPartition):
    """The rows that one task reads."""

    first: int
    last: int
    epoch_us: int


class ReplayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tells which rows have arrived, and reads them.

    :param options: what to play
    :param schema: the columns that Spark expects
    :param clock: seconds since 1970
    """

    def __init__(
        self, options: ReplayOptions, schema: StructType, clock: Callable[[], float] = time.time
    ) -> None:
        self._options = options
        self._columns = to_arrow_schema(schema, timezone="UTC")
        self._clock = clock
        self._epoch_us: int | None = None
        self._until_us: int | None = None
        expected = columns_of(options)
        if not self._columns.equals(expected):
            raise invalid("schema", schema.simpleString(), from_arrow_schema(expected).simpleString())

    # Which rows there are: called by the query's own process, several times for each micro-batch

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the beginning of the stream; Spark asks again and again until the first rows are there."""
        if self._epoch_us is None:
            start_us = self._options.start_us
            self._epoch_us = self._now_us() if start_us is None else start_us
        return self._offset(0, self._epoch_us)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that Spark hands back to :meth:`latestOffset`, unless a trigger overrules it."""
        limit = self._options.max_rows_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return how far a micro-batch that begins at ``start`` may go: to the present, or to the limit."""
        first, epoch_us = self._check(start)
        self._epoch_us = epoch_us
        now_us = self._now_us() if self._until_us is None else self._until_us
        last = max(first, self._arrived(epoch_us, now_us))
        match limit:
            case ReadAllAvailable():
                pass
            case ReadMaxRows(max_rows):
                last = min(last, first + max_rows)
            case ReadMinRows(min_rows):
                last = last if last - first >= min_rows else first
            case _:
                raise invalid("limit", limit, "a number of rows")
        return self._offset(last, epoch_us)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the present end of the stream: less the progress's ``endOffset``, it is the backlog."""
        if self._epoch_us is None:
            return None
        return self._offset(self._arrived(self._epoch_us, self._now_us()), self._epoch_us)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the stream end at the present."""
        self._until_us = self._now_us()

    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        """Cut the rows between two offsets into contiguous ranges of nearly the same size."""
        first, _ = self._check(start)
        last, epoch_us = self._check(end)
        self._epoch_us = epoch_us
        parts = min(self._options.partitions, last - first)
        cuts = [first + (last - first) * part // parts for part in range(parts)] + [last]
        return [Range(low, high, epoch_us) for low, high in pairwise(cuts)]

    # The rows themselves: called in each task

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Yield the rows of a range, with their arrival times."""
        options, position = self._options, partition.first
        trace = options.trace()
        for batch in options.row_source().read(partition.first, partition.last):
            last = position + batch.num_rows
            after_us = np.rint(trace.times(position, last) * (1e6 / options.speed)).astype(np.int64)
            added = [pa.array(partition.epoch_us + after_us).cast(self._columns.field(0).type)]
            if options.row_number is not None:
                added.append(pa.array(np.arange(position, last)))
            yield pa.RecordBatch.from_arrays(added + batch.columns, schema=self._columns)
            position = last

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)

    def _arrived(self, epoch_us: int, now_us: int) -> int:
        if now_us < epoch_us:
            return 0
        return int(self._trace.count((now_us - epoch_us) / 1e6 * self._options.speed))

    @cached_property
    def _trace(self) -> Rates | Times:
        return self._options.trace()

    @cached_property
    def _fingerprint(self) -> str:
        options, trace = self._options, self._trace
        times = trace.to_json().encode() if isinstance(trace, Rates) else trace.arrivals_s.tobytes()
        parts = (times, repr(float(options.speed)).encode(), options.row_source().identity.encode())
        return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()

    def _offset(self, rows: int, epoch_us: int) -> Offset:
        return {"rows": rows, "epoch_us": epoch_us, "replay": self._fingerprint}

    def _check(self, offset: Offset) -> tuple[int, int]:
        try:
            rows, epoch_us, fingerprint = int(offset["rows"]), int(offset["epoch_us"]), offset["replay"]
        except (KeyError, TypeError, ValueError):
            raise SpillwayError(f"the checkpoint holds no offset of a replay but {offset!r}.") from None
        if fingerprint != self._fingerprint:
            raise SpillwayError(
                "the checkpoint belongs to a replay with another trace, other rows or another speed.",
                hint="take a new checkpoint, or the former options",
            )
        return rows, epoch_us


def columns_of(options: ReplayOptions) -> pa.Schema:
    """Return the columns of the stream: arrival time, row number if asked for, and those of the rows."""
    added = [pa.field(options.arrival, pa.timestamp("us", "UTC"))]
    if options.row_number is not None:
        added.append(pa.field(options.row_number, pa.int64()))
    return pa.schema(added + list(options.row_source().schema))
