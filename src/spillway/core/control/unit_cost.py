"""What a unit of work costs: a comparison of a join, a probe of an index, a step of a pattern.

A stateful operator is given a budget in units, never in seconds, so that a replay gives the same results. Someone has
to turn seconds into units. The operator times itself: of a batch it says how many units W it has spent, and how long
that took, w, as a part of the batch's time. So

    u = w / W

and what is left of the batch's time is for its rows (:mod:`~spillway.core.control.estimate`). A batch of fewer than
``least_units`` tells more about the call than about u, and one in which w is shorter than ``least_work_s`` more about
the clock: these are left out, except that the latter took no longer than ``least_work_s``. Where that shows that u is
less than believed, it is learned, so that an estimate that was far too high, and the tiny budgets that follow from
it, do not last. Level, spread and trend are those of :mod:`~spillway.core.control.learned_cost`: dearer units are
believed at once, cheaper ones by halves, and the cost that is handed on leans to the dear side.

**Cold start.** Before anything has been timed a unit is taken to cost ``cold_unit_s``. The compiled operators take 1
to 50 ns, so the first batch is given a fiftieth of what it could do, or all.

>>> unit = UnitCostConfig().build()
>>> unit.unit_s
5e-08
>>> unit.update(units=50e6, work_s=0.25)
5e-09
>>> unit.update(units=10, work_s=0.1)  # too little to tell
5e-09
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.core.control.checks import require_number
from spillway.core.control.learned_cost import LearnedCost
from spillway.core.control.state import from_snapshot, to_snapshot

_SPREADS = 1.0


@dataclass(frozen=True, kw_only=True)
class UnitCostConfig:
    """What a unit is taken to cost at first, and how much a batch has to work to be learned from."""

    cold_unit_s: float = 50e-9
    least_work_s: float = 0.005
    least_units: float = 10_000.0

    def __post_init__(self) -> None:
        require_number("cold_unit_s", self.cold_unit_s, 0.0, 1e3, above=True, hint="seconds, as 50e-9")
        require_number("least_work_s", self.least_work_s, 0.0, 1e3, hint="seconds, as 0.005")
        require_number("least_units", self.least_units, 0.0)

    def build(self, state: Mapping[str, Any] | None = None) -> UnitCost:
        """Return a meter, at its beginning or where a snapshot left off."""
        return UnitCost(self, state)


class UnitCost:
    """The cost of a unit of work, leaning to the dear side."""

    kind = "unit_cost"
    version = 1

    def __init__(self, config: UnitCostConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            LearnedCost()
            if state is None
            else from_snapshot(LearnedCost, state, kind=self.kind, version=self.version)
        )

    @property
    def unit_s(self) -> float:
        """The time that a unit takes of a batch."""
        return self.state.cautious_s(self.config.cold_unit_s, _SPREADS)

    def update(self, *, units: float, work_s: float) -> float:
        """Take in a batch and return the cost after it. Nonsense, and too little, change nothing."""
        sane = math.isfinite(units) and math.isfinite(work_s) and units > 0.0 and work_s > 0.0
        least_s = self.config.least_work_s
        if sane and work_s >= least_s and units >= self.config.least_units:
            self.state.learn(work_s / units)
        elif sane and work_s < least_s < units * (self.state.cost_s or self.config.cold_unit_s):
            self.state.learn(least_s / units)
        return self.unit_s

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` goes on exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
