"""Plots of this suite: panels of curves, drawn only where a folder is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillway.report.plots import CYCLE, panels, save

Curve = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves by their label; those whose label begins as an earlier one's, up to a comma, have its colour."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Curve]
    log_x: bool = False
    log_y: bool = False
    markers: bool = True


def draw(shown: Sequence[Panel], out: Path | None, name: str) -> list[str]:
    """Draw panels side by side and return the files' names; none without a folder."""
    if out is None:
        return []
    with panels(1, len(shown), width=4.6 * len(shown), height=3.4) as (figure, axes):
        for axis, panel in zip(axes, shown, strict=True):
            families = list(dict.fromkeys(label.partition(",")[0] for label in panel.curves))
            seen: dict[str, int] = {}
            for label, (x, y) in panel.curves.items():
                family = label.partition(",")[0]
                style = ("-", "--", ":", "-.")[seen.get(family, 0) % 4]
                seen[family] = seen.get(family, 0) + 1
                colour = CYCLE[families.index(family) % len(CYCLE)]
                marker = "o" if panel.markers else None
                axis.plot(x, y, style, color=colour, marker=marker, markersize=3, label=label)
            if panel.log_x:
                axis.set_xscale("log")
            if panel.log_y:
                axis.set_yscale("log")
            axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            axis.legend()
        return save(figure, out, name)
