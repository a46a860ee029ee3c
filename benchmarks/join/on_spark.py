"""On Spark: two streams that come faster than they can be compared, with one latency target and two ways to shed.

Each side plays one cycle of the paper's stream over and over, at a rate at which all comparisons are many times
what the machine can make. ``Spillway.join`` runs once with selection and once with rows dropped, at the same target,
for as long. Counted are the pairs whose later row came in the second part of the run, and how long after that row
they were there. Spark itself cannot run such a join: on streams it joins on equality only, so there is nothing plain
to compare with.

At least 4 common items make a pair, not 3: with bit sets a core makes hundreds of millions of comparisons a second,
and with 3 there would be millions of pairs, which take longer to write than to find.

A first batch takes Spark ten seconds and more, so rows come slowly at first. The short run of the suite has no time
for that, and leaves Spark out: what two cold batches find says nothing about a target.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.join.scenario import Setting, named
from benchmarks.results import Figure
from benchmarks.spark.tally import Tally
from spillway.core.join import Shedding
from spillway.demo.capacity import Tell
from spillway.demo.local_session import session
from spillway.errors import SpillwayError
from spillway.replay import Rates, stream
from spillway.spark import Spillway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_LEAST = 4
METHODS = ("random", "selective")
_BEFORE_S = 1.0  # both sides are set up by then, and begin together
_LEAD_RATE = 500.0
_GIVE_UP_S = 45.0
_QUANTILES = (0.025, 0.1, 0.25, 0.5, 0.75, 0.975)


@dataclass(frozen=True, kw_only=True)
class SparkPlan:
    """How long rows come slowly while Spark warms up, how long is learned then with full windows, and counted."""

    rate: float = 10_000.0
    lead_s: float = 15.0
    window_s: float = 20.0
    learn_s: float = 30.0
    count_s: float = 40.0
    target_s: float = 4.0

    @property
    def setting(self) -> Setting:
        """The streams and the query."""
        return Setting(rate=self.rate, window_s=self.window_s, at_least=AT_LEAST)


FULL = SparkPlan()


@dataclass(frozen=True, kw_only=True)
class Played:
    """Pairs of the time that counts, and how late they were."""

    pairs: int
    p95_delay_s: float
    comparisons: int
    batches: int
    dropped_rows: int


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """Both runs."""

    target_s: float
    by: dict[str, Played]

    @property
    def ratio(self) -> float:
        """Selection over dropped rows."""
        return self.by["selective"].pairs / self.by["random"].pairs


def measure(plan: SparkPlan, tell: Tell) -> Streamed:
    """Start Spark and run both."""
    tell("starting Spark")
    with session("spillway join") as (spark, folder):
        files = [_cycle(plan, side, folder) for side in (0, 1)]
        found = {}
        for name in METHODS:
            tell(f"Spark: {name}")
            found[name] = play(spark, folder, plan, files, name)
        tell("stopping Spark")
    for name, of in found.items():
        if of.pairs == 0:
            raise SpillwayError(
                f"{name}: no pair came out in {plan.count_s:g} s, so there is nothing to compare."
            )
    return Streamed(target_s=plan.target_s, by=found)


def play(spark: SparkSession, folder: Path, plan: SparkPlan, files: list[Path], name: str) -> Played:
    """Run the join in one way, and return what came out."""
    checkpoint = folder / uuid.uuid4().hex
    start = datetime.now(UTC) + timedelta(seconds=_BEFORE_S)
    counts_s = plan.lead_s + plan.window_s + plan.learn_s
    lasts_s = counts_s + plan.count_s
    trace = Rates((_LEAD_RATE, plan.rate), (plan.lead_s, lasts_s - plan.lead_s + _GIVE_UP_S))
    low, high = (int(1e6 * (start.timestamp() + at)) for at in (counts_s, lasts_s))
    tally = Tally(
        lambda: F.unix_micros(F.greatest("timestamp_left", "timestamp_right")), low, high, _QUANTILES
    )

    with Spillway("join", plan.target_s, checkpoint, arrival="timestamp") as shed:
        sides = [
            stream(spark, trace, rows=file, start=start).withWatermark("timestamp", "0 seconds")
            for file in files
        ]
        pairs = shed.join(
            sides[0],
            sides[1],
            on=plan.setting.on,
            within=f"{plan.window_s:g} seconds",
            time="timestamp",
            shedding=method_of(name, plan),
        )
        writer = pairs.writeStream.foreachBatch(tally.take).option("checkpointLocation", str(checkpoint))
        running = writer.start()
        try:
            too_late = f"the join is {_GIVE_UP_S:g} s behind its rows: this machine is too busy."
            tally.wait(running, high / 1e6 + _GIVE_UP_S, too_late)
        finally:
            running.stop()
        history = shed.history()
    return summed(tally, history)


def method_of(name: str, plan: SparkPlan) -> str | Shedding:
    """Return a way to shed, with basic windows in the paper's proportion to the window."""
    if name == "random":
        return name
    given = named(name, plan.window_s / 20.0)
    assert isinstance(given, Shedding)
    return Shedding(basic_window_s=given.basic_window_s, period_s=min(5.0, plan.window_s / 4.0))


def summed(tally: Tally, history: pa.Table) -> Played:
    """Add up what batches brought; pairs are counted by the microsecond at which their later row came."""
    return Played(
        pairs=tally.total,
        p95_delay_s=tally.p95_delay_s(lambda at: at / 1e6),
        comparisons=int(np.nansum(_numbers(history, "work_spent"))),
        batches=len(tally.seen),
        dropped_rows=int(np.nansum(_numbers(history, "sampled_out_rows"))),
    )


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    return np.array([np.nan if each is None else each for each in table[name].to_pylist()], np.float64)


def metrics(found: Streamed) -> dict[str, float]:
    """Return the metrics."""
    late = {f"spark.p95_over_target.{name}": of.p95_delay_s / found.target_s for name, of in found.by.items()}
    return {"spark.output.selective_over_random": found.ratio, **late}


def figure_of(plan: SparkPlan, found: Streamed) -> Figure:
    """Return the numbers."""
    late = max(of.p95_delay_s for of in found.by.values())
    checks = {
        "three_times_the_output": found.ratio >= 3.0,
        "both_near_the_target": late <= 1.25 * plan.target_s,
    }
    told = "; ".join(
        f"{name} {of.pairs:,} pairs, p95 of the delay {of.p95_delay_s:.1f} s, "
        f"{of.comparisons / 1e9:.1f} billion comparisons in all"
        for name, of in found.by.items()
    )
    return Figure(
        title=f"On Spark: {plan.rate:,.0f} rows/s on each side, windows of {plan.window_s:g} s, a target of "
        f"{plan.target_s:g} s",
        paper="Not on Spark, which joins streams on equality only; up to 500 % more than a random drop (Figure 15).",
        ours=f"{found.ratio:.1f} times the output at the same target. {told}.",
        holds=all(checks.values()),
        numbers={"checks": checks, "plan": asdict(plan), "by": {n: asdict(of) for n, of in found.by.items()}},
    )


def _cycle(plan: SparkPlan, side: int, folder: Path) -> Path:
    """Write the rows of one cycle, which are played in a loop."""
    own = plan.setting.stream(side)
    table = own.table(Rates((plan.rate,), (own.cycle_s,)), seed=side)
    path = folder / f"side-{side}.parquet"
    pq.write_table(table.drop_columns(["time"]), path)
    return path
