"""The page of the demo: the same burst without and with Spillway, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spillway.bench.burst import Burst
from spillway.bench.burst_figures import (
    VARIANT_NAMES,
    draw_burst,
    draw_delay,
    draw_kept,
    draw_rates,
    draw_target,
)
from spillway.bench.figures import panels, save_as
from spillway.bench.recording import Recording, Variant
from spillway.report.page import page, plot, table, text, write

Row = tuple[str, str, str]


def summary(burst: Burst) -> list[Row]:
    """Return the figures in words: what was measured, without and with Spillway."""
    plain, shed = burst.runs["plain"], burst.runs["spillway"]
    least = shed.least_lost_rows(burst.capacity.rows_per_s)

    def both(what: str, of: Any) -> Row:
        return what, of(plain), of(shed)

    return [
        both(f"delivered rows within {shed.target_s:g} s", lambda run: f"{run.within_target:.1%}"),
        both("99 in 100 rows within", lambda run: f"{run.quantile_s(0.99):.1f} s"),
        both("longest delay", lambda run: f"{run.worst_s:.1f} s"),
        both("rows that arrived", lambda run: f"{run.arrived_rows:,}"),
        both("rows delivered", lambda run: f"{run.kept_rows:,.0f}"),
        both("rows shed, all on record", lambda run: f"{run.dropped_rows:,.0f}"),
        both("rows still waiting at the end", lambda run: f"{max(run.waiting_rows, 0):,}"),
        ("rows that must be lost to hold the target", "", f"{least:,}"),
    ]


def render(burst: Burst) -> str:
    """Return the page."""
    plain, shed = burst.runs["plain"], burst.runs["spillway"]
    plan, machine = burst.plan, burst.machine
    headline = (
        f"A burst of five times the capacity: {plain.worst_s:.0f} s of delay without Spillway, "
        f"{shed.worst_s:.1f} s with it"
    )
    setting = (
        "The same query over the same events, first plain, then with Spillway(...).tuples(df) in the plan. "
        f"Target: {plan.target_s:g} s from a row's arrival to its result. This machine does "
        f"{burst.capacity.rows_per_s:,.0f} rows a second at saturation; half of that arrives, then five times as "
        f"much for {plan.burst_s:g} s, then half again."
    )
    footnote = (
        f"{machine.get('processor', '')}, {machine.get('cores', '')} cores, Spark {machine.get('spark', '')}, "
        f"Python {machine.get('python', '')}. Delays are exact: the arrival of each row is known from the replayed "
        "trace, the end of its batch from Spark. Rows are shed by a hash, so the kept ones are a uniform sample of "
        "their batch."
    )
    return page(
        "Spillway: a burst held at its latency target",
        [
            f"<h1>{text(headline)}</h1>",
            f'<p class="soft">{text(setting)}</p>',
            plot_of(
                burst,
                draw_side_by_side,
                "Delay of every delivered row over the moment it arrived. Dotted: rows that had still not come out "
                "when the run was cut off, with their age.",
            ),
            table(["", VARIANT_NAMES["plain"], VARIANT_NAMES["spillway"]], summary(burst)),
            "<h2>What was kept</h2>",
            plot_of(
                burst,
                draw_rows,
                "Rows arriving and rows kept per second, and the share that was kept, with Spillway. The first batch "
                "of the burst is cut already, because its size is known before it runs.",
            ),
            "<h2>How the controller saw it</h2>",
            table(
                ["batch", "arrived", "kept", "took", "worst delay", "a row costs", "a batch costs"],
                _batches(shed),
            ),
            f'<p class="soft">{text(footnote)}</p>',
        ],
    )


def plot_of(burst: Burst, draw: Any, caption: str) -> str:
    """Return a drawing as a part of the page."""
    with panels(1, 2, width=11.0, height=3.4) as (figure, axes):
        draw(axes, burst)
        return plot(figure, caption)


def picture(burst: Burst, path: Path) -> None:
    """Write the picture of both delays to a file of its own."""
    with panels(1, 2, width=9.5, height=3.0) as (figure, axes):
        draw_side_by_side(axes, burst)
        save_as(figure, path)


def write_report(burst: Burst, folder: Path) -> Path:
    """Write the page, the picture and the record they are drawn from, and return the page's path."""
    write(folder / "burst.json", burst.to_json())
    picture(burst, folder / "demo.svg")
    write(folder / "report.html", render(burst))
    return folder / "report.html"


def draw_side_by_side(axes: list[Any], burst: Burst) -> None:
    """Draw both delays on one scale."""
    variants: tuple[Variant, Variant] = ("plain", "spillway")
    highest = 1.08 * max(burst.runs[name].worst_s for name in variants)
    for axis, name in zip(axes, variants, strict=True):
        run: Recording = burst.runs[name]
        draw_burst(axis, burst)
        draw_delay(axis, run)
        draw_target(axis, burst.plan.target_s)
        axis.set_title(f"{VARIANT_NAMES[name]}: {run.within_target:.0%} of delivered rows in time")
        axis.set(ylim=(0.0, highest), xlabel="seconds", ylabel="delay of a row (s)")
        axis.text(
            burst.plan.calm_s + burst.plan.burst_s / 2, 0.95 * highest, "burst: 5 × capacity", ha="center", va="top",
            color="#555555",
        )  # fmt: skip
        axis.annotate(
            f"target {burst.plan.target_s:g} s", (0.0, burst.plan.target_s), xytext=(4, 4),
            textcoords="offset points", color="#222222",
        )  # fmt: skip


def draw_rows(axes: list[Any], burst: Burst) -> None:
    """Draw what arrived and what was kept."""
    run = burst.runs["spillway"]
    draw_burst(axes[0], burst)
    draw_rates(axes[0], burst, run)
    axes[0].set(xlabel="seconds", ylabel="rows per second")
    axes[0].legend(loc="upper right")
    draw_burst(axes[1], burst)
    draw_kept(axes[1], burst, run)
    axes[1].set(xlabel="seconds", ylabel="share kept (%)", ylim=(0.0, 105.0))
    axes[1].legend(loc="lower left")


def _batches(run: Recording) -> list[list[str]]:
    """Return one row per batch as the history has it."""
    found = []
    for entry in run.history:
        worst, cost = entry["worst_delay_s"], entry["cost_s"]
        found.append(
            [
                str(entry["batch"]),
                f"{entry['arrived_rows']:,}",
                f"{entry['kept_rows']:,}",
                f"{entry['busy_s']:.2f} s",
                "" if worst is None else f"{worst:.2f} s",
                "" if cost is None else f"{1e6 * cost:.1f} µs",
                f"{entry['fixed_s']:.2f} s",
            ]
        )
    return found
