"""Implements BASELINE, which fills the queue to the target in one period (Section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.control.base import BaseController, ControllerConfig, CostState
from spillway.core.control.signals import keep_all, signals
from spillway.core.control.values import Decision, Sample


@dataclass(frozen=True, kw_only=True)
class BaselineConfig(ControllerConfig):
    """BASELINE has no options of its own."""

    kind: ClassVar[str] = "baseline"

    def build(self, state: Mapping[str, Any] | None = None) -> Baseline:
        """Return a new controller, or one restored from a snapshot."""
        return Baseline(self, state)


@dataclass
class BaselineState(CostState):
    """State of BASELINE: the last known cost."""


class Baseline(BaseController):
    """Compute from the model how many rows the target leaves room for, and admit exactly those.

        u T = y_d H / c - q       rows that may be added to the queue
        v T = u T + T H / c       rows that may enter, including those that replace leaving rows

    BASELINE looks at the queue, so it is feedback. But it corrects the whole error in one period (a deadbeat law),
    at any price, and a wrong cost or forecast is carried into the next period in full. The module
    :mod:`~spillway.core.control.signals` says what the symbols mean where a period is a batch.
    """

    kind = "baseline"
    state_type = BaselineState
    config: BaselineConfig
    state: BaselineState

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished period and return the decision for the next one."""
        state = self.state
        now = signals(sample, self.config, state)
        if now is None:
            return keep_all(state.target_delay_s)
        state.cost_s = now.c
        uT = now.y_d * now.H / now.c - now.q
        vT = uT + now.leaving_rows
        return now.decision(vT, now.in_words(vT))
