"""What a machine does to batches beside the query's own work: neighbours, a cold JVM, stalls, and a crash.

A batch that would take W seconds on a warm machine of its own takes longer, and how much longer is what a controller
cannot know beforehand:

=============  ===========================================================================================
disturbance    what it does to a batch
=============  ===========================================================================================
neighbours     other programs slow the whole machine down by a factor σ(t) >= 1, so that the batch is done
               when ∫ dt / σ(t) since its begin has reached its work
a cold JVM     the i-th batch of a run has (1 + (``cold_factor`` - 1) exp(-i / ``cold_batches``)) times the work
stalls         with a chance of ``stall_chance`` something takes up to twice ``stall_s`` more, whatever the batch
a crash        at ``killed_at_s`` the query dies; ``down_s`` later it comes back with a cold JVM, repeats the batch
               that was running, and finds what has arrived meanwhile
late rows      rows are ``late_s`` old when they reach the query: another hop, or a clock that is off
=============  ===========================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from spillway.errors import invalid
from spillway.replay.costs import CostTrace, constant


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine that is not the query's alone; by default it is. See the module's table.

    >>> beside = Machine(slowdown=CostTrace((1.0, 3.0), step_s=10.0), cold_factor=4.0)
    >>> beside.end_s(0.0, 5.0), beside.end_s(8.0, 4.0)
    (5.0, 16.0)
    >>> beside.cold(0), round(beside.cold(8), 2)
    (4.0, 1.21)
    """

    slowdown: CostTrace = field(default_factory=lambda: constant(1.0))
    cold_factor: float = 1.0
    cold_batches: float = 3.0
    stall_chance: float = 0.0
    stall_s: float = 0.0
    killed_at_s: float | None = None
    down_s: float = 0.0
    late_s: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (
            ("cold_factor", 1.0),
            ("stall_chance", 0.0),
            ("stall_s", 0.0),
            ("down_s", 0.0),
            ("late_s", 0.0),
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise invalid(name, value, f"a number >= {least:g}")
        if not self.cold_batches > 0.0:
            raise invalid("cold_batches", self.cold_batches, "a number above 0")
        if self.slowdown.array.min() < 1.0:
            raise invalid("slowdown", float(self.slowdown.array.min()), "factors of 1 and more")

    def cold(self, batch: int) -> float:
        """Return how many times its work the given batch of a run has."""
        return 1.0 + (self.cold_factor - 1.0) * math.exp(-batch / self.cold_batches)

    def stall(self, chance: np.random.Generator) -> float:
        """Return what a batch takes more, whatever it does."""
        if self.stall_chance == 0.0 or chance.random() >= self.stall_chance:
            return 0.0
        return 2.0 * self.stall_s * float(chance.random())

    def end_s(self, begin_s: float, work_s: float) -> float:
        """Return when work is done that begins at a given second."""
        costs, step_s = self.slowdown.costs_s, self.slowdown.step_s
        now_s, left_s = begin_s, work_s
        for step in range(min(int(begin_s / step_s), len(costs) - 1), len(costs) - 1):
            lasts_s = max((step + 1) * step_s - now_s, 0.0)
            if left_s * costs[step] <= lasts_s:
                return now_s + left_s * costs[step]
            left_s -= lasts_s / costs[step]
            now_s += lasts_s
        return now_s + left_s * costs[-1]
