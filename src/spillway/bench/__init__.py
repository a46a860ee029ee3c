"""The papers' experiments as declared runs: results as JSON, plots drawn from them."""

from spillway.bench.results import Figure, Results
from spillway.bench.suites import Request, available, suite

__all__ = ["Figure", "Request", "Results", "available", "suite"]
