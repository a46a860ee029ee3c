"""Self-contained HTML pages: about the demo's burst, a query's history, or a benchmark's results."""

from spillway.report.burst import burst_page
from spillway.report.burst_plots import delay_picture
from spillway.report.history import history_page
from spillway.report.results import results_page

__all__ = ["burst_page", "delay_picture", "history_page", "results_page"]
