"""``spillway bench spark``: a burst on real Spark, plain, capped and with Spillway.

One session measures this machine's capacity and what Spillway costs while it sheds nothing, and then plays the
same trace three times: half of the capacity, five times the capacity, half again. The full run goes on with the burst
beside busy neighbours (:mod:`~benchmarks.spark.neighbour_bursts`) and with a restart in the burst
(:mod:`~benchmarks.spark.restart`); ``--neighbours`` and ``--restart`` ask for one of these alone.

================================= ========================================================================
metric                            meaning
================================= ========================================================================
``within_target.*``               share of the delivered rows whose delay was within the target
``p99_over_target.*``             99th percentile of the delay over the target
``loss_over_minimum.spillway``    rows lost over those that a shedder must lose which knows the trace
                                  beforehand and serves the measured capacity without a pause
``delivered_over_best.spillway``  rows delivered within the target over those that this shedder delivers; also by the
                                  name of the controller, ``delivered_over_best.deadline``
``idle_throughput_ratio``         throughput at saturation with Spillway in the plan over that without
``capped.p99_over_target``        as above for the plain query with a limit of rows per batch
``spark.added_ms_per_batch``      milliseconds that Spillway adds to a batch of a trivial query; full run only
``neighbours.*``                  as above beside a busy process; the worst of the profiles
``restart.*``                     after kill -9 in the burst and 20 s of backlog
================================= ========================================================================

The plain and the capped query would take minutes to work off their backlog, so they are cut off. Rows that were
still waiting then count with their age in the percentiles (:mod:`~spillway.demo.run_record`), so that the true
figures are worse than those given.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.results import Figure, Results, commit_id
from benchmarks.spark import neighbour_bursts, restart
from benchmarks.spark.added_time import METRIC, measure_added_ms
from benchmarks.suites import PARTS, Request
from spillway.demo import burst_session
from spillway.demo.burst import Burst
from spillway.demo.burst_plan import FULL, QUICK, BurstPlan
from spillway.demo.capacity import Capacity, Tell
from spillway.demo.curves import draw_burst, draw_delay, draw_rates, draw_target
from spillway.demo.run_record import Variant
from spillway.report.plots import panels, save

VARIANTS: tuple[Variant, ...] = ("spillway", "capped", "plain")
_SESSION_STEPS = 3  # starting Spark, warming it up, stopping it
_ADDED_TIME = {
    "blocks": 6,
    "batches": 30,
}  # two minutes: a batch of the trivial query takes a fifth of a second


def run(request: Request) -> Results:
    """Run the suite, or the parts of it that were asked for."""
    began = time.monotonic()
    plan = QUICK if request.quick else FULL
    parts = request.parts or (("burst",) if request.quick else ("burst", *PARTS["spark"]))
    tell = _steps(request, plan, parts)
    metrics: dict[str, float] = {}
    figures: dict[str, Figure] = {}
    config: dict[str, Any] = {"parts": parts, **asdict(plan)}
    capacity: Capacity | None = None
    if "burst" in parts:
        with burst_session.started(plan, tell=tell, sharing=len(VARIANTS)) as ready:
            burst = ready.play(VARIANTS)
            if not request.quick:
                tell("measuring what Spillway adds to a batch")
                metrics[METRIC] = measure_added_ms(ready.spark, ready.folder, **_ADDED_TIME)
        capacity = burst.capacity
        metrics |= burst_metrics(burst)
        figures["delay"] = delay_figure(burst, request.out)
        config |= {**burst.machine, "capacity_rows_per_s": capacity.rows_per_s, "capacity": asdict(capacity)}
        config["speeds"] = dict(burst.speeds)
    if "neighbours" in parts:
        bursts = neighbour_bursts.run(plan, tell=tell)
        metrics |= neighbour_bursts.metrics(bursts)
        config["neighbours"] = neighbour_bursts.profiles(bursts)
    if "restart" in parts:
        if capacity is None:
            with burst_session.started(neighbour_bursts.shorter(plan), tell=tell) as ready:
                capacity = ready.capacity
        again = restart.run(restart.QUICK if request.quick else restart.FULL, capacity, tell=tell)
        metrics |= again.metrics
        config["restart"] = asdict(again)
    return Results(
        suite="spark",
        metrics=metrics,
        figures=figures,
        config=config,
        commit=commit_id(),
        seconds=time.monotonic() - began,
    )


def _steps(request: Request, plan: BurstPlan, parts: tuple[str, ...]) -> Tell:
    """Return a function that counts the steps of all parts."""
    shorter = _SESSION_STEPS + neighbour_bursts.shorter(plan).blocks
    steps = {
        "burst": _SESSION_STEPS + plan.blocks + len(VARIANTS) + (0 if request.quick else 1),
        "neighbours": shorter + neighbour_bursts.STEPS,
        "restart": restart.STEPS + (0 if "burst" in parts else shorter),
    }
    total = sum(steps[part] for part in parts)
    told: list[str] = []

    def tell(what: str) -> None:
        request.tell(what, len(told), total)
        told.append(what)

    return tell


def burst_metrics(burst: Burst) -> dict[str, float]:
    """Return the metrics of the burst by name."""
    shed, plain, capped = (burst.runs[name] for name in ("spillway", "plain", "capped"))
    over_best = burst.delivered_over_best("spillway")
    return {
        "within_target.spillway": shed.within_target,
        "within_target.plain": plain.within_target,
        "p99_over_target.spillway": shed.quantile_s(0.99) / shed.target_s,
        "p99_over_target.plain": plain.quantile_s(0.99) / plain.target_s,
        "loss_over_minimum.spillway": burst.loss_over_minimum,
        "delivered_over_best.spillway": over_best,
        "delivered_over_best.deadline": over_best,
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
