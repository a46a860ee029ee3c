"""FIXED: always keep the same share, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.control.base import BaseController, ControllerConfig
from spillway.core.control.checks import require_number
from spillway.core.control.values import Decision, Sample


@dataclass(frozen=True, kw_only=True)
class FixedConfig(ControllerConfig):
    """``keep_ratio`` is the share of rows to keep, from 0 to 1."""

    kind: ClassVar[str] = "fixed"
    keep_ratio: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("keep_ratio", self.keep_ratio, 0.0, 1.0)

    def build(self, state: Mapping[str, Any] | None = None) -> Fixed:
        """Return a controller, at its beginning or where a snapshot left off."""
        return Fixed(self, state)


class Fixed(BaseController):
    """A constant keep ratio: for experiments at a given ratio, and what a static cap amounts to."""

    kind = "fixed"
    config: FixedConfig

    def step(self, sample: Sample) -> Decision:
        """Decide as ever; the sample only gives the rows wanted."""
        keep = self.config.keep_ratio
        return Decision(
            keep_ratio=keep,
            admit_rows=keep * sample.arrived_rows,
            target_delay_s=self.state.target_delay_s,
            reason=f"a fixed share of {keep:.3g} is kept",
        )
