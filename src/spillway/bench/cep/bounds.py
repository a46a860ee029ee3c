"""Figures 4 and 5, and the metrics of recall: Q1 under bounds from 10 to 90 % of the latency without shedding.

The paper bounds the latency of matches. Here that is ``over="completing"``. A bound on the latency of all events,
which is what keeps a stream from falling behind, is shown beside it, and the metrics are of that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillway.bench.cep.case import BASELINES, Case
from spillway.bench.cep.point import By, Grid, curves, largest, metrics_of, numbers, percents, ratios, told
from spillway.bench.cep.tasks import Task
from spillway.bench.join.drawing import Panel, draw
from spillway.bench.results import Figure

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
        (any_all, best_all), (any_matches, best_matches) = largest(swept), largest(matches)
        held = [shown.held for by in (headline, swept, matches) for shown in by["hybrid"].values()]
        return metrics_of(headline) | {
            "recall.hybrid_over_any": any_all,
            "recall.hybrid_over_any.completing": any_matches,
            "recall.hybrid_over_best": best_all,
            "recall.hybrid_over_best.completing": best_matches,
            "bound_held": sum(held) / len(held),
        }


def figure_4(plan: Bounds, found: Mapping[Task, Any], out: Path | None) -> Figure:
    """Show recall, speed and what was shed by bound."""
    swept, matches, headline = (grid.by(found) for grid in (plan.all_events, plan.matches, plan.headline))
    tight = ratios(headline, 0.1)
    hybrid = swept["hybrid"]
    checks = {
        "hybrid_is_best_at_every_bound": all(
            hybrid[bound].recall >= swept[name][bound].recall - 0.005 for name in swept for bound in hybrid
        ),
        "nothing_lost_at_half_the_latency": headline["hybrid"][0.5].recall >= 0.995,
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
        ours=f"At bounds of {percents(hybrid)}: recall {'; '.join(lines)}. Over {len(plan.seeds)} streams: "
        f"{headline['hybrid'][0.5].recall:.3f} at a half; at a tenth {headline['hybrid'][0.1].recall:.2f}, "
        + ", ".join(f"{ratio:.1f} times {name}" for name, ratio in tight.items())
        + ". With the bound on events that complete matches, "
        + f"{told([shown.recall for shown in matches['hybrid'].values()])} at {percents(matches['hybrid'])}, "
        + f"up to {largest(matches)[0]:.1f} times a baseline.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "all": numbers(swept),
            "completing": numbers(matches),
            "headline": numbers(headline),
        },
        files=_draw_4(swept, matches, out),
    )


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
