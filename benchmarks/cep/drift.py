"""Figure 12: the stream changes, and what was worth most is worth nothing (Section VI-F).

Values of C change from 2..10 to 12..20: sums that completed nothing before are all that counts now. The bound is 40 %
of the mean latency, windows are 1,000 to 8,000 events. Recall is counted by quarters of a window.
``adapt.recall_after`` is recall in the second window after the change, with the longest of the windows: that of Q1 as
printed. Shorter ones have metrics of their own; the shortest do not come to 0.9 before the change either, since a
larger part of their work is to make runs, which the bound leaves room for first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.cep.case import Case
from benchmarks.cep.data import DS1
from benchmarks.cep.point import told
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.cep import TriggerConfig, WatchConfig
from spillway.core.cep.shedding import strategy_of

BOUND = 0.4
BEFORE, AFTER = 4, 5
PARTS = 4
CHANGE = (BEFORE - 2) * PARTS
"""The first part after the change; what is counted begins with the third window."""


@dataclass(frozen=True, kw_only=True)
class DriftPoint:
    """A task: one window and seed; what comes out is recall by quarters of a window, and how often the bound held."""

    window: int
    seed: int

    @property
    def case(self) -> Case:
        """The stream with its change."""
        return Case.of_q1(
            self.window / 1000,
            BEFORE + AFTER,
            stream=DS1(drift_at=BEFORE * self.window),
            history_stream=DS1(),
        )

    @property
    def group(self) -> Hashable:
        """Each stream is run over once."""
        return self

    def run(self) -> tuple[list[float], float]:
        """Return recall by quarters of a window from the third on, and the share of intervals held."""
        case = self.case.prepare(self.seed)
        unshed_s = case.unshed_s()
        bound_s = BOUND * unshed_s
        watch = WatchConfig(trigger=TriggerConfig(bound_s=bound_s))
        strategy = strategy_of("hybrid", watch, case.learned, unshed_s=unshed_s)
        found = case.run(strategy, salt=self.seed)
        part = self.window // PARTS
        there, seen = (
            each.matches[case.since :].reshape(-1, part).sum(axis=1) for each in (case.truth, found)
        )
        recall = seen / np.maximum(1, there)
        return recall.tolist(), found.held(bound_s, since=case.since)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What is run."""

    windows: tuple[int, ...] = (1000, 2000, 4000, 8000)
    seeds: tuple[int, ...] = (11, 12, 13, 14)

    def tasks(self) -> list[Task]:
        """Return all runs."""
        return [DriftPoint(window=window, seed=seed) for window in self.windows for seed in self.seeds]

    def recall(self, found: Mapping[Task, Any]) -> dict[int, list[float]]:
        """Return recall by window and quarter, the mean over seeds."""
        several = {
            window: [found[DriftPoint(window=window, seed=seed)][0] for seed in self.seeds]
            for window in self.windows
        }
        return {window: [fmean(each) for each in zip(*of, strict=True)] for window, of in several.items()}

    def metrics(self, found: Mapping[Task, Any]) -> dict[str, float]:
        """Return recall in the second window after the change: of the longest, and by window, with that before."""
        recall = self.recall(found)
        after = {window: _second(of) for window, of in recall.items()}
        each = {f"adapt.recall_after.{window // 1000}k": value for window, value in after.items()}
        usual = {
            f"adapt.recall_before.{window // 1000}k": fmean(of[:CHANGE]) for window, of in recall.items()
        }
        return {"adapt.recall_after": after[max(after)]} | each | usual


def _second(recall: list[float]) -> float:
    return fmean(recall[CHANGE + PARTS : CHANGE + 2 * PARTS])


def figure_12(plan: Drift, found: Mapping[Task, Any], out: Path | None) -> Figure:
    """Show recall over time."""
    recall = plan.recall(found)
    before = {window: fmean(of[:CHANGE]) for window, of in recall.items()}
    second = {window: _second(of) for window, of in recall.items()}
    checks = {
        "falls_to_nothing": all(min(of[CHANGE : CHANGE + 2]) < 0.3 for of in recall.values()),
        "back_above_nine_tenths_in_the_second_window": second[max(second)] > 0.9,
        "short_windows_are_back_where_they_were": all(second[w] > 0.95 * before[w] for w in second),
    }
    return Figure(
        title="Q1: recall when the values of C change from 2..10 to 12..20",
        paper="Recall drops to 0 at the change and comes back quickly, sooner with small windows.",
        ours=f"Windows of {', '.join(f'{window:,}' for window in plan.windows)} events: recall "
        f"{told([*before.values()])} before the change, {told([of[CHANGE] for of in recall.values()])} in the "
        f"quarter of a window after it, {told([*second.values()])} in the second window.",
        holds=all(checks.values()),
        numbers={"checks": checks, "recall_by_quarter": {str(w): of for w, of in recall.items()}},
        files=draw(
            [
                Panel(
                    title="recall",
                    x="windows since the change",
                    y="recall",
                    curves={
                        f"{window:,} events": ([(n + 0.5 - CHANGE) / PARTS for n in range(len(of))], of)
                        for window, of in recall.items()
                    },
                )
            ],
            out,
            "cep-12",
        ),
    )
