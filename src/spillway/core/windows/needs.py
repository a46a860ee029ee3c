"""Computes exactly, for whole ranges, which rows and which windows are needed, given the kept windows of the drop.

:mod:`~spillway.core.windows.reach` answers the same question for one window of the drop at a time, as the paper does:
with one interval, which is an upper bound. Here the decisions are known, and a plan looks the answers up.

On Spark the result of a window [s, s + ω) has the time s + ω - 1 µs (``window_time``), so in a pipeline an inner
window is needed if a needed window below contains its last microsecond:

    leaf     the window from s is allowed       if drop window ⌊s / δ_drop⌋ is kept
    inner    the window from s is allowed       if some aggregate below needs a row of time s + ω - 1
    a row of time t is needed by an aggregate   if an allowed window of it contains t

All sizes and slides are multiples of one granule, their greatest common divisor, so a question about t has the
same answer everywhere in [j g, (j + 1) g). The answers are computed for whole ranges of granules and windows, and
the plan only looks them up. No row is kept that no window needs.

**The work that is left.** Each row adds work to every window that contains it. If a share p of the drop's windows
is dropped, a share 1 - p of this work is left where the drop stands right before a leaf. Above a leaf, less is saved:
an inner window is needed as long as any of the outer windows that read it is. :func:`shares_left` counts this along
actual decisions, for p from 0 to the maximum that the bound on gaps allows. In a pipeline a tenth of the work is
assumed to be behind the inner aggregate, where a share p is always saved; so p rises with the overload and does not
jump to its maximum where dropping windows hardly helps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillway.core.windows.arrangement import Arrangement, Level
from spillway.core.windows.decisions import DropConfig

Bools = NDArray[np.bool_]
Counts = NDArray[np.int32]

STEPS = 32
_MOST_COUNTED = 400_000  # granules
_MOST_DECIDED = 20_000  # windows of the drop
_FEW_DECIDED = 4_000
_BEHIND = 0.1  # of the work of a pipeline: assumed to be behind its first aggregate


@dataclass(frozen=True)
class Kept:
    """The decided windows of the drop, from number ``first`` on; all others are kept."""

    slide: int
    first: int = 0
    bits: str = ""

    def of(self, starts: NDArray[np.int64]) -> Bools:
        """Return whether the drop windows in which windows with these starts begin are kept."""
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
    """Return how far the end of the last window that uses a row can be from the row."""
    return max(sum(window.size for window in path) for path in arrangement.paths())


def inner_of(arrangement: Arrangement) -> int:
    """Return how long after a row the last leaf window that uses it can begin."""
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


def together_of(arrangement: Arrangement, max_gap: int) -> int:
    """Return how many windows of the drop should be dropped together: enough for early drops, and no more.

    A row is in ω/δ windows of the drop at a time; if twice as many in a row are dropped, half of their rows are in no
    kept window.

    >>> from spillway.core.windows import sliding, tumbling
    >>> together_of(tumbling("1 hour"), 9), together_of(sliding("3 hours", "1 hour"), 9)
    (1, 6)
    """
    size, slide = arrangement.drop_units()
    return 1 if size <= slide else min(max_gap, 2 * -(-size // slide))


def shares_left(arrangement: Arrangement, level: Level, max_gap: int) -> tuple[float, ...]:
    """Return the share of an aggregate's work that is left, for p in :data:`STEPS` steps from 0 to the maximum.

    >>> from spillway.core.windows import sliding, tumbling
    >>> def half(of: Arrangement, max_gap: int) -> float:
    ...     return round(shares_left(of, of.levels()[0], max_gap)[STEPS // 2], 2)
    >>> half(sliding("1 hour", "5 minutes"), 11), half(tumbling("5 minutes") >> tumbling("1 hour"), 11)
    (0.54, 0.54)
    >>> half(tumbling("5 minutes") >> sliding("1 hour", "5 minutes"), 11)
    0.95
    """
    config = DropConfig(max_gap=max_gap, batch=together_of(arrangement, max_gap), even=True)
    wanted = np.linspace(0.0, config.most, STEPS + 1)
    if not level.below:
        return tuple(float(1.0 - p) for p in wanted)
    _, slide = arrangement.drop_units()
    granule = granule_of(arrangement)
    decided = min(max(50 * max_gap, _FEW_DECIDED), _MOST_DECIDED, max(_MOST_COUNTED * granule // slide, 1))
    margin = span_of(arrangement)
    first = -(-margin // level.window.slide)
    count = max(1, (decided * slide - 2 * margin) // level.window.slide)
    gone, left = [], []
    for p in wanted:
        kept = config.build().decide(0, decided, float(p))
        bits = "".join("1" if each else "0" for each in kept)
        gone.append(1.0 - sum(kept) / decided)
        left.append(float(allowed(level, first, count, granule, Kept(slide, 0, bits)).mean()))
    smooth = np.minimum.accumulate(np.interp(wanted, np.maximum.accumulate(gone), left))
    return tuple(float(share) for share in (1.0 - _BEHIND) * smooth + _BEHIND * (1.0 - wanted))
