"""The paper on patterns: how fast they are found, and what hybrid shedding finds where there is too little time."""

from benchmarks.cep.suite import run

__all__ = ["run"]
