"""Figure 14: a query with a negated element may have matches invented (Section VI-H).

Q4 over DS1 with 5 to 50 % of B, which must not come between A and C. A tenth of the runs goes, chosen by the cost
model; beside it a tenth of the events at random. A run that is shed takes nothing away that forbids: rows of B are
not runs in this engine, and hybrid shedding never discards them. The paper's engine loses precision there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.cep.case import Case
from benchmarks.cep.data import DS1
from benchmarks.cep.fixed_ratio import Fixed, orders_of
from benchmarks.cep.point import told
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.cep.language.listings import Q4
from spillway.core.cep.shedding import precision

RATIO = 0.1
NAMES = {"state": "runs by the cost model", "random_input": "events at random"}


@dataclass(frozen=True, kw_only=True)
class NegationPoint:
    """A task: one share of B and one strategy; what comes out is recall and precision."""

    b_share: float
    windows: int
    name: str
    seed: int

    @property
    def case(self) -> Case:
        """The stream."""
        return Case(
            query=Q4, window=1000, windows=self.windows, stream=DS1(b_share=self.b_share), history_windows=8
        )

    @property
    def group(self) -> Hashable:
        """Runs over the same events belong together."""
        return self.case, self.seed

    def run(self) -> tuple[float, float]:
        """Return recall and precision over the whole stream."""
        case = self.case.prepare(self.seed)
        truth = case.run(None, keep_matches=True).found
        found = case.run(Fixed(orders_of(case, self.name, RATIO)), salt=self.seed, keep_matches=True).found
        if truth is None or found is None:
            return 1.0, 1.0
        right = precision(found, truth)
        return right * found.num_rows / max(1, truth.num_rows), right


@dataclass(frozen=True, kw_only=True)
class Negation:
    """What is run."""

    b_shares: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    windows: int = 12
    seeds: tuple[int, ...] = (11, 12)

    def _points(self, share: float, name: str) -> list[NegationPoint]:
        return [
            NegationPoint(b_share=share, windows=self.windows, name=name, seed=seed) for seed in self.seeds
        ]

    def tasks(self) -> list[Task]:
        """Return all runs."""
        return [point for name in NAMES for share in self.b_shares for point in self._points(share, name)]

    def by(self, found: Mapping[Task, Any]) -> dict[str, list[tuple[float, float]]]:
        """Return recall and precision by strategy and share, the mean over seeds."""
        by: dict[str, list[tuple[float, float]]] = {}
        for name in NAMES:
            for share in self.b_shares:
                several = [found[point] for point in self._points(share, name)]
                by.setdefault(name, []).append((fmean(r for r, _ in several), fmean(p for _, p in several)))
        return by


def figure_14(plan: Negation, found: Mapping[Task, Any], out: Path | None) -> Figure:
    """Show recall and precision by the share of B."""
    by = plan.by(found)
    recall, exact = ({name: [pair[n] for pair in of] for name, of in by.items()} for n in (0, 1))
    checks = {
        "recall_is_stable": max(recall["state"]) - min(recall["state"]) < 0.1,
        "runs_invent_nothing": min(exact["state"]) == 1.0,
        "events_at_random_invent_some": max(exact["random_input"]) < 1.0,
    }
    return Figure(
        title="Q4: recall and precision by the share of the negated type",
        paper="With a tenth of the runs shed recall is stable and precision falls as the share of B rises.",
        ours=f"{told(plan.b_shares)} of B: recall {told(recall['state'])}, precision {told(exact['state'])} with "
        f"runs shed by the cost model; {told(recall['random_input'])} and {told(exact['random_input'])} with a tenth "
        "of the events discarded at random. Runs that are shed invent nothing here.",
        holds=all(checks.values()),
        numbers={"checks": checks, "b_shares": list(plan.b_shares), "recall": recall, "precision": exact},
        files=draw(
            [
                Panel(
                    title=title,
                    x="share of B",
                    y=title,
                    curves={label: (plan.b_shares, of[name]) for name, label in NAMES.items()},
                )
                for title, of in (("recall", recall), ("precision", exact))
            ],
            out,
            "cep-14",
        ),
    )
