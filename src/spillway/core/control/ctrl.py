"""CTRL: the paper's feedback controller (Section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from spillway.core.control.actuate import keep_ratio_at_entry
from spillway.core.control.base import BaseController, ControllerConfig, CostState
from spillway.core.control.model import (
    LEAST_COST_S,
    MOST_ROWS,
    capacity_rows_per_s,
    delay_of_queue_s,
    signals,
)
from spillway.core.control.poles import PoleDesign
from spillway.core.control.values import Decision, Sample
from spillway.core.control.wording import duration
from spillway.errors import invalid, unknown


@dataclass(frozen=True, kw_only=True)
class CtrlConfig(ControllerConfig):
    """CTRL's options: where the poles lie, and what u(k-1) is taken to be (see :class:`Ctrl`)."""

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
class CtrlState(CostState):
    """e(k-1), u(k-1) and the last cost known."""

    error_s: float = 0.0
    growth_rate: float = 0.0


class Ctrl(BaseController):
    """Hold the delay at its target by letting the queue grow or shrink.

    Each period, with ŷ the delay predicted from the queue and e = y_d - ŷ its error:

        ŷ(k) = (q(k) + 1) c(k) / H                                        (Eq. 11)
        u(k) = H/(cT) [b0 e(k) + b1 e(k-1)] - a u(k-1)                    (Eq. 10)
        v(k) = u(k) + f_out,     f_out = H / c(k)
        keep = v(k) / f_in(k), from 0 to 1                                (Eq. 13)

    =======  =======================================================================
    symbol   meaning
    =======  =======================================================================
    q        outstanding rows at the end of the period
    c        processing time per row; the last one known where it was not measured
    u        rows per second by which the queue may grow
    v        rows per second that may enter
    f_in     rows per second that arrived; stands in for the next period's
    =======  =======================================================================

    **What f_out is.** The paper adds the rate at which rows leave, without saying how it is known. It
    writes T H / c for it where it defines BASELINE, and so do we: in the next period the engine will be
    busy if the target is to be reached, whatever it was in the last.

    **Anti-windup.** The paper has none: u(k-1) is what was commanded, even if fewer rows came than were
    allowed. With a controller pole below 1 that is harmless. In a long lull e stays at y_d, and u settles
    at H y_d / (cT) · (b0 + b1) / (1 + a), which for the paper's gains lets the queue grow to 45 % of the
    target within a period: no more than is wanted. With a controller pole of 1 it would grow without end;
    ``achieved`` then puts in its place what the queue really grew by.
    """

    kind = "ctrl"
    state_type = CtrlState
    config: CtrlConfig
    state: CtrlState

    def __init__(self, config: CtrlConfig, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(config, state)
        self._gains = config.design.gains

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""
        state = self.state
        y_d = state.target_delay_s
        now = signals(sample, self.config, state)
        T, H = now.T, now.H
        if now.c is None:
            return Decision(target_delay_s=y_d, reason="no row has been timed yet, so everything is kept")
        c, q, f_in = now.c, now.q, now.f_in
        a, b0, b1 = self._gains.a, self._gains.b0, self._gains.b1

        y = delay_of_queue_s(q, c, H)
        e, e_last = y_d - y, state.error_s
        u_last = self._last_growth(sample, now.f_out)
        u = H / (c * T) * (b0 * e + b1 * e_last) - a * u_last
        v = u + capacity_rows_per_s(c, H)

        state.cost_s, state.error_s, state.growth_rate = c, e, min(max(u, -MOST_ROWS), MOST_ROWS)
        return Decision(
            keep_ratio=keep_ratio_at_entry(v, f_in),
            admit_rows=min(max(v * T, -MOST_ROWS), MOST_ROWS),
            target_delay_s=y_d,
            reason=f"{q:,.0f} rows wait, which takes {duration(y)} of {duration(y_d)}; "
            f"{max(v, 0.0):,.0f} of {f_in:,.0f} rows/s may enter",
        )

    def _last_growth(self, sample: Sample, f_out: float | None) -> float:
        """Return u(k-1): what was commanded, or what came of it."""
        if self.config.anti_windup == "none" or f_out is None or self.state.cost_s is None:
            return self.state.growth_rate
        T = sample.period_s if sample.period_s > 0.0 else self.config.period_s
        return min(sample.kept_rows / max(T, LEAST_COST_S), MOST_ROWS) - f_out
