"""The papers' experiments as declared runs: results as JSON, plots drawn from them."""

from benchmarks.results import Figure, Results
from benchmarks.suites import Request, available, suite

__all__ = ["Figure", "Request", "Results", "available", "suite"]
