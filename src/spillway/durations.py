"""Reads durations as people write them: ``"2 seconds"``, ``"500 ms"``, ``"1 minute 30 seconds"``."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction

from spillway.errors import invalid, unknown

_UNITS = {
    "us": Fraction(1, 10**6),
    "usec": Fraction(1, 10**6),
    "microsecond": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "msec": Fraction(1, 10**3),
    "millisecond": Fraction(1, 10**3),
    "s": Fraction(1),
    "sec": Fraction(1),
    "second": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "minute": Fraction(60),
    "h": Fraction(3600),
    "hour": Fraction(3600),
    "d": Fraction(86400),
    "day": Fraction(86400),
    "w": Fraction(604800),
    "week": Fraction(604800),
}
_WORD = 3  # the least letters of a unit that is a word; shorter units are signs
_PART = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([a-zA-Z]+)\s*(?:,|and\b)?")
_ALLOWED = "a positive duration such as '2 seconds', '500 ms' or '1 minute 30 seconds'"
_MICROSECOND = timedelta(microseconds=1)

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
    try:
        return float(exact_seconds(field, value))
    except OverflowError as error:
        raise invalid(field, value, _ALLOWED, hint="it is too long for a number") from error


def exact_seconds(field: str, value: Duration) -> Fraction:
    """Return a duration in seconds without any rounding: the exact value of the text or of the number.

    >>> exact_seconds("size", "1 week 0.1 us") - 604800
    Fraction(1, 10000000)
    """
    if isinstance(value, timedelta):
        rest = (value % _MICROSECOND).total_seconds()  # a subclass may have a finer resolution
        found = Fraction(value // _MICROSECOND, 10**6) + Fraction(rest)
    elif isinstance(value, str):
        found = _parse(field, value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        found = Fraction(value)
    else:
        raise invalid(field, value, _ALLOWED)
    if found <= 0:
        raise invalid(field, value, _ALLOWED)
    return found


def _parse(field: str, text: str) -> Fraction:
    at, total = 0, Fraction(0)
    while at < len(text.rstrip()):
        part = _PART.match(text, at)
        if part is None:
            raise invalid(field, text, _ALLOWED)
        number, unit = part.groups()
        name = unit.lower()
        plural = len(name) > _WORD  # "mins" is a plural, "mss" is not
        scale = _UNITS.get(name) or (_UNITS.get(name.removesuffix("s")) if plural else None)
        if scale is None:
            raise unknown(f"{field} (unit)", unit, _UNITS)
        total += Fraction(number) * scale
        at = part.end()
    return total
