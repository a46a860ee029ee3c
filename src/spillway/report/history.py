"""The page of a query: what ``Spillway.history()`` holds, drawn.

>>> from spillway.report import write_history
>>> write_history(shed.history(), Path("rides.html"), title="rides")  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spillway.bench.figures import COLOURS, panels
from spillway.errors import SpillwayError
from spillway.report.page import page, plot, table, text, write

if TYPE_CHECKING:
    import pyarrow as pa


def write_history(history: pa.Table, path: Path, *, title: str = "Spillway") -> None:
    """Write a page from a history."""
    write(path, render_history(history, title=title))


def render_history(history: pa.Table, *, title: str = "Spillway") -> str:
    """Return a page from a history: delay against the target, rows arrived and kept, time of the batches."""
    if history.num_rows == 0:
        raise SpillwayError("the history is empty.", hint="let the query finish a batch first")
    column = {name: _floats(history, name) for name in history.column_names if name not in ("run", "reason")}
    at = column["at_s"] - column["at_s"][0]
    arrived, kept, protected = (
        float(np.nansum(column[f"{name}_rows"])) for name in ("arrived", "kept", "protected")
    )
    with panels(3, 1, width=11.0, height=2.4) as (figure, [delay, rows, busy]):
        delay.plot(at, column["worst_delay_s"], label="longest", color=COLOURS["aurora"])
        delay.plot(at, column["delay_s"], label="mean", color=COLOURS["ctrl"])
        delay.plot(at, column["target_delay_s"], label="target", color=COLOURS["target"], linestyle="--")
        delay.set(ylabel="delay (s)", title="From arrival to result")
        rows.plot(at, column["arrived_rows"], label="arrived", color=COLOURS["target"])
        rows.plot(at, column["kept_rows"], label="kept", color=COLOURS["ctrl"])
        rows.set(ylabel="rows per batch", title="Rows")
        busy.plot(at, column["busy_s"], label="batch", color=COLOURS["ctrl"])
        busy.plot(at, column["fixed_s"], label="of it fixed", color=COLOURS["none"])
        busy.set(ylabel="seconds", xlabel="seconds since the first batch", title="Time of a batch")
        for axis in (delay, rows, busy):
            axis.legend(loc="upper left")
            axis.set_ylim(bottom=0.0)
        drawn = plot(figure, "Each point is one batch.")
    counts = [
        ("arrived", f"{arrived:,.0f}"),
        ("kept", f"{kept:,.0f}"),
        ("dropped", f"{arrived - kept:,.0f}"),
        ("kept because they must never be dropped", f"{protected:,.0f}"),
        ("without a utility", f"{np.nansum(column['utility_missing_rows']):,.0f}"),
        ("without an arrival time", f"{np.nansum(column['arrival_missing_rows']):,.0f}"),
        ("batches without a decision on record (nothing shed)", f"{np.sum(column['logged'] == 0.0):,.0f}"),
    ]
    last = history["reason"].to_pylist()[-1]
    return page(
        title,
        [
            f"<h1>{text(title)}</h1>",
            f'<p class="soft">{history.num_rows:,} batches. Latest decision: {text(last)}.</p>',
            drawn,
            "<h2>Rows</h2>",
            table(["", "rows"], counts),
        ],
    )


def _floats(history: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = history[name].to_pylist()
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
