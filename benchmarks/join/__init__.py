"""The join paper's figures: what comparing where matches are likely is worth, in virtual and in real time."""

from benchmarks.join.suite import run

__all__ = ["run"]
