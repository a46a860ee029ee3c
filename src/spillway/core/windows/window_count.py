"""Implements the window count function: to how many windows a tuple belongs (Section 3.4, Definition 1).

Windows start at θ + jδ for j = 0, 1, ...; let ω = mδ + φ with 0 <= φ < δ, and i = ⌊(t - θ)/δ⌋. Then

    WCF(t) = i + 1     if i < m                                 the stream has just begun
             m + 1     if i >= m and t < θ + (i - m)δ + ω       window i - m is still open
             m         otherwise

The paper writes closed intervals of whole numbers; here they are half-open, so that t may be any number. All starts
and ends are whole, so only ⌊t⌋ matters, and nothing is lost by rounding. Windows
that are aligned on the time line, like Spark's, have no θ: the first case does not occur, and windows that start
before the first tuple may hold it too. ``windows_of`` returns their numbers.

**Early drop rule.** A tuple may be dropped at once if and only if all of its windows are dropped.

>>> [window_count(t, size=5, slide=3) for t in range(8)]
[1, 1, 1, 2, 2, 1, 2, 2]
>>> list(windows_of(7, size=5, slide=3))
[1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Collection


def window_count(time: float, *, size: int, slide: int, first: int = 0) -> int:
    """Return the number of windows that a tuple belongs to, in a stream whose first tuple has time ``first``."""
    t, omega, delta, theta = math.floor(time), size, slide, first
    m = omega // delta
    i = (t - theta) // delta
    if i < m:
        return i + 1
    return m + 1 if t < theta + (i - m) * delta + omega else m


def windows_of(time: float, *, size: int, slide: int, before: int = 0) -> range:
    """Return the numbers k of the aligned windows that hold a time: [k slide - before, k slide - before + size)."""
    t = math.floor(time) + before
    return range((t - size) // slide + 1, t // slide + 1)


def may_drop(time: float, kept: Collection[int], *, size: int, slide: int) -> bool:
    """Return whether a tuple belongs to no kept window.

    >>> may_drop(7, {0, 1}, size=5, slide=3), may_drop(8, {0, 1}, size=5, slide=3)
    (False, True)
    """
    return not any(k in kept for k in windows_of(time, size=size, slide=slide))
