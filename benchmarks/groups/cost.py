"""Figures 7 and 8: how long a window takes, without shedding, with uniform and with concept-driven shedding.

Here in the core's window operator, one row at a time in Python, with both designs of buffers. Passes alternate
between the methods, and medians are taken window by window, so that a machine that is busy for a while weighs on all
alike.

``shed_cost.cod_over_uniform`` compares all that the operator does for a row, on arrival and at watermarks, until the
rows that stay are there: the query is left out. Each method does its own work and no more, and both keep 3 % of the
rows. Uniform flips a coin for each row of each window at the watermark, as the paper's does, and counts no groups.
Cod counts each row's group for each window on arrival; at the watermark it divides the budget, counts up to the rows
that it has chosen instead of flipping coins, and learns from what it keeps. So it saves at the watermark, when the
result is waited for, what it spends before: as in the paper, and for the same reason (Section VII-C2).

That is the operator as it is by default. ``shed_cost.cod_over_uniform.reservoir`` is what it costs with ``pilot``:
then every row has a coin for each of its windows on arrival, and the smallest are kept in a reservoir (Figure 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control.runs import geometric_mean
from benchmarks.groups.operator_clock import (
    BUFFERS,
    NAMES,
    SHEDDERS,
    Feed,
    Played,
    by_workers,
    configured,
    middle,
)
from benchmarks.results import Figure
from spillway.core.groups import Buffering
from spillway.report.plots import CYCLE, panels, save

WORKERS = (1, 2, 4)
KEEP_RATIO_7 = 0.02
KEEP_RATIO_8 = 0.03

Passes = dict[str, Played]
"""The medians by method: normal, uniform, cod."""


@dataclass(frozen=True, eq=False)
class Cost:
    """Per design of the buffers, the methods' passes over one stream."""

    by_design: Mapping[str, Passes]
    reservoirs: Mapping[str, Played] = field(default_factory=dict)
    """Per design the passes of cod with a reservoir, where they were asked for."""

    @property
    def reservoir_over_uniform(self) -> float:
        """What the operator takes for a row with cod and a reservoir in relation to uniform."""
        return geometric_mean(
            played.operator_s / self.by_design[design]["uniform"].operator_s
            for design, played in self.reservoirs.items()
        )

    @property
    def cod_over_uniform(self) -> float:
        """What the operator takes for a row with cod in relation to uniform; both designs together."""
        return geometric_mean(
            passes["cod"].operator_s / passes["uniform"].operator_s for passes in self.by_design.values()
        )

    @property
    def cod_over_uniform_at_watermarks(self) -> float:
        """The same of what is done at watermarks alone, when results are waited for."""
        return geometric_mean(
            passes["cod"].watermark_s / passes["uniform"].watermark_s for passes in self.by_design.values()
        )

    def numbers(self) -> dict[str, Any]:
        """Return what is reported of it."""
        return {
            design: {name: _numbers(each) for name, each in {**passes, **self._reservoir(design)}.items()}
            for design, passes in self.by_design.items()
        }

    def _reservoir(self, design: str) -> Passes:
        return {"cod with reservoir": self.reservoirs[design]} if design in self.reservoirs else {}


def alternating(
    given: Feed,
    *,
    keep_ratio: float,
    repeats: int,
    workers: int = 1,
    designs: Sequence[Buffering] = BUFFERS,
    reservoir: bool = False,
) -> Cost:
    """Pass over a stream with each method in turn, several times, and if asked with cod and a reservoir too."""
    taken: dict[str, dict[str, list[Played]]] = {
        design: {NAMES[shedder]: [] for shedder in SHEDDERS} for design in designs
    }
    reservoirs: dict[str, list[Played]] = {design: [] for design in designs} if reservoir else {}
    for _ in range(repeats):
        for design in designs:
            for shedder in SHEDDERS:
                config = configured(given, shedder, design, keep_ratio)
                taken[design][NAMES[shedder]].append(by_workers(given, config, workers))
            if reservoir:
                config = configured(given, "concept", design, keep_ratio, pilot=True)
                reservoirs[design].append(by_workers(given, config, workers))
    return Cost(
        {design: {name: middle(each) for name, each in passes.items()} for design, passes in taken.items()},
        {design: middle(each) for design, each in reservoirs.items()},
    )


def figure_7(found: Mapping[int, Cost], out: Path | None, *, stream: str) -> Figure:
    """Compare the time of a window with more and more workers, single buffer."""
    times = {workers: cost.by_design["single"] for workers, cost in found.items()}
    least, most = min(times), max(times)
    faster = [p95_s(each["normal"]) / p95_s(each["cod"]) for each in times.values()]
    checks = {
        "shedding_is_faster_at_any_number": all(
            mean_s(each[name]) < mean_s(each["normal"])
            for each in times.values()
            for name in ("uniform", "cod")
        ),
        "p95_at_least_4_times_better": min(faster) >= 4.0,
        "one_worker_with_cod_beats_all_without": mean_s(times[least]["cod"]) < mean_s(times[most]["normal"]),
    }
    return Figure(
        title=f"Time of a window by the number of workers, {stream}, 98 % shed",
        paper="DEC: both ways of shedding are much faster than normal execution, more than four times at the 95th "
        "percentile, and with one node faster than normal execution with four.",
        ours=f"Normal, uniform and cod with {', '.join(map(str, times))} workers: "
        + "; ".join(_milliseconds(each) for each in times.values())
        + f" on average. At the 95th percentile cod is {min(faster):.1f} to {max(faster):.1f} times faster. Finding "
        "a window's rows takes as long with shedding as without. Splitting the work costs nothing here.",
        holds=all(checks.values()),
        numbers={"checks": checks, "by_workers": {str(n): cost.numbers() for n, cost in found.items()}},
        files=_draw_7(times, out) if out is not None else [],
    )


def figure_8(found: Mapping[str, Cost], out: Path | None) -> Figure:
    """Compare the time of a window stream by stream, and what shedding costs."""
    times = {name: cost.by_design["single"] for name, cost in found.items()}
    faster = {name: p95_s(each["normal"]) / p95_s(each["cod"]) for name, each in times.items()}
    costs = {name: cost.cod_over_uniform for name, cost in found.items()}
    kept = {name: cost.reservoir_over_uniform for name, cost in found.items() if cost.reservoirs}
    checks = {
        "cod_is_faster_than_normal": all(mean_s(of["cod"]) < mean_s(of["normal"]) for of in times.values()),
        "2.25_times_at_p95_somewhere": max(faster.values()) >= 2.25,
        "uniform_is_no_faster_than_cod": all(
            mean_s(of["cod"]) <= 1.05 * mean_s(of["uniform"]) for of in times.values()
        ),
        "cod_costs_at_most_a_fifth_more": max(costs.values()) <= 1.2,
    }
    if "packets" in times:
        others = [ratio for name, ratio in faster.items() if name != "packets"]
        checks["gains_least_on_packets"] = faster["packets"] <= min(others)
    return Figure(
        title="Time of a window from watermark to answer, 97 % shed",
        paper="DEC: a small gain, as finding the window's rows takes most of the time. GCM and DEBS: CoD is faster "
        "than normal execution, up to 2.25 times at the 95th percentile, and uniform is slower than CoD.",
        ours="Normal, uniform and cod: "
        + "; ".join(f"{name} {_milliseconds(each)}" for name, each in times.items())
        + " on average. At the 95th percentile cod is "
        + ", ".join(f"{ratio:.1f} ({name})" for name, ratio in faster.items())
        + " times faster than normal. All in all the operator takes "
        + ", ".join(f"{ratio:.2f} ({name})" for name, ratio in costs.items())
        + " times as long for a row with cod as with uniform"
        + "".join(f", and {ratio:.2f} with a reservoir ({name})" for name, ratio in kept.items())
        + "."
        + _where(times)
        + _least(faster),
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "streams": {name: cost.numbers() for name, cost in found.items()},
            "p95.normal_over_cod": faster,
            "shed_cost.cod_over_uniform": costs,
            "shed_cost.cod_over_uniform.reservoir": kept,
            "shed_cost_at_watermarks.cod_over_uniform": {
                name: cost.cod_over_uniform_at_watermarks for name, cost in found.items()
            },
        },
        files=_draw_8(times, out) if out is not None else [],
    )


def _where(times: Mapping[str, Passes]) -> str:
    """Say what of the time is spent on arrival and what at watermarks."""
    name, passes = list(times.items())[-1]
    parts = [
        f"{1e6 * of.arrive_s / of.rows:.2f} and {1e6 * of.watermark_s / of.rows:.2f} us with {method}"
        for method, of in passes.items()
        if method != "normal"
    ]
    return f" On arrival and at watermarks that is, on {name}, {' and '.join(parts)}."


def _least(faster: Mapping[str, float]) -> str:
    """Say why packets gain the most here, where they gain the least in the paper."""
    if "packets" not in faster or faster["packets"] <= min(faster.values()):
        return ""
    return (
        " Packets do not gain least here: finding a window's rows costs the same on all streams, row by row, and "
        "where there are no groups cod adds the least to it."
    )


def mean_s(played: Played) -> float:
    """Return the mean time of a window."""
    return float(np.mean(played.windows_s))


def p95_s(played: Played) -> float:
    """Return the 95th percentile of the windows' times."""
    return float(np.quantile(played.windows_s, 0.95))


def _numbers(played: Played) -> dict[str, float]:
    return {
        "windows": len(played.windows_s),
        "window_mean_s": mean_s(played),
        "window_p95_s": p95_s(played),
        "arrival_us_per_row": 1e6 * played.arrive_s / played.rows,
        "watermarks_us_per_row": 1e6 * played.watermark_s / played.rows,
        "scanned_rows": played.scanned,
        "processed_rows": played.processed,
    }


def _milliseconds(passes: Passes) -> str:
    return ", ".join(f"{1e3 * mean_s(each):.1f}" for each in passes.values()) + " ms"


def _draw_7(times: Mapping[int, Passes], out: Path) -> list[str]:
    with panels(1, 2, width=8.0) as (figure, axes):
        for axis, (title, of) in zip(axes, (("mean", mean_s), ("95th percentile", p95_s)), strict=True):
            for colour, name in zip(CYCLE, NAMES.values(), strict=False):
                heights = [1e3 * of(passes[name]) for passes in times.values()]
                axis.plot(list(times), heights, marker="o", markersize=3, color=colour, label=name)
            axis.set(title=title, xlabel="workers", xticks=list(times), ylim=(0.0, None))
        axes[0].set_ylabel("time of a window (ms)")
        axes[0].legend()
        return save(figure, out, "groups-7-workers")


def _draw_8(times: Mapping[str, Passes], out: Path) -> list[str]:
    with panels(1, len(times), width=3.2 * len(times)) as (figure, axes):
        for axis, (stream, passes) in zip(axes, times.items(), strict=True):
            for at, (name, played) in enumerate(passes.items()):
                heights = [1e3 * mean_s(played), 1e3 * p95_s(played)]
                axis.bar(np.arange(2) + 0.27 * (at - 1), heights, 0.25, color=CYCLE[at], label=name)
            axis.set(title=stream, xticks=range(2), xticklabels=["mean", "95th percentile"])
        axes[0].set_ylabel("time of a window (ms)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, out, "groups-8-window-times")
