"""Figure 10: the error against the share of the rows that is processed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.groups.comparison import Outcome, by_rule, uniform_at
from benchmarks.groups.errors import share_for
from benchmarks.groups.windows import Stream
from benchmarks.results import Figure
from spillway.report.plots import CYCLE, panels, save

PAPER_SHARES = (0.02, 0.1, 0.25, 0.5)
"""What is processed of a window in the paper's Figure 10."""

MORE_SHARES = (0.05, 0.75, 0.9, 0.95, 0.99)
"""What uniform processes beside: where its error falls to cod's lies beyond the paper's shares."""

_TICKS = (2, 5, 10, 25, 50, 100)


@dataclass(frozen=True, eq=False)
class Volume:
    """The error of both methods at each share; the share of cod is the one that it really processed."""

    uniform: Mapping[float, Outcome]
    cod: Mapping[float, Outcome]

    @property
    def times_the_data(self) -> float:
        """How many times as many rows uniform has to process to have the error that cod has at 98 % shedding."""
        cod = self.cod[PAPER_SHARES[0]]
        shares = np.array(list(self.uniform))
        errors = np.array([found.error for found in self.uniform.values()])
        return share_for(cod.error, shares, errors) / cod.kept_share

    def numbers(self) -> dict[str, dict[str, list[float]]]:
        """Return both curves."""
        return {
            name: {
                "processed": [found.kept_share for found in curve.values()],
                "error": [found.error for found in curve.values()],
                "missing_groups": [found.missing_groups for found in curve.values()],
            }
            for name, curve in (("uniform", self.uniform), ("cod", self.cod))
        }


def volume(stream: Stream, *, salts: Sequence[int], more: Sequence[float] = MORE_SHARES) -> Volume:
    """Measure both methods at the paper's shares, and uniform at some more."""
    shares = sorted({*PAPER_SHARES, *more})
    return Volume(
        uniform={share: uniform_at(stream, share=share, salts=salts) for share in shares},
        cod={
            share: by_rule(stream, keep_ratio=share, salts=salts, rule="variance") for share in PAPER_SHARES
        },
    )


def figure_10(found: Mapping[str, Volume], out: Path | None) -> Figure:
    """Compare the curves; the paper has them for DEBS only."""
    shown = "debs"
    debs = found[shown]
    uniform, cod = ([curve[share].error for share in PAPER_SHARES] for curve in (debs.uniform, debs.cod))
    shares = np.array(PAPER_SHARES)
    slopes = np.diff(uniform) / np.diff(shares)
    checks = {
        "uniform_falls_with_the_data": bool((slopes < 0.0).all()),
        "uniform_falls_almost_linearly": abs(float(np.corrcoef(shares, uniform)[0, 1])) > 0.95,
        "cod_at_2_percent_beats_uniform_at_50": cod[0] < uniform[-1],
        "cod_is_lower_everywhere": all(
            each.cod[share].error <= each.uniform[share].error + 1e-9
            for name, each in found.items()
            if name != "packets"
            for share in PAPER_SHARES
        ),
    }
    return Figure(
        title="Error against the data that is processed",
        paper="DEBS at 2, 10, 25 and 50 %: uniform's error falls almost linearly from above 80 %; CoD's is much "
        "lower than uniform's with a 25th of the data.",
        ours=f"Rides made up in that shape, same shares: {_percents(uniform)} with uniform and {_percents(cod)} with "
        "cod. In this order, uniform needs "
        + ", ".join(f"{each.times_the_data:.1f} ({name})" for name, each in found.items())
        + " times the rows that cod processes at 98 % shedding to be as right.",
        holds=all(checks.values()),
        numbers={"checks": checks, "curves": {name: each.numbers() for name, each in found.items()}},
        files=_draw(found, out) if out is not None else [],
    )


def _percents(errors: Sequence[float]) -> str:
    return ", ".join(f"{100 * error:.1f}" for error in errors) + " %"


def _draw(found: Mapping[str, Volume], out: Path) -> list[str]:
    columns = 4
    with panels(-(-len(found) // columns), columns, width=11.0, height=2.5) as (figure, axes):
        for axis, (name, each) in zip(axes, found.items(), strict=False):
            for colour, (method, curve) in zip(CYCLE, each.numbers().items(), strict=False):
                points = [100.0 * share for share in curve["processed"]]
                axis.plot(points, curve["error"], marker="o", markersize=3, color=colour, label=method)
            axis.set(title=name, xscale="log", xlabel="processed (%)", ylim=(0.0, None))
            axis.set_xticks(_TICKS, [str(tick) for tick in _TICKS])
            axis.minorticks_off()
        for axis in axes[len(found) :]:
            axis.set_visible(False)
        for axis in axes[::columns]:
            axis.set_ylabel("mean relative error")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return save(figure, out, "groups-10-error-against-data")
