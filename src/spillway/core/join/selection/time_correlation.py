"""Algorithm 2, time correlation: learns from the comparisons which basic windows yield most (Section 5.1).

For every basic window the join counts how many comparisons it made with rows in it and how many matched. Every T_c
seconds the counts become estimates and the basic windows are put in order:

    o_(i,j) = ô_(i,j) / ĉ_(i,j)           matches per comparison with a row in B_(i,j)
    s_i     = the j's in descending order of o_(i,j); at equal o the newer one first

Rows processed in full, a share γr of all, sample every basic window, so that a correlation that moves is found again.

**Errors in the paper.** Algorithm 3, line 5, adds 1 to the old estimate o; it should add to the counter ô. Section
5.2 has r replaced by r_i in line 5 of Algorithm 2, but rows are sampled with probability γr, whatever r_i is: o_i
of a window with a small r_i would be too high, and with r_i = 0 it would not exist.

**Deviations.** The paper divides by the comparisons that it expects, γ r b λ_1 λ_2 T_c. Here the comparisons that
were made are counted. So the estimate also holds when rates change and when a basic window is only partly filled
(the newest, the oldest), and it may use selective comparisons too, not only full ones: which rows are compared does
not depend on whether they match. And old counts are not discarded but multiplied by ``memory`` after each period;
at small r they are most of what is known. A basic window that was never compared gets the mean of the others.

======  ===========================================================
symbol  meaning
======  ===========================================================
ô, ĉ    ``matched``, ``compared``, counted since the last step
o_i,j   ``density``: matches per comparison
s_i     ``order``
T_c     period of the steps, kept by the caller
======  ===========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats, Ints
from spillway.core.inlined import inlined, lent
from spillway.core.join.access.matches import Matches
from spillway.core.join.meetings import Meetings
from spillway.core.join.selection.range_selection import Chooser, age, ending
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel


@inlined
def _next(times: Any, first: int, partners: Any, low: int, high: int, until: int) -> Any:
    """Return the first match in [low, high) whose partner is not older than ``until``; matches are sorted by time."""
    while low < high:
        middle = (low + high) >> 1
        if times[partners[middle] - first] < until:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _tally(
    firsts: Any, partners: Any, full: Any, all_count: bool, side: Any, time: Any, times: Any, other_times: Any,
    first: int, other_first: int, length: int, smooth: bool, met: Any, compared: Any, matched: Any,
) -> None:  # fmt: skip
    """Count comparisons and matches by window and basic window; matches of all rows, or only of full ones."""
    for i in range(len(compared)):
        for z in range(met.shape[1]):
            for j in range(met.shape[2]):
                compared[i, j] += met[i, z, j]
    times, other_times = lent(times), lent(other_times)
    for k in range(len(side)):
        window, before = (times, first) if side[k] else (other_times, other_first)
        m, end = firsts[k], firsts[k + 1]
        while m < end and (all_count or full[k]):
            j = age(time[k], window[partners[m] - before], length, smooth)
            after = _next(window, before, partners, m, end, ending(time[k], j, length, smooth))
            matched[1 - side[k], j] += after - m
            m = after


@kernel
def _estimate(
    matched: Any, compared: Any, old_matched: Any, old_compared: Any, memory: float, count: Any, density: Any,
    order: Any, newer: Any, mean: Any,
) -> None:  # fmt: skip
    """Turn counts into estimates, and sort the basic windows by them; new counts become old ones."""
    for i in range(2):
        n, known, average = count[i], 0, 0.0
        for j in range(n):
            old_matched[i, j] = memory * old_matched[i, j] + matched[i, j]
            old_compared[i, j] = memory * old_compared[i, j] + compared[i, j]
            matched[i, j] = compared[i, j] = 0.0
            if old_compared[i, j] > 0.0:
                known += 1
                average += old_matched[i, j] / old_compared[i, j]
        average /= max(1, known)
        o, total = density[i], 0.0
        for j in range(n):
            o[j] = old_matched[i, j] / old_compared[i, j] if old_compared[i, j] > 0.0 else average
            total += o[j]
            at = j
            while at > 0 and o[order[i, at - 1]] < o[j]:
                order[i, at] = order[i, at - 1]
                at -= 1
            order[i, at] = j
        for j in range(n):
            newer[i, j] = o[max(0, j - 1)] >= o[min(n - 1, j + 1)]
        mean[i] = total / n


class Correlation:
    """Counts by basic window, and the order that follows from them."""

    def __init__(self, count: Ints, memory: float) -> None:
        self.count, self.memory = count, memory
        shape = (2, int(count.max()))
        self.matched, self.compared = np.zeros(shape), np.zeros(shape)
        self._old_matched, self._old_compared = np.zeros(shape), np.zeros(shape)
        self.density: Floats = np.zeros(shape)
        self.order: Ints = np.tile(np.arange(shape[1]), (2, 1))
        self.newer: npt.NDArray[np.bool_] = np.ones(shape, np.bool_)
        self.mean: Floats = np.zeros(2)  # o_i, matches per comparison with a row anywhere in window i

    def tally(
        self, stores: tuple[Store, Store], meetings: Meetings, matches: Matches, chooser: Chooser, full: Any,
        *, all_count: bool,
    ) -> None:  # fmt: skip
        """Count the comparisons that a chooser has noted, and the matches of rows: all, or those of full ones."""
        left, right = stores
        firsts, partners, _ = matches.found
        _tally(
            *(firsts, partners, full, all_count, meetings.side, meetings.time, left.times, right.times),
            *(
                left.first,
                right.first,
                chooser.length,
                chooser.smooth,
                chooser.met,
                self.compared,
                self.matched,
            ),
        )

    def step(self, periods: int = 1) -> None:
        """Turn the counts into estimates and sort the basic windows.

        Where more than one period has passed, no rows arrived in the later ones: the estimates stay, but weigh less.
        """
        _estimate(
            *(self.matched, self.compared, self._old_matched, self._old_compared, self.memory, self.count),
            *(self.density, self.order, self.newer, self.mean),
        )
        if periods > 1:
            fading = self.memory ** (periods - 1)
            self._old_matched *= fading
            self._old_compared *= fading

    def snapshot(self) -> dict[str, Any]:
        """Return the state as arrays."""
        return {
            "matched": self.matched, "compared": self.compared, "old_matched": self._old_matched,
            "old_compared": self._old_compared, "density": self.density, "order": self.order,
            "newer": self.newer.astype(np.int64), "mean": self.mean,
        }  # fmt: skip

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        self.matched, self.compared = state["matched"].copy(), state["compared"].copy()
        self._old_matched, self._old_compared = state["old_matched"].copy(), state["old_compared"].copy()
        self.density, self.order = state["density"].copy(), state["order"].copy()
        self.mean = state["mean"].copy()
        self.newer = state["newer"].astype(np.bool_)
