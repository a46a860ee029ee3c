"""Figure 6: which events and runs are chosen, when a fixed share of them goes whatever the latency (Section VI-C).

====================  ===============================================================================================
strategy              a share r goes of
====================  ===============================================================================================
``random_input``      events, at random
``selective_input``   events by type: of each as many are kept as is in proportion to its matches per event
``input``             events by class: those that bring fewest matches for their work first, by the cost model
``random_state``      all runs that would be made, at random
``selective_state``   runs by state: those of the state with the fewest matches per run first
``state``             runs by class, by the cost model; those from which no match comes directly last
====================  ===============================================================================================

Events are those of the types that the query names; others take next to no work. How many events and runs a class has
is counted on the first windows of the stream, without shedding. Runs go when they are made. An event of B may belong
to any sum a.V + b.V, so the cost model discards A and C only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cep.case import Case, Prepared, Shown
from benchmarks.cep.point import By, curves, numbers, told
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.arrays import Floats
from spillway.core.cep.shedding import Enforcer, Orders, Seen
from spillway.core.cep.shedding.enforcer import type_numbers

OF_EVENTS = ("input", "random_input", "selective_input")
OF_RUNS = ("state", "random_state", "selective_state")


class Fixed:
    """A strategy that always orders the same."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders

    def step(self, seen: Seen) -> Orders:  # noqa: ARG002
        """Order it."""
        return self.orders

    def snapshot(self) -> bytes:
        """Return nothing: there is nothing that it learns."""
        return b""

    def restore(self, state: bytes) -> None:
        """Go on as before."""


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """A task: one strategy with one ratio."""

    case: Case
    seed: int
    name: str
    ratio: float

    @property
    def group(self) -> Hashable:
        """Runs over the same events belong together."""
        return self.case, self.seed

    def run(self) -> Shown:
        """Return what came out."""
        case = self.case.prepare(self.seed)
        found = case.run(Fixed(orders_of(case, self.name, self.ratio)), salt=self.seed)
        return case.shown(found)


def orders_of(case: Prepared, name: str, ratio: float) -> Orders:
    """Return what a strategy sheds at a ratio."""
    if name in ("random_input", "selective_input"):
        named = np.ones(len(case.learned.selectivity) - 1)
        worth = np.array(case.learned.selectivity[:-1]) if name == "selective_input" else named
        return Orders(types=np.append(1.0 - in_proportion(worth, _named(case), 1.0 - ratio), 0.0))
    if name == "input":
        return _by_price(case, ratio * _named(case).sum())
    return Orders(refuse=_refused(case, name, ratio))


def _named(case: Prepared) -> Floats:
    """Return the share of all events that each type of the query has."""
    types = case.config.build().plan.types
    kinds = type_numbers(case.table["type"], types)
    shares: Floats = np.bincount(kinds, minlength=len(types) + 1)[:-1] / len(kinds)
    return shares


def in_proportion(worth: Floats, amount: Floats, kept: float) -> Floats:
    """Return the share of each group that stays, in proportion to its worth, so that a share of all stays.

    >>> in_proportion(np.array([1.0, 3.0]), np.array([5.0, 5.0]), 0.5).round(3).tolist()
    [0.25, 0.75]
    >>> in_proportion(np.array([1.0, 3.0]), np.array([5.0, 5.0]), 0.9).round(3).tolist()
    [0.8, 1.0]
    """
    low, high = 0.0, 1.0 / worth[worth > 0.0].min()
    for _ in range(60):
        middle = (low + high) / 2
        if (amount * np.minimum(1.0, middle * worth)).sum() > kept * amount.sum():
            high = middle
        else:
            low = middle
    stays: Floats = np.minimum(1.0, high * worth)
    return stays


def filled(worth: Floats, amount: Floats, ratio: float) -> Floats:
    """Return the share of each group that goes, the least worth first, until a share of the whole amount is gone.

    >>> filled(np.array([2.0, 0.0, 1.0]), np.array([1.0, 1.0, 2.0]), 0.5).tolist()
    [0.0, 1.0, 0.5]
    """
    left, shares = ratio * amount.sum(), np.zeros(worth.shape)
    for group in np.argsort(worth, axis=None, kind="stable"):
        at = np.unravel_index(group, worth.shape)
        if amount[at] > 0.0:
            shares[at] = min(1.0, left / amount[at])
            left = max(0.0, left - amount[at])
    return shares


def _refused(case: Prepared, name: str, ratio: float) -> Floats:
    shape = case.learned.gain.shape
    if name == "random_state":
        return np.full(shape, ratio)
    alive = _alive(case).sum(axis=2)
    gain, cost = (table.sum(axis=2) for table in (case.learned.gain, case.learned.cost))
    if name == "selective_state":
        runs = np.maximum(alive.sum(axis=1), 1e-9)
        shares = filled((alive * gain).sum(axis=1) / runs, runs, ratio)[:, None, None]
    else:
        direct = case.learned.model().last[:, None]  # with an earlier run goes all that would come of it
        shares = filled(np.where(direct, gain / np.maximum(cost, 1e-9), np.inf), alive, ratio)[:, :, None]
    return np.broadcast_to(shares, shape).copy()


def _by_price(case: Prepared, ratio: float) -> Orders:
    """Return which events go: all whose worth is below a price, and a part of those at it."""
    runs, events, steps = _prices(case)
    below = max((step for step in steps if step[1] <= ratio), key=lambda step: step[1])
    above = min((step for step in steps if step[1] > ratio), key=lambda step: step[1], default=below)
    part = 0.0 if above is below else (ratio - below[1]) / (above[1] - below[1])
    unwanted, gone = (
        np.where(worth <= below[0], 1.0, np.where(worth <= above[0], part, 0.0)) for worth in (runs, events)
    )
    return Orders(unwanted=unwanted, events=gone)


@lru_cache(maxsize=8)
def _prices(case: Prepared) -> tuple[Floats, Floats, list[tuple[float, float]]]:
    """Return the worth of runs and of events that complete matches, and by price the share of events that go."""
    model, events = case.learned.model(), case.learned.events().worth()
    gain, cost = (table.sum(axis=2, keepdims=True) for table in (model.gain, model.cost))
    runs = np.where(cost > 0.0, gain / np.maximum(cost, 1e-12), np.inf) * np.ones(model.gain.shape)
    few = replace(case, table=case.table.slice(0, min(case.table.num_rows, 4000)))
    values = np.concatenate([runs.ravel(), events])
    steps = [(-1.0, 0.0)]
    for price in np.unique(values[np.isfinite(values)]):
        orders = Orders(
            unwanted=(runs <= price).astype(np.float64), events=(events <= price).astype(np.float64)
        )
        steps.append((float(price), few.run(Fixed(orders)).discarded_share))
    return runs, events, steps


@lru_cache(maxsize=8)
def _alive(case: Prepared) -> Floats:
    """Return how many runs there are without shedding, by state, class and slice."""
    kept: list[Floats] = []

    def note(enforcer: Enforcer) -> None:
        kept[:] = [enforcer.patterns.alive().astype(np.float64)]

    few = replace(case, table=case.table.slice(0, case.since))
    few.run(None, each=note)
    return kept[0]


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """What is run."""

    case: Case
    events: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4)
    runs: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    seeds: tuple[int, ...] = (11, 12)

    def _points(self, name: str, ratio: float) -> list[FixedPoint]:
        return [FixedPoint(case=self.case, seed=seed, name=name, ratio=ratio) for seed in self.seeds]

    def _wanted(self) -> list[tuple[str, float]]:
        events = [(name, ratio) for name in OF_EVENTS for ratio in self.events]
        return events + [(name, ratio) for name in OF_RUNS for ratio in self.runs]

    def tasks(self) -> list[Task]:
        """Return all runs."""
        return [point for name, ratio in self._wanted() for point in self._points(name, ratio)]

    def by(self, found: Mapping[Task, Any]) -> By:
        """Return the means by strategy and ratio."""
        by: By = {}
        for name, ratio in self._wanted():
            several = [found[point] for point in self._points(name, ratio)]
            by.setdefault(name, {})[ratio] = Shown.mean(several)
        return by


def figure_6(plan: Ratios, found: Mapping[Task, Any], out: Path | None) -> Figure:
    """Show recall and speed by ratio."""
    by = plan.by(found)
    events, runs = ({name: by[name] for name in names} for names in (OF_EVENTS, OF_RUNS))
    half = {name: of[0.5].recall for name, of in runs.items()} if 0.5 in plan.runs else {}
    checks = {
        "best_of_events": all(
            by["input"][r].recall >= max(by[name][r].recall for name in OF_EVENTS) - 0.01 for r in plan.events
        ),
        "best_of_runs": all(
            by["state"][r].recall >= max(by[name][r].recall for name in OF_RUNS) - 0.01 for r in plan.runs
        ),
        "nothing_lost_with_half_of_the_runs": half.get("state", 1.0) >= 0.99,
    }
    lines = [
        f"{name} {told([shown.recall for shown in of.values()])}" for name, of in (events | runs).items()
    ]
    return Figure(
        title="Q1: a fixed share of events or runs is shed",
        paper="The cost model's choice has the best recall; with half of the runs shed it keeps all matches, where "
        "random and selectivity-based choices keep 30 %.",
        ours=f"Events, {told(plan.events)}: recall {'; '.join(lines[:3])}. Runs, {told(plan.runs, 1)}: "
        f"{'; '.join(lines[3:])}.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers(by)},
        files=draw(
            [
                Panel(title=title, x=x, y=y, curves=curves(of, what), log_y=what == "speed")
                for of, x, titles in ((events, "share of events", "ab"), (runs, "share of runs", "cd"))
                for title, what, y in (
                    (f"{titles[0]}: recall", "recall", "recall"),
                    (f"{titles[1]}: speed", "speed", "times the speed without shedding"),
                )
            ],
            out,
            "cep-6",
        ),
    )
