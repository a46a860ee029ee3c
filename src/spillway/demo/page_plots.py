"""The plots of the demo's page, and its picture for other pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spillway.demo.burst import Burst
from spillway.demo.curves import (
    GREY,
    VARIANT_COLOURS,
    VARIANT_NAMES,
    draw_behind,
    draw_burst,
    draw_delay,
    draw_kept,
    draw_rates,
    draw_target,
)
from spillway.report.plots import panels
from spillway.report.theme import inline, standalone

Draw = Callable[[list[Any], Burst], None]


def delay_picture(burst: Burst) -> str:
    """Return the picture of the delays as an SVG file for light and dark pages."""
    with panels(1, 1, width=8.0, height=3.6) as (figure, axes):
        _hero(axes, burst)
        return standalone(figure, delay_description(burst))


def delay_plot(burst: Burst) -> str:
    """Return the delays of both runs on one linear scale."""
    return _svg(_hero, burst, delay_description(burst), height=3.6)


def delay_plots(burst: Burst) -> str:
    """Return the delays of both runs side by side, on the same logarithmic scale."""
    return _svg(_side_by_side, burst, delay_description(burst), columns=2, height=2.9)


def rate_plot(burst: Burst) -> str:
    """Return the rows per second that arrived and that were kept."""
    return _svg(_rates, burst, "Rows per second that arrived, that Spillway kept, and the capacity")


def kept_plot(burst: Burst) -> str:
    """Return the share of the arriving rows that was kept."""
    return _svg(_kept, burst, "Share of the arriving rows that Spillway kept")


def delay_description(burst: Burst) -> str:
    """Return the picture of the delays in words, for those who cannot see it."""
    plain, shed = burst.runs["plain"], burst.runs["spillway"]
    return (
        f"Delay of rows over time. Without Spillway it climbs to {plain.worst_s:.0f} seconds in the burst and "
        f"stays high; with Spillway it stays below {shed.worst_s:.1f} seconds, with a target of "
        f"{shed.target_s:g}."
    )


def _svg(draw: Draw, burst: Burst, description: str, *, columns: int = 1, height: float = 2.2) -> str:
    with panels(1, columns, width=8.6, height=height) as (figure, axes):
        draw(axes, burst)
        return inline(figure, description)


def _hero(axes: list[Any], burst: Burst) -> None:
    (axis,) = axes
    plain, shed, plan = burst.runs["plain"], burst.runs["spillway"], burst.plan
    draw_burst(axis, burst)
    draw_target(axis, plan.target_s)
    draw_behind(axis, plain)
    draw_behind(axis, shed)
    top, end = 1.15 * max(plain.worst_s, 2.0 * plan.target_s), axis.get_xlim()[1]
    axis.set(ylim=(0.0, top), xlabel="seconds", ylabel="how far behind (s)")
    middle = plan.calm_s + plan.burst_s / 2
    axis.text(middle, 0.98 * top, "burst: five times the capacity", ha="center", va="top", color=GREY)
    bold: dict[str, Any] = {"weight": "bold", "va": "bottom", "ha": "right"}
    at, behind = plain.behind_line()
    shown = at - plain.from_s <= end
    highest = float(np.max(behind[shown]))
    peak = float(at[shown][int(np.argmax(behind[shown]))] - plain.from_s)
    axis.text(
        peak - 0.01 * end, 0.97 * highest, VARIANT_NAMES["plain"], color=VARIANT_COLOURS["plain"], **bold
    )
    label = f"with Spillway: target {plan.target_s:g} s"
    axis.text(end, plan.target_s + 0.015 * top, label, color=VARIANT_COLOURS["spillway"], **bold)


def _side_by_side(axes: list[Any], burst: Burst) -> None:
    runs = burst.runs["plain"], burst.runs["spillway"]
    target_s = burst.plan.target_s
    highest = 1.4 * max(run.worst_s for run in runs)
    lowest = 0.8 * min(float(np.nanmin(run.delay_line()[1], initial=target_s)) for run in runs)
    ticks = [tick for tick in (0.1, 0.3, 1, 3, 10, 30, 100, 300) if lowest <= tick <= highest]
    for axis, run in zip(axes, runs, strict=True):
        draw_burst(axis, burst)
        draw_target(axis, target_s)
        draw_delay(axis, run)
        axis.set(
            yscale="log",
            ylim=(max(lowest, 0.02), highest),
            title=VARIANT_NAMES[run.variant],
            xlabel="seconds",
        )
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    axes[0].set_ylabel("delay of a row (s)")


def _rates(axes: list[Any], burst: Burst) -> None:
    (axis,) = axes
    draw_burst(axis, burst)
    draw_rates(axis, burst, burst.runs["spillway"])
    axis.set(ylabel="thousand rows / s", xlabel="seconds", ylim=(0.0, None))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
    axis.legend(loc="upper right")


def _kept(axes: list[Any], burst: Burst) -> None:
    (axis,) = axes
    draw_burst(axis, burst)
    draw_kept(axis, burst, burst.runs["spillway"])
    axis.set(ylabel="kept (%)", xlabel="seconds", ylim=(0.0, 108.0))
    axis.legend(loc="center right")
