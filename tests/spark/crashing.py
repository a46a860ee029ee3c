"""A query that kills itself, and all of its Spark, at a chosen point of a batch's life.

Run as ``python -m tests.spark.crashing CHECKPOINT OUT POINT BATCH KEEP``; with the point "never" it runs to its end.
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

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spillway import Spillway
from spillway.core import control
from spillway.spark import facade
from spillway.spark.decide import BatchDecision
from spillway.spark.plane import ControlRow
from tests.spark.orders import PATIENCE_S, play, start

POINTS = (
    "before the decision",
    "after the decision",
    "before the sink",
    "after the sink",
    "after the commit",
)


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


def main(checkpoint: Path, out: Path, point: str, at: int, keep: float) -> None:
    """Run the query, writing each batch to a file of its own for each attempt."""
    group = os.getpgid(0)
    facade.ControlRow = lambda *where: CrashingControlRow(*where, point, at, group)  # type: ignore[assignment,misc]
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")

    def write(frame: DataFrame, batch: int) -> None:
        rows = sorted((row["id"], row["weight"]) for row in frame.collect())
        if (point, at) == ("before the sink", batch) or (point, at) == ("after the commit", batch - 1):
            die(group)
        temporary = out / f".{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(rows))
        temporary.rename(out / f"{batch}.{uuid.uuid4().hex}.json")
        if (point, at) == ("after the sink", batch):
            die(group)

    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=keep)
    shed = Spillway("crash", 2.0, checkpoint, controller=controller, arrival="timestamp")
    frame = shed.tuples(play(session, rows=8_000, per_batch=1_000), utility="score", never="vip", key="id")
    query = start(frame, checkpoint, write)
    assert query.awaitTermination(PATIENCE_S)
    shed.close()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
