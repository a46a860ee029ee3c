"""The suite: every controller on every case, the headline metrics, and the paper's figures.

================================== ==================================================================================
metric                             geometric mean over the cases of
================================== ==================================================================================
acc_violation.aurora_over_ctrl     AURORA's accumulated violation over CTRL's
acc_violation.baseline_over_ctrl   BASELINE's over CTRL's
acc_violation.ctrl_over_deadline   CTRL's over DEADLINE's
late_tuples.ctrl_over_deadline     the same of late rows
overshoot.ctrl_over_deadline       the same of the longest violation
loss.deadline_over_minimum         DEADLINE's loss over the least possible one
loss.aurora_over_ctrl              AURORA's loss over CTRL's
delivered.deadline_over_most       rows that DEADLINE delivers within the target over the most that anybody could
delivered.ctrl_over_most           the same of CTRL
step_us.deadline                   the median time of one step of DEADLINE, in microseconds
sim.seconds_per_second             simulated seconds per second of wall clock, all runs together (no mean)
entry.*                            the same with the paper's other actuator, which only refuses rows at the entry
noisy.*, restart.*, idle.*,        DEADLINE on a batch engine, on machines that are not its own and at all loads: see
delivered_over_best.*              :mod:`~benchmarks.control.noisy_machines`
================================== ==================================================================================

All but ``entry.*`` are of runs in which load can be taken out of the queues, as in the paper's experiments. Ratios
have floors (:data:`~benchmarks.control.runs.FLOORS`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.control.comparison import figure_12, figure_15, figure_16
from benchmarks.control.identification import figure_5, figure_6, figure_7
from benchmarks.control.noisy_machines import neighbours, sweeps
from benchmarks.control.robustness import figure_17, figure_18, figure_19
from benchmarks.control.runs import (
    ENTRY,
    FLOORS,
    HEADROOM,
    PERIOD_S,
    SHED,
    TARGET_S,
    delivered_over_most,
    geometric_mean,
    metric_ratio,
    minimum,
    play,
    ratio,
)
from benchmarks.control.workload import DURATION_S, LOADS, Case, Workload, mean_rate, workload
from benchmarks.results import Figure, Results, commit_id
from benchmarks.suites import Request
from spillway.replay.loaders import data_dir
from spillway.sim import Metrics, Shed

CONTROLLERS = ("ctrl", "baseline", "aurora", "deadline")


def run(request: Request) -> Results:
    """Run the suite."""
    start = time.perf_counter()
    work = workload(quick=request.quick)
    out = request.out
    drawings: dict[str, Callable[[], Figure]] = {
        "5": lambda: figure_5(out),
        "6": lambda: figure_6(out),
        "7": lambda: figure_7(out),
        "12": lambda: figure_12(work, out),
        "15": lambda: figure_15(work, out),
        "16": lambda: figure_16(work, out),
        "17": lambda: figure_17(out, seeds=1 if request.quick else 5),
        "18": lambda: figure_18(work, out),
        "19": lambda: figure_19(work, out),
    }
    total = len(work.cases) + len(drawings) + 2
    for number, case in enumerate(work.cases):
        request.tell(case.name, number, total)
        for name in CONTROLLERS:
            play(case, name)
            play(case, name, shed=ENTRY)
    figures: dict[str, Figure] = {}
    for number, (name, draw) in enumerate(drawings.items()):
        request.tell(f"figure {name}", len(work.cases) + number, total)
        figures[name] = draw()
    plants = 2 if request.quick else 12
    figures["noisy"], noisy = neighbours(
        out, plants=plants, tell=lambda what: request.tell(what, total - 2, total)
    )
    figures["loads"], swept = sweeps(
        out,
        plants=1 if request.quick else 4,
        quick=request.quick,
        tell=lambda what: request.tell(what, total - 1, total),
    )
    request.tell("done", total, total)
    return Results(
        suite="control",
        metrics={**headline(work.cases), **noisy, **swept},
        figures=figures,
        config=_config(work, quick=request.quick),
        commit=commit_id(),
        seconds=time.perf_counter() - start,
    )


def headline(cases: tuple[Case, ...]) -> dict[str, float]:
    """Return the metrics of the module's table."""

    runs = [play(case, name) for case in cases for name in CONTROLLERS]
    return {
        **compared(cases, SHED),
        "step_us.deadline": 1e6 * geometric_mean(play(case, "deadline").step_s for case in cases),
        "sim.seconds_per_second": sum(one.simulated_s for one in runs) / sum(one.wall_s for one in runs),
        **{f"entry.{name}": value for name, value in compared(cases, ENTRY).items()},
    }


def compared(cases: tuple[Case, ...], shed: Shed) -> dict[str, float]:
    """Return the controllers' ratios with one of the actuators."""

    def mean(field: str, above: str, below: str) -> float:
        return geometric_mean(metric_ratio(case, field, above, below, shed=shed) for case in cases)

    lost = [
        (play(case, "deadline", shed=shed).metrics.loss_ratio, minimum(case).loss_ratio) for case in cases
    ]
    return {
        "acc_violation.aurora_over_ctrl": mean("acc_violation_s", "aurora", "ctrl"),
        "acc_violation.baseline_over_ctrl": mean("acc_violation_s", "baseline", "ctrl"),
        "acc_violation.ctrl_over_deadline": mean("acc_violation_s", "ctrl", "deadline"),
        "late_tuples.ctrl_over_deadline": mean("late_rows", "ctrl", "deadline"),
        "overshoot.ctrl_over_deadline": mean("overshoot_s", "ctrl", "deadline"),
        "loss.deadline_over_minimum": geometric_mean(
            ratio("loss_ratio", ours, least) for ours, least in lost
        ),
        "loss.aurora_over_ctrl": mean("loss_ratio", "aurora", "ctrl"),
        **{
            f"delivered.{name}_over_most": geometric_mean(
                delivered_over_most(case, name, shed=shed) for case in cases
            )
            for name in ("deadline", "ctrl")
        },
    }


def _config(work: Workload, *, quick: bool) -> dict[str, Any]:
    recorded = len(work.of("recorded"))
    return {
        "quick": quick,
        "target_delay_s": TARGET_S,
        "period_s": PERIOD_S,
        "headroom": HEADROOM,
        "shed": SHED,
        "duration_s": DURATION_S,
        "loads": LOADS,
        "floors": FLOORS,
        "recorded": f"{recorded} spans" if recorded else _absent(work),
        "unusable_files": work.unusable,
        "cases": {case.name: _case(case) for case in work.cases},
    }


def _absent(work: Workload) -> str:
    if work.unusable:
        return "absent: no file of arrivals in the data folder could be used"
    where = "no data folder" if data_dir() is None else "no arrivals/*.parquet in the data folder"
    return f"absent: {where}; set SPILLWAY_DATA to include recorded arrivals"


def _case(case: Case) -> dict[str, Any]:
    return {
        "rows": case.trace.total,
        "mean_rows_per_s": mean_rate(case.trace),
        "least_loss_ratio": minimum(case).loss_ratio,
        **{name: _found(play(case, name).metrics) for name in CONTROLLERS},
        "entry": {name: _found(play(case, name, shed=ENTRY).metrics) for name in CONTROLLERS},
    }


def _found(metrics: Metrics) -> dict[str, float]:
    return {field: getattr(metrics, field) for field in FLOORS}
