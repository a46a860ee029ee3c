"""``spillway bench spark``: a burst on real Spark, plain, capped and with Spillway.

One session measures this machine's capacity and what Spillway costs while it sheds nothing, and then plays the
same trace three times: half of the capacity, five times the capacity, half again.

=============================== ==========================================================================
metric                          meaning
=============================== ==========================================================================
``within_target.*``             share of the delivered rows whose delay was within the target
``p99_over_target.*``           99th percentile of the delay over the target
``loss_over_minimum.spillway``  rows lost over those that a shedder must lose which knows the trace
                                beforehand and serves the measured capacity without a pause
``idle_throughput_ratio``       throughput at saturation with Spillway in the plan over that without
``capped.p99_over_target``      as above for the plain query with a limit of rows per batch
=============================== ==========================================================================

The plain and the capped query would take minutes to work off their backlog, so they are cut off. Rows that were
still waiting then count with their age in the percentiles (:mod:`~spillway.bench.recording`), so that the true
figures are worse than those given.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from spillway.bench import burst as bursts
from spillway.bench.burst import FULL, QUICK, Burst
from spillway.bench.burst_figures import draw_burst, draw_delay, draw_rates, draw_target
from spillway.bench.figures import panels, save
from spillway.bench.recording import Variant
from spillway.bench.results import Figure, Results, commit_id
from spillway.bench.suites import Request

VARIANTS: tuple[Variant, ...] = ("spillway", "capped", "plain")


def run(request: Request) -> Results:
    """Run the suite."""
    began = time.monotonic()
    plan = QUICK if request.quick else FULL
    told: list[str] = []

    def tell(what: str) -> None:
        request.tell(what, len(told), plan.blocks + len(VARIANTS) + 3)
        told.append(what)

    burst = bursts.run(plan, VARIANTS, tell=tell)
    return Results(
        suite="spark",
        metrics=metrics(burst),
        figures={"delay": delay_figure(burst, request.out)},
        config={
            **asdict(plan),
            **burst.machine,
            "capacity_rows_per_s": burst.capacity.rows_per_s,
            "capacity": asdict(burst.capacity),
        },
        commit=commit_id(),
        seconds=time.monotonic() - began,
    )


def metrics(burst: Burst) -> dict[str, float]:
    """Return the suite's metrics by name."""
    shed, plain, capped = (burst.runs[name] for name in ("spillway", "plain", "capped"))
    return {
        "within_target.spillway": shed.within_target,
        "within_target.plain": plain.within_target,
        "p99_over_target.spillway": shed.quantile_s(0.99) / shed.target_s,
        "p99_over_target.plain": plain.quantile_s(0.99) / plain.target_s,
        "loss_over_minimum.spillway": burst.loss_over_minimum,
        "idle_throughput_ratio": burst.capacity.idle_throughput_ratio,
        "capped.p99_over_target": capped.quantile_s(0.99) / capped.target_s,
    }


def delay_figure(burst: Burst, out: Path | None) -> Figure:
    """Return the figure of the delays over time, drawn where a folder was given."""
    plain, shed, capped = (burst.runs[name] for name in ("plain", "spillway", "capped"))
    files: list[str] = []
    if out is not None:
        with panels(2, 1, height=2.6) as (figure, [delays, rates]):
            for name in VARIANTS:
                draw_delay(delays, burst.runs[name])
            draw_target(delays, burst.plan.target_s)
            delays.set(yscale="log", ylabel="delay (s)", title="From arrival to result")
            draw_rates(rates, burst, shed)
            rates.set(ylabel="rows / s", xlabel="seconds", title="Arriving and kept, with Spillway")
            for axis in (delays, rates):
                draw_burst(axis, burst)
                axis.legend(loc="upper left")
            files = save(figure, out, "spark-delay")
    numbers = {
        str(name): {"p99_s": run.quantile_s(0.99), "worst_s": run.worst_s} for name, run in burst.runs.items()
    }
    return Figure(
        title="Delay through a burst of five times the capacity",
        paper="no paper: without shedding the delay grows as long as the burst lasts, with it the target holds",
        ours=f"99 in 100 rows within {shed.quantile_s(0.99):.1f} s with Spillway, "
        f"{plain.quantile_s(0.99):.1f} s without, {capped.quantile_s(0.99):.1f} s with a row limit; "
        f"target {shed.target_s:g} s",
        holds=shed.quantile_s(0.99) <= 1.2 * shed.target_s and plain.quantile_s(0.99) >= 3.0 * plain.target_s,
        numbers=numbers,
        files=files,
    )
