"""One run of a case under a strategy and a bound, and grids of them: what most figures are made of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from benchmarks.cep.case import BASELINES, COMPARED, SHORT, Prepared, Shown
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Curve
from spillway.core.cep.shedding.load_monitor import Over


class Preparing(Protocol):
    """Something that events, a query and what was learned come from; a value."""

    def prepare(self, seed: int) -> Prepared:
        """Return the case with the events of a seed."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A task: one case, seed, strategy and bound."""

    case: Preparing
    seed: int
    name: str
    bound: float
    over: Over = "all"
    percentile: float | None = None

    @property
    def group(self) -> Hashable:
        """Runs over the same events belong together."""
        return self.case, self.seed

    @property
    def weight(self) -> int:
        """How many times as long as others it takes, roughly."""
        return int(getattr(self.case, "weight", 1))

    def run(self) -> Shown:
        """Return what came out."""
        return self.case.prepare(self.seed).shed(
            self.name, self.bound, over=self.over, percentile=self.percentile, salt=self.seed
        )


By = dict[str, dict[float, Shown]]
"""What came out, by strategy and bound."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Several strategies under several bounds, each the mean over seeds."""

    case: Preparing
    bounds: tuple[float, ...]
    seeds: tuple[int, ...] = (11,)
    names: tuple[str, ...] = COMPARED
    over: Over = "all"
    percentile: float | None = None

    def tasks(self) -> list[Task]:
        """Return all points."""
        return [point for name in self.names for bound in self.bounds for point in self._points(name, bound)]

    def _points(self, name: str, bound: float) -> list[Point]:
        return [
            Point(
                case=self.case,
                seed=seed,
                name=name,
                bound=bound,
                over=self.over,
                percentile=self.percentile,
            )
            for seed in self.seeds
        ]

    def by(self, found: Mapping[Task, Any]) -> By:
        """Return the means by strategy and bound."""
        return {
            name: {
                bound: Shown.mean([found[point] for point in self._points(name, bound)])
                for bound in self.bounds
            }
            for name in self.names
        }


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Several strategies under one bound in several cases, each with the number that it is drawn at."""

    cases: tuple[tuple[float, Preparing], ...]
    bound: float
    seeds: tuple[int, ...] = (11,)
    names: tuple[str, ...] = COMPARED
    over: Over = "all"
    percentile: float | None = None

    def tasks(self) -> list[Task]:
        """Return all points."""
        return [task for _, case in self.cases for task in self._grid(case).tasks()]

    def _grid(self, case: Preparing) -> Grid:
        return Grid(
            case=case,
            bounds=(self.bound,),
            seeds=self.seeds,
            names=self.names,
            over=self.over,
            percentile=self.percentile,
        )

    def by(self, found: Mapping[Task, Any]) -> By:
        """Return the means by strategy and number."""
        at = {x: self._grid(case).by(found) for x, case in self.cases}
        return {name: {x: by[name][self.bound] for x, by in at.items()} for name in self.names}


def curves(by: By, what: str) -> dict[str, Curve]:
    """Return one of the values shown as a curve per strategy, to be drawn."""
    return {
        SHORT[name]: (list(of), [float(getattr(shown, what)) for shown in of.values()])
        for name, of in by.items()
    }


def numbers(by: By) -> dict[str, Any]:
    """Return everything shown, by strategy, as plain lists."""
    return {
        name: {
            "x": list(of),
            **{field.name: [getattr(shown, field.name) for shown in of.values()] for field in fields(Shown)},
        }
        for name, of in by.items()
    }


def ratios(by: By, bound: float) -> dict[str, float]:
    """Return how many times the recall of each baseline the hybrid has."""
    return {name: over_floor(by["hybrid"][bound], by[name][bound]) for name in BASELINES if name in by}


def over_floor(hybrid: Shown, other: Shown) -> float:
    """Return a ratio of recalls; the other one counts as if it had found a match at least."""
    return hybrid.recall / max(other.one_match, other.recall)


def largest(by: By) -> tuple[float, float]:
    """Return the largest ratio over any baseline, and over the best one, at whatever bound."""
    at = [ratios(by, bound).values() for bound in by["hybrid"]]
    return max(max(each) for each in at), max(min(each) for each in at)


def metrics_of(by: By, prefix: str = "") -> dict[str, float]:
    """Return recalls, ratios at tight bounds and how often the hybrid held its bounds."""
    found = {
        f"{prefix}recall.{name}.bound{100 * bound:.0f}": shown.recall
        for name, of in by.items()
        for bound, shown in of.items()
        if bound in (0.5, 0.2, 0.1)
    }
    for bound in by["hybrid"]:
        for name, ratio in ratios(by, bound).items() if bound < 0.5 else ():
            found[f"{prefix}recall.hybrid_over_{SHORT[name].lower()}.bound{100 * bound:.0f}"] = ratio
    held = [shown.held for shown in by["hybrid"].values()]
    return found | {f"{prefix}bound_held": sum(held) / len(held)}


def percents(bounds: Iterable[float]) -> str:
    """Return bounds as percentages.

    >>> percents((0.1, 0.5))
    '10, 50 %'
    """
    return ", ".join(f"{100 * bound:.0f}" for bound in bounds) + " %"


def told(values: Sequence[float], places: int = 2) -> str:
    """Return numbers as a list in words."""
    return ", ".join(f"{value:.{places}f}" for value in values)
