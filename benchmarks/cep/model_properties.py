"""Figures 10, 11 and 13: time slices, resource costs and the number of clusters of the cost model (VI-E and VI-G).

=======  ===========================  ===============================================================================
figure   varied                       how
=======  ===========================  ===============================================================================
10       time slices, 1 to 16         Q1 with windows of 2 ms, a fifth of the 95th percentile
11       whether Ω is known           Q3 over DS2, bounds on the mean, with a window of 1 ms: at an event per
                                      microsecond the paper's 5 ms have some 100 million runs. C computes roots for
                                      each run of A and B, so a unit of its work takes 5 times as long. Ω is 5 for
                                      these runs, or 1 for all
13       clusters per state, 2 to 10  Q1, half of the mean
=======  ===========================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cep.case import COMPARED, Case
from benchmarks.cep.data import DS2
from benchmarks.cep.point import Grid, Sweep, curves, numbers, percents, told
from benchmarks.cep.query_properties import is_best, listed, recalls
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.cep.language.listings import Q3

DEAR = (("C", 5.0),)
OMEGA = (1.0, 5.0, 1.0, 1.0)
_HYBRID = ("hybrid",)


@dataclass(frozen=True, kw_only=True)
class ModelProperties:
    """What is varied, and over how many windows."""

    slices: tuple[int, ...] = (1, 2, 4, 8, 16)
    clusters: tuple[int, ...] = (2, 4, 6, 8, 10)
    bounds: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
    windows: int = 10
    seeds: tuple[int, ...] = (11, 12)

    @property
    def by_slices(self) -> Sweep:
        """Figure 10: the hybrid by slices."""
        cases = tuple((float(n), Case.of_q1(2, self.windows, slices=n)) for n in self.slices)
        return Sweep(cases=cases, bound=0.2, percentile=95.0, seeds=self.seeds, names=_HYBRID)

    @property
    def others(self) -> Grid:
        """Figure 10: what the hybrid is compared with."""
        case = Case.of_q1(2, self.windows, slices=4)
        return Grid(case=case, bounds=(0.2,), percentile=95.0, seeds=self.seeds, names=COMPARED)

    def costs(self, known: bool) -> Grid:
        """Figure 11, with Ω or without."""
        case = Case(
            query=Q3.replace("5ms", "1ms"),
            window=1000,
            windows=2 * self.windows,
            stream=DS2(),
            clusters=4,
            resource=OMEGA if known else "none",
            dear=DEAR,
        )
        return Grid(case=case, bounds=self.bounds, seeds=self.seeds, names=_HYBRID)

    @property
    def by_clusters(self) -> Sweep:
        """Figure 13."""
        cases = tuple((float(n), Case.of_q1(2, self.windows, clusters=n)) for n in self.clusters)
        return Sweep(cases=cases, bound=0.5, seeds=self.seeds, names=_HYBRID)

    def tasks(self) -> list[Task]:
        """Return all runs."""
        declared = (self.by_slices, self.others, self.costs(True), self.costs(False), self.by_clusters)
        return [task for each in declared for task in each.tasks()]


def figures_10_11_13(plan: ModelProperties, found: Mapping[Task, Any], out: Path | None) -> dict[str, Figure]:
    """Return the three figures by number."""
    drawn = {"10": _figure_10, "11": _figure_11, "13": _figure_13}
    return {number: figure(plan, found, out) for number, figure in drawn.items()}


def _figure_10(plan: ModelProperties, found: Mapping[Task, Any], out: Path | None) -> Figure:
    by, others = plan.by_slices.by(found), plan.others.by(found)
    hybrid = {n: shown.recall for n, shown in by["hybrid"].items()}
    flat = {name: dict.fromkeys(by["hybrid"], of[0.2]) for name, of in others.items() if name != "hybrid"}
    checks = {
        "hybrid_is_best": is_best(by | flat),
        "several_slices_are_better_than_one": max(hybrid[n] for n in hybrid if n >= 4) >= hybrid[1] - 0.01,
    }
    return Figure(
        title="Q1: the number of time slices",
        paper="Best with at least 4 slices; with 1, as fast as input-based shedding, still 3.8 times its recall.",
        ours=f"{listed(plan.slices)} slices: recall {recalls(by | flat)}. Virtual time does not have the work of "
        "shedding, so more slices do not show in the speed.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by | flat)},
        files=draw(
            [
                Panel(title="a: recall", x="time slices", y="recall", curves=curves(by | flat, "recall")),
                Panel(
                    title="b: speed",
                    x="time slices",
                    y="times the speed without shedding",
                    curves=curves(by | flat, "speed"),
                ),
            ],
            out,
            "cep-10",
        ),
    )


def _figure_11(plan: ModelProperties, found: Mapping[Task, Any], out: Path | None) -> Figure:
    known, unknown = (plan.costs(each).by(found)["hybrid"] for each in (True, False))
    with_cost, without = ([shown.recall for shown in of.values()] for of in (known, unknown))
    checks = {"more_is_found_where_costs_are_known": sum(with_cost) > sum(without)}
    both = {"with costs": known, "without": unknown}
    return Figure(
        title="Q3: resource costs of runs",
        paper="Recall is higher with explicit costs, at slightly less throughput.",
        ours=f"Bounds of {percents(plan.bounds)}: recall {told(with_cost)} with "
        f"costs, {told(without)} without.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(both)},
        files=draw(
            [
                Panel(
                    title=title,
                    x="bound, share of the latency",
                    y=y,
                    curves={
                        label: (list(of), [getattr(shown, what) for shown in of.values()])
                        for label, of in both.items()
                    },
                )
                for title, what, y in (
                    ("a: recall", "recall", "recall"),
                    ("b: speed", "speed", "times the speed without shedding"),
                )
            ],
            out,
            "cep-11",
        ),
    )


def _figure_13(plan: ModelProperties, found: Mapping[Task, Any], out: Path | None) -> Figure:
    by = plan.by_clusters.by(found)
    recall = [shown.recall for shown in by["hybrid"].values()]
    checks = {"not_very_sensitive": max(recall) - min(recall) < 0.15}
    return Figure(
        title="Q1: the number of clusters",
        paper="Recall is not very sensitive to it; more clusters help up to about 8.",
        ours=f"{listed(plan.clusters)} clusters a state: recall {told(recall)}.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by)},
        files=draw(
            [Panel(title="recall", x="clusters a state", y="recall", curves=curves(by, "recall"))],
            out,
            "cep-13",
        ),
    )
