"""The cost model of events of the last element, which complete matches and leave no run behind.

The paper derives the input filter from the runs of the shedding set, and an event that completes matches is in no
run. Such an event may still be worth little: it examines all runs that wait for it, however few of them it completes.
So these events have classes, as runs have, with, per class,

    r   ``rate``     how many arrive, per event of the stream
    c   ``work``     work of one of them that is not discarded
    g   ``matches``  matches that it completes

adapted with weight w like the cost model. With μ and M the work and the matches per event of the stream, discarding
the class saves a share r c / μ of the work and loses a share r g / M of the matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Bools, Floats, Ints


class EventModel:
    """Rates, work and matches of the classes of events that complete matches."""

    def __init__(self, classes: int, weight: float = 0.5) -> None:
        self.weight = weight
        self.rate, self.work, self.matches = (np.zeros(classes) for _ in range(3))
        self.seen = np.zeros(classes, np.bool_)
        self._sums = np.zeros((4, classes))
        self._totals = np.zeros(3)
        self.per_event = np.zeros(2)

    def count(self, classes: Ints, kept: Bools, work: Floats, matches: Ints) -> None:
        """Count events; the class of those that cannot complete a match is -1."""
        n = len(self.rate)
        at = classes >= 0
        processed = at & kept
        self._sums[0] += np.bincount(classes[at], minlength=n)
        for row, weights in ((1, None), (2, work), (3, matches)):
            given = None if weights is None else weights[processed]
            self._sums[row] += np.bincount(classes[processed], given, n)
        self._totals += (len(classes), work.sum(), matches.sum())

    def adapt(self) -> None:
        """Adapt to what was counted since the last call."""
        if not self._totals[0]:
            return
        arrived, processed, work, matches = self._sums
        told = processed > 0
        w = np.where(self.seen, self.weight, 1.0)
        w_all = self.weight if self.seen.any() else 1.0
        self.rate = (1 - w_all) * self.rate + w_all * arrived / self._totals[0]
        self.per_event = (1 - w_all) * self.per_event + w_all * self._totals[1:] / self._totals[0]
        for table, counted in ((self.work, work), (self.matches, matches)):
            table[told] = ((1 - w) * table)[told] + w[told] * counted[told] / processed[told]
        self.seen |= told
        self._sums[:] = 0.0
        self._totals[:] = 0.0

    def shares(self) -> tuple[Floats, Floats]:
        """Return the shares of all matches and of all work that the classes have."""
        mu, M = self.per_event
        loss = self.rate * self.matches / M if M > 0 else np.zeros_like(self.rate)
        return loss, self.rate * self.work / mu if mu > 0 else np.zeros_like(self.rate)

    def worth(self) -> Floats:
        """Return matches per work; infinite where nothing was observed."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.seen & (self.work > 0), self.matches / self.work, np.inf)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        tables = {"rate": self.rate, "work": self.work, "matches": self.matches, "seen": self.seen}
        totals = {"sums": self._sums, "totals": self._totals, "per_event": self.per_event}
        return {**tables, **totals, "parameters": np.array([self.weight])}

    @classmethod
    def restore(cls, state: Mapping[str, npt.NDArray[Any]]) -> EventModel:
        """Return the model of a snapshot."""
        model = cls(len(state["rate"]), float(state["parameters"][0]))
        model.rate, model.work, model.matches = (
            state[name].astype(np.float64) for name in ("rate", "work", "matches")
        )
        model.seen = state["seen"].astype(np.bool_)
        model._sums, model._totals = state["sums"].astype(np.float64), state["totals"].astype(np.float64)
        model.per_event = state["per_event"].astype(np.float64)
        return model
