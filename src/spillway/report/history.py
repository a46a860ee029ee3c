"""A page about any query with Spillway in its plan, from what ``history()`` returns::

Path("rides.html").write_text(history_page("rides", shed.history()))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spillway._version import __version__
from spillway.errors import SpillwayError
from spillway.report import page as html
from spillway.report.decisions import Entry, decision_table, dropped_by_reason
from spillway.report.plots import INK, WITH_SPILLWAY, panels
from spillway.report.theme import inline

if TYPE_CHECKING:
    import pyarrow as pa

_NEWEST = 200  # batches in the table; plots and sums are over all
_LEFT_OUT = (
    ("late rows, left out", "late_rows"),
    ("rows without anything to match by, left out", "unmatched_rows"),
    ("rows dropped for lack of time, in each shard", "sampled_out_rows"),
)


def history_page(name: str, history: pa.Table) -> str:
    """Return a self-contained HTML page: delay against the target, rates, kept share, and every decision."""
    entries: list[Entry] = [
        entry for entry in history.to_pylist() if entry["arrived_rows"] > 0 or entry["dropped_rows"] > 0
    ]
    arrived, dropped = (
        sum(int(entry[column]) for entry in entries) for column in ("arrived_rows", "dropped_rows")
    )
    if not arrived:
        raise SpillwayError(
            "the history has no batch with rows yet.", hint="wait for the query's first batches"
        )
    start_s = float(entries[0]["at_s"]) - float(entries[0]["busy_s"])
    kept = max(0, arrived - dropped)
    shares = [
        ("kept", kept),
        *((f"dropped: {why}", rows) for why, rows in dropped_by_reason(entries).items()),
    ]
    newest = entries[-_NEWEST:]
    return html.page(
        f"What Spillway did with {name}",
        html.cards(
            [
                (f"{_in_time(entries):.1%}", "of batches had their slowest row within the target"),
                (f"{kept / arrived:.1%}", "of rows kept"),
                (f"{dropped:,}", "rows dropped"),
                (f"{len(entries):,}", f"batches in {entries[-1]['at_s'] - start_s:,.0f} s"),
            ]
        ),
        html.heading("Delay, rates and what was kept"),
        html.figure(
            _plot(entries, start_s),
            "Per batch. Top: the delay of its slowest row, and the target (dashed). Middle: rows per second that "
            "arrived and that were kept. Bottom: the share kept.",
        ),
        html.heading("Where the rows went"),
        html.table(
            ("", "rows", "share"), [(what, f"{rows:,}", f"{rows / arrived:.1%}") for what, rows in shares]
        ),
        *_work(entries),
        html.details(
            f"The newest {len(newest)} decisions, with their reasons", decision_table(newest, start_s)
        ),
        html.footer(f"Spillway {__version__}. This page needs nothing but itself."),
    )


def _work(entries: list[Entry]) -> list[str]:
    """Return what became of the work, where there is a join or a pattern."""
    demanded, spent = (
        sum(float(entry.get(column) or 0.0) for entry in entries)
        for column in ("work_demanded", "work_spent")
    )
    if demanded <= 0.0:
        return []
    counts = {
        column: sum(int(entry.get(column) or 0) for entry in entries)
        for column in ("matches", "shed_runs", "pairs", *(column for _, column in _LEFT_OUT))
    }
    patterns = bool(counts["matches"] or counts["shed_runs"])
    found = [("matches that came out", "matches"), ("partial matches that were shed", "shed_runs")] * patterns
    if counts["pairs"] or not patterns:
        found.append(("pairs that came out", "pairs"))
    return [
        html.heading("Where the work went" if patterns else "Where the comparisons went"),
        html.table(
            ("", "number", "share"),
            [
                ("done" if patterns else "made", f"{spent:,.0f}", f"{spent / demanded:.1%}"),
                ("shed", f"{demanded - spent:,.0f}", f"{1.0 - spent / demanded:.1%}"),
                *((what, f"{counts[column]:,}", "") for what, column in (*found, *_LEFT_OUT)),
            ],
        ),
    ]


def _in_time(entries: list[Entry]) -> float:
    """Return the share of batches whose slowest row was in time, of those where that is known."""
    known = [
        entry
        for entry in entries
        if entry["worst_delay_s"] is not None and entry["target_delay_s"] is not None
    ]
    good = sum(entry["worst_delay_s"] <= entry["target_delay_s"] for entry in known)
    return good / len(known) if known else float("nan")


def _plot(entries: list[Entry], start_s: float) -> str:
    def column(name: str) -> Any:
        return np.array([np.nan if entry[name] is None else entry[name] for entry in entries], dtype=float)

    at, waited = column("at_s") - start_s, column("waited_s")
    # The rows of a batch arrived between its cut and the one before; where that is not known, the period is near.
    period = np.maximum(np.where(np.isfinite(waited) & (waited > 0.0), waited, column("period_s")), 1e-3)
    with panels(3, 1, width=8.6, height=1.9) as (figure, (delays, rates, shares)):
        delays.plot(
            at, column("worst_delay_s"), color=WITH_SPILLWAY, marker=".", markersize=3, label="slowest row"
        )
        delays.plot(
            at, column("target_delay_s"), color=INK, linewidth=1.0, linestyle=(0, (6, 3)), label="target"
        )
        delays.set(ylabel="delay (s)", ylim=(0.0, None))
        delays.legend(loc="upper left")
        rates.plot(at, column("arrived_rows") / period, color=INK, label="arriving")
        rates.plot(at, column("kept_rows") / period, color=WITH_SPILLWAY, label="kept")
        rates.set(ylabel="rows / s", ylim=(0.0, None))
        rates.legend(loc="upper left")
        arrived = column("arrived_rows")
        shares.plot(
            at, 100 * column("kept_rows") / np.where(arrived > 0, arrived, np.nan), color=WITH_SPILLWAY
        )
        shares.set(ylabel="kept (%)", xlabel="seconds", ylim=(0.0, 105.0))
        return inline(
            figure, "Delay of the slowest row of each batch, rows per second, and share kept, over time"
        )
