"""Selects which single tuples to shed, uniformly or by utility."""

from spillway.core.tuples.cut import GRID, KEEP_ALL, Cut, Ranks, Values, cut_for
from spillway.core.tuples.shed import apply, shed

__all__ = ["GRID", "KEEP_ALL", "Cut", "Ranks", "Values", "apply", "cut_for", "shed"]
