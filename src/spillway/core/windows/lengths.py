"""Lengths of windows as whole numbers: of a unit, or of microseconds where they are durations.

>>> microseconds("size", "1 minute 30 seconds"), microseconds("size", "0.1 ms")
(90000000, 100)
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from spillway.durations import seconds
from spillway.errors import invalid

MICROSECONDS = "us"
Unit = float | str


def units_of(name: str, value: Any, unit: Any) -> tuple[int, Unit]:
    """Return a length as a whole number of units, and what the unit is.

    >>> units_of("size", 1.5, 0.5), units_of("size", "2 ms", 1)
    ((3, 0.5), (2000, 'us'))
    """
    if isinstance(value, str) or hasattr(value, "total_seconds"):
        return microseconds(name, value), MICROSECONDS
    if not _positive(value):
        raise invalid(name, value, "a number > 0, or a duration such as '5 minutes'")
    if not _positive(unit):
        raise invalid("unit", unit, "a number > 0", hint="the finest step of time between two window starts")
    step = float(unit)
    units = float(value) / step
    whole = round(units)
    if whole < 1 or abs(units - whole) > 1e-9 * whole:
        hint = f"pass unit= a step that {value!r} is a multiple of, the same one for all windows"
        raise invalid(name, value, f"a whole number of units of {unit!r}", hint=hint)
    return whole, int(step) if step.is_integer() else step


def microseconds(name: str, value: Any) -> int:
    """Return a duration, a text or a timedelta, in microseconds."""
    exact = seconds(name, value) * 1e6
    whole = round(exact)
    if whole < 1 or abs(exact - whole) > 1e-9 * whole:
        raise invalid(name, value, "a whole number of microseconds, the finest step of a timestamp")
    return whole


def _positive(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number = float(value)
    return math.isfinite(number) and number > 0.0
