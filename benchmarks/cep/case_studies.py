"""Figures 15 and 16, and the metrics of recorded streams: see :mod:`~benchmarks.cep.recorded`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cep.point import By, Grid, curves, metrics_of, numbers, percents, ratios, told
from benchmarks.cep.query_properties import is_best
from benchmarks.cep.recorded import PERCENTILE, ClusterMatches, Name, Recorded, missing
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure

PAPER = {
    "bikes": "The hybrid has the best recall, more so with tight bounds: at 20 % 11.4, 11, 3.9 and 2.7 times that of "
    "RI, SI, RS and SS. It is as fast as state-based shedding, slower than input-based.",
    "cluster": "The hybrid has the best recall, up to 4 times that of input-based and 1.5 times that of state-based "
    "shedding, at the throughput of the fastest.",
}
TITLES = {
    "bikes": "Recorded trips of rented bikes: hot paths",
    "cluster": "Recorded cluster tasks: evicted twice, then failed",
}
NUMBERS: dict[Name, str] = {"bikes": "15", "cluster": "16"}


@dataclass(frozen=True, kw_only=True)
class Study:
    """One recorded stream and its bounds."""

    name: Name
    bounds: tuple[float, ...] = (0.5, 0.2, 0.1)
    seeds: tuple[int, ...] = (11,)
    events: int | None = None

    @property
    def grid(self) -> Grid:
        """All strategies under all bounds."""
        case = Recorded(name=self.name, events=self.events)
        return Grid(case=case, bounds=self.bounds, seeds=self.seeds, percentile=PERCENTILE)


@dataclass(frozen=True, kw_only=True)
class Studies:
    """What is run of what is there."""

    studies: tuple[Study, ...] = field(default=(Study(name="bikes"), Study(name="cluster")))

    @property
    def absent(self) -> dict[Name, str]:
        """Why some cannot be run."""
        why = {study.name: missing(study.name) for study in self.studies}
        return {name: reason for name, reason in why.items() if reason is not None}

    @property
    def present(self) -> list[Study]:
        """Those that can be run."""
        return [study for study in self.studies if study.name not in self.absent]

    def tasks(self) -> list[Task]:
        """Return all runs."""
        found: list[Task] = [task for study in self.present for task in study.grid.tasks()]
        return [*found, ClusterMatches()] if self._counted else found

    @property
    def _counted(self) -> bool:
        return any(study.name == "cluster" for study in self.present)

    def metrics(self, found: Mapping[Task, Any]) -> dict[str, float]:
        """Return the metrics of each stream under its name."""
        metrics: dict[str, float] = {}
        for study in self.present:
            by = study.grid.by(found)
            metrics |= metrics_of(by, f"{study.name}.")
            if study.name == "bikes":
                metrics["matches.bikes"] = round(1.0 / by["hybrid"][min(study.bounds)].one_match)
        return metrics | ({"matches.cluster": float(found[ClusterMatches()])} if self._counted else {})

    def figures(self, found: Mapping[Task, Any], out: Path | None) -> dict[str, Figure]:
        """Return the figures of what is there."""
        return {NUMBERS[study.name]: _figure(study, study.grid.by(found), out) for study in self.present}


def _figure(study: Study, by: By, out: Path | None) -> Figure:
    tight = {bound: ratios(by, bound) for bound in study.bounds}
    checks = {
        "hybrid_is_best": is_best(by),
        "bounds_held": sum(shown.held for shown in by["hybrid"].values()) / len(study.bounds) >= 0.95,
    }
    lines = "; ".join(f"{name} {told([shown.recall for shown in of.values()])}" for name, of in by.items())
    times = ", ".join(f"{ratio:.1f} times {name}" for name, ratio in tight[min(study.bounds)].items())
    held = "; ".join(f"{name} {told([shown.held for shown in of.values()])}" for name, of in by.items())
    return Figure(
        title=TITLES[study.name],
        paper=PAPER[study.name],
        ours=f"Bounds of {percents(study.bounds)} of the 99th percentile: recall {lines}. At the tightest: {times}. "
        f"The bound was held in these shares of the intervals: {held}.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by), "ratios": {str(bound): of for bound, of in tight.items()}},
        files=draw(
            [
                Panel(
                    title="a: recall",
                    x="bound, share of the latency",
                    y="recall",
                    curves=curves(by, "recall"),
                ),
                Panel(
                    title="b: speed",
                    x="bound, share of the latency",
                    y="times the speed without shedding",
                    curves=curves(by, "speed"),
                    log_y=True,
                ),
            ],
            out,
            f"cep-{NUMBERS[study.name]}",
        ),
    )
