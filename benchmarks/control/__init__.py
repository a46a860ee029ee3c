"""The control paper's figures, and its controllers beside ``deadline`` on recorded and made-up arrivals."""

from benchmarks.control.suite import run

__all__ = ["run"]
