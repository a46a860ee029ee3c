"""Implements NONE, which keeps everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.control.base import BaseController, ControllerConfig
from spillway.core.control.values import Decision, Sample


@dataclass(frozen=True, kw_only=True)
class NoneConfig(ControllerConfig):
    """No options."""

    kind: ClassVar[str] = "none"

    def build(self, state: Mapping[str, Any] | None = None) -> KeepAll:
        """Return a new controller, or one restored from a snapshot."""
        return KeepAll(self, state)


class KeepAll(BaseController):
    """Never shed: the engine without Spillway, for comparison."""

    kind = "none"
    config: NoneConfig

    def step(self, sample: Sample) -> Decision:  # noqa: ARG002
        """Keep everything."""
        return Decision(target_delay_s=self.state.target_delay_s, reason="nothing is ever shed")
