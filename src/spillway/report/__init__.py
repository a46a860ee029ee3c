"""Self-contained HTML pages, drawn from a history or from a recorded burst."""

from spillway.report.burst import picture, render, summary, write_report
from spillway.report.history import render_history, write_history

__all__ = ["picture", "render", "render_history", "summary", "write_history", "write_report"]
