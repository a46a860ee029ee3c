"""What Spillway decided, read from its history: drops by reason, and batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spillway.report.page import table

Entry = Mapping[str, Any]

# What a reason of the controller says, and how a reader would say it; the first that fits is taken.
_KINDS: Final = (
    ("no row has been timed yet", "what a row costs was not known yet"),
    ("the target cannot be met", "a batch took too long even without rows"),
    ("no more than the recent batches allow", "batches may grow only step by step"),
    ("because rows still come late", "rows had come late in spite of the limit"),
)
_USUAL: Final = "more arrived than fits into the target"


def dropped_by_reason(history: Sequence[Entry]) -> dict[str, int]:
    """Return the rows that were shed by why they were; a batch is told what was decided after the one before.

    >>> entries = [{"dropped_rows": 0, "reason": "no row has been timed yet"}, {"dropped_rows": 7, "reason": "..."}]
    >>> dropped_by_reason(entries)
    {'what a row costs was not known yet': 7}
    """
    found: dict[str, int] = {}
    told = "no row has been timed yet"
    for entry in history:
        if entry["dropped_rows"]:
            kind = next((words for mark, words in _KINDS if mark in told), _USUAL)
            found[kind] = found.get(kind, 0) + int(entry["dropped_rows"])
        told = str(entry["reason"])
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def decision_table(history: Sequence[Entry], start_s: float) -> str:
    """Return every batch with what was measured and what was decided after it; times count from ``start_s``."""
    rows = [
        (
            f"{entry['batch']}",
            f"{entry['at_s'] - start_s:.1f}",
            f"{entry['arrived_rows']:,}",
            f"{entry['kept_rows']:,}",
            "" if entry["limit_rows"] is None else f"{entry['limit_rows']:,.0f}",
            f"{entry['busy_s']:.2f}",
            "" if entry["worst_delay_s"] is None else f"{entry['worst_delay_s']:.2f}",
            str(entry["reason"]),
        )
        for entry in history
    ]
    columns = ("batch", "at s", "arrived", "kept", "limit", "took s", "worst delay s", "decided after it")
    return table(columns, rows, text_columns=(0, 7))
