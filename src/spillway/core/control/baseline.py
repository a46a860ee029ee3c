"""BASELINE: fill the queue to the target in one period (Section 5)."""

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
        """Return a controller, at its beginning or where a snapshot left off."""
        return Baseline(self, state)


@dataclass
class BaselineState(CostState):
    """The last cost known."""


class Baseline(BaseController):
    """Ask the model how many rows the target leaves room for, and admit just those.

        u T = y_d H / c - q       rows that may be added to the queue
        v T = u T + T H / c       rows that may enter, beside those that leave meanwhile

    It looks at the queue, so it is feedback, but it corrects the whole error in one period (a deadbeat law),
    whatever that costs, and a wrong cost or forecast is carried into the next period in full. What the symbols mean
    where a period is a batch is in :mod:`~spillway.core.control.signals`.
    """

    kind = "baseline"
    state_type = BaselineState
    config: BaselineConfig
    state: BaselineState

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""
        state = self.state
        now = signals(sample, self.config, state)
        if now is None:
            return keep_all(state.target_delay_s)
        state.cost_s = now.c
        uT = now.y_d * now.H / now.c - now.q
        vT = uT + now.leaving_rows
        return now.decision(vT, now.in_words(vT))
