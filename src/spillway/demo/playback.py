"""Plays a trace through the workload and records what became of it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spillway.demo.interrupts import raise_if_interrupted
from spillway.demo.run_record import Batch, Recording, Variant
from spillway.demo.workload import per_route
from spillway.errors import SpillwayError
from spillway.loop.offsets import parse
from spillway.replay import Rates, stream
from spillway.spark import Spillway, Status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.1
START_LIMIT_S = 90.0
STOP_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What can be said of a run while it goes on; ``now_s`` is on the trace's clock, below 0 before it starts."""

    variant: Variant
    now_s: float
    batches: tuple[Batch, ...]
    status: Status | None


Watch = Callable[[Live], None]
Query = Callable[["DataFrame", Spillway | None], "DataFrame"]
"""What is done with the raw events, with Spillway in the plan or without."""


def breathe(query: StreamingQuery) -> None:
    """Wait a moment for a query that has to go on; raise what ended it, or what the user did."""
    raise_if_interrupted()
    if not query.isActive:
        raise query.exception() or SpillwayError("the query has ended before its time.")
    time.sleep(POLL_S)


def source(
    spark: SparkSession, trace: Rates, *, max_rows_per_batch: int | None = None, start: str = "now"
) -> DataFrame:
    """Return the raw events, arriving as the trace says, read by as many tasks as there are cores."""
    cores = int(spark.sparkContext.defaultParallelism)
    return stream(spark, trace, max_rows_per_batch=max_rows_per_batch, partitions=cores, start=start)


def workload(events: DataFrame, shed: Spillway | None) -> DataFrame:
    """Return the query, with Spillway before its expensive part or without."""
    return per_route(events if shed is None else shed.tuples(events))


def play(
    spark: SparkSession,
    folder: Path,
    trace: Rates,
    variant: Variant,
    *,
    target_s: float,
    from_s: float = 0.0,
    patience_s: float = 10.0,
    max_rows_per_batch: int | None = None,
    watch: Watch | None = None,
) -> Recording:
    """Play a trace through the workload, until all rows are through or ``patience_s`` after the trace's end."""
    checkpoint = folder / f"{variant}-{uuid.uuid4().hex[:8]}"
    events = source(spark, trace, max_rows_per_batch=max_rows_per_batch)
    history: tuple[dict[str, Any], ...] = ()
    with ExitStack() as stack:
        shed: Spillway | None = None
        if variant == "spillway":
            shed = stack.enter_context(Spillway("demo", target_s, checkpoint, arrival="timestamp"))
        with Recorder(spark, workload(events, shed), checkpoint) as recorder:
            until_s = recorder.follow(trace, variant, patience_s, shed, watch)
        batches = recorder.batches
        if shed is not None:
            history = tuple(shed.history().to_pylist())
            kept = {entry["batch"]: entry["kept_rows"] for entry in history}
            batches = tuple(replace(batch, kept_rows=kept.get(batch.number)) for batch in batches)
    return Recording(
        variant=variant,
        trace=trace,
        target_s=target_s,
        from_s=from_s,
        until_s=until_s,
        batches=batches,
        history=history,
        epoch_s=recorder.epoch_s or 0.0,
    )


class Recorder(StreamingQueryListener):
    """A running query and the batches it has finished; a context manager that leaves no task behind."""

    def __init__(self, spark: SparkSession, plan: DataFrame, checkpoint: Path) -> None:
        self._spark = spark
        self._plan = plan
        self._checkpoint = checkpoint
        self._changed = threading.Condition()
        self._batches: list[Batch] = []
        self._epoch_s: float | None = None
        self._query: StreamingQuery | None = None

    def __enter__(self) -> Recorder:
        self._spark.streams.addListener(self)
        writer = self._plan.writeStream.outputMode("update").format("noop")
        self._query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._query is not None
        self._query.stop()
        self._spark.streams.removeListener(self)
        tracker = self._spark.sparkContext.statusTracker()
        give_up = time.monotonic() + STOP_LIMIT_S
        while tracker.getActiveStageIds() and time.monotonic() < give_up:
            time.sleep(POLL_S)

    @property
    def epoch_s(self) -> float | None:
        """When the trace began, in seconds since 1970; None before the first batch is done."""
        with self._changed:
            return self._epoch_s

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The batches so far, those without rows left out."""
        with self._changed:
            return tuple(self._batches)

    def wait_for(self, batches: int, limit_s: float) -> tuple[Batch, ...]:
        """Wait until that many batches have finished; raise where they do not in time."""
        give_up = time.monotonic() + limit_s
        while len(self.batches) < batches:
            self._check()
            if time.monotonic() > give_up:
                raise SpillwayError(
                    f"the query finished {len(self.batches)} of {batches} batches in {limit_s:g} s."
                )
            with self._changed:
                self._changed.wait(POLL_S)
        return self.batches

    def follow(
        self, trace: Rates, variant: Variant, patience_s: float, shed: Spillway | None, watch: Watch | None
    ) -> float:
        """Wait for the end of the trace, and return when that was on the trace's clock."""
        give_up = time.monotonic() + START_LIMIT_S
        while True:
            self._check()
            batches = self.batches
            now_s = -1.0 if self._epoch_s is None else time.time() - self._epoch_s
            if watch is not None:
                watch(
                    Live(
                        variant=variant,
                        now_s=now_s,
                        batches=batches,
                        status=shed.status() if shed is not None else None,
                    )
                )
            if batches and batches[-1].last_row >= trace.total:
                return max(now_s, trace.duration_s)
            if now_s > trace.duration_s + patience_s:
                return now_s
            if self._epoch_s is None and time.monotonic() > give_up:
                raise SpillwayError(f"the query has not finished its first batch in {START_LIMIT_S:g} s.")
            with self._changed:
                self._changed.wait(POLL_S)

    def _check(self) -> None:
        raise_if_interrupted()
        assert self._query is not None
        if not self._query.isActive:
            raise self._query.exception() or SpillwayError("the query has ended before its time.")

    # Called by Spark, on a thread of its own

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take down a finished batch."""
        if self._query is not None and str(event.progress.runId) == str(self._query.runId):
            with self._changed:
                self._take(event.progress)
                self._changed.notify_all()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: whoever waits looks at the query itself."""

    def _take(self, progress: StreamingQueryProgress) -> None:
        source = progress.sources[0]
        end = parse(source.endOffset)
        if end is None:
            return
        start = parse(source.startOffset) or {"rows": 0}
        self._epoch_s = end["epoch_us"] / 1e6
        began_s = datetime.fromisoformat(progress.timestamp).replace(tzinfo=UTC).timestamp() - self._epoch_s
        if end["rows"] > start["rows"]:
            self._batches.append(
                Batch(
                    number=progress.batchId,
                    first_row=start["rows"],
                    last_row=end["rows"],
                    began_s=began_s,
                    ended_s=began_s + progress.durationMs["triggerExecution"] / 1000.0,
                )
            )
