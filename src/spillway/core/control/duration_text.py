"""Formats durations for people, for use in the reasons of decisions."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a time with three digits and the unit that suits it.

    >>> duration(2.0), duration(0.00526), duration(1.2e-05), duration(3.4e-10), duration(0.0)
    ('2 s', '5.26 ms', '12 µs', '0.34 ns', '0 s')
    """
    if seconds >= 1.0 or seconds <= 0.0:
        return f"{seconds:.3g} s" if seconds < 1000.0 else f"{seconds:,.0f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    if seconds >= 1e-6:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e9:.3g} ns"
