"""CTRL: the paper's feedback controller (Section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from spillway.core.control.actuate import keep_ratio_at_entry
from spillway.core.control.base import BaseController, ControllerConfig, TargetState
from spillway.core.control.model import capacity_rows_per_s, delay_of_queue_s, signals
from spillway.core.control.poles import PoleDesign
from spillway.core.control.values import Decision, Sample
from spillway.errors import invalid, unknown


@dataclass(frozen=True, kw_only=True)
class CtrlConfig(ControllerConfig):
    """CTRL's options: where the poles lie, and what u(k-1) stands for (``anti_windup``)."""

    kind: ClassVar[str] = "ctrl"
    design: PoleDesign = field(default_factory=PoleDesign)
    anti_windup: Literal["none", "achieved"] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.design, PoleDesign):
            raise invalid("design", self.design, "a PoleDesign")
        if self.anti_windup not in ("none", "achieved"):
            raise unknown("anti_windup", self.anti_windup, ("none", "achieved"))

    def build(self, state: Mapping[str, Any] | None = None) -> Ctrl:
        """Return a controller, at its beginning or where a snapshot left off."""
        return Ctrl(self, state)


@dataclass
class CtrlState(TargetState):
    """e(k-1), u(k-1) and the last cost known."""

    cost_s: float | None = None
    error_s: float = 0.0
    growth_rate: float = 0.0


class Ctrl(BaseController):
    """Hold the delay at its target by letting the queue grow or shrink.

    Each period, with ŷ the delay predicted from the queue and e = y_d - ŷ:

        ŷ(k) = (q(k) + 1) c(k) / H                                        (Eq. 11)
        u(k) = H/(cT) [b0 e(k) + b1 e(k-1)] - a u(k-1)                    (Eq. 10)
        v(k) = u(k) + f_out,     f_out = H / c(k)
        keep = v(k) / f_in(k), from 0 to 1                                (Eq. 13)
    """

    kind = "ctrl"
    state_type = CtrlState
    config: CtrlConfig
    state: CtrlState

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""
        state, T, H = self.state, self.config.period_s, self.config.headroom
        y_d = state.target_delay_s
        now = signals(sample, period_s=T, held_cost_s=state.cost_s)
        if now.c is None:
            return Decision(target_delay_s=y_d, reason="no row has been timed yet, so everything is kept")
        c, q, f_in = now.c, now.q, now.f_in
        gains = self.config.design.gains
        f_out = capacity_rows_per_s(c, H)
        y = delay_of_queue_s(q, c, H)
        e = y_d - y
        u_last = state.growth_rate
        if self.config.anti_windup == "achieved" and now.f_out is not None and state.cost_s is not None:
            u_last = sample.kept_rows / max(sample.period_s, T * 1e-3) - now.f_out
        u = H / (c * T) * (gains.b0 * e + gains.b1 * state.error_s) - gains.a * u_last
        v = u + f_out
        state.cost_s, state.error_s, state.growth_rate = c, e, u
        keep = keep_ratio_at_entry(v, f_in)
        return Decision(
            keep_ratio=keep,
            admit_rows=v * T,
            target_delay_s=y_d,
            reason=f"{q:,.0f} rows wait, which takes {y:.3g} s of {y_d:.3g} s; "
            f"{max(v, 0.0):,.0f} of {f_in:,.0f} rows/s may enter",
        )
