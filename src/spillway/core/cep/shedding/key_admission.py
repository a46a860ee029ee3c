"""How many keys to let in, where it loses less to leave out whole keys than to raise the price of classes.

If an index finds just the runs that an event completes, no work is in vain: all classes are worth about the same,
and to shed runs that took work to make is dear. Of a share q of the keys there is a share q of the matches, for about
q of all work. With R(λ) the matches that are left at a price λ of classes (see hybrid), and μ(λ) the latency,

    R(λ) min(1, θ' / μ(λ))

are left if keys make up for what is then still too much. Where that is clearly best at a price below the one that
would do by itself, it is taken, with q = θ' / μ. So classes go as long as they are worth little, then keys.

μ with all keys is measured with some of them left out: what events took is divided by the q of that time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.cep.shedding.orders import Seen

_FEWEST = 1e-3  # of the keys
_WRITTEN = 0.5  # of the work that is not examinations: about as much is matches
_BETTER = 1.1  # times as many matches, before keys are left out


class Keys:
    """The share of the keys that is let in: ``kept``. ``memory`` is over how many events it is averaged."""

    def __init__(self, memory: int) -> None:
        self.memory, self.kept = memory, 1.0
        self._sums = np.zeros(4)

    def count(self, seen: Seen) -> None:
        """Take in what events took, with the keys that are let in now."""
        events, took_s = len(seen.times), float(seen.times.sum())
        unit_s = took_s / max(float(seen.work.sum()), 1e-300)
        now = (events, self.kept * events, took_s / self.kept, seen.kept.sum() * unit_s)
        self._sums = math.exp(-events / self.memory) * self._sums + np.array(now)

    @property
    def usual(self) -> float:
        """q over the last events, not below the least that it may be."""
        return max(_FEWEST, float(self._sums[1] / max(self._sums[0], 1e-300)))

    @property
    def latency_s(self) -> float:
        """What an event would take on average with all keys let in."""
        return float(self._sums[2] / max(self._sums[0], 1e-300))

    @property
    def row_s(self) -> float:
        """How much of the latency is to look at the event itself."""
        return float(self._sums[3] / max(self._sums[0], 1e-300))

    def let_in(self, target_s: float) -> None:
        """Let in as many as fit."""
        self.kept = min(1.0, max(_FEWEST, target_s / max(self.latency_s, 1e-300)))

    def better_price(
        self,
        price: float,
        now: float,
        levels: Floats,
        expected: Floats,
        matches: Floats,
        fixed_s: float,
        target_s: float,
    ) -> float | None:
        """Return a smaller price at which more is found if keys make up for the rest; None if there is none.

        ``levels`` are prices in order, with the latency ``expected`` and the ``matches`` to be had at each. ``now``
        is the price of late, and ``fixed_s`` the latency that is not examinations.
        """
        below = (levels >= 0.0) & (levels <= price)
        of_late = matches[np.searchsorted(levels, now, side="right") - 1]
        written = _WRITTEN * max(0.0, fixed_s - self.row_s)
        expected = expected - written * (1.0 - matches / max(float(of_late), 1e-300))
        found = (matches * np.minimum(1.0, target_s / np.maximum(expected, 1e-300)))[below]
        best = int(np.argmax(found))
        return float(levels[below][best]) if found[best] > _BETTER * found[-1] else None

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers, as arrays."""
        return {"kept": np.array([self.kept]), "sums": self._sums}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        self.kept, self._sums = float(state["kept"][0]), state["sums"].astype(np.float64)
