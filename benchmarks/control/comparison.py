"""Figures 12, 15 and 16: the controllers side by side, over a whole run and period by period."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control.runs import (
    ENTRY,
    HEADROOM,
    SHED,
    TARGET_S,
    geometric_mean,
    metric_ratio,
    minimum,
    play,
    ratio,
)
from benchmarks.control.workload import Case, Workload, pareto_case
from benchmarks.results import Figure
from spillway.report.plots import COLOURS, panels, save
from spillway.sim import Shed

FIELDS = {
    "acc_violation_s": "accumulated violation",
    "late_rows": "delayed rows",
    "overshoot_s": "maximal overshoot",
    "loss_ratio": "data loss",
}
OTHERS = ("aurora", "baseline", "deadline")


def figure_12(work: Workload, out: Path | None) -> Figure:
    """Compare the four metrics, relative to CTRL's."""
    groups = {"recorded": work.of("recorded") or [work.web], "pareto": work.of("pareto")}
    table = _over_ctrl(groups, SHED)
    by_lag = {shed: _with_dead_time(groups["recorded"][:4], shed) for shed in (SHED, ENTRY)}
    checks = checks_12(table)
    files = _draw_12(table, out) if out is not None else []
    recorded, made_up = table["recorded"], table["pareto"]
    aurora = [kind["acc_violation_s"]["aurora"] for kind in (recorded, made_up)]
    return Figure(
        title="Relative performance of different load shedding strategies (CTRL = 1)",
        paper="'Web': AURORA has 205 times and BASELINE 23 times CTRL's accumulated violation, similar for "
        "delayed rows and overshoot; all lose the same, AURORA slightly less (0.986 and 0.987).",
        ours=f"AURORA has {aurora[0]:.0f} (recorded) and {aurora[1]:.0f} times (Pareto) CTRL's accumulated "
        f"violation and {recorded['loss_ratio']['aurora']:.3f} and {made_up['loss_ratio']['aurora']:.3f} of "
        f"its loss. BASELINE has {recorded['acc_violation_s']['baseline']:.2f} and "
        f"{made_up['acc_violation_s']['baseline']:.2f} times as much. {_on_baseline(by_lag)}",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "over_ctrl": table,
            "over_ctrl_shed_at_entry": _over_ctrl(groups, ENTRY),
            "baseline_over_ctrl_by_lag": by_lag,
        },
        files=files,
    )


def _over_ctrl(groups: dict[str, list[Case]], shed: Shed) -> dict[str, dict[str, dict[str, float]]]:
    """Return, by kind of trace, metric and controller, the mean ratio to CTRL's."""
    return {
        kind: {
            field: {
                name: geometric_mean(metric_ratio(case, field, name, "ctrl", shed=shed) for case in cases)
                for name in OTHERS
            }
            for field in FIELDS
        }
        for kind, cases in groups.items()
    }


def checks_12(table: dict[str, dict[str, dict[str, float]]]) -> dict[str, bool]:
    """Return the figure's claims one by one: each must hold on both kinds of traces."""

    def everywhere(field: str, claim: Callable[[dict[str, float]], bool]) -> bool:
        return all(claim(kind[field]) for kind in table.values())

    delays = [field for field in FIELDS if field != "loss_ratio"]
    return {
        **{f"aurora_worse.{field}": everywhere(field, lambda of: of["aurora"] > 1.0) for field in delays},
        "aurora_at_least_10_times.acc_violation_s": everywhere(
            "acc_violation_s", lambda of: of["aurora"] >= 10.0
        ),
        **{f"baseline_worse.{field}": everywhere(field, lambda of: of["baseline"] > 1.0) for field in delays},
        **{
            f"baseline_beats_aurora.{field}": everywhere(field, lambda of: of["baseline"] < of["aurora"])
            for field in delays
        },
        "same_loss_within_5_percent": everywhere(
            "loss_ratio", lambda of: max(abs(of[name] - 1.0) for name in ("aurora", "baseline")) <= 0.05
        ),
        "aurora_loses_no_more": everywhere("loss_ratio", lambda of: of["aurora"] <= 1.0),
    }


def _on_baseline(by_lag: dict[Shed, list[float]]) -> str:
    """Say that BASELINE is not 23 times as bad as CTRL, with what was measured of it."""

    def listed(ratios: list[float]) -> str:
        return f"{ratios[0]:.2f}, {ratios[1]:.2f} and {ratios[2]:.2f}"

    return (
        "That is the reverse of the paper's 23: in this engine BASELINE's model is exact and what it is told is "
        "true at that very moment, and then correcting the whole error at once is hard to beat, all the more where "
        "rows can be taken out of the queue. With decisions late by 0, 1 and 2 periods its ratio on recorded "
        f"arrivals is {listed(by_lag[SHED])}; where rows are only refused at the entry, {listed(by_lag[ENTRY])}."
    )


def _with_dead_time(cases: list[Case], shed: Shed) -> list[float]:
    """Return BASELINE's accumulated violation over CTRL's with decisions late by 0, 1 and 2 periods."""
    return [
        geometric_mean(
            metric_ratio(case, "acc_violation_s", "baseline", "ctrl", lag_periods=lag, shed=shed)
            for case in cases
        )
        for lag in range(3)
    ]


def _draw_12(table: dict[str, dict[str, dict[str, float]]], out: Path) -> list[str]:
    with panels(1, 4, width=11.0) as (figure, axes):
        for axis, (field, title) in zip(axes, FIELDS.items(), strict=True):
            for place, name in enumerate(OTHERS):
                heights = [table[kind][field][name] for kind in table]
                axis.bar(
                    np.arange(len(table)) + 0.27 * (place - 1), heights, 0.25, color=COLOURS[name], label=name
                )
            axis.axhline(1.0, color=COLOURS["ctrl"], linewidth=1.0)
            axis.set(title=title, xticks=range(len(table)), xticklabels=list(table))
            if field != "loss_ratio":
                axis.set_yscale("log")
        axes[0].set_ylabel("relative to CTRL (blue line)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, out, "figure-12-relative-performance")


def figure_15(work: Workload, out: Path | None) -> Figure:
    """Draw y(k) of every controller on one recorded and one Pareto trace."""
    cases = {"recorded": work.web, "pareto": pareto_case(1.0, 0, load=1.6)}
    names = ("ctrl", "baseline", "aurora", "deadline")
    numbers: dict[str, dict[str, dict[str, float]]] = {
        kind: {name: _transient(case, name) for name in names} for kind, case in cases.items()
    }
    files: list[str] = []
    if out is not None:
        with panels(4, 2, width=10.0, height=1.7) as (figure, axes):
            for row, name in enumerate(names):
                for column, (kind, case) in enumerate(cases.items()):
                    run, axis = play(case, name), axes[2 * row + column]
                    axis.plot(run.ends_s, run.delays_s, color=COLOURS[name])
                    axis.axhline(TARGET_S, color=COLOURS["target"], linewidth=0.8, linestyle="--")
                    axis.set(title=f"{name}, {kind}", ylim=(0.0, None), ylabel="y(k), s")
            for axis in axes[-2:]:
                axis.set_xlabel("s")
            files = save(figure, out, "figure-15-transients")
    ctrl, aurora, baseline = (
        [numbers[kind][name] for kind in cases] for name in ("ctrl", "aurora", "baseline")
    )
    checks = {
        "ctrl_stays_near_the_target": all(abs(of["median_s"] - TARGET_S) < 0.2 for of in ctrl),
        "aurora_peaks_higher": _peak_higher(aurora, ctrl),
        "baseline_peaks_higher": _peak_higher(baseline, ctrl),
        "aurora_ends_above_the_target": all(of["last_s"] > TARGET_S for of in aurora),
    }
    return Figure(
        title="Performance of different load shedding methods, period by period",
        paper="CTRL stays close to 2 s; the cost's first two peaks lift it for a moment, the terrace does "
        "not. AURORA and BASELINE have peaks that are high and wide, and AURORA's delay grows all the time.",
        ours="; ".join(
            f"on {kind} arrivals median and peak are "
            + ", ".join(
                f"{numbers[kind][name]['median_s']:.2f} and {numbers[kind][name]['peak_s']:.1f} s with {name}"
                for name in names
            )
            for kind in cases
        )
        + ".",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers},
        files=files,
    )


def _peak_higher(these: list[dict[str, float]], those: list[dict[str, float]]) -> bool:
    """Return whether the highest delay is half as high again, on every trace."""
    return all(a["peak_s"] > 1.5 * b["peak_s"] for a, b in zip(these, those, strict=True))


def _transient(case: Case, name: str) -> dict[str, float]:
    y = play(case, name).delays_s
    y = y[np.isfinite(y)]
    return {
        "median_s": float(np.median(y)),
        "peak_s": float(y.max()),
        "last_s": float(y[-10:].mean()),
        "within_target": float((y <= TARGET_S).mean()),
    }


def figure_16(work: Workload, out: Path | None) -> Figure:
    """Tune AURORA's only knob, the headroom it assumes."""
    cases = {"recorded": work.web, "pareto": pareto_case(1.0, 0, load=1.6)}
    headrooms = (0.97, 0.96, 0.94, 0.92, 0.90, 0.85, 0.80)
    numbers: dict[str, Any] = {}
    for kind, case in cases.items():
        ctrl = play(case, "ctrl").metrics
        runs = {H: play(case, "aurora", assumed_headroom=H) for H in headrooms}
        numbers[kind] = {
            f"{H:g}": {
                "acc_violation_over_ctrl": ratio(
                    "acc_violation_s", run.metrics.acc_violation_s, ctrl.acc_violation_s
                ),
                "loss_over_ctrl": ratio("loss_ratio", run.metrics.loss_ratio, ctrl.loss_ratio),
                "loss_over_minimum": ratio("loss_ratio", run.metrics.loss_ratio, minimum(case).loss_ratio),
            }
            for H, run in runs.items()
        }
    calm = {
        kind: next((H for H in numbers[kind] if numbers[kind][H]["acc_violation_over_ctrl"] < 1.0), None)
        for kind in cases
    }
    files: list[str] = []
    if out is not None:
        with panels(1, 2, width=9.0) as (figure, axes):
            for axis, (kind, case) in zip(axes, cases.items(), strict=True):
                for H, shade in ((0.97, 0.4), (0.96, 1.0)):
                    run = play(case, "aurora", assumed_headroom=H)
                    axis.plot(
                        run.ends_s,
                        run.delays_s,
                        color=COLOURS["aurora"],
                        alpha=shade,
                        label=f"aurora, H = {H:g}",
                    )
                axis.plot(
                    run.ends_s,
                    play(case, "ctrl").delays_s,
                    color=COLOURS["ctrl"],
                    label=f"ctrl, H = {HEADROOM:g}",
                )
                axis.axhline(TARGET_S, color=COLOURS["target"], linewidth=0.8, linestyle="--")
                axis.set(title=kind, xlabel="s", ylabel="y(k), s", ylim=(0.0, None))
            axes[0].legend()
            files = save(figure, out, "figure-16-aurora-headroom")
    at = {kind: numbers[kind]["0.96"] for kind in cases}
    checks = {
        "recorded_still_unstable": at["recorded"]["acc_violation_over_ctrl"] > 1.0,
        "pareto_without_violation": at["pareto"]["acc_violation_over_ctrl"] < 0.1,
        "pareto_loses_more": at["pareto"]["loss_over_ctrl"] > 1.1,
        "no_headroom_suits_both": not any(
            all(
                numbers[kind][f"{H:g}"]["acc_violation_over_ctrl"] < 1.0
                and numbers[kind][f"{H:g}"]["loss_over_ctrl"] < 1.05
                for kind in cases
            )
            for H in headrooms
        ),
    }
    return Figure(
        title="Performance of AURORA with H = 0.96",
        paper="With H = 0.96 AURORA is still unstable on 'Web'; on 'Pareto' it has no violation but loses 37 "
        "% more than CTRL: no setting suits both.",
        ours=f"With H = 0.96 AURORA has {at['recorded']['acc_violation_over_ctrl']:.1f} (recorded) and "
        f"{at['pareto']['acc_violation_over_ctrl']:.1f} times (Pareto) CTRL's violation and "
        f"{at['recorded']['loss_over_ctrl']:.3f} and {at['pareto']['loss_over_ctrl']:.3f} of its loss. "
        f"The largest H at which it violates less than CTRL is {calm['recorded'] or 'below 0.8'} on the recorded "
        f"trace and {calm['pareto'] or 'below 0.8'} on Pareto.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers},
        files=files,
    )
