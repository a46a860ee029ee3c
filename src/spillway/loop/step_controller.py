"""Lets an object that can only ``step`` serve as a controller."""

from __future__ import annotations

from typing import Any, Protocol

from spillway.core.control import Decision, Sample
from spillway.errors import SpillwayError


class Steps(Protocol):
    """The minimal interface of a controller."""

    def step(self, sample: Sample) -> Decision:
        """Take in the sample of a finished period and return the decision for the next one."""


class StepOnly:
    """A controller that has no target to change and no state to save. It starts anew with each process."""

    def __init__(self, chosen: Steps) -> None:
        self._chosen = chosen

    def step(self, sample: Sample) -> Decision:
        """Return the decision of the wrapped object."""
        return self._chosen.step(sample)

    def retarget(self, target_delay_s: float) -> None:  # noqa: ARG002
        """Raise an error: the wrapped object has no target that could be changed."""
        raise SpillwayError(
            f"the controller {self._chosen!r} has no retarget, so its target stays as it is.",
            hint="give it a method retarget(target_delay_s)",
        )

    def snapshot(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}
