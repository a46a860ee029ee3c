"""Converts the state of a controller or an estimator to a JSON-ready dict (a snapshot), and back.

A state is a dataclass of numbers, None, and lists of numbers. Its dict also holds the ``kind`` of thing that the
state belongs to and the ``version`` of its layout. Anything else is refused with an error that says what was found,
so that an incomplete or foreign file never starts a controller in a state that it could not have reached itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from spillway.errors import SpillwayError, invalid

StateT = TypeVar("StateT")


def to_snapshot(state: Any, *, kind: str, version: int) -> dict[str, Any]:
    """Return the state as a JSON-ready dict that shares no objects with it."""
    found: dict[str, Any] = {"kind": kind, "version": version}
    for field in fields(state):
        found[field.name] = _copy(getattr(state, field.name))
    return found


def from_snapshot(cls: type[StateT], found: Mapping[str, Any], *, kind: str, version: int) -> StateT:
    """Read back what :func:`to_snapshot` wrote, or raise."""
    if not isinstance(found, Mapping):
        raise invalid("state", found, "a dict made by snapshot()")
    if found.get("kind") != kind:
        raise invalid(
            "state.kind", found.get("kind"), f"{kind!r}", hint="this is the state of something else"
        )
    if found.get("version") != version:
        raise invalid("state.version", found.get("version"), str(version), hint="start without a state")
    known: dict[str, Field[Any]] = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    given = {name: value for name, value in found.items() if name not in ("kind", "version")}
    if missing := sorted(known.keys() - given.keys()):
        raise SpillwayError(f"state: {missing[0]!r} is missing.", hint="start without a state")
    if extra := sorted(given.keys() - known.keys()):
        raise SpillwayError(f"state: {extra[0]!r} is not known.", hint="start without a state")
    for name, value in given.items():
        _check(name, value, known[name])
    return cls(**{name: _copy(value) for name, value in given.items()})


def _check(name: str, value: Any, field: Field[Any]) -> None:
    optional = field.default is None
    if field.default_factory is not MISSING:
        if not isinstance(value, list | tuple) or not all(_is_plain(item) for item in value):
            raise invalid(f"state.{name}", value, "a list of finite numbers")
    elif not (_is_number(value) or (value is None and optional)):
        raise invalid(f"state.{name}", value, "a finite number" + (" or None" if optional else ""))


def _is_plain(value: Any) -> bool:
    return all(map(_is_number, value)) if isinstance(value, list | tuple) else _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _copy(value: Any) -> Any:
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value
