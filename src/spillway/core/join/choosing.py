"""Algorithm 3: what a row is compared with, the whole opposite window or its best part (Sections 5.1 and 5.2).

The window W_i is cut into basic windows B_(i,j) by age: j = 0 is the newest. With r_(i,z) the fraction for a row
of type z that meets W_i, and s_i the basic windows in the order of what they are expected to yield:

    full        the whole of W_i, for few rows, to learn from
    selective   a = r_(i,z) |W_i| rows: B_(i,s_i(1)), B_(i,s_i(2)), ... as long as a lasts, and a part of the last one

Rows never move. Because a window is in the order of time, a basic window is a range of row numbers, and its two
ends only ever go up: the paper's ring of basic windows is here a list of boundaries per window that follow the
time of the row being processed. Boundaries that nothing asks for do not move.

Basic windows slide in one of two ways:

    step      as in the paper: on a grid, b apart, the newest one partly filled.                n_i = 1 + ⌈w_i / b⌉
    smooth    B_(i,j) holds rows that are between jb and (j + 1)b older than the one they meet.  n_i = ⌈w_i / b⌉

In steps a basic window covers ages from jb - b to jb + b over time, which blurs what was learned of it by one b;
smoothly it is always the same ages. It costs the same.

**Deviations.** Of the last basic window the part next to the better neighbour is taken, where the paper says any
part. The fraction of a row that r_(i,z) |W_i| leaves over goes to the next one, so that the number of comparisons
is known beforehand and never above Σ r_(i,z) |W_i|.

======  =========================================================
symbol  meaning
======  =========================================================
r_i,z   ``fraction``: share of window i for an arriving row of type z
s_i     ``order``: basic windows of window i, best first
n_i     ``count``: how many basic windows
b       ``length``, in microseconds
a       rows that may still be compared with
======  =========================================================
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from spillway.core.join.inlined import inlined
from spillway.core.join.sliding import Meetings
from spillway.core.join.store import Store
from spillway.core.join.values import Floats, Ints
from spillway.core.kernel import kernel

Slide = Literal["step", "smooth"]


def basic_windows(window: int, length: int, slide: Slide) -> int:
    """Return n_i, how many basic windows a window has.

    >>> basic_windows(20, 1, "step"), basic_windows(20, 1, "smooth"), basic_windows(25, 10, "smooth")
    (21, 20, 3)
    """
    return max(1, -(-window // length)) + (slide == "step")


@inlined
def age(time: int, other: int, length: int, smooth: bool) -> Any:
    """Return j, the basic window in which a row at ``time`` meets one at ``other``."""
    if smooth:
        return max(0, -(-(time - other) // length) - 1)
    return time // length - other // length


@inlined
def _begin(edges: Any, i: int, j: int, since: int, low: int, high: int, times: Any, firsts: Any) -> Any:
    """Move the boundary at which basic window j begins up to where it is now, and return its row number."""
    at = max(edges[i, j], low)
    if i == 0:
        while at < high and times[0][at - firsts[0]] < since:
            at += 1
    else:
        while at < high and times[1][at - firsts[1]] < since:
            at += 1
    edges[i, j] = at
    return at


@inlined
def _file(parts: Any, began: int, written: int, start: int, stop: int) -> None:
    """Put a range where it belongs in time."""
    at = written
    while at > began and parts[at - 1, 0] > start:
        parts[at, 0], parts[at, 1] = parts[at - 1, 0], parts[at - 1, 1]
        at -= 1
    parts[at, 0], parts[at, 1] = start, stop


@kernel
def _choose(
    meetings: Any, types: Any, full: Any, times: Any, firsts: Any, fraction: Any, carry: Any, order: Any,
    newer: Any, count: Any, edges: Any, length: int, smooth: bool, count_all: bool, met: Any, ends: Any,
    parts: Any, since: int, written: int,
) -> tuple[int, int]:  # fmt: skip
    side, time, low, high = meetings
    most = max(count[0], count[1])
    for k in range(since, len(side)):
        if written + most > len(parts):
            return k, written
        began, size, i = written, high[k] - low[k], 1 - side[k]
        newest = time[k] - length if smooth else time[k] // length * length  # where basic window 0 begins
        share = 1.0 if full[k] else fraction[i, types[k]]
        whole = share * size + (carry[i] if share < 1.0 else 0.0)
        a = min(size, np.int64(math.floor(whole + 1e-9)))
        if share < 1.0:
            carry[i] = whole - a
        for rank in range(count[i]):
            if a <= 0:
                break
            j = rank if share >= 1.0 else order[i, rank]
            start = stop = high[k]
            if j > 0:
                stop = _begin(edges, i, j - 1, newest - (j - 1) * length, low[k], high[k], times, firsts)
            if j == count[i] - 1:
                start = low[k]
            else:
                start = _begin(edges, i, j, newest - j * length, low[k], stop, times, firsts)
            if stop - start > a and newer[i, j]:
                start = stop - a
            elif stop - start > a:
                stop = start + a
            if stop > start:
                a -= stop - start
                met[i, types[k], j] += (stop - start) * (count_all or share >= 1.0)
                _file(parts, began, written, start, stop)
                written += 1
        written = _joined(parts, began, written)
        ends[k] = written
    return len(side), written


@inlined
def _joined(parts: Any, began: int, written: int) -> int:
    """Make one of ranges that touch."""
    kept = began
    for at in range(began + 1, written):
        if parts[at, 0] == parts[kept, 1]:
            parts[kept, 1] = parts[at, 1]
        else:
            kept += 1
            parts[kept, 0], parts[kept, 1] = parts[at, 0], parts[at, 1]
    return kept + 1 if written > began else began


class Ranges:
    """What each row is compared with: row k with ``parts[ends[k - 1]:ends[k]]``, ranges of rows, oldest first."""

    def __init__(self, ends: Ints, parts: Ints) -> None:
        self.ends, self.parts = ends, parts

    @property
    def comparisons(self) -> int:
        """How many pairs that is."""
        return int((self.parts[:, 1] - self.parts[:, 0]).sum())


class Chooser:
    """Keeps the boundaries of the basic windows and what is left of a comparison.

    ``met`` counts comparisons by window, type of the arriving row, and basic window.
    """

    def __init__(self, windows: tuple[int, int], length: int, slide: Slide, types: int = 1) -> None:
        self.length, self.smooth = length, slide == "smooth"
        self.count = np.array([basic_windows(window, length, slide) for window in windows])
        self.edges = np.zeros((2, self.count.max()), np.int64)
        self.carry = np.zeros(2)
        self.met = np.zeros((2, types, self.count.max()), np.int64)

    def choose(
        self,
        stores: tuple[Store, Store],
        meetings: Meetings,
        types: Ints,
        full: Any,
        fraction: Floats,
        order: Ints,
        newer: Any,
        *,
        count_all: bool,
    ) -> Ranges:
        """Return the ranges for rows that are processed next, in order.

        ``count_all`` counts selective comparisons too, not only those of rows that meet a whole window.
        """
        ends = np.empty(len(meetings), np.int64)
        parts = np.empty((2 * len(meetings) + 2 * self.count.max(), 2), np.int64)
        done = written = 0
        left, right = stores
        fixed: tuple[Any, ...] = (
            (meetings.side, meetings.time, meetings.low, meetings.high),
            *(types, full, (left.times, right.times), (left.first, right.first)),
            *(fraction, self.carry, order, newer, self.count, self.edges, self.length, self.smooth),
            *(count_all, self.met, ends),
        )
        choose: Any = _choose
        while True:
            done, written = choose(*fixed, parts, done, written)
            if done == len(meetings):
                return Ranges(ends, parts[:written])
            parts = np.concatenate([parts, np.empty_like(parts)])
