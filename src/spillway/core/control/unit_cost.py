"""What a unit of work costs: a comparison of a join, a probe of an index, a step of a pattern.

A stateful operator is given a budget in units, never in seconds, so that a replay gives the same results. Someone has
to turn seconds into units. The operator times itself: of a batch it says how many units W it has spent, and how long
that took, w, as a part of the batch's time. A call takes time of its own, whatever it does, so

    w = σ (a + u W)

with a the time of the call, u that of a unit and σ the pace of the machine. The three are told apart as for rows
(:mod:`~spillway.core.control.pace_filter`): small batches tell about the call, large ones about the unit, and a
slow moment is the machine's. A batch of fewer than 10,000 units that should take less than a twentieth of a call says
nothing of a unit and is left out. What is left of the batch's time is for its rows
(:mod:`~spillway.core.control.cost_model`).

**Cold start.** Before anything has been timed a unit is taken to cost ``cold_unit_s``. The compiled operators take 1
to 50 ns, so the first batch is given a fiftieth of what it could do, or all. As long as the price is not sure, it
leans to the dear side by half of a standard deviation.

>>> unit = UnitCostConfig().build()
>>> unit.unit_s
5e-08
>>> for _ in range(5):
...     cost_s = unit.update(units=50e6, work_s=0.25)
>>> round(cost_s * 1e9, 1)
5.1
>>> round(unit.update(units=10, work_s=0.1) * 1e9, 1)  # too little to tell
5.1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.core.checks import require_number
from spillway.core.control.pace_filter import PaceFilter, PaceFilterConfig, PaceFilterState
from spillway.core.state.records import from_snapshot, to_snapshot

_CALL_DOUBT, _UNIT_DOUBT = 1.5, 2.5  # of their logarithms at first
_LEAN, _MOST_LEAN = 0.5, 0.5  # standard deviations, and at most this much in logarithms
_MANY_UNITS = 10_000.0  # from which on a batch is learned from whatever a unit is believed to cost
_TELLING = 0.05  # of a call: what the units of a batch should take to be learned from
_LEAST_S = 1e-6  # of work that is worth timing


@dataclass(frozen=True, kw_only=True)
class UnitCostConfig:
    """What a unit and a call are taken to cost at first."""

    cold_unit_s: float = 50e-9
    cold_call_s: float = 0.002

    def __post_init__(self) -> None:
        require_number("cold_unit_s", self.cold_unit_s, 0.0, 1e3, above=True, hint="seconds, as 50e-9")
        require_number("cold_call_s", self.cold_call_s, 0.0, 1e3, above=True, hint="seconds, as 0.002")

    def build(self, state: Mapping[str, Any] | None = None) -> UnitCost:
        """Return a meter, at its beginning or where a snapshot left off."""
        return UnitCost(self, state)


@dataclass
class UnitCostState(PaceFilterState):
    """The filter's belief, and how many units were spent at most in a batch."""

    most_units: float = 0.0


class UnitCost:
    """The cost of a unit of work, leaning to the dear side while it is not sure."""

    kind = "unit_cost"
    version = 4

    def __init__(self, config: UnitCostConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            UnitCostState()
            if state is None
            else from_snapshot(UnitCostState, state, kind=self.kind, version=self.version)
        )
        self._filter = PaceFilter(
            PaceFilterConfig(
                fixed_s=config.cold_call_s,
                row_s=config.cold_unit_s,
                fixed_doubt=_CALL_DOUBT,
                row_doubt=_UNIT_DOUBT,
            ),
            self.state,
        )

    @property
    def unit_s(self) -> float:
        """The time that a unit takes of a batch."""
        if self.state.most_units <= 0.0:
            return self.config.cold_unit_s
        prices = self._filter.prices()
        return prices.row_s * math.exp(min(_LEAN * prices.row_doubt, _MOST_LEAN))

    def begin_run(self) -> None:
        """Take note that the query starts anew: its first batches are slow for other reasons."""
        if self.state.most_units > 0.0:
            self._filter.begin_run()

    def update(self, *, units: float, work_s: float) -> float:
        """Take in a batch and return the cost after it. Nonsense, and too little, change nothing."""
        sane = math.isfinite(units) and math.isfinite(work_s) and 1.0 <= units <= 1e18 and work_s <= 1e5
        if sane and work_s >= max(_LEAST_S, 1e-13 * units) and self._tells(units):
            self._filter.update(kept=units, dropped=0.0, time_s=work_s)
            self.state.most_units = max(self.state.most_units, units)
        return self.unit_s

    def _tells(self, units: float) -> bool:
        """Say whether there are many units, or units that should be a telling part of the time beside the call."""
        prices = self._filter.prices()
        return units >= _MANY_UNITS or units * prices.row_s >= _TELLING * prices.fixed_s

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` goes on exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
