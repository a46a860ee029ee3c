"""Implements AURORA, which sheds the load that exceeds the processor's capacity (Figure 1, Sections 4.3.2 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.control.base import BaseController, ControllerConfig, CostState
from spillway.core.control.signals import keep_all, signals
from spillway.core.control.values import Decision, Sample


@dataclass(frozen=True, kw_only=True)
class AuroraConfig(ControllerConfig):
    """AURORA has no options of its own; its one tuning knob is the headroom (Figure 16)."""

    kind: ClassVar[str] = "aurora"

    def build(self, state: Mapping[str, Any] | None = None) -> Aurora:
        """Return a new controller, or one restored from a snapshot."""
        return Aurora(self, state)


@dataclass
class AuroraState(CostState):
    """State of AURORA: the last known cost."""


class Aurora(BaseController):
    """Compare the load with the capacity and shed the difference: v = L_0 = H / c.

    AURORA does not look at the queue (open loop). Rows that entered while the forecast or the cost was wrong are
    never compensated for: they stay in the queue, so the delay settles at a level that depends on past errors, and
    the target plays no part. On a batch engine (:mod:`~spillway.core.control.signals`) v T rows may enter with
    T = max(t, t_d) and H = 1 - F / t_d: a batch that took long is followed by one that takes nearly as long.
    """

    kind = "aurora"
    state_type = AuroraState
    config: AuroraConfig
    state: AuroraState

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished period and return the decision for the next one."""
        state = self.state
        now = signals(sample, self.config, state)
        if now is None:
            return keep_all(state.target_delay_s)
        state.cost_s = now.c
        rows = now.capacity_rows
        return now.decision(
            rows,
            f"{now.f_in:,.0f} rows/s arrived; {rows:,.0f} rows can be processed in the next period",
        )
