"""On Spark: how many events a second a pattern takes, and what hybrid shedding is worth in a burst.

**Speed.** Query Q1 over DS1, with a window of 1 ms, as fast as Spark reads: rows over the time of batches, once it is
warm, all matches made and read.

**Burst.** Events come slowly while Spark warms up, and then for some seconds faster than they can be matched.
``Spillway.match`` runs with ``hybrid`` and with ``random_input`` at the same target, on the same events. Runs are
found by scanning, as in the paper's engine, so that it is the partial matches that take the time. A window is so many
events, whenever they arrive: which matches there are does not depend on the pace. Counted are the matches whose last
event came in the burst, and how long after its arrival each was there.

    recall = matches that came out / matches that there are

There are ``ids`` values of ID instead of 10: with as much work there are fewer matches, and what is measured is not
how fast Spark writes. Events repeat after ``cycle`` of them. From the second round on each has the same matches, by
which they are counted without Spark.

A session, its first batches and two bursts take minutes, so the short run of the suite leaves Spark out.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.cep.data import DS1
from benchmarks.spark.tally import Tally
from spillway.core.arrays import Ints
from spillway.core.cep import PatternConfig
from spillway.demo.local_session import session
from spillway.errors import SpillwayError
from spillway.replay import Rates, stream
from spillway.spark import Spillway

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

METHODS = ("hybrid", "random_input")
_QUERY = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN {window} us"
_PAST = datetime(2026, 1, 1, tzinfo=UTC)
_PAST_US = int(_PAST.timestamp() * 1e6)
_BEFORE_S = 1.0
_QUANTILES = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
_WARM_BATCHES = 3
_LIMIT_S = 300


@dataclass(frozen=True, kw_only=True)
class SparkPlan:
    """How many events are matched for speed, and how the burst goes: rates in events a second, windows in events."""

    speed_window: int = 1_000
    speed_events: int = 2_000_000
    batch_events: int = 200_000
    window: int = 8_000
    ids: int = 40
    lead_rate: float = 2_000.0
    lead_s: float = 20.0
    burst_rate: float = 45_000.0
    burst_s: float = 20.0
    target_s: float = 6.0
    give_up_s: float = 60.0
    cycle: int = 100_000


FULL = SparkPlan()


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came out of the burst."""

    recall: float
    p95_delay_s: float


def measure(plan: SparkPlan = FULL, tell: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """Start Spark and return the metrics."""
    tell("starting Spark")
    with session("spillway cep") as (spark, folder):
        file = folder / "events.parquet"
        pq.write_table(DS1().table(plan.cycle, seed=42).drop_columns(["ts"]), file)
        tell("Spark: events a second")
        found = {"spark.events_per_s": speed(spark, folder, plan, file)}
        cycle = drawn(plan, plan.cycle, seed=42)
        pq.write_table(cycle.drop_columns(["ts"]), file := folder / "burst.parquet")
        matches, by = per_event(plan, cycle), {}
        for name in METHODS:
            tell(f"Spark: {name}")
            by[name] = play(spark, folder, plan, file, name, matches)
        tell("stopping Spark")
    for name, of in by.items():
        found[f"spark.recall.{name}"] = of.recall
        found[f"spark.p95_over_target.{name}"] = of.p95_delay_s / plan.target_s
    found["spark.recall.hybrid_over_ri"] = by["hybrid"].recall / max(by["random_input"].recall, 1e-9)
    return found


def speed(spark: SparkSession, folder: Path, plan: SparkPlan, file: Path) -> float:
    """Return how many events a second are matched without shedding."""
    checkpoint = folder / uuid.uuid4().hex
    events = _events(
        spark, Rates((float(plan.speed_events),), (1.0,)), file, _PAST, max_rows_per_batch=plan.batch_events
    )
    with Spillway("cep", "1 hour", checkpoint, controller="none") as shed:
        query = _QUERY.format(window=plan.speed_window)
        found = shed.match(events, query, time="ts", type="type", columns=["number"], shedding=None)
        writer = found.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination(_LIMIT_S)
        progress = [p for p in running.recentProgress if p.numInputRows][_WARM_BATCHES:]
        running.stop()
    if not progress:
        raise SpillwayError(f"no warm batch ended within {_LIMIT_S} s: this machine is too busy.")
    busy_s = sum(p.durationMs["triggerExecution"] for p in progress) / 1000.0
    return float(sum(p.numInputRows for p in progress) / busy_s)


def play(spark: SparkSession, folder: Path, plan: SparkPlan, file: Path, name: str, matches: Ints) -> Played:
    """Play the burst with one way to shed."""
    checkpoint = folder / uuid.uuid4().hex
    start = datetime.now(UTC) + timedelta(seconds=_BEFORE_S)
    lengths = (plan.lead_s, plan.burst_s, plan.give_up_s)
    trace = Rates((plan.lead_rate, plan.burst_rate, plan.lead_rate), lengths)
    first, last = (trace.count(at) for at in (plan.lead_s, plan.lead_s + plan.burst_s))
    tally = Tally(lambda: F.unix_micros("last_time") - _PAST_US, first, last, _QUANTILES)

    with Spillway("cep", plan.target_s, checkpoint, arrival="timestamp") as shed:
        found = shed.match(
            _events(spark, trace, file, start),
            _QUERY.format(window=plan.window),
            time="ts",
            type="type",
            columns=["number"],
            shedding=name,
            history=drawn(plan, 2 * plan.window, seed=7),
            index="none",
        )
        writer = found.writeStream.foreachBatch(tally.take).option("checkpointLocation", str(checkpoint))
        running = writer.start()
        try:
            too_late = f"the pattern is {plan.give_up_s:g} s behind its events: this machine is too busy."
            tally.wait(running, start.timestamp() + sum(lengths), too_late)
        finally:
            running.stop()
    truth = int(matches[np.arange(first, last) % plan.cycle].sum())
    return summed(tally, start.timestamp(), trace, truth)


def drawn(plan: SparkPlan, events: int, seed: int) -> pa.Table:
    """Return events of DS1, a microsecond apart, with more values of ID."""
    table = DS1().table(events, seed)
    more = np.random.default_rng(seed).integers(0, plan.ids // 10, events)
    ids = table["ID"].to_numpy() + 10 * more
    at = pa.array(np.arange(events), pa.timestamp("us", "UTC"))
    return table.set_column(0, "ts", at).set_column(table.column_names.index("ID"), "ID", pa.array(ids))


def per_event(plan: SparkPlan, cycle: pa.Table) -> Ints:
    """Return how many matches each event of a round completes, from the second round on."""
    times = [np.arange(r * plan.cycle, (r + 1) * plan.cycle) for r in range(2)]
    rounds = [cycle.set_column(0, "ts", pa.array(at, pa.timestamp("us", "UTC"))) for at in times]
    config = PatternConfig(_QUERY.format(window=plan.window), rounds[0].schema, time="ts")
    patterns = config.build()
    counted: list[Ints] = []
    for table in rounds:
        counted.clear()
        for at in range(0, plan.cycle, 10_000):
            patterns.process(table.slice(at, 10_000))
            counted.append(patterns.work.matches_per_row)
    return np.concatenate(counted)


def _events(
    spark: SparkSession, trace: Rates, file: Path, start: datetime, max_rows_per_batch: int | None = None
) -> DataFrame:
    """Return the events, a microsecond apart by their own time, and at the trace's pace by the clock."""
    source = stream(
        spark, trace, rows=file, row_number="number", start=start, max_rows_per_batch=max_rows_per_batch
    )
    at = F.timestamp_micros(F.col("number") + F.lit(_PAST_US))
    return source.withColumn("ts", at).withWatermark("ts", "0 seconds")


def summed(tally: Tally, start_s: float, trace: Rates, truth: int) -> Played:
    """Add up what batches brought; matches are counted by the number of their last event."""

    def due_s(number: float) -> float:
        return start_s + float(trace.times(int(number), int(number) + 1)[0])

    return Played(recall=tally.total / max(1, truth), p95_delay_s=tally.p95_delay_s(due_s))
