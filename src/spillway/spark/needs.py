"""Which rows and which windows are needed, given the windows of the drop that are kept.

On Spark the result of a window [s, s + ω) has the time s + ω - 1 µs (``window_time``), so in a pipeline an inner
window is needed if a needed window below contains its last microsecond:

    leaf     the window from s is allowed       if drop window ⌊s / δ_drop⌋ is kept
    inner    the window from s is allowed       if some aggregate below needs a row of time s + ω - 1
    a row of time t is needed by an aggregate   if an allowed window of it contains t

All sizes and slides are multiples of one granule, their greatest common divisor, so a question about t has the
same answer everywhere in [j g, (j + 1) g). The answers are worked out for whole ranges of granules and windows, and
the plan only looks them up. They are exact: no row is kept that no window needs, unlike with the paper's drop
window, whose size is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillway.core.windows import Arrangement, Level

Bools = NDArray[np.bool_]
Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Kept:
    """The windows of the drop that were decided, from number ``first`` on; all others are kept."""

    slide: int
    first: int = 0
    bits: str = ""

    def of(self, starts: NDArray[np.int64]) -> Bools:
        """Return for windows with these starts whether the drop window that they begin in is kept."""
        index = starts // self.slide - self.first
        bits = np.frombuffer(self.bits.encode(), dtype=np.uint8) == ord("1")
        inside = (index >= 0) & (index < len(bits))
        found = np.ones(len(index), dtype=np.bool_)
        found[inside] = bits[index[inside]]
        return found


def granule_of(arrangement: Arrangement) -> int:
    """Return the greatest common divisor of all sizes and slides."""
    windows = {window for path in arrangement.paths() for window in path}
    return math.gcd(*(part for window in windows for part in (window.size, window.slide)))


def span_of(arrangement: Arrangement) -> int:
    """Return how far apart a row and the end of the last window that it has a part in can be."""
    return max(sum(window.size for window in path) for path in arrangement.paths())


def inner_of(arrangement: Arrangement) -> int:
    """Return how far after a row the last leaf window can begin that it has a part in."""
    return max(sum(window.size for window in path[:-1]) for path in arrangement.paths())


def allowed(level: Level, first: int, count: int, granule: int, kept: Kept) -> Bools:
    """Return whether each of ``count`` windows of an aggregate, from number ``first`` on, is allowed."""
    starts = np.arange(first, first + count, dtype=np.int64) * level.window.slide
    if not level.below:
        return kept.of(starts)
    last = (starts + level.window.size) // granule - 1
    found = np.zeros(count, dtype=np.bool_)
    if count:
        low, high = int(last[0]), int(last[-1])
        for below in level.below:
            found |= open_windows(below, low, high - low + 1, granule, kept)[last - low] > 0
    return found


def open_windows(level: Level, first: int, count: int, granule: int, kept: Kept) -> Counts:
    """Return how many allowed windows contain each of ``count`` granules, from number ``first`` on."""
    size, slide = level.window.size // granule, level.window.slide // granule
    low = -((size - 1 - first) // slide)
    high = (first + count - 1) // slide
    which = allowed(level, low, high - low + 1, granule, kept)
    starts = np.arange(low, high + 1, dtype=np.int64)[which] * slide - first
    changes = np.zeros(count + 1, dtype=np.int32)
    np.add.at(changes, np.clip(starts, 0, count), 1)
    np.add.at(changes, np.clip(starts + size, 0, count), -1)
    return np.cumsum(changes[:-1], dtype=np.int32)
