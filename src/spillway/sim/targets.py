"""A target delay that may change while the engine runs (the paper's Figure 18)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spillway.core.arrays import Floats
from spillway.errors import invalid


@dataclass(frozen=True)
class Targets:
    """Pairs of (from second, target delay in seconds), the first from second 0.

    >>> targets = Targets(((0.0, 1.0), (150.0, 3.0)))
    >>> targets.at(np.array([0.0, 149.9, 150.0])).tolist()
    [1.0, 1.0, 3.0]
    """

    changes: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.changes]
        if not starts or starts[0] != 0.0 or sorted(set(starts)) != starts:
            raise invalid("targets", self.changes, "(second, target) pairs in order, the first at second 0")
        for _, target in self.changes:
            if not (math.isfinite(target) and target > 0.0):
                raise invalid("target_delay_s", target, "seconds above 0")

    @classmethod
    def of(cls, target: float | Targets) -> Targets:
        """Return the targets themselves, or a number as a target that never changes."""
        return target if isinstance(target, Targets) else cls(((0.0, float(target)),))

    def at(self, at_s: Floats) -> Floats:
        """Return the target in force at each of the given seconds."""
        starts = np.array([start for start, _ in self.changes])
        values = np.array([target for _, target in self.changes])
        return values[np.searchsorted(starts, at_s, side="right") - 1]
