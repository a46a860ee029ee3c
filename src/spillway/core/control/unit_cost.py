"""Estimates the cost of a unit of work: a comparison of a join, a probe of an index, a step of a pattern.

A stateful operator gets its budget in units, never in seconds, so that a replay gives the same results. This module
converts seconds into units. The operator times itself: for each batch it reports how many units W it has spent, and
how long that took, w, as a part of the batch's time. A call takes some time of its own in any case, so

    w = σ (a + u W)

with a the time of the call, u that of a unit and σ the pace of the machine. The three are separated as for rows
(:mod:`~spillway.core.control.pace_filter`): small batches show the cost of the call, large ones that of the unit, and
a slow moment is attributed to the machine. A batch of fewer than 10,000 units that should take less than a twentieth
of a call shows nothing about a unit and is ignored. The rest of the batch's time is for its rows
(:mod:`~spillway.core.control.cost_model`).

**Cold start.** Before anything has been timed, a unit is taken to cost ``cold_unit_s``. The compiled operators take 1
to 50 ns, so the first batch gets between a fiftieth of what it could do and all of it. While the price is uncertain,
it is set higher by half of a standard deviation.

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
_LEAN, _MOST_LEAN = 0.5, 0.5  # standard deviations added to ln u, and the most that is added
_MANY_UNITS = 10_000.0  # from here on a batch is used for learning at any estimated cost of a unit
_TELLING = 0.05  # of a call: how long the units of a batch should take for learning
_LEAST_S = 1e-6  # of work that is worth timing


@dataclass(frozen=True, kw_only=True)
class UnitCostConfig:
    """The costs of a unit and of a call that are assumed at first."""

    cold_unit_s: float = 50e-9
    cold_call_s: float = 0.002

    def __post_init__(self) -> None:
        require_number("cold_unit_s", self.cold_unit_s, 0.0, 1e3, above=True, hint="seconds, as 50e-9")
        require_number("cold_call_s", self.cold_call_s, 0.0, 1e3, above=True, hint="seconds, as 0.002")

    def build(self, state: Mapping[str, Any] | None = None) -> UnitCost:
        """Return a new meter, or one restored from a snapshot."""
        return UnitCost(self, state)


@dataclass
class UnitCostState(PaceFilterState):
    """The filter's state, and the most units spent in a batch."""

    most_units: float = 0.0


class UnitCost:
    """Estimates the cost of a unit of work, rather too high while it is uncertain."""

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
        """The estimated time of a unit."""
        if self.state.most_units <= 0.0:
            return self.config.cold_unit_s
        prices = self._filter.prices()
        return prices.row_s * math.exp(min(_LEAN * prices.row_doubt, _MOST_LEAN))

    def begin_run(self) -> None:
        """Record that the query starts anew: its first batches are slow for other reasons."""
        if self.state.most_units > 0.0:
            self._filter.begin_run()

    def update(self, *, units: float, work_s: float) -> float:
        """Add a batch and return the new cost. Impossible values and too little work change nothing."""
        sane = math.isfinite(units) and math.isfinite(work_s) and 1.0 <= units <= 1e18 and work_s <= 1e5
        if sane and work_s >= max(_LEAST_S, 1e-13 * units) and self._tells(units):
            self._filter.update(kept=units, dropped=0.0, time_s=work_s)
            self.state.most_units = max(self.state.most_units, units)
        return self.unit_s

    def _tells(self, units: float) -> bool:
        """Return whether a batch shows the cost of a unit: it has many, or they take enough time beside the call."""
        prices = self._filter.prices()
        return units >= _MANY_UNITS or units * prices.row_s >= _TELLING * prices.fixed_s

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
