"""The demo's page: the same burst without and with Spillway, side by side."""

from __future__ import annotations

from spillway._version import __version__
from spillway.demo.burst import Burst
from spillway.demo.curves import VARIANT_NAMES
from spillway.demo.page_plots import delay_plot, delay_plots, kept_plot, rate_plot
from spillway.demo.run_record import Recording
from spillway.report import page as html
from spillway.report.decisions import decision_table, dropped_by_reason

SPEED_TOLERANCE = 0.1
"""A change of the machine's speed that is not worth a warning: two quiet runs differ by some percent."""


def burst_page(burst: Burst) -> str:
    """Return a self-contained HTML page about a burst that was played without and with Spillway."""
    plain, shed, plan = burst.runs["plain"], burst.runs["spillway"], burst.plan
    return html.page(
        "The same burst, without and with Spillway",
        html.paragraph(verdict(burst), "lead"),
        *(html.paragraph(warning, "warning") for warning in speed_warnings(burst)),
        html.cards(
            [
                (
                    f"{shed.within_target:.1%}",
                    f"of delivered rows within {plan.target_s:g}\u00a0s with Spillway",
                ),
                (f"{plain.within_target:.1%}", f"of delivered rows within {plan.target_s:g}\u00a0s without"),
                (
                    f"{shed.quantile_s(0.99):.1f} s",
                    f"99 of 100 rows, without Spillway {at_least(plain, 0.99)}",
                ),
                (
                    f"{burst.delivered_over_best('spillway'):.0%}",
                    "of the rows that any shedder could have delivered in time at this capacity were so; "
                    f"{burst.loss_over_minimum:.2f}\u00a0× the least loss{doubt(burst)}",
                ),
            ]
        ),
        html.heading("How far behind the query is"),
        html.figure(
            delay_plot(burst),
            "The age of the oldest row that has no result yet. It grows with the clock and falls when a batch is "
            "done; each peak is the delay of the slowest row of a batch.",
        ),
        html.heading("How long each row took"),
        html.figure(
            delay_plots(burst),
            "Each row's delay from arrival to result, over the second it arrived, on the same logarithmic scale. The "
            "line of a batch falls because its first row waits longest. Dashed: the target. "
            + _dotted(plain),
        ),
        html.heading("What arrived and what was kept"),
        html.figure(
            rate_plot(burst),
            f"Rows per second. This machine finishes {burst.capacity.rows_per_s:,.0f} rows a second of this query in "
            f"batches that are short enough for the target{_beside(burst)}.",
        ),
        html.figure(
            kept_plot(burst),
            "Share of the arriving rows that was kept. In the burst no more can be kept than capacity over "
            "arrivals, and reading the rows that are then dropped takes its part of the capacity.",
        ),
        html.heading("In numbers"),
        html.table(("", VARIANT_NAMES["plain"], VARIANT_NAMES["spillway"]), summary(burst)),
        html.heading("Where the rows went"),
        html.table(("with Spillway", "rows", "share"), whereabouts(shed), text_columns=(0,)),
        html.paragraph(
            f"A shedder that knew the whole burst beforehand, and worked at the measured capacity without a pause, "
            f"would have lost {burst.least_lost_rows:,} rows, and delivered "
            f"{shed.arrived_rows - burst.least_lost_rows:,} in time."
        ),
        html.details(
            f"All {len(shed.history)} decisions of Spillway, with their reasons",
            decision_table(shed.history, _history_start(shed)),
        ),
        html.heading("How this was measured"),
        html.paragraph(method(burst)),
        html.paragraph(machine(burst), "muted"),
        html.footer(f"Spillway {__version__}. This page needs nothing but itself."),
    )


def verdict(burst: Burst) -> str:
    """Return what happened, in a few sentences."""
    plain, shed, plan = burst.runs["plain"], burst.runs["spillway"], burst.plan
    return (
        f"For {plan.burst_s:.0f} seconds five times as much arrived as this machine can process. Without Spillway "
        f"rows took {'more than ' if plain.waiting_rows else 'up to '}{plain.worst_s:.0f} s. With Spillway 99 of "
        f"100 were through within {shed.quantile_s(0.99):.1f} s, with a target of {plan.target_s:g} s; for that it "
        f"shed {burst.lost_rows / max(shed.arrived_rows, 1):.0%} of all rows, where at least "
        f"{burst.least_lost_rows / max(shed.arrived_rows, 1):.0%} had to go{doubt(burst)}. Of the rows that any "
        f"shedder could have delivered in time it delivered {burst.delivered_over_best('spillway'):.0%}."
    )


def speed_warnings(burst: Burst) -> list[str]:
    """Return for each run, in plain words, whether the machine was not as fast as when capacity was measured."""
    warnings = []
    for variant, run in burst.runs.items():
        name, change = VARIANT_NAMES[variant], burst.speeds.get(variant, 1.0) - 1.0
        if abs(change) < SPEED_TOLERANCE:
            continue
        warning = (
            f"{name[0].upper()}{name[1:]}, this machine was {abs(change):.0%} "
            f"{'slower' if change < 0.0 else 'faster'} in the burst than when its capacity was measured: other "
            f"programs used {'more' if change < 0.0 else 'less'} of it, or its cores changed their pace."
        )
        if variant == "spillway":
            least = run.least_lost_rows(burst.cost(variant, speed=1.0 + change))
            warning += (
                f" So the least loss above is not that of this run; at the speed of the run at least "
                f"{least / max(run.arrived_rows, 1):.0%} of the rows had to go."
            )
        warnings.append(warning)
    return warnings


def doubt(burst: Burst) -> str:
    """Return a caveat where less was shed than the measured capacity says is possible, else nothing."""
    if burst.lost_rows >= burst.least_lost_rows:
        return ""
    return " (by a capacity that was measured too low: was something else running?)"


def summary(burst: Burst) -> list[tuple[str, str, str]]:
    """Return the comparison as rows of a table."""
    runs = burst.runs["plain"], burst.runs["spillway"]

    def row(what: str, *cells: str) -> tuple[str, str, str]:
        return what, cells[0], cells[1]

    return [
        row(
            f"delivered rows within the target of {burst.plan.target_s:g} s",
            *(f"{run.within_target:.1%}" for run in runs),
        ),
        row(
            "delivered in time, of the most possible",
            *(f"{burst.delivered_over_best(run.variant):.1%}" for run in runs),
        ),
        row("half of the rows took at most", *(at_least(run, 0.5) for run in runs)),
        row("99 of 100 rows took at most", *(at_least(run, 0.99) for run in runs)),
        row("the slowest row took", *(at_least(run, 1.0) for run in runs)),
        row("rows that arrived", *(f"{run.arrived_rows:,}" for run in runs)),
        row("rows delivered", *(f"{run.kept_rows:,.0f}" for run in runs)),
        row("rows delivered within the target", *(f"{run.in_time_rows:,.0f}" for run in runs)),
        row("rows dropped on purpose", *(f"{run.dropped_rows:,.0f}" for run in runs)),
        row("rows still waiting when the run was cut off", *(f"{run.waiting_rows:,}" for run in runs)),
        row(
            "age of the oldest of them",
            *(f"{run.oldest_waiting_s:.1f} s" if run.waiting_rows else "–" for run in runs),
        ),
    ]


def whereabouts(shed: Recording) -> list[tuple[str, str, str]]:
    """Return what became of the rows: kept, dropped by reason, waiting."""
    counted = [entry for entry in shed.history if entry["batch"] in _counted_batches(shed)]
    dropped = dropped_by_reason(counted)
    total = sum(dropped.values()) or 1
    rows = [("delivered", shed.kept_rows)]
    # A batch that began before the rows counted is shared out, so the reasons are scaled to what counts.
    rows += [(f"dropped: {why}", count / total * shed.dropped_rows) for why, count in dropped.items()]
    rows += [("waiting at the end", float(shed.waiting_rows))] if shed.waiting_rows else []
    return [(what, f"{count:,.0f}", f"{count / max(shed.arrived_rows, 1):.1%}") for what, count in rows]


def method(burst: Burst) -> str:
    """Return how delays were measured and what that leaves out."""
    plan, capacity = burst.plan, burst.capacity
    return (
        f"A replayed trace says when each row arrives, and Spark's offsets and clock say which batch took it and "
        f"when that was committed, so a delay is known for every row without any work in the measured query. The "
        f"capacity is that of the query without Spillway at saturation, in batches of {capacity.batch_rows:,} rows "
        f"that take about {plan.saturated_s:.1f} s. Both runs got {plan.lead_s:.0f} s at half of the capacity first, "
        f"which do not count. The run without Spillway is cut off when the last row has arrived, because its "
        f"backlog would take minutes; rows that were still waiting then count with their age, so its true delays "
        f"are longer than shown."
    )


def machine(burst: Burst) -> str:
    """Return what this ran on."""
    found = burst.machine
    return (
        f"{found['cores']} cores ({found['processor']}), {found['system']}, Spark {found['spark']}, Python "
        f"{found['python']}. Throughput at saturation with Spillway in the plan and nothing to shed: "
        f"{burst.capacity.idle_throughput_ratio:.1%} of that without."
    )


def at_least(run: Recording, q: float) -> str:
    """Return a quantile, marked where rows that still wait make it a lower bound."""
    delay_s = run.worst_s if q >= 1.0 else run.quantile_s(q)
    return f"{'> ' if run.waiting_rows and delay_s > run.target_s else ''}{delay_s:.1f} s"


def _beside(burst: Burst) -> str:
    """Return what a busy neighbour that was started on purpose left of the capacity."""
    if burst.busy_rows_per_s is None:
        return ""
    return (
        f", and {burst.busy_rows_per_s:,.0f} while the busy process was on that was started on purpose; the least "
        f"loss follows both"
    )


def _dotted(plain: Recording) -> str:
    if not plain.waiting_rows:
        return ""
    return "Dotted: rows that were still waiting when the run was cut off, with the age they had then."


def _counted_batches(run: Recording) -> set[int]:
    return {batch.number for batch in run.batches if batch.last_row > run.first_row}


def _history_start(run: Recording) -> float:
    """Return the wall-clock time at which rows began to count, from a batch that both clocks know."""
    ends = {batch.number: batch.ended_s for batch in run.batches}
    for entry in run.history:
        if entry["batch"] in ends:
            return float(entry["at_s"]) - ends[entry["batch"]] + run.from_s
    return 0.0
