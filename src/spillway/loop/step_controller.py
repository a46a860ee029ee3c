"""Lets an object that can only ``step`` serve as a controller."""

from __future__ import annotations

from typing import Any, Protocol

from spillway.core.control import Decision, Sample
from spillway.errors import SpillwayError


class Steps(Protocol):
    """The least that a controller has to have."""

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""


class StepOnly:
    """A controller without a target to change and without a state to save: it starts anew with the process."""

    def __init__(self, chosen: Steps) -> None:
        self._chosen = chosen

    def step(self, sample: Sample) -> Decision:
        """Ask the object."""
        return self._chosen.step(sample)

    def retarget(self, target_delay_s: float) -> None:  # noqa: ARG002
        """Refuse: the object has no target that could be changed."""
        raise SpillwayError(
            f"the controller {self._chosen!r} has no retarget, so its target stays as it is.",
            hint="give it a method retarget(target_delay_s)",
        )

    def snapshot(self) -> dict[str, Any]:
        """Return nothing."""
        return {}
