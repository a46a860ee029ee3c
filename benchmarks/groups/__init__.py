"""The concept-driven paper's figures on recorded streams: what a stratified sample of every window is worth."""

from benchmarks.groups.suite import run

__all__ = ["run"]
