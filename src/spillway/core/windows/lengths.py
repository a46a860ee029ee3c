"""Converts lengths of windows to whole numbers: of a unit, or of microseconds where they are durations.

>>> microseconds("size", "1 minute 30 seconds"), microseconds("size", "0.1 ms")
(90000000, 100)
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from spillway.durations import exact_seconds
from spillway.errors import invalid

MICROSECONDS = "us"
MOST = 2**62
"""The maximum length of a window, in units."""

Unit = float | str

_ULPS = 4.0


def units_of(name: str, value: Any, unit: Any) -> tuple[int, Unit]:
    """Return a length as a whole number of units, and the unit.

    >>> units_of("size", 1.5, 0.5), units_of("size", "2 ms", 1)
    ((3, 0.5), (2000, 'us'))
    """
    if isinstance(value, str) or hasattr(value, "total_seconds"):
        return microseconds(name, value), MICROSECONDS
    if not _positive(value):
        raise invalid(name, value, "a number > 0, or a duration such as '5 minutes'")
    if not _positive(unit):
        raise invalid("unit", unit, "a number > 0", hint="the finest step of time between two window starts")
    if isinstance(value, Integral) and isinstance(unit, Integral):
        whole, rest = divmod(int(value), int(unit))
        fits = rest == 0
    else:
        units = float(value) / float(unit)
        whole = round(units)
        fits = abs(units - whole) <= _ULPS * math.ulp(units)  # 0.3 counts as 3 units of 0.1
    if whole < 1 or not fits:
        hint = f"pass unit= a step that {value!r} is a multiple of, the same one for all windows"
        raise invalid(name, value, f"a whole number of units of {unit!r}", hint=hint)
    if whole > MOST:
        raise invalid(name, value, f"at most 2^62 units of {unit!r}")
    return whole, int(unit) if float(unit).is_integer() else float(unit)


def microseconds(name: str, value: Any) -> int:
    """Return a duration, given as a text or a timedelta, in microseconds."""
    exact = exact_seconds(name, value) * 10**6
    if exact.denominator != 1:
        raise invalid(name, value, "a whole number of microseconds, the finest step of a timestamp")
    if exact > MOST:
        raise invalid(name, value, "at most 50 million days: a timestamp holds no more")
    return exact.numerator


def _positive(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return math.isfinite(number) and number > 0.0
