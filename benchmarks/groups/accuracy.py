"""Figure 9: mean and 95th percentile of the windows' errors, method by method, at 98 % shedding.

Beside it stands what the figure would not show: how each rule does, and a query on which no rule helps. The mean
absolute delay per route varies within the route as much as between routes, so that a few rows of each say little
about it, whichever they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.groups.comparison import Outcome, SideBySide, by_rule, side_by_side
from benchmarks.groups.errors import ratio
from benchmarks.groups.scalar_rule import Met
from benchmarks.groups.windows import Stream
from benchmarks.results import Figure
from spillway.core.groups import Rule
from spillway.report.plots import CYCLE, panels, save

KEEP_RATIO = 0.02
_OTHER_RULES: tuple[Rule, ...] = ("proportional", "equal")
LIMIT = "flights_delay"
"""The query that varies within its groups."""


@dataclass(frozen=True, eq=False)
class Compared:
    """One stream: the methods side by side, and the rules."""

    methods: SideBySide
    rules: Mapping[str, Outcome]

    @property
    def uniform_over_cod(self) -> float:
        """How many times uniform's error is cod's."""
        return ratio(self.methods.uniform.error, self.methods.cod.error)

    @property
    def oasrs_over_cod(self) -> float:
        """How many times the error of reservoirs of one size is cod's."""
        return ratio(self.methods.oasrs.error, self.methods.cod.error)

    def uniform_over(self, rule: str) -> float:
        """Return how many times uniform's error is that of a rule, over the salts that the rule has."""
        found = self.rules[rule]  # windows of one salt follow those of the salt before
        return ratio(float(np.mean(self.methods.uniform.errors[: len(found.errors)])), found.error)

    def numbers(self) -> dict[str, Any]:
        """Return what is reported of the stream."""
        return {
            **{name: outcome.numbers() for name, outcome in self.methods.outcomes.items()},
            "uniform_over_rule": {rule: self.uniform_over(rule) for rule in self.rules},
            "coverage95": self.methods.coverage.numbers(),
        }


def compared(stream: Stream, *, salts: Sequence[int], rule_salts: Sequence[int]) -> Compared:
    """Measure methods and rules at the same number of processed rows; the other rules with fewer salts."""
    methods = side_by_side(stream, keep_ratio=KEEP_RATIO, salts=salts)
    rules: dict[str, Outcome] = {
        rule: by_rule(stream, keep_ratio=KEEP_RATIO, salts=rule_salts, rule=rule) for rule in _OTHER_RULES
    }
    return Compared(methods, {**rules, "variance": methods.cod})


def figure_9(
    found: Mapping[str, Compared], limit: Compared | None, met: Sequence[Met], out: Path | None
) -> Figure:
    """Compare methods on all streams."""
    errors = {name: each.methods for name, each in found.items()}
    checks: dict[str, bool] = {
        "cod_at_least_10_times_better_on_debs": found["debs"].uniform_over_cod >= 10.0,
        "cod_below_10_percent_on_debs": errors["debs"].cod.error_p95 <= 0.1,
        "uniform_above_80_percent_on_debs": errors["debs"].uniform.error > 0.8,
    }
    if "google_class" in found:
        checks["cod_below_10_percent_on_google_class"] = errors["google_class"].cod.error < 0.1
        checks["uniform_above_40_percent_on_google_class"] = errors["google_class"].uniform.error > 0.4
    if "packets" in found:
        checks["alike_on_packets"] = 0.9 <= found["packets"].uniform_over_cod <= 1.5
    return Figure(
        title="Average and 95th percentile of the windows' errors at 98 % shedding",
        paper="Same for both on DEC (no groups); GCM: uniform above 40 %, CoD below 10 %; DEBS: uniform above 80 %, "
        "CoD close to 10 % in mean and 95th percentile.",
        ours="Mean error of uniform, oasrs and cod: "
        + "; ".join(
            f"{name} {100 * of.uniform.error:.1f}, {100 * of.oasrs.error:.1f}, {100 * of.cod.error:.1f} %"
            for name, of in errors.items()
        )
        + "."
        + _told_of_scalars(found)
        + _told_of_classes(errors)
        + _told_of_limit(limit)
        + "".join(
            f" A mean frame size to {each.accuracy} took {100 * each.processed:.0f} % of the rows; {each.within} of "
            f"{each.windows} windows were within."
            for each in met
        ),
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "keep_ratio": KEEP_RATIO,
            "streams": {name: each.numbers() for name, each in found.items()},
            "limit": None if limit is None else {"stream": LIMIT, **limit.numbers()},
            "accuracy_rule": [
                {
                    "asked": each.accuracy,
                    "windows": each.windows,
                    "within": each.within,
                    "processed": each.processed,
                }
                for each in met
            ],
        },
        files=_draw(errors, out) if out is not None else [],
    )


def _told_of_scalars(found: Mapping[str, Compared]) -> str:
    if "packets" not in found:
        return ""
    times = found["packets"].uniform_over_cod
    return (
        " Without groups cod differs from uniform only in drawing its rows evenly over time: uniform's error is "
        f"{times:.2f} times as large."
    )


def _told_of_classes(errors: Mapping[str, SideBySide]) -> str:
    if "google_class" not in errors or errors["google_class"].uniform.error > 0.4:
        return ""
    missing = errors["google_class"].uniform.missing_groups
    return (
        " Per scheduling class uniform does better than in the paper: there are four, the rarest has dozens of rows "
        f"a window, and {missing:.2f} of them are missing on average."
    )


def _told_of_limit(limit: Compared | None) -> str:
    if limit is None:
        return ""
    ratios = ", ".join(f"{limit.uniform_over(rule):.2f}" for rule in limit.rules)
    return (
        f" No rule helps where values vary within groups: on the mean absolute delay per route uniform has "
        f"{ratios} times the error of the rules ({', '.join(limit.rules)})."
    )


def _draw(errors: Mapping[str, SideBySide], out: Path) -> list[str]:
    places = np.arange(len(errors))
    with panels(1, 2, width=10.0, height=3.2) as (figure, axes):
        for axis, field in zip(axes, ("error", "error_p95"), strict=True):
            for at, name in enumerate(("uniform", "oasrs", "cod")):
                heights = [getattr(of.outcomes[name], field) for of in errors.values()]
                axis.bar(places + 0.27 * (at - 1), heights, 0.25, color=CYCLE[at], label=name)
            axis.set(xticks=places, ylim=(0.0, 1.0), title="mean" if field == "error" else "95th percentile")
            axis.set_xticklabels(list(errors), rotation=30, ha="right")
        axes[0].set_ylabel("relative error")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, out, "groups-9-errors")
