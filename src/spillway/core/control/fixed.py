"""Implements FIXED, which always keeps the same share of rows and spends the same work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.checks import require_number
from spillway.core.control.base import BaseController, ControllerConfig
from spillway.core.control.values import Decision, Sample


@dataclass(frozen=True, kw_only=True)
class FixedConfig(ControllerConfig):
    """``keep_ratio`` is the share of rows to keep, from 0 to 1; ``work_budget`` the units of work for each batch.

    Where only a budget is given, all rows are kept.
    """

    kind: ClassVar[str] = "fixed"
    keep_ratio: float | None = None
    work_budget: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_ratio is not None:
            require_number("keep_ratio", self.keep_ratio, 0.0, 1.0)
        if self.work_budget is not None:
            require_number("work_budget", self.work_budget, 0.0)

    @property
    def share(self) -> float:
        """The share of rows to keep: half, if neither option is set."""
        if self.keep_ratio is not None:
            return self.keep_ratio
        return 0.5 if self.work_budget is None else 1.0

    def build(self, state: Mapping[str, Any] | None = None) -> Fixed:
        """Return a new controller, or one restored from a snapshot."""
        return Fixed(self, state)


class Fixed(BaseController):
    """Keep a constant share: for experiments at a given ratio, and to compare with a static cap."""

    kind = "fixed"
    config: FixedConfig

    def step(self, sample: Sample) -> Decision:
        """Return the same decision every time; the sample is only used to count the wanted rows."""
        keep, budget = self.config.share, self.config.work_budget
        work = "" if budget is None else f", {budget:,.0f} units of work are spent on a batch"
        return Decision(
            keep_ratio=keep,
            admit_rows=keep * sample.arrived_rows,
            work_budget=budget,
            target_delay_s=self.state.target_delay_s,
            reason=f"a fixed share of {keep:.3g} is kept{work}",
        )
