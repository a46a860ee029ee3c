"""Figures 4 and 5, and the metrics of recall: Q1 under bounds from 10 to 90 % of the latency without shedding.

The paper bounds the latency of matches. Here that is ``over="completing"``. A bound on the latency of all events,
which is what keeps a stream from falling behind, is shown beside it, and the metrics are of that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.bench.cep.case import BASELINES, Case
from spillway.bench.cep.point import Grid, largest, metrics_of
from spillway.bench.cep.tasks import Task

HEADLINE = (0.5, 0.1)
INPUT, STATE = BASELINES[:2], BASELINES[2:]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What is run: the two bounds of the metrics over many seeds, the others over few."""

    case: Case
    seeds: tuple[int, ...]
    bounds: tuple[float, ...]
    bound_seeds: tuple[int, ...]
    completing: tuple[float, ...]
    percentiles: tuple[float, ...]
    names: tuple[str, ...]

    @property
    def headline(self) -> Grid:
        """The bounds of the metrics."""
        return Grid(case=self.case, bounds=HEADLINE, seeds=self.seeds, names=self.names)

    @property
    def all_events(self) -> Grid:
        """All bounds, on the latency of all events."""
        return Grid(case=self.case, bounds=self.bounds, seeds=self.bound_seeds, names=self.names)

    @property
    def matches(self) -> Grid:
        """Bounds on the latency of events that complete matches."""
        return Grid(
            case=self.case,
            bounds=self.completing,
            seeds=self.bound_seeds,
            names=self.names,
            over="completing",
        )

    @property
    def percentile(self) -> Grid:
        """Bounds on the 95th percentile."""
        return Grid(
            case=self.case,
            bounds=self.percentiles,
            seeds=self.bound_seeds,
            names=("hybrid",),
            percentile=95.0,
        )

    def tasks(self) -> list[Task]:
        """Return all runs."""
        return [
            task
            for grid in (self.headline, self.all_events, self.matches, self.percentile)
            for task in grid.tasks()
        ]

    def metrics(self, found: Mapping[Task, Any]) -> dict[str, float]:
        """Return the metrics of recall."""
        headline, swept, matches = (grid.by(found) for grid in (self.headline, self.all_events, self.matches))
        any_all, best_all = largest(swept)
        any_matches, best_matches = largest(matches)
        held = [shown.held for by in (headline, swept, matches) for shown in by["hybrid"].values()]
        return metrics_of(headline) | {
            "recall.hybrid_over_any": max(any_all, any_matches),
            "recall.hybrid_over_best": max(best_all, best_matches),
            "bound_held": sum(held) / len(held),
        }
