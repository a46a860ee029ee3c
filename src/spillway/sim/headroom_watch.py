"""The headroom, learnt while the engine runs from what a monitor can count.

A delay is known when its row has left, and says something about the queue that the row found when it came. So for the
rows that left in a period, with mean delay y, the meter is fed with

    q   the rows outstanding at the middle of the period less y, between the two counts around that time
    c   the mean cost of the periods since

Where load was taken out of the queues in between, rows left earlier than the queue that they found lets expect, and
nothing is learnt from them.

All laws know H only as c / H, so the controller need not be told H: it is told the cost c · H₀ / Ĥ, with H₀ the
headroom that it was made with and Ĥ the estimate, and decides as if it had been made with Ĥ.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from spillway.core.control import HeadroomMeterConfig, Sample

_PERIODS = 1024  # that are remembered; rows that took longer teach nothing


class HeadroomWatch:
    """Feeds a :class:`HeadroomMeter` with a run's samples; see the module's text."""

    def __init__(self, config: HeadroomMeterConfig) -> None:
        self._believed = config.headroom
        self._meter = config.build()
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=_PERIODS)
        self._disturbed_s = -np.inf

    @property
    def headroom(self) -> float:
        """The estimate."""
        return self._meter.headroom

    def disturbed(self, at_s: float) -> None:
        """Note that load has been taken out of the queues."""
        self._disturbed_s = at_s

    def told(self, sample: Sample) -> Sample:
        """Learn from a sample; return it as the controller is to see it."""
        if sample.cost_s is None:
            return sample
        self._seen.append((sample.at_s, sample.backlog_rows, sample.cost_s))
        if sample.delay_s is not None:
            came_s = sample.at_s - 0.5 * sample.period_s - sample.delay_s
            if came_s >= max(self._seen[0][0], self._disturbed_s):
                at_s, queue_rows, cost_s = np.array(self._seen).T
                self._meter.update(
                    queue_rows=float(np.interp(came_s, at_s, queue_rows)),
                    cost_s=float(cost_s[at_s > came_s].mean()),
                    delay_s=sample.delay_s,
                )
        return replace(sample, cost_s=sample.cost_s * self._believed / self.headroom)
