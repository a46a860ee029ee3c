"""Durations as people write them: ``"2 seconds"``, ``"500 ms"``, ``"1 minute 30 seconds"``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from spillway.errors import invalid, unknown

_UNITS = {
    "us": 1e-6,
    "microsecond": 1e-6,
    "ms": 1e-3,
    "millisecond": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*(?:,|and\b)?")
_ALLOWED = "a positive duration such as '2 seconds', '500 ms' or '1 minute 30 seconds'"

Duration = str | float | timedelta


def seconds(field: str, value: Duration) -> float:
    """Return a duration in seconds; a bare number is in seconds already.

    >>> seconds("target_delay", "1 minute 30 seconds")
    90.0
    >>> seconds("target_delay", "2 secnds")
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: target_delay (unit) = 'secnds' is not allowed: ... did you mean 'second'?
    """
    if isinstance(value, timedelta):
        found = value.total_seconds()
    elif isinstance(value, str):
        found = _parse(field, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    else:
        raise invalid(field, value, _ALLOWED)
    if not (math.isfinite(found) and found > 0.0):
        raise invalid(field, value, _ALLOWED)
    return found


def _parse(field: str, text: str) -> float:
    at, total = 0, 0.0
    while at < len(text.rstrip()):
        part = _PART.match(text, at)
        if part is None:
            raise invalid(field, text, _ALLOWED)
        number, unit = part.groups()
        scale = _UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s"))
        if scale is None:
            raise unknown(f"{field} (unit)", unit, _UNITS)
        total += float(number) * scale
        at = part.end()
    return total
