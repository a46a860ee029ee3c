"""Figures 7 to 9: the query's selectivity, window and length (Section VI-D).

=======  ===================================================  =============================
figure   varied                                               how
=======  ===================================================  =============================
7        values of C from 2 to x: for small x few sums count  Q1 with windows of 2 ms
8        the window                                           Q1, 1 to 16 ms
9        the pattern's length, 4 to 8                         Q2 with ``A{1,n}``
=======  ===================================================  =============================

The bound is half of the 95th percentile of the latency of all events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cep.case import BASELINES, Case
from benchmarks.cep.data import DS1
from benchmarks.cep.point import By, Sweep, curves, numbers, told
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.cep.language.listings import Q2

BOUND, PERCENTILE = 0.5, 95.0
_SLACK = 0.02


@dataclass(frozen=True, kw_only=True)
class QueryProperties:
    """What is varied, and over how many windows."""

    highest_values: tuple[int, ...] = (2, 4, 6, 8, 10)
    windows_ms: tuple[int, ...] = (1, 2, 4, 8, 16)
    lengths: tuple[int, ...] = (4, 5, 6, 7, 8)
    selectivity_ms: float = 2.0
    windows: int = 6
    seeds: tuple[int, ...] = (11, 12)

    @property
    def selectivity(self) -> Sweep:
        """Figure 7."""
        cases = [
            (
                float(high),
                Case.of_q1(self.selectivity_ms, 2 * self.windows, stream=DS1(c_values=(2, high))),
            )
            for high in self.highest_values
        ]
        return self._sweep(cases)

    @property
    def window(self) -> Sweep:
        """Figure 8."""
        return self._sweep([(float(ms), Case.of_q1(ms, self.windows)) for ms in self.windows_ms])

    @property
    def length(self) -> Sweep:
        """Figure 9."""
        cases = [
            (
                float(length),
                Case(query=q2(length), window=1000, windows=4 * self.windows, history_windows=12),
            )
            for length in self.lengths
        ]
        return self._sweep(cases)

    def _sweep(self, cases: list[tuple[float, Case]]) -> Sweep:
        return Sweep(cases=tuple(cases), bound=BOUND, percentile=PERCENTILE, seeds=self.seeds)

    def tasks(self) -> list[Task]:
        """Return all runs."""
        return [task for sweep in (self.selectivity, self.window, self.length) for task in sweep.tasks()]


def q2(length: int) -> str:
    """Return Q2 for matches of up to so many events.

    >>> q2(4).splitlines()[0]
    'PATTERN SEQ(A a,A{1,1} b[],B c,C d)'
    """
    return Q2.replace("A+", f"A{{1,{length - 3}}}")


def figures_7_to_9(plan: QueryProperties, found: Mapping[Task, Any], out: Path | None) -> dict[str, Figure]:
    """Return the three figures by number; the third only where there are lengths."""
    figures = {"7": _figure_7(plan, found, out), "8": _figure_8(plan, found, out)}
    return figures | ({"9": _figure_9(plan, found, out)} if plan.lengths else {})


def _figure_7(plan: QueryProperties, found: Mapping[Task, Any], out: Path | None) -> Figure:
    by = plan.selectivity.by(found)
    speeds = [shown.speed for shown in by["hybrid"].values()]
    checks = {
        "hybrid_is_best": is_best(by),
        "recall_is_not_affected": min(shown.recall for shown in by["hybrid"].values()) > 0.9,
        "faster_where_few_values_count": speeds[0] == max(speeds),
    }
    return Figure(
        title="Q1: the variance of selectivity",
        paper="Recall is not affected, the hybrid is best; at x = 2 it is 120 times as fast as the baselines.",
        ours=f"Values of C up to {listed(plan.highest_values)}: recall {recalls(by)}; {told(speeds, 1)} times the "
        "speed without shedding. Once the bound holds no more is shed, so the speed stays near what was asked for.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by)},
        files=_drawn(by, "largest value of C", out, "cep-7"),
    )


def _figure_8(plan: QueryProperties, found: Mapping[Task, Any], out: Path | None) -> Figure:
    by = plan.window.by(found)
    hybrid = [shown.recall for shown in by["hybrid"].values()]
    checks = {"hybrid_is_best": is_best(by), "recall_improves_with_the_window": hybrid[-1] >= hybrid[0]}
    return Figure(
        title="Q1: the window",
        paper="The hybrid is best throughout; recall improves with the window for all; input-based is fastest.",
        ours=f"Windows of {listed(plan.windows_ms)} ms: recall {recalls(by)}.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by)},
        files=_drawn(by, "window, ms", out, "cep-8"),
    )


def _figure_9(plan: QueryProperties, found: Mapping[Task, Any], out: Path | None) -> Figure:
    by = plan.length.by(found)
    hybrid = [shown.recall for shown in by["hybrid"].values()]
    checks = {"hybrid_is_best": is_best(by), "recall_is_stable": max(hybrid) - min(hybrid) < 0.1}
    return Figure(
        title="Q2: the pattern's length",
        paper="Recall is stable, throughput falls drastically with the length, least for the hybrid.",
        ours=f"Lengths of up to {listed(plan.lengths)}: recall {recalls(by)}. Few A of one ID have the same value "
        "within 1 ms, so longer patterns are rare and take little more work.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by)},
        files=_drawn(by, "events in a match, at most", out, "cep-9"),
    )


def is_best(by: By) -> bool:
    """Whether the hybrid finds at least as much as each baseline everywhere."""
    return all(
        by["hybrid"][x].recall >= by[name][x].recall - _SLACK
        for name in BASELINES
        if name in by
        for x in by["hybrid"]
    )


def recalls(by: By) -> str:
    """Return the recall of the hybrid and of the best baseline, in words."""
    best = [max(by[name][x].recall for name in BASELINES if name in by) for x in by["hybrid"]]
    return f"{told([shown.recall for shown in by['hybrid'].values()])} (best baseline {told(best)})"


def listed(values: tuple[int, ...]) -> str:
    """Return whole numbers as a list in words."""
    return ", ".join(str(value) for value in values)


def _drawn(by: By, x: str, out: Path | None, name: str) -> list[str]:
    return draw(
        [
            Panel(title="a: recall", x=x, y="recall", curves=curves(by, "recall")),
            Panel(title="b: speed", x=x, y="times the speed without shedding", curves=curves(by, "speed")),
        ],
        out,
        name,
    )
