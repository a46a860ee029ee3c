"""What a burst looks like: delay, rates and kept share, drawn from recordings.

Times on the axes are seconds since the rows began to count. A row's delay is drawn over the moment it arrived,
so each batch is one falling line: its first row waited longest, its last one least.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.arrays import Floats
from spillway.demo.burst import Burst
from spillway.demo.run_record import Recording, Variant
from spillway.report.plots import INK, WITH_SPILLWAY

VARIANT_COLOURS: dict[Variant, str] = {"plain": "#D55E00", "capped": "#E69F00", "spillway": WITH_SPILLWAY}
"""Of Okabe and Ito's colours those that are told apart most easily; lines differ in weight as well."""

VARIANT_NAMES: dict[Variant, str] = {
    "plain": "without Spillway",
    "capped": "with a row limit per batch",
    "spillway": "with Spillway",
}
GREY, SHADE = "#777777", "#888888"
_WEIGHTS: dict[Variant, float] = {"plain": 1.6, "capped": 1.6, "spillway": 1.8}


def draw_delay(axis: Any, run: Recording) -> None:
    """Draw the delay of every row over its arrival; dotted for rows that were still waiting at the end."""
    colour, weight = VARIANT_COLOURS[run.variant], _WEIGHTS[run.variant]
    at, delay = run.delay_line()
    axis.plot(
        at - run.from_s,
        delay,
        color=colour,
        linewidth=weight,
        solid_capstyle="butt",
        label=VARIANT_NAMES[run.variant],
    )
    at, age = run.waiting_line()
    if at.size:
        axis.plot(at - run.from_s, age, color=colour, linewidth=weight, linestyle=(0, (1, 1.5)))


def draw_behind(axis: Any, run: Recording) -> None:
    """Draw how far behind the query is, over the clock."""
    at, behind = run.behind_line()
    axis.plot(
        at - run.from_s,
        behind,
        color=VARIANT_COLOURS[run.variant],
        linewidth=_WEIGHTS[run.variant],
        solid_joinstyle="miter",
        label=VARIANT_NAMES[run.variant],
    )


def draw_target(axis: Any, target_s: float) -> None:
    """Draw the line that rows should stay below."""
    axis.axhline(target_s, color=INK, linewidth=1.0, linestyle=(0, (6, 3)))


def draw_burst(axis: Any, burst: Burst) -> None:
    """Shade the time of the burst."""
    plan = burst.plan
    axis.axvspan(plan.calm_s, plan.calm_s + plan.burst_s, color=SHADE, alpha=0.14, linewidth=0)
    axis.set_xlim(0.0, plan.calm_s + plan.burst_s + plan.after_s)


def draw_rates(axis: Any, burst: Burst, run: Recording) -> None:
    """Draw rows per second: as they arrived, and as they were kept."""
    plan = burst.plan
    edges = np.concatenate(([0.0], np.cumsum(run.trace.spans_s))) - plan.lead_s
    axis.stairs(run.trace.rates, edges, baseline=None, color=INK, linewidth=1.3, label="arriving")
    starts, ends, rates = _kept_rates(run)
    for start, end, rate in zip(starts, ends, rates, strict=True):
        axis.fill_between(
            [start, end], [rate, rate], color=VARIANT_COLOURS[run.variant], alpha=0.75, linewidth=0
        )
    axis.fill_between([], [], color=VARIANT_COLOURS[run.variant], alpha=0.75, label="kept")
    at, rows_per_s = _capacity_line(burst, run)
    axis.stairs(
        rows_per_s,
        at,
        baseline=None,
        color=INK,
        linewidth=1.0,
        linestyle=(0, (2, 2)),
        label="capacity of this machine",
    )


def draw_kept(axis: Any, burst: Burst, run: Recording) -> None:
    """Draw the share of the arriving rows that was kept, and the most that the capacity allows."""
    at, rows_per_s = _capacity_line(burst, run)
    middles_s = (at[:-1] + at[1:]) / 2 + run.from_s
    spans = np.searchsorted(np.cumsum(run.trace.spans_s), middles_s, side="right")
    arriving = np.asarray(run.trace.rates)[np.minimum(spans, len(run.trace.rates) - 1)]
    axis.stairs(
        100 * np.minimum(1.0, rows_per_s / arriving),
        at,
        baseline=None,
        color=INK,
        linewidth=1.0,
        linestyle=(0, (2, 2)),
        label="capacity ÷ arrivals",
    )
    starts, ends, shares = [], [], []
    for batch in run.batches:
        first, last = (
            run.trace.times(batch.first_row, batch.first_row + 1)[0],
            run.trace.times(batch.last_row - 1, batch.last_row)[0],
        )
        starts.append(first - run.from_s)
        ends.append(last - run.from_s)
        shares.append(100 * batch.keep_ratio)
    x = np.column_stack([starts, ends]).ravel()
    axis.plot(x, np.repeat(shares, 2), color=VARIANT_COLOURS[run.variant], linewidth=1.6, label="kept")


def _capacity_line(burst: Burst, run: Recording) -> tuple[Floats, Floats]:
    """Return seconds at which capacity or arrivals may change, and the rows per second in between."""
    cost = burst.cost(run.variant)
    changes_s = [second for span in run.busy for second in span]
    edges_s = np.unique([0.0, *np.cumsum(run.trace.spans_s), *changes_s])
    middles_s = (edges_s[:-1] + edges_s[1:]) / 2
    return edges_s - run.from_s, 1.0 / cost.at(middles_s)


def _kept_rates(run: Recording) -> tuple[list[float], list[float], list[float]]:
    """Return for each batch the span in which its rows arrived, and the rows it kept per second of that."""
    starts, ends, rates = [], [], []
    before = 0.0
    for batch in run.batches:
        last = float(run.trace.times(batch.last_row - 1, batch.last_row)[0])
        if last > before:
            starts.append(before - run.from_s)
            ends.append(last - run.from_s)
            rates.append(batch.rows * batch.keep_ratio / (last - before))
        before = last
    return starts, ends, rates
