"""The errors of Spillway, in one hierarchy. Each message says what is wrong, what is allowed and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SpillwayError(ValueError):
    """An error that the caller can correct: the message names the field, the value and a solution."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message} Hint: {hint}")
        self.hint = hint


class CheckpointInUseError(SpillwayError):
    """Two queries were given one checkpoint."""


class MissingExtraError(SpillwayError):
    """An optional dependency is not installed."""


def invalid(field: str, value: object, allowed: str, *, hint: str | None = None) -> SpillwayError:
    """Build the error for a value that is not allowed.

    >>> str(invalid("keep_ratio", 1.5, "a number from 0 to 1"))
    'keep_ratio = 1.5 is not allowed: expected a number from 0 to 1.'
    """
    return SpillwayError(f"{field} = {value!r} is not allowed: expected {allowed}.", hint=hint)


def unknown(field: str, value: object, choices: Iterable[str]) -> SpillwayError:
    """Build the error for an unknown name, with the nearest known name as a hint.

    >>> str(unknown("mode", "observ", ["observe", "enforce"]))
    "mode = 'observ' is not allowed: expected one of 'enforce', 'observe'. Hint: did you mean 'observe'?"
    """
    names = sorted(choices)
    near = difflib.get_close_matches(str(value), names, n=1)
    allowed = "one of " + ", ".join(repr(name) for name in names) if names else "nothing here"
    return invalid(field, value, allowed, hint=f"did you mean {near[0]!r}?" if near else None)
