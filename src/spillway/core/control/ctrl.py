"""Implements CTRL, the paper's feedback controller (Section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from spillway.core.control.base import BaseController, ControllerConfig, CostState
from spillway.core.control.model import MOST_ROWS
from spillway.core.control.pole_placement import PoleDesign
from spillway.core.control.signals import Signals, keep_all, signals
from spillway.core.control.values import Decision, Sample
from spillway.errors import invalid, unknown


@dataclass(frozen=True, kw_only=True)
class CtrlConfig(ControllerConfig):
    """CTRL's options: where the poles lie, and which value serves as u(k-1) (see :class:`Ctrl`)."""

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
        """Return a new controller, or one restored from a snapshot."""
        return Ctrl(self, state)


@dataclass
class CtrlState(CostState):
    """e(k-1), the rows u T of the previous period, and the last known cost."""

    error_s: float = 0.0
    growth_rows: float = 0.0


class Ctrl(BaseController):
    """Hold the delay at its target by letting the queue grow or shrink.

    Each period, with ŷ the delay predicted from the queue and e = y_d - ŷ its error:

        ŷ(k) = (q(k) + 1) c(k) / H                                        (Eq. 11)
        u(k) T = H/c [b0 e(k) + b1 e(k-1)] - a u(k-1) T                   (Eq. 10, times T)
        v(k) T = u(k) T + f_out T,     f_out = H / c(k)
        keep = v(k) / f_in(k), from 0 to 1                                (Eq. 13)

    =======  =======================================================================
    symbol   meaning
    =======  =======================================================================
    q        outstanding rows at the end of the period
    c        processing time per row; the last known one if it was not measured
    T        length of the period
    u T      rows by which the queue may grow in a period
    v T      rows that may enter in a period
    f_in     rows per second that arrived; used as those of the next period
    =======  =======================================================================

    **Rows, not rates.** Eq. 10 continues from the rows by which the queue grew, u(k-1) T. With periods of equal
    length that is the same as u(k-1). If lengths differ, a rate from a short period would have too much weight
    in a long one: a quiet time with short batches would wind it up. The module
    :mod:`~spillway.core.control.signals` says what the symbols mean where a period is a batch, and why the loop
    is stable there however late decisions take effect.

    **What f_out is.** The paper adds the rate at which rows leave, but does not say how it is known. It writes T
    H / c for it where it defines BASELINE, and so do we: to reach the target the engine has to be busy in the next
    period, even if it was not in the last.

    **Anti-windup.** The paper has none: u(k-1) is the commanded value, even if fewer rows came than were
    allowed. With a controller pole below 1 that is harmless. In a long lull e stays at y_d, and u T settles at
    H y_d / c · (b0 + b1) / (1 + a), which for the paper's gains lets the queue grow to 45 % of the target
    within a period, as wanted. With a controller pole of 1 it would grow without end; ``achieved``
    then replaces it by the real growth of the queue (on a batch engine 0 if no row was dropped).
    """

    kind = "ctrl"
    version = 2  # version 1 stored u as a rate
    state_type = CtrlState
    config: CtrlConfig
    state: CtrlState

    def __init__(self, config: CtrlConfig, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(config, state)
        self._gains = config.design.gains

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished period and return the decision for the next one."""
        state = self.state
        now = signals(sample, self.config, state)
        if now is None:
            return keep_all(state.target_delay_s)
        c, H = now.c, now.H
        a, b0, b1 = self._gains.a, self._gains.b0, self._gains.b1

        e, e_last = now.y_d - now.y, state.error_s
        uT = H / c * (b0 * e + b1 * e_last) - a * self._last_growth(now)
        vT = uT + now.leaving_rows

        state.cost_s, state.error_s, state.growth_rows = c, e, min(max(uT, -MOST_ROWS), MOST_ROWS)
        return now.decision(vT, now.in_words(vT))

    def _last_growth(self, now: Signals) -> float:
        """Return u T of the previous period, in rows: the commanded or the achieved growth."""
        if self.config.anti_windup == "none" or now.grown_rows is None or self.state.cost_s is None:
            return now.carried_rows(self.state.growth_rows, self.state.cost_s or now.c)
        return now.grown_rows
