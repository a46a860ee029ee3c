"""Lengths of windows as whole numbers: of a unit, or of microseconds where they are durations.

Durations are read as :mod:`spillway.durations` reads them (a test holds the two together), but exactly: that module
gives seconds as a float and is not among those that ``core`` may import.

>>> microseconds("size", "1 minute 30 seconds"), microseconds("size", "0.1 ms")
(90000000, 100)
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from numbers import Real
from typing import Any

from spillway.errors import invalid, unknown

MICROSECONDS = "us"
Unit = float | str

_UNITS = {
    **dict.fromkeys(("us", "microsecond"), 1),
    **dict.fromkeys(("ms", "millisecond"), 1_000),
    **dict.fromkeys(("s", "sec", "second"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute"), 60_000_000),
    **dict.fromkeys(("h", "hour"), 3_600_000_000),
    **dict.fromkeys(("d", "day"), 86_400_000_000),
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*(?:,|and\b)?")
_ALLOWED = "a positive duration such as '5 minutes', '500 ms' or '1 minute 30 seconds'"


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
    exact = _parsed(name, value) if isinstance(value, str) else Fraction(round(value.total_seconds() * 1e6))
    if exact <= 0:
        raise invalid(name, value, _ALLOWED)
    if exact.denominator != 1:
        raise invalid(name, value, "a whole number of microseconds, the finest step of a timestamp")
    return exact.numerator


def _parsed(name: str, text: str) -> Fraction:
    at, total = 0, Fraction(0)
    while at < len(text.rstrip()):
        part = _PART.match(text, at)
        if part is None:
            raise invalid(name, text, _ALLOWED)
        number, unit = part.groups()
        scale = _UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s"))
        if scale is None:
            raise unknown(f"{name} (unit)", unit, _UNITS)
        total += Fraction(number) * scale
        at = part.end()
    return total


def _positive(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number = float(value)
    return math.isfinite(number) and number > 0.0
