"""A query that kills itself, and all of its Spark, at a chosen point of a batch's life.

Run as ``python -m tests.spark.crashing WHAT CHECKPOINT OUT POINT BATCH KEEP``, where WHAT is shed: "tuples" or
"windows". With the point "never" it runs to its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, sliding
from spillway.core import control
from spillway.spark import facade, windows
from spillway.spark.decide import BatchDecision
from spillway.spark.plane import ControlRow
from spillway.spark.windows import WindowRow
from tests.spark.orders import PAST, PATIENCE_S, play, start

POINTS = (
    "before the decision",
    "after the decision",
    "before the sink",
    "after the sink",
    "after the commit",
)
ROWS = 8_000
WINDOW, MAX_GAP = sliding("3 seconds", "1 second"), 3
_PAST_US = int(PAST.timestamp()) * 1_000_000


def die(group: int) -> None:
    """Kill the driver and its JVM as a machine would that loses its power."""
    os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True)
class CrashingControlRow(ControlRow):
    """A control row whose task takes everything down before or after it has decided."""

    point: str = "never"
    batch: int = -1
    group: int = 0

    def decision_for(self, batch: int, query: str | None) -> tuple[BatchDecision | None, str]:
        """Decide, unless it is time to die."""
        if batch == self.batch and self.point == "before the decision":
            die(self.group)
        found = super().decision_for(batch, query)
        if batch == self.batch and self.point == "after the decision":
            die(self.group)
        return found

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the control row."""
        yield from super().__call__(batches)


@dataclass(frozen=True, kw_only=True)
class CrashingWindowRow(CrashingControlRow, WindowRow):
    """The same for windows."""


def moment(order: Any) -> Any:
    """Return the event time of an order, a number or a column, in µs: 4 ms apart, out of order by up to 1.5 s."""
    return order * 4_000 - order * 7_919 % 1_500 * 1_000 + _PAST_US


def tuples(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return orders by their score, as (order, weight)."""
    kept = shed.tuples(play(session, rows=ROWS, per_batch=1_000), utility="score", never="vip", key="id")
    return kept.select("id", "weight")


def totals(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return the orders of each window, as (start in µs, their sum, their number)."""
    at = F.timestamp_micros(moment(F.col("id")))
    rows = play(session, rows=ROWS, per_batch=1_000).withColumn("ts", at).withWatermark("ts", "2 seconds")
    found = shed.windows(rows, WINDOW, time="ts", max_gap=MAX_GAP).groupBy("window")
    return found.agg(F.sum("id"), F.count("*")).withColumn("window", F.unix_micros("window.start"))


def main(what: str, checkpoint: Path, out: Path, point: str, at: int, keep: float) -> None:
    """Run the query, writing each batch to a file of its own for each attempt."""
    dying = {"point": point, "batch": at, "group": os.getpgid(0)}
    facade.ControlRow = lambda *where: CrashingControlRow(*where, **dying)  # type: ignore[assignment,misc]
    windows.WindowRow = lambda *where, **of: CrashingWindowRow(*where, **of, **dying)  # type: ignore[assignment,misc]
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # it does not live long
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=keep)
    shed = Spillway("crash", 2.0, checkpoint, controller=controller, arrival="timestamp")

    def write(frame: DataFrame, batch: int) -> None:
        assert shed.wait_for_batch(batch - 1)
        rows = sorted(tuple(row) for row in frame.collect())
        if (point, at) == ("before the sink", batch) or (point, at) == ("after the commit", batch - 1):
            die(dying["group"])
        temporary = out / f".{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(rows))
        temporary.rename(out / f"{batch}.{uuid.uuid4().hex}.json")
        if (point, at) == ("after the sink", batch):
            die(dying["group"])

    query = start({"tuples": tuples, "windows": totals}[what](session, shed), checkpoint, write)
    assert query.awaitTermination(PATIENCE_S)
    shed.close()
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]), float(sys.argv[6]))
