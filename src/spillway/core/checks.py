"""Checks that every config of this package makes when it is constructed."""

from __future__ import annotations

import math

from spillway.errors import invalid


def require_number(
    field: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    hint: str | None = None,
) -> None:
    """Raise unless the value is a finite number from ``low`` to ``high``; ``above`` leaves ``low`` out.

    >>> require_number("target_delay_s", 0, 0, above=True)
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: target_delay_s = 0 is not allowed: expected a finite number > 0.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if number and low <= value <= high and not (above and value == low):  # type: ignore[operator]
        return
    bounds = [] if low == -math.inf else [f"{'>' if above else '>='} {low:g}"]
    bounds += [] if high == math.inf else [f"<= {high:g}"]
    raise invalid(field, value, " ".join(["a finite number", " and ".join(bounds)]).rstrip(), hint=hint)


def require_whole(field: str, value: object, low: int, high: int) -> None:
    """Raise unless the value is an int from ``low`` to ``high``."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise invalid(field, value, f"a whole number from {low} to {high}")
