"""The window paper's figures in counted work, and its promises over random cases and recorded data."""

from benchmarks.windows.suite import run

__all__ = ["run"]
