"""Queries that kill themselves, and all of their Spark, at a chosen point of a batch's life.

Run as ``python -m tests.spark.crashing FOLDER WHAT POINT BATCH KEEP``: queries that shed tuples, windows, groups,
comparisons of a join and partial matches run at once, and WHAT of them dies. With the point "never" all run to their
end. Without a group of processes to kill, only the query dies, of an error in the same place.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spillway import Spillway, overlap, sliding
from spillway.core import control
from spillway.loop.decision import BatchDecision
from spillway.spark import facade, windows
from spillway.spark.control_row import ControlRow
from spillway.spark.groups.plan import GroupRow
from spillway.spark.windows import WindowRow
from tests.spark.match import match_crash
from tests.spark.orders import PAST, PATIENCE_S, play, start

POINTS = (
    "before the decision",
    "after the decision",
    "before the sink",
    "after the sink",
    "after the commit",
)
KINDS = ("tuples", "windows", "groups", "join", "match")
ROWS, BATCHES = 5_000, 5
WINDOW, MAX_GAP = sliding("3 seconds", "1 second"), 3
JOINED = overlap("customer", at_least=1)
DEMAND = {"join": 1_000_000, "match": match_crash.DEMAND}  # units of work of a batch
_PAST_US = int(PAST.timestamp()) * 1_000_000


@dataclass(frozen=True)
class Death:
    """Where to die."""

    point: str = "never"
    batch: int = -1
    group: int = 0

    def due(self, point: str, batch: int) -> None:
        """Kill the driver and its JVM as a machine would that loses its power, if this is the place."""
        if (point, batch) == (self.point, self.batch):
            if self.group:
                os.killpg(self.group, signal.SIGKILL)
            raise RuntimeError("dead")


@dataclass(frozen=True)
class CrashingControlRow(ControlRow):
    """A control row whose task takes everything down before or after it has decided."""

    death: Death = Death()

    def decision_for(self, batch: int, query: str | None) -> tuple[BatchDecision | None, str]:
        """Decide, unless it is time to die."""
        self.death.due("before the decision", batch)
        found = super().decision_for(batch, query)
        self.death.due("after the decision", batch)
        return found

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the control row."""
        yield from super().__call__(batches)


@dataclass(frozen=True, kw_only=True)
class CrashingWindowRow(CrashingControlRow, WindowRow):
    """The same for windows."""


@dataclass(frozen=True)
class CrashingGroupRow(CrashingControlRow, GroupRow):
    """The same for groups."""


def moment(order: Any) -> Any:
    """Return the event time of an order, a number or a column, in µs: 4 ms apart, out of order by up to 1.5 s."""
    return order * 4_000 - order * 7_919 % 1_500 * 1_000 + _PAST_US


def tuples(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return orders by their score, as (order, weight)."""
    kept = shed.tuples(
        play(session, rows=ROWS, per_batch=ROWS // BATCHES), utility="score", never="vip", key="id"
    )
    return kept.select("id", "weight")


def totals(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return the orders of each window, as (start in µs, their sum, their number)."""
    at = F.timestamp_micros(moment(F.col("id")))
    rows = (
        play(session, rows=ROWS, per_batch=ROWS // BATCHES)
        .withColumn("ts", at)
        .withWatermark("ts", "2 seconds")
    )
    found = shed.windows(rows, WINDOW, time="ts", max_gap=MAX_GAP).groupBy("window")
    return found.agg(F.sum("id"), F.count("*")).withColumn("window", F.unix_micros("window.start"))


def tiers(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return some orders of each tier, as (order, tier, weight)."""
    kept = shed.groups(
        play(session, rows=ROWS, per_batch=ROWS // BATCHES), by="tier", value="score", key="id"
    )
    return kept.select("id", "tier", "weight")


def customers(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return orders of the same customer within two seconds, as (order, order)."""
    at = F.timestamp_micros(moment(F.col("id"))).alias("ts")
    sides = [
        play(session, rows=ROWS, per_batch=ROWS // BATCHES)
        .select("id", at, "customer")
        .withWatermark("ts", "2 seconds")
        for _ in range(2)
    ]
    return shed.join(*sides, on=JOINED, within="2 seconds", time="ts").select("id_left", "id_right")


def shops(session: SparkSession, shed: Spillway) -> DataFrame:
    """Return orders of three tiers in the same shop, as (order, order, order)."""
    return match_crash.shops(session, shed, ROWS, BATCHES, moment)


def begin(
    session: SparkSession, what: str, folder: Path, keep: float, death: Death
) -> tuple[StreamingQuery, Spillway]:
    """Start a query that writes each batch to a file of its own for each attempt."""
    (folder / "out").mkdir(parents=True, exist_ok=True)
    checkpoint, out = folder / "checkpoint", folder / "out"
    budget = keep * DEMAND.get(what, 0)
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=keep, work_budget=budget)
    arrival = (
        None if what in DEMAND else "timestamp"
    )  # which is not among the columns that are joined or matched
    shed = Spillway("crash", 2.0, checkpoint, controller=controller, arrival=arrival)
    rows = mock.patch.object(facade, "ControlRow", partial(CrashingControlRow, death=death))
    of_windows = mock.patch.object(windows, "WindowRow", partial(CrashingWindowRow, death=death))
    of_groups = mock.patch.object(facade, "GroupRow", partial(CrashingGroupRow, death=death))
    with rows, of_windows, of_groups:
        made = {"tuples": tuples, "windows": totals, "groups": tiers, "join": customers, "match": shops}
        frame = made[what](session, shed)

    def write(frame: DataFrame, batch: int) -> None:
        assert shed.wait_for_batch(batch - 1)
        rows = sorted(tuple(row) for row in frame.collect())
        death.due("before the sink", batch)
        death.due("after the commit", batch - 1)
        temporary = out / f".{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(rows))
        temporary.rename(out / f"{batch}.{uuid.uuid4().hex}.json")
        death.due("after the sink", batch)

    return start(frame, checkpoint, write), shed


def main(folder: Path, what: str, death: Death, keep: float) -> None:
    """Run all queries."""
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
    deaths = {each: death if each == what else Death() for each in KINDS}
    begun = [begin(session, each, folder / each, keep, deaths[each]) for each in KINDS]
    for query, shed in begun:
        assert query.awaitTermination(PATIENCE_S)
        shed.close()
    session.stop()


if __name__ == "__main__":
    where, what, point, at, keep = sys.argv[1:]
    main(Path(where), what, Death(point, int(at), os.getpgid(0)), float(keep))
