"""Measures how often an event examines a run, by state, class and slice: the load in work per event.

The cost model has the work of runs per slice of time. If twice as many events arrive, the runs take twice as much
work, but the work per event stays the same. In a mean over a window this evens out. A percentile depends on the
busiest moments, so it needs the load per event:

    l = (examinations + 1) / (E + 1 / l_0)

E is the number of runs alive times the number of events. Where little was observed, l is l_0: the work o per slice of
the cost model, times the length of an event in slices, which is all examinations over Σ E o. Counts fade with weight
w per slice of time, but not faster than over ``least_events`` events.

>>> looks = Looks((1, 2, 1), least_events=1000)
>>> looks.count(np.array([[[50.0], [0.0]]]), 20, np.array([[[500.0], [0.0]]]), share_of_slice=0.1)
>>> looks.table(own=np.array([[[3.0], [6.0]]])).round(2).ravel().tolist()
[0.5, 1.0]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats


class Looks:
    """Counts of examinations, and of runs times events."""

    def __init__(self, shape: tuple[int, ...], weight: float = 0.5, least_events: int = 1000) -> None:
        self.weight, self.least_events = weight, least_events
        self.examined, self.exposure = np.zeros(shape), np.zeros(shape)

    def count(self, alive: Floats, events: int, examined: Floats, share_of_slice: float) -> None:
        """Count how often these runs were examined by ``events`` events while they were alive."""
        fade = max((1.0 - self.weight) ** share_of_slice, math.exp(-events / self.least_events))
        self.examined = fade * self.examined + examined
        self.exposure = fade * self.exposure + alive * events

    def table(self, own: Floats) -> Floats:
        """Return l, where ``own`` is the work per slice; ``own`` itself as long as nothing was observed."""
        all_examined, by_history = float(self.examined.sum()), float((own * self.exposure).sum())
        exposed = float(self.exposure.sum())
        if all_examined <= 0.0 or exposed <= 0.0:  # nothing yet, or runs that lived only between two checks
            return own
        average = all_examined / exposed
        before = own * (all_examined / by_history if by_history > 0.0 else 0.0)
        before = np.where(before > 0.0, before, average)
        found: Floats = (self.examined + 1.0) / (self.exposure + 1.0 / before)
        return found

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {"examined": self.examined, "exposure": self.exposure}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        self.examined, self.exposure = (state[name].astype(np.float64) for name in ("examined", "exposure"))
