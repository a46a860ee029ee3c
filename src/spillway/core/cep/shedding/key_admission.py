"""Decides how many keys to admit, where leaving out whole keys loses less than raising the price of classes.

If an index finds just the runs that an event completes, no work is wasted: all classes are worth about the same, and
shedding runs wastes the work of making them. A share q of the keys has a share q of the matches, for about q of all
work. With R(λ) the matches that are left at a price λ of classes (see hybrid), and μ(λ) the latency,

    R(λ) min(1, θ' / μ(λ))

matches are left if keys are left out to remove the rest of the overload. If this is clearly best at a price below
the one that is enough by itself, that lower price is taken, with q = θ' / μ. So classes are shed as long as they
are worth little, then keys.

μ for all keys is computed while some are left out: the time that events took is divided by the q of that time.
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
_WRITTEN = 0.5  # of the work that is not examinations: about this part is matches
_BETTER = 1.1  # times as many matches are required before keys are left out


class Keys:
    """The share of the keys that is admitted, ``kept``. ``memory`` is the number of events it is averaged over."""

    def __init__(self, memory: int) -> None:
        self.memory, self.kept = memory, 1.0
        self._sums = np.zeros(4)

    def count(self, seen: Seen) -> None:
        """Count the time that events took with the keys that are admitted now."""
        events, took_s = len(seen.times), float(seen.times.sum())
        unit_s = took_s / max(float(seen.work.sum()), 1e-300)
        now = (events, self.kept * events, took_s / self.kept, seen.kept.sum() * unit_s)
        self._sums = math.exp(-events / self.memory) * self._sums + np.array(now)

    @property
    def usual(self) -> float:
        """The average q over the last events, not below its lower limit."""
        return max(_FEWEST, float(self._sums[1] / max(self._sums[0], 1e-300)))

    @property
    def latency_s(self) -> float:
        """The average latency of an event if all keys were admitted."""
        return float(self._sums[2] / max(self._sums[0], 1e-300))

    @property
    def row_s(self) -> float:
        """The part of the latency that is the processing of the event itself."""
        return float(self._sums[3] / max(self._sums[0], 1e-300))

    def let_in(self, target_s: float) -> None:
        """Admit as many keys as the target allows."""
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
        """Return a smaller price at which leaving out keys finds more matches; None if there is none.

        ``levels`` are prices in order, with the latency ``expected`` and the ``matches`` to be found at each. ``now``
        is the current price, and ``fixed_s`` the part of the latency that is not examinations.
        """
        below = (levels >= 0.0) & (levels <= price)
        of_late = matches[np.searchsorted(levels, now, side="right") - 1]
        written = _WRITTEN * max(0.0, fixed_s - self.row_s)
        expected = expected - written * (1.0 - matches / max(float(of_late), 1e-300))
        found = (matches * np.minimum(1.0, target_s / np.maximum(expected, 1e-300)))[below]
        best = int(np.argmax(found))
        return float(levels[below][best]) if found[best] > _BETTER * found[-1] else None

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {"kept": np.array([self.kept]), "sums": self._sums}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        self.kept, self._sums = float(state["kept"][0]), state["sums"].astype(np.float64)
