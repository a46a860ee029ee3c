"""Figures 12, 15 and 16: the controllers side by side, over a whole run and period by period."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spillway.bench.control.runs import (
    HEADROOM,
    TARGET_S,
    geometric_mean,
    metric_ratio,
    minimum,
    play,
    ratio,
)
from spillway.bench.control.workload import Case, Workload, pareto_case
from spillway.bench.figures import COLOURS, panels, save
from spillway.bench.results import Figure

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
    table = {
        kind: {
            field: {
                name: geometric_mean(metric_ratio(case, field, name, "ctrl") for case in cases)
                for name in OTHERS
            }
            for field in FIELDS
        }
        for kind, cases in groups.items()
    }
    late = _with_dead_time(groups["recorded"][:4])
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
        f"{made_up['acc_violation_s']['baseline']:.2f} times as much. {_on_baseline(late)}",
        holds=min(aurora) > 1.0 and abs(recorded["loss_ratio"]["aurora"] - 1.0) < 0.1,
        numbers={"over_ctrl": table, "baseline_over_ctrl_by_lag": late},
        files=files,
    )


def _on_baseline(by_lag: list[float]) -> str:
    """Say why BASELINE is not 23 times as bad as CTRL, with what was measured."""
    return (
        "That is not the paper's 23: in this engine BASELINE's model is exact and what it is told is true at "
        "that very moment, and then correcting the whole error at once is hard to beat. Dead time shows the "
        "difference: with decisions late by 0, 1 and 2 periods its ratio on recorded arrivals is "
        f"{by_lag[0]:.2f}, {by_lag[1]:.2f} and {by_lag[2]:.2f}, because a deadbeat law corrects again what is "
        "being corrected already, where CTRL only corrects a part."
    )


def _with_dead_time(cases: list[Case]) -> list[float]:
    """Return BASELINE's accumulated violation over CTRL's with decisions late by 0, 1 and 2 periods."""
    return [
        geometric_mean(
            metric_ratio(case, "acc_violation_s", "baseline", "ctrl", lag_periods=lag) for case in cases
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
    ctrl, aurora = ({kind: numbers[kind][name] for kind in cases} for name in ("ctrl", "aurora"))
    return Figure(
        title="Performance of different load shedding methods, period by period",
        paper="CTRL stays close to 2 s; the cost's first two peaks lift it for a moment, the terrace does "
        "not. AURORA and BASELINE have peaks that are high and wide, and AURORA's delay grows all the time.",
        ours="; ".join(
            f"on {kind} arrivals CTRL's median is {ctrl[kind]['median_s']:.2f} s and its peak "
            f"{ctrl[kind]['peak_s']:.1f} s, AURORA's {aurora[kind]['median_s']:.1f} and "
            f"{aurora[kind]['peak_s']:.1f} s, deadline's {numbers[kind]['deadline']['median_s']:.2f} and "
            f"{numbers[kind]['deadline']['peak_s']:.2f} s"
            for kind in cases
        )
        + ".",
        holds=all(
            abs(ctrl[kind]["median_s"] - TARGET_S) < 0.2
            and aurora[kind]["peak_s"] > 1.5 * ctrl[kind]["peak_s"]
            for kind in cases
        ),
        numbers=numbers,
        files=files,
    )


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
    return Figure(
        title="Performance of AURORA with H = 0.96",
        paper="With H = 0.96 AURORA is still unstable on 'Web'; on 'Pareto' it has no violation but loses 37 "
        "% more than CTRL: no setting suits both.",
        ours=f"With H = 0.96 AURORA has {at['recorded']['acc_violation_over_ctrl']:.1f} (recorded) and "
        f"{at['pareto']['acc_violation_over_ctrl']:.1f} times (Pareto) CTRL's violation. The largest H at "
        f"which it has less than CTRL is {calm['recorded'] or 'below 0.8'} on the recorded trace and "
        f"{calm['pareto'] or 'below 0.8'} on Pareto.",
        holds=at["recorded"]["acc_violation_over_ctrl"] > 1.0,
        numbers=numbers,
        files=files,
    )
