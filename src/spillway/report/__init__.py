"""Self-contained HTML pages, and plots in one style."""

from spillway.report.history import history_page

__all__ = ["history_page"]
