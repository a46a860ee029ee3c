"""Measures the latency: smoothed, and corrected for what has changed since the measurements (Section III-A).

The latency of an event is the time to process it. μ is the mean or a percentile of the last n measurements. An event
that was discarded counts as one that took no time; with ``over="completing"`` only events count that can complete a
match and were not discarded: then the latency is that of matches, as the paper defines it.

**Lag.** A mean over the last n events includes events from before the last shedding. A strategy that uses it would
shed twice for the same overload. The paper waits for a while after shedding. Here the load L of the state (the work
per time that the present runs cause, by the cost model) is noted with each measurement, and so is the part f of the
latency that is not examinations of runs: the event itself, runs made and matches written. Then

    μ̂ = μ̄ (f + (1 - f) L(now) / L̄)

is the latency to expect with the present runs. After shedding L is smaller at once, and so is μ̂. μ̄ and L̄ are the
means of μ and of L over the measurements of several checks, with weights that fade by ``forget`` per check: the time
per unit of load changes slowly, whereas n events may by chance include many that take long.

**Each.** A percentile does not belong to the mean load but to the largest load. With ``each`` μ̂ is the percentile of
what the last n measurements would each have been at the present load:

    f t_i + (1 - f) t_i L(now) / L_i

**Room.** At the next check c new measurements have replaced the oldest c of the last n. So these c may take

    n θ - (sum of the last n - c)

in all if the mean is to be θ at most.

>>> latency = Latency(size=4)
>>> latency.observe(np.array([10.0, 30.0]), load=2.0, fixed=0.5)
>>> latency.observe(np.array([20.0, 20.0]), load=2.0, fixed=0.5)
>>> latency.value, latency.expected(1.0), latency.room(25.0, 2)
(20.0, 15.0, 60.0)
>>> highest = Latency(size=4, percentile=100.0, each=True)
>>> highest.observe(np.array([10.0, 20.0, 30.0, 30.0]), load=np.array([1.0, 2.0, 3.0, 3.0]))
>>> highest.value, highest.expected(2.0)
(30.0, 20.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.checks import require_number, require_whole

_KNOTS = 9  # loads at which a percentile is computed; between them it is nearly linear


class Latency:
    """The last ``size`` measurements and the load at each of them."""

    def __init__(self, size: int = 1000, percentile: float | None = None, each: bool = False) -> None:
        require_whole("size", size, 1, 10**7)
        if percentile is not None:
            require_number("percentile", percentile, 0.0, 100.0)
        self.size, self.percentile = size, percentile
        self._each = percentile if each else None
        self.times: Floats = np.empty(0)
        self.loads: Floats = np.empty(0)
        self.fixed: Floats = np.empty(0)
        self.usual = np.zeros(4)

    def observe(self, times: Floats, load: float | Floats, fixed: float = 0.0, forget: float = 1.0) -> None:
        """Add measurements, made while the state had this load, or one for each; ``fixed`` is f."""
        self.times = np.concatenate([self.times, times])[-self.size :]
        self.loads = np.concatenate([self.loads, np.broadcast_to(load, len(times))])[-self.size :]
        self.fixed = np.concatenate([self.fixed, times * fixed])[-self.size :]
        if len(self.times):
            total = float(self.times.sum())
            f = float(self.fixed.sum()) / total if total > 0 else 0.0
            now = np.array([self.value, float(self.loads.mean()), f * self.value, 1.0])
            self.usual = (1.0 - forget) * self.usual + now

    @property
    def value(self) -> float:
        """μ, or 0 if nothing was measured."""
        if not len(self.times):
            return 0.0
        if self.percentile is None:
            return float(self.times.mean())
        return float(np.percentile(self.times, self.percentile))

    def expected(self, load: float) -> float:
        """μ̂, the latency to expect at this load. If no load is known it is μ."""
        if self._each is None:
            return float(self.expected_at(np.array([load]))[0])
        return self.value if load < 0.0 else float(self._at(np.array([load]), self._each)[0])

    def expected_at(self, loads: Floats) -> Floats:
        """Return μ̂ at each of these loads; with ``each`` it is interpolated between a few of them."""
        if self._each is not None:
            knots = np.linspace(0.0, max(float(loads.max(initial=0.0)), 1e-300), _KNOTS)
            return np.asarray(np.interp(loads, knots, self._at(knots, self._each)))
        value, usual, fixed, count = self.usual
        if usual <= 0.0:
            return np.full(len(loads), self.value)
        expected = (fixed + (value - fixed) * loads * count / usual) / count
        return np.where(loads < 0.0, self.value, expected) if (loads < 0.0).any() else expected

    @property
    def fixed_part(self) -> float:
        """The part of the latency that remains at no load."""
        if self._each is not None:
            return float(self._at(np.zeros(1), self._each)[0])
        return float(self.usual[2] / max(self.usual[3], 1e-300))

    def _at(self, loads: Floats, percentile: float) -> Floats:
        """Return the percentile of the last measurements as they would have been at each of these loads."""
        if not len(self.times):
            return np.full(len(loads), self.value)
        known = np.where(self.loads > 0.0, self.loads, 1.0)
        ratio = np.where(self.loads > 0.0, loads[:, None] / known, 1.0)
        return np.asarray(np.percentile(self.fixed + (self.times - self.fixed) * ratio, percentile, axis=1))

    def room(self, mean: float, count: int) -> float:
        """Return how much time the next measurements may take in all for the mean to be ``mean``."""
        stay = min(len(self.times), max(0, self.size - count))
        rest = float(self.times[len(self.times) - stay :].sum())
        return (stay + count) * mean - rest

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the measurements."""
        return {"times": self.times, "loads": self.loads, "fixed": self.fixed, "usual": self.usual}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        self.times, self.loads, self.fixed, self.usual = (
            state[name].astype(np.float64) for name in ("times", "loads", "fixed", "usual")
        )
