"""DEADLINE: a row enters only while its estimated wait fits the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from spillway.core.control.base import BaseController, ControllerConfig, TargetState
from spillway.core.control.checks import require_number
from spillway.core.control.model import signals
from spillway.core.control.values import Decision, Sample
from spillway.errors import unknown


@dataclass(frozen=True, kw_only=True)
class DeadlineConfig(ControllerConfig):
    """First version."""

    kind: ClassVar[str] = "deadline"
    engine: Literal["pipelined", "batched"] = "pipelined"
    margin: float = 0.05
    cold_cost_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in ("pipelined", "batched"):
            raise unknown("engine", self.engine, ("pipelined", "batched"))
        require_number("margin", self.margin, 0.0, 0.45)
        if self.cold_cost_s is not None:
            require_number("cold_cost_s", self.cold_cost_s, 0.0, above=True)

    def build(self, state: Mapping[str, Any] | None = None) -> Deadline:
        """Return a controller, at its beginning or where a snapshot left off."""
        return Deadline(self, state)


@dataclass
class DeadlineState(TargetState):
    """Level, trend and spread of the cost."""

    cost_s: float | None = None
    trend_s: float = 0.0
    spread_s: float = 0.0


class Deadline(BaseController[DeadlineConfig, DeadlineState]):
    """First version: limit = share · y_d H / c', with c' a cautious cost."""

    kind = "deadline"
    state_type = DeadlineState

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""
        state, config = self.state, self.config
        y_d, T, H = state.target_delay_s, config.period_s, config.headroom
        now = signals(sample, period_s=T, held_cost_s=None)
        if now.c is not None:
            c_old = state.cost_s if state.cost_s is not None else now.c
            step = now.c - c_old
            state.spread_s += 0.25 * (abs(step) - state.spread_s)
            state.trend_s += 0.5 * (step - state.trend_s)
            state.cost_s = now.c
        batched = config.engine == "batched"
        c = state.cost_s if state.cost_s is not None else (config.cold_cost_s or (10e-6 if batched else 1e-3))
        cautious = c + max(state.trend_s, 0.0) + state.spread_s
        if batched:
            budget = (0.5 - config.margin) * y_d - sample.fixed_s
            budget = max(budget, 0.1 * (0.5 - config.margin) * y_d)
            limit = max(budget / cautious, 1.0)
            skip = min(max(sample.skip_s / cautious, 0.0), 1.0)
        else:
            limit = max((1.0 - config.margin) * y_d * H / cautious, 1.0)
            skip = 0.0
        return Decision(
            queue_limit_rows=limit,
            skip_cost=skip,
            target_delay_s=y_d,
            reason=f"a row costs {c * 1e3:.3g} ms, so {limit:,.0f} rows fit into {y_d:.3g} s; "
            f"{sample.arrived_rows:,.0f} arrived",
        )
