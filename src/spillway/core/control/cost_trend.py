"""Learns the cost of a row as a level, its trend and its spread, in logarithms.

A measured cost c(k) moves the level ĉ by a part of its innovation i = ln(c / ĉ):

    ln ĉ  <-  ln ĉ + g i           g = 1 if i > 3 s + 0.05 (a jump up: followed at once), else 0.5
    s     <-  s + 0.1 (min(|i|, 4 s + 0.02) - s)                       spread; a single jump changes it little
    b     <-  b + 0.4 (ln(c(k) / c(k-1)) - b)                          trend per measurement

The cautious forecast, which is rather too high than too low, is  c' = ĉ exp(b⁺ + κ s),  where b⁺ is the trend if it
rises, at most ln 2. Logarithms are used because costs change by factors, and so that a drop by a factor of ten is
learned as fast as a rise. Falls are followed by halves: a limit that is too short for a moment costs little, one
that is too long makes rows late.

An absurd measurement does no lasting harm: one period moves the level by a factor of 16 at most. So the
level recovers after as many periods as the absurdity lasted, or after log16 of its factor, whichever is
less; falls by halves of at most ln 16 add a few more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from spillway.core.control.model import LEAST_COST_S, MOST_COST_S

_MOST_STEP = math.log(16.0)
_MOST_TREND = math.log(2.0)


@dataclass
class LearnedCost:
    """Level (None until the first measurement), spread and trend of the cost, and the last measured cost."""

    cost_s: float | None = None
    measured_cost_s: float | None = None
    spread: float = 0.0
    trend: float = 0.0

    def learn(self, measured_s: float | None) -> None:
        """Add the cost of one period; None or 0 means that none was measured, and nothing changes."""
        if measured_s is None or measured_s <= 0.0:
            return
        c = min(max(measured_s, LEAST_COST_S), MOST_COST_S)
        if self.cost_s is None or self.measured_cost_s is None:
            self.cost_s = self.measured_cost_s = c
            return
        step = math.log(c / self.measured_cost_s)
        self.trend += 0.4 * (min(max(step, -_MOST_STEP), _MOST_STEP) - self.trend)
        self.measured_cost_s = c
        i = min(max(math.log(c / self.cost_s), -_MOST_STEP), _MOST_STEP)
        g = 1.0 if i > 3.0 * self.spread + 0.05 else 0.5
        self.cost_s = min(max(self.cost_s * math.exp(g * i), LEAST_COST_S), MOST_COST_S)
        self.spread += 0.1 * (min(abs(i), 4.0 * self.spread + 0.02) - self.spread)

    def cautious_s(self, cold_cost_s: float, spreads: float) -> float:
        """Return c': the level (or the cold cost before there is one), raised by trend and spread."""
        if self.cost_s is None:
            return cold_cost_s
        rise = min(max(self.trend, 0.0), _MOST_TREND)
        return min(self.cost_s * math.exp(rise + spreads * self.spread), MOST_COST_S)
