"""How often an event examines a run, by state, class and slice: the load in work per event.

The cost model tells what runs take per slice of time. If twice as many events come, they take twice as much, yet an
event does not. That evens out in a mean over a window. A percentile is that of the busiest moments, and has to be
told per event:

    l = (examinations + 1) / (E + 1 / l_0)

E are runs that were there times events that came. Where little was seen it is l_0, what the history says per slice
times what an event is of a slice: all examinations over Σ E o. Counts fade with weight w per slice of time, but not
faster than over ``least_events`` events.

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
        """Count how often runs were examined by so many events, while so many of them were there."""
        fade = max((1.0 - self.weight) ** share_of_slice, math.exp(-events / self.least_events))
        self.examined = fade * self.examined + examined
        self.exposure = fade * self.exposure + alive * events

    def table(self, own: Floats) -> Floats:
        """Return l, where ``own`` is the work per slice; that itself as long as nothing was seen."""
        all_examined, by_history = float(self.examined.sum()), float((own * self.exposure).sum())
        exposed = float(self.exposure.sum())
        if all_examined <= 0.0 or exposed <= 0.0:  # or runs that came and went between two checks
            return own
        average = all_examined / exposed
        before = own * (all_examined / by_history if by_history > 0.0 else 0.0)
        before = np.where(before > 0.0, before, average)
        found: Floats = (self.examined + 1.0) / (self.exposure + 1.0 / before)
        return found

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers, as arrays."""
        return {"examined": self.examined, "exposure": self.exposure}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        self.examined, self.exposure = (state[name].astype(np.float64) for name in ("examined", "exposure"))
