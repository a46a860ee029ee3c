"""Plays bursts in one Spark session: measure what the machine can do, then play five times as much.

Beside a :class:`~spillway.demo.neighbour.Neighbour` the capacity is measured twice in the same session, on the
quiet machine and with the neighbour on, so that the least loss of a run can follow what the neighbour did in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from spillway.demo import machine
from spillway.demo.burst import Burst
from spillway.demo.burst_plan import BurstPlan
from spillway.demo.capacity import Capacity, Saturation, Tell, measure, rows_for, warm_up
from spillway.demo.local_session import session
from spillway.demo.machine_speed import SpeedLog
from spillway.demo.neighbour import Neighbour, Schedule
from spillway.demo.playback import Live, Watch, play, workload
from spillway.demo.run_record import Recording, Variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Measured = Callable[[BurstPlan, Capacity], None]

_START_AND_STOP_S = 1.5  # of a query


def tell_nobody(_: str) -> None:
    """Report progress to nobody."""


def run(
    plan: BurstPlan,
    variants: Sequence[Variant],
    *,
    schedule: Schedule | None = None,
    tell: Tell = tell_nobody,
    watch: Watch | None = None,
    measured: Measured = lambda *_: None,
) -> Burst:
    """Start Spark, measure the capacity, and play the burst in each of the variants, beside a neighbour or not."""
    with started(plan, neighbour=schedule is not None, tell=tell, sharing=len(variants)) as ready:
        measured(ready.plan, ready.capacity)
        return ready.play(variants, schedule=schedule, watch=watch)


@contextmanager
def started(
    plan: BurstPlan, *, neighbour: bool = False, tell: Tell = tell_nobody, sharing: int = 1
) -> Iterator[BurstSession]:
    """Start Spark, and a neighbour if asked for, and measure; the plan's time is shared by so many runs."""
    tell("starting Spark")
    began = time.monotonic()
    with ExitStack() as stack:
        beside = stack.enter_context(Neighbour()) if neighbour else None
        spark, folder = stack.enter_context(session("spillway", fast_start=plan.fast_start))
        speed_log = stack.enter_context(SpeedLog())
        at_saturation = Saturation(spark, folder, workload)
        tell("warming up the JVM")
        guess_rows_per_s = warm_up(at_saturation, *plan.warm_up, limit_s=plan.warm_up_limit_s)
        from_s = time.time()
        capacity = measure(
            spark,
            folder,
            batch_s=plan.saturated_s,
            blocks=plan.blocks,
            batches=plan.batches_per_block,
            guess_rows_per_s=guess_rows_per_s,
            tell=tell,
        )
        quiet_speed = speed_log.speed(from_s, time.time())
        busy_rows_per_s = None
        if beside is not None:
            tell("measuring capacity beside a busy neighbour")
            busy_rows_per_s = _rows_per_s_beside(beside, at_saturation, plan, guess_rows_per_s)
        if plan.limit_s is not None:
            left_s = began + plan.limit_s - time.monotonic()
            plan = plan.shortened((left_s - plan.patience_s) / sharing - _START_AND_STOP_S)
        yield BurstSession(
            spark=spark,
            folder=folder,
            plan=plan,
            capacity=capacity,
            busy_rows_per_s=busy_rows_per_s,
            quiet_speed=quiet_speed,
            speed_log=speed_log,
            neighbour=beside,
            tell=tell,
        )
        tell("stopping Spark")


def _rows_per_s_beside(
    neighbour: Neighbour, at_saturation: Saturation, plan: BurstPlan, guess_rows_per_s: float
) -> float:
    """Return what the plain query sustains while the neighbour is on, in batches that take about as long."""
    cores = os.cpu_count() or 1
    batch_rows = rows_for(plan.saturated_s, guess_rows_per_s * cores / (cores + 1))
    neighbour.switch(True)
    try:
        batches = plan.blocks * plan.batches_per_block
        return batch_rows / median(at_saturation.seconds(batch_rows, batches, with_spillway=False))
    finally:
        neighbour.switch(False)


@dataclass(frozen=True, kw_only=True)
class BurstSession:
    """A running Spark whose capacity is known, ready to play the plan's burst any number of times."""

    spark: SparkSession
    folder: Path
    plan: BurstPlan
    capacity: Capacity
    busy_rows_per_s: float | None
    quiet_speed: float | None
    speed_log: SpeedLog
    neighbour: Neighbour | None
    tell: Tell

    def play(
        self,
        variants: Sequence[Variant],
        *,
        schedule: Schedule | None = None,
        load_rows_per_s: float | None = None,
        watch: Watch | None = None,
    ) -> Burst:
        """Play the burst in each of the variants; five times ``load_rows_per_s``, by default of the capacity."""
        rows_per_s = load_rows_per_s or self.capacity.rows_per_s
        runs: dict[Variant, Recording] = {}
        for variant in variants:
            self.tell(f"playing the burst: {variant}" + (f", neighbour {schedule.name}" if schedule else ""))
            runs[variant] = self._play(variant, rows_per_s, schedule, watch)
        return Burst(
            plan=self.plan,
            capacity=self.capacity,
            runs=runs,
            machine=machine.describe(self.spark.version),
            busy_rows_per_s=self.busy_rows_per_s,
            speeds=self._speeds(runs),
        )

    def _play(
        self, variant: Variant, rows_per_s: float, schedule: Schedule | None, watch: Watch | None
    ) -> Recording:
        plan, neighbour = self.plan, self.neighbour

        def look(live: Live) -> None:
            if neighbour is not None and schedule is not None:
                neighbour.switch(schedule.busy(live.now_s))
            if watch is not None:
                watch(live)

        try:
            recording = play(
                self.spark,
                self.folder,
                plan.trace(rows_per_s),
                variant,
                target_s=plan.target_s,
                from_s=plan.lead_s,
                patience_s=plan.patience_s if variant == "spillway" else 0.0,
                max_rows_per_batch=max(int(rows_per_s * plan.target_s / 2), 1)
                if variant == "capped"
                else None,
                watch=look,
            )
            if neighbour is None:
                return recording
            return replace(recording, busy=neighbour.spans(recording.epoch_s, recording.until_s))
        finally:
            if neighbour is not None:
                neighbour.switch(False)

    def _speeds(self, runs: dict[Variant, Recording]) -> dict[Variant, float]:
        """Return the machine's speed in each burst over that at which capacity was measured, where known."""
        speeds: dict[Variant, float] = {}
        for variant, run in runs.items():
            from_s = run.epoch_s + self.plan.lead_s + self.plan.calm_s
            speed = self.speed_log.speed(from_s, from_s + self.plan.burst_s)
            if speed is not None and self.quiet_speed is not None:
                speeds[variant] = speed / self.quiet_speed
        return speeds
