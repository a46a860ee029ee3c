"""Measures what a row costs on a pipelined engine: busy time over the rows that finished, smoothed.

On a batch engine the time of a batch has more parts: see :mod:`~spillway.core.control.cost_model`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.core.checks import require_number
from spillway.core.control.model import LEAST_COST_S, MOST_COST_S
from spillway.core.state.records import from_snapshot, to_snapshot


@dataclass(frozen=True, kw_only=True)
class CostMeterConfig:
    """``smoothing`` is the weight of the earlier periods, from 0 (only the last period counts) to below 1."""

    smoothing: float = 0.5

    def __post_init__(self) -> None:
        require_number("smoothing", self.smoothing, 0.0, 0.99)

    def build(self, state: Mapping[str, Any] | None = None) -> CostMeter:
        """Return a new meter, or one restored from a snapshot."""
        return CostMeter(self, state)


@dataclass
class CostMeterState:
    """Smoothed busy time and rows: their ratio is the cost."""

    busy_s: float = 0.0
    finished_rows: float = 0.0


class CostMeter:
    """Estimates the cost of a row as busy time over rows. Both are smoothed alike, so periods count by their rows.

    >>> meter = CostMeterConfig(smoothing=0.5).build()
    >>> meter.update(busy_s=0.9, finished_rows=180)
    0.005
    >>> meter.update(busy_s=0.0, finished_rows=0)  # nothing finished: nothing learnt
    0.005
    """

    kind = "cost_meter"
    version = 1

    def __init__(self, config: CostMeterConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            CostMeterState()
            if state is None
            else from_snapshot(CostMeterState, state, kind=self.kind, version=self.version)
        )

    @property
    def cost_s(self) -> float | None:
        """The cost of a row, None before any row has finished."""
        if self.state.finished_rows <= 0.0:
            return None
        return min(max(self.state.busy_s / self.state.finished_rows, LEAST_COST_S), MOST_COST_S)

    def update(self, *, busy_s: float, finished_rows: float) -> float | None:
        """Add a period and return the cost. A period without rows, or with impossible values, changes nothing."""
        sane = math.isfinite(busy_s) and math.isfinite(finished_rows)
        if sane and busy_s > 0.0 and finished_rows > 0.0:
            old = self.config.smoothing if self.state.finished_rows > 0.0 else 0.0
            self.state.busy_s = old * self.state.busy_s + (1.0 - old) * busy_s
            self.state.finished_rows = old * self.state.finished_rows + (1.0 - old) * finished_rows
        return self.cost_s

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
