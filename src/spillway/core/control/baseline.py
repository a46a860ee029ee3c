"""BASELINE: fill the queue to the target in one period (Section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.control.actuate import keep_ratio_at_entry
from spillway.core.control.base import BaseController, ControllerConfig, CostState
from spillway.core.control.model import MOST_ROWS, capacity_rows_per_s, delay_of_queue_s, signals
from spillway.core.control.values import Decision, Sample
from spillway.core.control.wording import duration


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

        u = y_d H / c - q         rows that may be added to the queue
        v = u / T + H / c         as a rate, beside those that leave meanwhile

    It looks at the queue, so it is feedback, but it corrects the whole error in one period (a deadbeat law),
    whatever that costs, and a wrong cost or forecast is carried into the next period in full.
    """

    kind = "baseline"
    state_type = BaselineState
    config: BaselineConfig
    state: BaselineState

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""
        state = self.state
        y_d = state.target_delay_s
        now = signals(sample, self.config, state)
        T, H = now.T, now.H
        if now.c is None:
            return Decision(target_delay_s=y_d, reason="no row has been timed yet, so everything is kept")
        c, q, f_in = now.c, now.q, now.f_in
        u = y_d * H / c - q
        v = u / T + capacity_rows_per_s(c, H)
        state.cost_s = c
        return Decision(
            keep_ratio=keep_ratio_at_entry(v, f_in),
            admit_rows=min(max(v * T, -MOST_ROWS), MOST_ROWS),
            target_delay_s=y_d,
            reason=f"{q:,.0f} rows wait, which takes {duration(delay_of_queue_s(q, c, H))} of {duration(y_d)}; "
            f"{max(v, 0.0):,.0f} of {f_in:,.0f} rows/s may enter",
        )
