"""Defines what all controllers share: the fields of their configs, the target that can change, and the snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.core.checks import require_number
from spillway.core.control.values import Decision, Sample
from spillway.core.state.records import from_snapshot, to_snapshot


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """Options that every controller has.

    ================ ===================================================================================
    field            meaning
    ================ ===================================================================================
    target_delay_s   the delay that rows should stay within (y_d)
    period_s         the control period (T): how often the controller decides
    headroom         the share of the processor that the query gets (H)
    ================ ===================================================================================
    """

    kind: ClassVar[str]
    target_delay_s: float
    period_s: float = 1.0
    headroom: float = 0.97

    def __post_init__(self) -> None:
        require_number(
            "target_delay_s", self.target_delay_s, 0.0, above=True, hint="seconds, for example 2.0"
        )
        require_number("period_s", self.period_s, 0.0, above=True, hint="seconds, for example 1.0")
        require_number(
            "headroom", self.headroom, 0.0, 1.0, above=True, hint="a share of the processor, as 0.97"
        )

    def build(self, state: Mapping[str, Any] | None = None) -> BaseController:
        """Return a new controller, or one restored from a snapshot."""
        raise NotImplementedError


@dataclass
class TargetState:
    """The part of every controller's state that holds the target.

    ``asked_target_s`` is the target that the config had when the state was saved. A restart with the same config
    continues with the target in force, which may have been changed while running. A restart with another target
    takes the new one.
    """

    asked_target_s: float = 0.0
    target_delay_s: float = 0.0


@dataclass
class CostState(TargetState):
    """The target, and the last known cost of a row."""

    cost_s: float | None = None


class BaseController:
    """Holds config and state, and converts the state to and from a snapshot. Subclasses write ``step``."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    state_type: ClassVar[type[TargetState]] = TargetState
    config: ControllerConfig
    state: TargetState

    def __init__(self, config: ControllerConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        asked = config.target_delay_s
        if state is None:
            self.state = self.state_type(asked_target_s=asked, target_delay_s=asked)
        else:
            self.state = from_snapshot(self.state_type, state, kind=self.kind, version=self.version)
            if self.state.asked_target_s != asked:
                self.state.asked_target_s = self.state.target_delay_s = asked

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished period and return the decision for the next one."""
        raise NotImplementedError

    def retarget(self, target_delay_s: float) -> None:
        """Change the target while running; what has been learned is kept."""
        require_number("target_delay_s", target_delay_s, 0.0, above=True, hint="seconds, for example 2.0")
        self.state.target_delay_s = target_delay_s

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
