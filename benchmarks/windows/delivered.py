"""How many windows are delivered in time at twice the load: dropped at the input, and dropped behind the aggregate.

The query takes raw events apart (:mod:`~spillway.demo.workload`) and summarises every window::

    rows -> window -> JSON, two stretched pseudonyms -> groupBy("window").agg(count, mean, max, count of some)

A window is *delivered* if a result with all of its rows is there within the target after the window's end. A drop
behind the aggregate can leave out results that are late, but all work has been done by then. So its share is that of
the plain query's windows that are in time, with a limit of rows per batch so that no batch alone is late; and that
share falls with the length of the overload, so once it is far behind the rest need not be waited for.
``Spillway.windows`` drops at the input.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spillway.core.windows import tumbling
from spillway.demo.playback import breathe, source
from spillway.demo.workload import enrich
from spillway.errors import SpillwayError
from spillway.replay import Rates
from spillway.spark import Spillway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_MS = 250
MAX_GAP = 4
OVERLOAD = 2.0

_NEARLY_ALL = 0.99  # of a window's rows, by the trace's rate: the rest is where windows cut between rows
_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Overload:
    """``lead_s`` at half of the capacity, which do not count, and then ``overload_s`` at twice the capacity."""

    target_s: float = 3.0
    lead_s: float = 5.0
    overload_s: float = 30.0


def summary(events: DataFrame, shed: Spillway | None) -> DataFrame:
    """Return the query, with windows of Spark's own or of Spillway's."""
    rows = events.withWatermark("timestamp", "1 second")
    if shed is None:
        rows = rows.withColumn("window", F.window("timestamp", f"{WINDOW_MS} milliseconds"))
    else:
        rows = shed.windows(rows, tumbling(f"{WINDOW_MS} ms"), time="timestamp", max_gap=MAX_GAP)
    return (
        enrich(rows, "window")
        .groupBy("window")
        .agg(
            F.count("*").alias("n"),
            F.avg("latency_ms").alias("latency_ms"),
            F.max("visitor").alias("visitor"),
            F.count_if("audited").alias("audited"),
        )
    )


def play(
    spark: SparkSession, folder: Path, plan: Overload, rows_per_s: float, *, with_spillway: bool
) -> float:
    """Return the share of the windows at twice the load that were delivered in time."""
    trace = Rates((0.5 * rows_per_s, OVERLOAD * rows_per_s), (plan.lead_s, plan.overload_s))
    checkpoint = folder / uuid.uuid4().hex
    seen: dict[float, tuple[int, float]] = {}

    def each(frame: DataFrame, _: int) -> None:
        rows = frame.select(F.unix_micros("window.start").alias("start"), "n").collect()
        now = time.time()
        seen.update({row["start"] / 1e6: (row["n"], now) for row in rows})

    with ExitStack() as stack:
        shed = None
        if with_spillway:
            shed = stack.enter_context(Spillway("windows", plan.target_s, checkpoint, arrival="timestamp"))
        limit = None if with_spillway else max(1, int(rows_per_s * plan.target_s / 4))
        events = source(spark, trace, max_rows_per_batch=limit)
        writer = summary(events, shed).writeStream.outputMode("update").foreachBatch(each)
        running = writer.option("checkpointLocation", str(checkpoint)).start()
        stack.callback(running.stop)
        give_up = time.time() + _LIMIT_S
        lasts_s = plan.lead_s + plan.overload_s + plan.target_s
        while time.time() < (min(seen) + lasts_s if seen else give_up) and (shed or not hopeless(seen, plan)):
            breathe(running)
    if not seen:
        raise SpillwayError(f"the query has not delivered a window in {_LIMIT_S:g} s.")
    return share_in_time(seen, plan, OVERLOAD * rows_per_s)


def hopeless(seen: Mapping[float, tuple[int, float]], plan: Overload) -> bool:
    """Return whether the plain query is so late, in an overload that goes on, that nothing will be in time again.

    >>> hopeless({0.0: (10, 1.0), 5.0: (40, 10.0)}, Overload(lead_s=5.0, target_s=3.0))
    True
    """
    if not seen:
        return False
    newest = max(seen)
    late_s = seen[newest][1] - (newest + WINDOW_MS / 1000.0)
    return newest >= min(seen) + plan.lead_s and late_s > 1.25 * plan.target_s


def share_in_time(seen: Mapping[float, tuple[int, float]], plan: Overload, rows_per_s: float) -> float:
    """Return the share of windows at twice the load whose last result is complete and in time.

    ``seen`` has the number of rows and the moment of the last result by the start of a window.

    >>> plan = Overload(lead_s=0.0, overload_s=1.0, target_s=2.0)
    >>> share_in_time({0.0: (10, 1.0), 0.25: (10, 2.4), 0.5: (10, 9.0), 0.75: (4, 1.0)}, plan, 40.0)
    0.5
    """
    width, begin = WINDOW_MS / 1000.0, min(seen) + plan.lead_s
    total = int(plan.overload_s / width)
    wanted = _NEARLY_ALL * rows_per_s * width
    good = sum(
        begin <= start < begin + total * width and n >= wanted and at <= start + width + plan.target_s
        for start, (n, at) in seen.items()
    )
    return good / total
