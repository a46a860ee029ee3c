"""AURORA: shed what exceeds the processor's capacity (Figure 1, Sections 4.3.2 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.control.actuate import keep_ratio_at_entry
from spillway.core.control.base import BaseController, ControllerConfig, CostState
from spillway.core.control.model import MOST_ROWS, capacity_rows_per_s, signals
from spillway.core.control.values import Decision, Sample


@dataclass(frozen=True, kw_only=True)
class AuroraConfig(ControllerConfig):
    """AURORA has no options of its own; its one tuning knob is the headroom (Figure 16)."""

    kind: ClassVar[str] = "aurora"

    def build(self, state: Mapping[str, Any] | None = None) -> Aurora:
        """Return a controller, at its beginning or where a snapshot left off."""
        return Aurora(self, state)


@dataclass
class AuroraState(CostState):
    """The last cost known."""


class Aurora(BaseController):
    """Compare the load with the capacity and shed the difference: v = L_0 = H / c.

    The queue is not looked at (open loop). Rows that entered while the forecast or the cost was wrong stay
    queued for good, so the delay settles wherever the errors of the past have left it, and the target plays
    no part.
    """

    kind = "aurora"
    state_type = AuroraState
    config: AuroraConfig
    state: AuroraState

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""
        state = self.state
        y_d = state.target_delay_s
        now = signals(sample, self.config, state)
        T, H = now.T, now.H
        if now.c is None:
            return Decision(target_delay_s=y_d, reason="no row has been timed yet, so everything is kept")
        state.cost_s = now.c
        L_0 = capacity_rows_per_s(now.c, H)
        return Decision(
            keep_ratio=keep_ratio_at_entry(L_0, now.f_in),
            admit_rows=min(L_0 * T, MOST_ROWS),
            target_delay_s=y_d,
            reason=f"{now.f_in:,.0f} rows/s arrived, {L_0:,.0f} rows/s can be processed",
        )
