"""A stream of orders for the shedding tests, and a way to run a query over all of it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spillway import Spillway
from spillway.core.tuples import apply
from spillway.core.tuples.shed import protection, utilities
from spillway.loop.decision import BatchDecision
from spillway.replay import Rates, stream

PAST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PATIENCE_S = 120


def orders(first: int, rows: int) -> pa.Table:
    """Order i, whatever range it is read in: five tiers, two in a hundred from VIPs, some values odd."""
    i = np.arange(first, first + rows, dtype=np.int64)
    odd = [None, float("nan"), float("inf"), float("-inf")]
    scores = [odd[n // 20 % 4] if n % 20 == 7 else float((n * 7919) % 1000) for n in i.tolist()]
    return pa.table(
        {
            "id": i,
            "tier": pa.array((i * 31 % 5).astype(np.int32)),
            "vip": pa.array([None if n % 97 == 0 else n % 50 == 0 for n in i.tolist()]),
            "score": pa.array(scores, pa.float64()),
            "customer": pa.array([None if n % 41 == 0 else f"customer {n % 300}" for n in i.tolist()]),
        }
    )


def play(spark: SparkSession, rows: int = 12_000, per_batch: int = 3_000) -> DataFrame:
    """Return the orders as a stream that lies in the past, in batches of a fixed size."""
    trace = Rates((float(rows),), (1.0,))
    return stream(
        spark, trace, generator="tests.spark.orders:orders", start=PAST, max_rows_per_batch=per_batch
    )


class Sink(dict[int, list[Row]]):
    """The rows of each batch by its number."""

    def take(self, frame: DataFrame, batch: int) -> None:
        """Collect a batch, in place of what an earlier attempt at it brought."""
        self[batch] = frame.collect()

    def ids(self, batch: int) -> list[int]:
        """Return the ids of a batch in order."""
        return sorted(row["id"] for row in self[batch])


def start(
    frame: DataFrame, checkpoint: Path | None, each: Callable[[DataFrame, int], None], **trigger: Any
) -> StreamingQuery:
    """Start a query that hands each batch to a function."""
    writer = frame.writeStream.foreachBatch(each).trigger(**(trigger or {"availableNow": True}))
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.start()


def run(frame: DataFrame, checkpoint: Path | None, shed: Spillway | None = None) -> Sink:
    """Process all there is and return it; with a Spillway, no batch runs before it has heard of the last one."""
    sink = Sink()

    def take(frame: DataFrame, batch: int) -> None:
        if shed is not None:
            assert shed.wait_for_batch(batch - 1)
        sink.take(frame, batch)

    query = start(frame, checkpoint, take)
    assert query.awaitTermination(PATIENCE_S), "the query did not finish"
    return sink


def told(checkpoint: Path, batch: int) -> BatchDecision:
    """Return the decision that a batch was told."""
    return BatchDecision.from_json((checkpoint / "spillway" / "decisions" / f"{batch}.json").read_text())


def offsets(checkpoint: Path, batch: int) -> tuple[int, int]:
    """Return the rows of a batch as the offset log has them."""

    def end(number: int) -> int:
        lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        return int(json.loads(lines[2])["rows"])

    return (end(batch - 1) if batch > 0 else 0), end(batch)


def expected(
    checkpoint: Path, batch: int, *, utility: str | None = None, never: str | None = None
) -> pa.Table:
    """Return what the core, outside Spark, keeps of a batch by the decision that was written for it."""
    first, last = offsets(checkpoint, batch)
    table = orders(first, last - first)
    decision = told(checkpoint, batch)
    return apply(
        table,
        decision.cuts[0],
        utility=utilities(table, utility),
        protected=protection(table, never),
        key=["id"],
        salt=decision.salt,
    )
