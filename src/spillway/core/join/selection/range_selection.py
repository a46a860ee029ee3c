"""Algorithm 3: selects what a row is compared with, the whole opposite window or its best part (Sections 5.1, 5.2).

The window W_i is cut into basic windows B_(i,j) by age: j = 0 is the newest. With r_(i,z) the fraction for a row
of type z that meets W_i, and s_i the basic windows in the order of what they are expected to yield:

    full        the whole of W_i, for few rows, to learn from
    selective   a = r_(i,z) |W_i| rows: B_(i,s_i(1)), B_(i,s_i(2)), ... until a is used up, and a part of the last one

Rows never move. Because a window is in the order of time, a basic window is a range of row numbers, and its two
ends only increase: the paper's ring of basic windows is here a list of boundaries per window that follow the
time of the row being processed. Boundaries that are not needed are not moved.

Basic windows slide in one of two ways:

    step      as in the paper: on a grid, b apart, the newest one partly filled.                n_i = 1 + ⌈w_i / b⌉
    smooth    B_(i,j) holds rows that are between jb and (j + 1)b older than the one they meet.  n_i = ⌈w_i / b⌉

In steps, a basic window covers ages from jb - b to jb + b over time, which blurs what is learned about it by b. A
smooth basic window always covers the same ages. Both cost the same.

**Deviations.** Of the last basic window the part next to the better neighbour is taken, where the paper says any
part. r_(i,z) |W_i| is rarely a whole number: the fraction of a row that is left over is carried to the next row, so
that the number of comparisons is known beforehand and never above Σ r_(i,z) |W_i|.

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
from typing import Any, Literal, cast

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.inlined import inlined, lent
from spillway.core.join.meetings import Meetings
from spillway.core.join.window_store import Store
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
    if smooth:  # unsigned division is faster
        return np.int64(np.uint64(max(0, time - other - 1)) // np.uint64(length))
    return time // length - other // length


@inlined
def ending(time: int, j: int, length: int, smooth: bool) -> Any:
    """Return the time at which basic window j ends for a row at ``time``; the newest has no end."""
    if j == 0:
        return np.iinfo(np.int64).max
    return time - j * length if smooth else (time // length - j + 1) * length


@inlined
def _seek(times: Any, first: int, at: int, high: int, since: int) -> Any:
    """Return the first row from ``at`` on, below ``high``, that is not older than ``since``.

    Mostly it is one of the next few. They are counted without a branch, which a processor could not predict.
    """
    if high - at > 3:
        at += times[at - first] < since
        at += times[at - first] < since
        at += times[at - first] < since
        if times[at - first] >= since:
            return at
    low = at
    while low < high:
        middle = (low + high) >> 1
        if times[middle - first] < since:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _within(start: int, stop: int, most: int, newer: bool) -> Any:
    """Return at most ``most`` rows of a range, the newer or the older ones."""
    if newer:
        return max(start, stop - most), stop
    return start, min(stop, start + most)


@inlined
def _file(parts: Any, began: int, written: int, start: int, stop: int) -> None:
    """Insert a range in the order of time."""
    at = written
    while at > began and parts[at - 1, 0] > start:
        parts[at, 0], parts[at, 1] = parts[at - 1, 0], parts[at - 1, 1]
        at -= 1
    parts[at, 0], parts[at, 1] = start, stop


@inlined
def _joined(parts: Any, began: int, written: int) -> int:
    """Merge ranges that touch."""
    kept = began
    for at in range(began + 1, written):
        if parts[at, 0] == parts[kept, 1]:
            parts[kept, 1] = parts[at, 1]
        else:
            kept += 1
            parts[kept, 0], parts[kept, 1] = parts[at, 0], parts[at, 1]
    return kept + 1 if written > began else began


@kernel
def _choose(
    meetings: Any, types: Any, times: Any, firsts: Any, full: Any, fraction: Any, carry: Any, order: Any,
    newer: Any, count: Any, edges: Any, length: int, smooth: bool, count_all: bool, met: Any, begins: Any,
    ends: Any, taken: Any, parts: Any, since: int, written: int,
) -> tuple[int, int]:  # fmt: skip
    """Choose ranges for rows from ``since`` on; stop where there is no room for the parts of one more row."""
    side, row, time, low, high = lent(meetings)
    types, all_times, parts = lent(types), lent(times), lent(parts)
    for k in range(since, len(side)):
        if written + edges.shape[1] > len(parts):
            return k, written
        i, size, n = 1 - side[k], high[k] - low[k], count[1 - side[k]]
        kind = types[0][row[k] - firsts[0]] if i else types[1][row[k] - firsts[1]]
        share = 1.0 if full[k] else fraction[i, kind]
        a = size
        if share < 1.0:
            whole = share * size + carry[i]
            a = min(size, np.int64(math.floor(whole + 1e-9)))
            carry[i] = whole - a
        begins[k], ends[k], taken[k] = written, written, a
        if a == 0:
            continue
        newest = time[k] - length if smooth else time[k] // length * length  # where basic window 0 begins
        times, first = (all_times[1], firsts[1]) if i else (all_times[0], firsts[0])
        for rank in range(n):
            j = rank if share >= 1.0 else order[i, rank]
            start, stop = low[k], high[k]
            if j > 0:
                at = max(edges[i, j - 1], low[k])
                stop = _seek(times, first, at, high[k], newest - (j - 1) * length)
                edges[i, j - 1] = stop
            if j < n - 1:
                start = _seek(times, first, max(edges[i, j], low[k]), stop, newest - j * length)
                edges[i, j] = start
            start, stop = _within(start, stop, a, newer[i, j])
            if stop > start:
                a -= stop - start
                if count_all or share >= 1.0:
                    met[i, kind, j] += stop - start
                _file(parts, begins[k], written, start, stop)
                written += 1
            if a == 0:
                break
        written = _joined(parts, begins[k], written)
        ends[k] = written
    return len(side), written


class Ranges:
    """The ranges that each row is compared with: row k with ``parts[begins[k]:ends[k]]``, oldest first.

    ``taken`` is how many rows each row is compared with, and ``comparisons`` their sum.
    """

    def __init__(self, begins: Ints, ends: Ints, taken: Ints, parts: Ints) -> None:
        self.taken, self.comparisons = taken, int(taken.sum())
        self.columns = begins, ends, taken, parts  # as compiled code reads them


class Chooser:
    """Keeps the boundaries of the basic windows and the fraction of a comparison that is carried over.

    ``met`` counts comparisons by window, type of the arriving row, and basic window.
    """

    def __init__(self, windows: tuple[int, int], length: int, slide: Slide, types: int = 1) -> None:
        self.windows, self.length, self.smooth = windows, length, slide == "smooth"
        self.count = np.array([basic_windows(window, length, slide) for window in windows])
        self.most = int(self.count.max())
        self.edges = np.zeros((2, self.most), np.int64)
        self.carry = np.zeros(2)
        self.met = np.zeros((2, types, self.most), np.int64)

    @property
    def carried(self) -> float:
        """Comparisons that were carried over, both windows together."""
        return float(self.carry[0] + self.carry[1])

    def shares(self, stores: tuple[Store, Store], time: int) -> Floats:
        """Return what share of each window's rows is in each basic window, for a row that arrives at ``time``.

        If a window has no rows, its shares are equal.
        """
        found = np.zeros((2, self.most))
        newest = time if self.smooth else (time // self.length + 1) * self.length
        for i, (store, n, window) in enumerate(zip(stores, self.count, self.windows, strict=True)):
            ends = newest - np.arange(n) * self.length
            ends[0] = time + 1
            edges = np.maximum(np.append(ends, time - window), time - window)
            at = np.searchsorted(store.times[store.live], edges)
            rows = at[:-1] - at[1:]
            found[i, :n] = rows / rows.sum() if rows.any() else 1.0 / n
        return found

    def choose(
        self,
        stores: tuple[Store, Store],
        meetings: Meetings,
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
        rows, choose = len(meetings), cast(Any, _choose)
        begins, ends, taken = np.empty((3, rows), np.int64)
        parts = np.empty((2 * rows + 2 * self.most, 2), np.int64)
        left, right = stores
        fixed = (
            *(
                meetings.columns,
                (left.types, right.types),
                (left.times, right.times),
                (left.first, right.first),
            ),
            *(full, fraction, self.carry, order, newer, self.count, self.edges, self.length, self.smooth),
            *(count_all, self.met, begins, ends, taken),
        )
        done, written = choose(*fixed, parts, 0, 0)
        while done < rows:
            parts = np.concatenate([parts, np.empty_like(parts)])
            done, written = choose(*fixed, parts, done, written)
        return Ranges(begins, ends, taken, parts)
