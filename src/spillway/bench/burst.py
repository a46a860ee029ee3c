"""A burst on real Spark: measure what the machine can do, then play five times as much, in several variants.

The demo and the Spark benchmark are this, once with a live view and once with metrics. What comes out is a
value with a JSON form, from which reports and figures are drawn.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from spillway.bench.capacity import Capacity, measure
from spillway.bench.drive import Watch, play
from spillway.bench.recording import Batch, Recording, Variant
from spillway.bench.session import session
from spillway.errors import SpillwayError, invalid
from spillway.replay.traces import Rates

_START_AND_STOP_S = 1.5  # of a query


@dataclass(frozen=True, kw_only=True)
class BurstPlan:
    """What is played and for how long.

    ===================== ==================================================================================
    ``target_s``          the delay that rows should not exceed
    ``lead_s``            half of the capacity, to warm the query up; rows of that time do not count
    ``calm_s``            half of the capacity
    ``burst_s``           five times the capacity
    ``after_s``           half of the capacity
    ``patience_s``        how long to wait for rows that Spillway has not let through when the trace is over
    ``saturated_s``       how long a batch takes, about, when capacity is measured: a query at saturation takes in
                          whatever has gathered, so its batches are longer than the delay it is allowed
    ``blocks``            how often plain query and query with Spillway take turns at saturation
    ``batches_per_block`` batches measured in each of those turns
    ``warm_up``           batches and rows per batch that the fresh JVM gets at most to reach its speed
    ``fast_start``        leave out the JVM's optimising compiler: half the speed, but from the start
    ``limit_s``           shorten the trace, down to half, so that everything takes about this long
    ===================== ==================================================================================
    """

    target_s: float = 3.0
    lead_s: float = 8.0
    calm_s: float = 10.0
    burst_s: float = 30.0
    after_s: float = 12.0
    patience_s: float = 8.0
    saturated_s: float = 6.0
    blocks: int = 4
    batches_per_block: int = 2
    warm_up: tuple[int, int] = (30, 20_000)
    fast_start: bool = False
    limit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("target_s", "lead_s", "calm_s", "burst_s", "after_s", "patience_s", "saturated_s"):
            if not getattr(self, name) > 0.0:
                raise invalid(name, getattr(self, name), "seconds above 0")
        for name in ("blocks", "batches_per_block"):
            if getattr(self, name) < 1:
                raise invalid(name, getattr(self, name), "a whole number >= 1")

    @property
    def play_s(self) -> float:
        """How long the trace takes."""
        return self.lead_s + self.calm_s + self.burst_s + self.after_s

    def shortened(self, play_s: float) -> BurstPlan:
        """Return the same in at most that many seconds, but in no less than half of the time.

        >>> plan = BurstPlan(lead_s=2, calm_s=2, burst_s=12, after_s=4)
        >>> plan.shortened(15).burst_s, plan.shortened(5).play_s, plan.shortened(50) == plan
        (9.0, 10.0, True)
        """
        factor = min(1.0, max(0.5, play_s / self.play_s))
        names = ("lead_s", "calm_s", "burst_s", "after_s")
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def trace(self, rows_per_s: float) -> Rates:
        """Return the arrivals for a machine of this capacity."""
        half, five = 0.5 * rows_per_s, 5.0 * rows_per_s
        return Rates((half, five, half), (self.lead_s + self.calm_s, self.burst_s, self.after_s))

    def phase(self, at_s: float) -> str:
        """Return what is going on at a second of the trace, in words.

        >>> BurstPlan().phase(20.0)
        'burst: five times the capacity'
        """
        if at_s < self.lead_s:
            return "warming up at half the capacity"
        if at_s < self.lead_s + self.calm_s:
            return "calm: half the capacity"
        if at_s < self.lead_s + self.calm_s + self.burst_s:
            return "burst: five times the capacity"
        return "after the burst: half the capacity"


FULL = BurstPlan()
"""For figures that repeat: about five minutes for three variants."""

DEMO = BurstPlan(
    lead_s=6.0, calm_s=8.0, burst_s=20.0, after_s=10.0, saturated_s=1.5, blocks=2, batches_per_block=3
)
"""For people who watch: about three minutes for two variants."""

QUICK = BurstPlan(
    target_s=2.0,
    lead_s=1.0,
    calm_s=0.5,
    burst_s=12.0,
    after_s=0.5,
    patience_s=2.0,
    saturated_s=1.0,
    blocks=1,
    batches_per_block=3,
    warm_up=(3, 3_000),
    fast_start=True,
    limit_s=55.0,
)
"""For a first look: less than a minute on two quiet cores, and rough."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """What became of it: the plan, the machine, its capacity, and a recording of each variant."""

    plan: BurstPlan
    capacity: Capacity
    runs: Mapping[Variant, Recording]
    machine: Mapping[str, Any]

    @property
    def lost_rows(self) -> float:
        """Rows that were shed, or had not come through at the end, with Spillway."""
        return self.runs["spillway"].dropped_rows + self.runs["spillway"].waiting_rows

    @cached_property
    def least_lost_rows(self) -> int:
        """Rows that had to go at the capacity that was measured."""
        return self.runs["spillway"].least_lost_rows(self.capacity.rows_per_s)

    @property
    def loss_over_minimum(self) -> float:
        """The one over the other."""
        return self.lost_rows / max(self.least_lost_rows, 1)

    def to_json(self) -> str:
        """Return everything as JSON."""
        runs = {
            name: {**asdict(run), "trace": json.loads(run.trace.to_json())} for name, run in self.runs.items()
        }
        found = {
            "plan": asdict(self.plan),
            "capacity": asdict(self.capacity),
            "machine": dict(self.machine),
            "runs": runs,
        }
        return json.dumps(found, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read back what :meth:`to_json` gave."""
        try:
            found = json.loads(text)
            runs: dict[Variant, Recording] = {}
            for name, run in found["runs"].items():
                batches = tuple(Batch(**batch) for batch in run.pop("batches"))
                trace = Rates(**run.pop("trace"))
                history = tuple(run.pop("history"))
                runs[name] = Recording(trace=trace, batches=batches, history=history, **run)
            capacity: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in found["capacity"].items()
            }
            return cls(
                plan=BurstPlan(**{**found["plan"], "warm_up": tuple(found["plan"]["warm_up"])}),
                capacity=Capacity(**capacity),
                machine=found["machine"],
                runs=runs,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SpillwayError(f"not the record of a burst: {error!r}.") from error


def run(
    plan: BurstPlan,
    variants: Sequence[Variant],
    *,
    tell: Callable[[str], None] = lambda _: None,
    watch: Watch | None = None,
    measured: Callable[[BurstPlan, Capacity], None] = lambda *_: None,
) -> Burst:
    """Start Spark, measure the capacity, and play the burst in each of the variants."""
    tell("starting Spark")
    began = time.monotonic()
    with session("spillway", fast_start=plan.fast_start) as (spark, folder):
        capacity = measure(
            spark,
            folder,
            batch_s=plan.saturated_s,
            blocks=plan.blocks,
            batches=plan.batches_per_block,
            warm_up_most=plan.warm_up,
            tell=tell,
        )
        if plan.limit_s is not None:
            left_s = began + plan.limit_s - time.monotonic()
            plan = plan.shortened((left_s - plan.patience_s) / len(variants) - _START_AND_STOP_S)
        measured(plan, capacity)
        trace = plan.trace(capacity.rows_per_s)
        half_target_rows = max(int(capacity.rows_per_s * plan.target_s / 2), 1)
        runs: dict[Variant, Recording] = {}
        for variant in variants:
            tell(f"playing the burst: {variant}")
            runs[variant] = play(
                spark,
                folder,
                trace,
                variant,
                target_s=plan.target_s,
                from_s=plan.lead_s,
                patience_s=plan.patience_s if variant == "spillway" else 0.0,
                max_rows_per_batch=half_target_rows if variant == "capped" else None,
                watch=watch,
            )
        tell("stopping Spark")
        machine = _machine(spark.version)
    return Burst(plan=plan, capacity=capacity, runs=runs, machine=machine)


def _machine(spark: str) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "spark": spark,
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
