"""Computes which part of a stream a kept window of the drop needs, at the input and at every level below it.

The drop decides windows K = 0, 1, ... of slide δ. Leaf i delivers its windows that start in [Kδ, Kδ + δ) if K is
kept. From the leaves to the input, the stream that the levels read has to be complete in [Kδ - b, Kδ + a):

    leaf             b = 0                      a = δ - δ_i + ω_i
    start stamps     b = b'                     a = a' - 1 + ω       the whole window of the last needed stamp
    end stamps       b = b' + ω - 1             a = a'
    side by side     b = max b_i                a = max a_i

where b', a' are those of the levels below. With start stamps this is the paper's Table 2: b = 0 and a is the size
of ``Arrangement.drop_window``.

**Stamps.** In the paper the time of an aggregate's result is the start of its window. Spark's ``window_time``, and
``F.window`` of a window, use the last microsecond inside. Then a result of the second level also needs windows
that begin before it, and b counts how long before. A pipeline's range has the same length either way.

A row at time t is needed if Kδ - b <= t < Kδ + a for some kept K; a window of a level is needed if its stamp is in
the range that the levels below it need.

=======  ==========================================================
symbol   meaning
=======  ==========================================================
ω, δ_i   size of a level's window, slide of a leaf
δ        slide of the drop
b, a     ``before``, ``after``, relative to the start of K
=======  ==========================================================

>>> from spillway.core.windows import sliding, tumbling
>>> query = sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3))
>>> reach(query), reach(query, stamp="end")
(Reach(before=0, after=10), Reach(before=3, after=7))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from spillway.core.windows.arrangement import Arrangement, Level
from spillway.core.windows.window_count import windows_of
from spillway.errors import unknown

Stamp = Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Reach:
    """The range [Kδ - before, Kδ + after) around a window K of the drop, in whole units."""

    before: int
    after: int

    @property
    def size(self) -> int:
        """The length of the range."""
        return self.before + self.after

    def kept_by(self, time: float, slide: int) -> range:
        """Return the windows of the drop that need a tuple of this time: it is kept if any of them is.

        >>> list(Reach(before=0, after=5).kept_by(7, slide=3))
        [1, 2]
        """
        return windows_of(time, size=self.size, slide=slide, before=self.before)


def reach(arrangement: Arrangement, stamp: Stamp = "start") -> Reach:
    """Return the range of the input that a kept window of the drop before an arrangement needs."""
    _, slide = arrangement.drop_units()
    return reach_of(arrangement.levels(), slide, stamp)


def reach_of(levels: Sequence[Level], slide: int, stamp: Stamp = "start") -> Reach:
    """Return the range of a stream that the levels reading it need, given the slide of the drop."""
    if stamp not in get_args(Stamp):
        raise unknown("stamp", stamp, get_args(Stamp))
    parts = [_one(level, slide, stamp) for level in levels]
    return Reach(max(part.before for part in parts), max(part.after for part in parts))


def _one(level: Level, slide: int, stamp: Stamp) -> Reach:
    window = level.window
    if not level.below:
        return Reach(0, slide - window.slide + window.size)
    below = reach_of(level.below, slide, stamp)
    more = window.size - 1
    if stamp == "end":
        return Reach(below.before + more, below.after)
    return Reach(below.before, below.after + more)
