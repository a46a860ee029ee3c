"""Figures 4 and 5, and the metrics of recall: Q1 under bounds from 10 to 90 % of the latency without shedding.

The paper bounds the latency of matches: the time from the last event of a match to its detection. Here that is
``over="completing"``, and the metrics are of it. A bound on the latency of all events, which is what keeps a stream
from falling behind, is shown beside it, with metrics of its own (``all_events.*``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cep.case import BASELINES, Case
from benchmarks.cep.point import By, Grid, curves, largest, metrics_of, numbers, percents, ratios, told
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.cep.shedding.load_monitor import Over

HEADLINE = (0.5, 0.1)
INPUT, STATE = BASELINES[:2], BASELINES[2:]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What is run: the two bounds of the metrics over many seeds, the others over few.

    ``bounds`` are those on the latency of all events, ``completing`` those on the latency of matches.
    """

    case: Case
    seeds: tuple[int, ...]
    bounds: tuple[float, ...]
    bound_seeds: tuple[int, ...]
    completing: tuple[float, ...]
    percentiles: tuple[float, ...]
    names: tuple[str, ...]

    @property
    def headline(self) -> Grid:
        """The bounds of the metrics, on the latency of matches."""
        return self._grid(HEADLINE, self.seeds, "completing")

    @property
    def all_headline(self) -> Grid:
        """The same on the latency of all events."""
        return self._grid(HEADLINE, self.seeds)

    @property
    def all_events(self) -> Grid:
        """All bounds, on the latency of all events."""
        return self._grid(self.bounds, self.bound_seeds)

    @property
    def matches(self) -> Grid:
        """All bounds, on the latency of matches."""
        return self._grid(self.completing, self.bound_seeds, "completing")

    def _grid(self, bounds: tuple[float, ...], seeds: tuple[int, ...], over: Over = "all") -> Grid:
        return Grid(case=self.case, bounds=bounds, seeds=seeds, names=self.names, over=over)

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
            for grid in (self.headline, self.all_headline, self.all_events, self.matches, self.percentile)
            for task in grid.tasks()
        ]

    def metrics(self, found: Mapping[Task, Any]) -> dict[str, float]:
        """Return the metrics of recall."""
        swept, matches = self.all_events.by(found), self.matches.by(found)
        (any_all, best_all), (any_matches, best_matches) = largest(swept), largest(matches)
        return (
            metrics_of(self.headline.by(found))
            | metrics_of(self.all_headline.by(found), "all_events.")
            | {
                "recall.hybrid_over_any": any_matches,
                "recall.hybrid_over_best": best_matches,
                "all_events.recall.hybrid_over_any": any_all,
                "all_events.recall.hybrid_over_best": best_all,
            }
        )


def figure_4(plan: Bounds, found: Mapping[Task, Any], out: Path | None) -> Figure:
    """Show recall, speed and what was shed by bound."""
    swept, matches = plan.all_events.by(found), plan.matches.by(found)
    headline, beside = plan.headline.by(found), plan.all_headline.by(found)
    tight, all_tight = ratios(headline, 0.1), ratios(beside, 0.1)
    hybrid = swept["hybrid"]
    checks = {
        "hybrid_is_best_at_every_bound": all(
            hybrid[bound].recall >= swept[name][bound].recall - 0.005 for name in swept for bound in hybrid
        ),
        "at_most_half_a_percent_lost_at_half_the_latency": headline["hybrid"][0.5].recall >= 0.995,
        "five_times_the_best_input_based_at_a_tenth": min(tight[name] for name in INPUT) >= 5.0,
        "half_more_than_the_best_state_based_at_a_tenth": min(tight[name] for name in STATE) >= 1.5,
        "bounds_held": min(shown.held for shown in headline["hybrid"].values()) >= 0.95,
    }
    lines = [
        f"{name} {told([shown.recall for shown in of.values()])}"
        for name, of in swept.items()
        if name in ("hybrid", "random_input", "random_state")
    ]
    return Figure(
        title="Q1: recall, speed and what is shed, by the bound on the mean latency",
        paper="Recall 1 for bounds of 50 to 90 % of the latency, then falling; baselines fall at once. State-based "
        "baselines have more recall, input-based ones more speed; the hybrid is nearly as fast as these.",
        ours=f"Latency of matches, over {len(plan.seeds)} streams: {headline['hybrid'][0.5].recall:.3f} at a half; "
        f"at a tenth {headline['hybrid'][0.1].recall:.2f}, {_times(tight)}; at {percents(matches['hybrid'])} "
        f"{told([shown.recall for shown in matches['hybrid'].values()])}, up to {largest(matches)[0]:.1f} times a "
        f"baseline. Latency of all events: {beside['hybrid'][0.5].recall:.3f} at a half; at a tenth "
        f"{beside['hybrid'][0.1].recall:.2f}, {_times(all_tight)}; at {percents(hybrid)}: {'; '.join(lines)}.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "all": numbers(swept),
            "completing": numbers(matches),
            "headline": numbers(headline),
            "all_headline": numbers(beside),
        },
        files=_draw_4(swept, matches, out),
    )


def _times(ratio_of: Mapping[str, float]) -> str:
    return ", ".join(f"{ratio:.1f} times {name}" for name, ratio in ratio_of.items())


def _draw_4(swept: By, matches: By, out: Path | None) -> list[str]:
    shown = [
        ("a: recall", "recall", "recall", swept),
        ("recall, latency of matches", "recall", "recall", matches),
        ("b: speed, latency of matches", "speed", "times the speed without shedding", matches),
        ("c: events discarded", "discarded", "share of events", swept),
        ("d: runs shed", "shed_runs", "runs removed or not made", swept),
    ]
    return draw(
        [
            Panel(
                title=title,
                x="bound, share of the latency",
                y=y,
                curves=curves(by, what),
                log_y=what == "speed",
            )
            for title, what, y, by in shown
        ],
        out,
        "cep-4",
    )


def figure_5(plan: Bounds, found: Mapping[Task, Any], out: Path | None) -> Figure:
    """Show how many events and runs the hybrid sheds."""
    mean, high = ({"hybrid": grid.by(found)["hybrid"]} for grid in (plan.all_events, plan.percentile))
    events = [shown.discarded for shown in mean["hybrid"].values()]
    runs = [shown.shed_runs for shown in mean["hybrid"].values()]
    checks = {
        "tighter_bounds_discard_more_events": events[0] == max(events),
        "then_there_are_fewer_runs_to_shed": runs[0] < max(runs),
        "percentiles_too": high["hybrid"][min(high["hybrid"])].discarded
        >= high["hybrid"][max(high["hybrid"])].discarded,
    }
    return Figure(
        title="Q1: events and runs that the hybrid sheds, by the bound",
        paper="A turning point at half of the latency (0.7 of the 95th percentile): below it more events are "
        "discarded and fewer runs shed.",
        ours=f"Bounds of {percents(mean['hybrid'])}: {told(events)} of the events "
        f"and {told([count / 1e6 for count in runs])} million runs.",
        holds=all(checks.values()),
        numbers={"checks": checks, "mean": numbers(mean), "percentile_95": numbers(high)},
        files=draw(
            [
                Panel(title=title, x="bound, share of the latency", y=y, curves=curves(by, what))
                for by, words in ((mean, "mean"), (high, "95th percentile"))
                for what, title, y in (
                    ("discarded", f"events, {words}", "share of events"),
                    ("shed_runs", f"runs, {words}", "runs removed or not made"),
                )
            ],
            out,
            "cep-5",
        ),
    )
