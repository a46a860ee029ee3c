"""Algorithm 2: time correlation. Which basic windows yield most, learned from what was compared (Section 5.1).

For every basic window the join counts how many comparisons it made with rows in it and how many matched. Every T_c
seconds the counts become estimates and the basic windows are put in order:

    o_(i,j) = ô_(i,j) / ĉ_(i,j)           matches per comparison with a row in B_(i,j)
    s_i     = the j's in descending order of o_(i,j); at equal o the newer one first

Rows processed in full, a share γr of all, keep every basic window in view, so that a correlation that moves is
found again.

**Slips of the paper.** Algorithm 3, line 5, adds 1 to the old estimate o; it is the counter ô that counts. Section
5.2 has r replaced by r_i in line 5 of Algorithm 2, but rows are sampled with probability γr, whatever r_i is: o_i
of a window with a small r_i would come out too high, and with r_i = 0 not at all.

**Deviations.** The paper divides by the comparisons that it expects, γ r b λ_1 λ_2 T_c. Here those that were made
are counted. So the estimate also holds when rates change, when a basic window is only partly filled (the newest,
the oldest), and it may use selective comparisons too, not only full ones: which rows are compared does not depend
on whether they match. And old counts are not thrown away but weigh ``memory`` times less after each period, which
at small r is most of what is known. A basic window that was never compared counts as average.

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

from spillway.core.join.choosing import age
from spillway.core.join.values import Floats, Ints
from spillway.core.kernel import kernel


@kernel
def matches_by_age(
    keys: Any, partners: Any, counts: Any, side: Any, time: Any, times: Any, firsts: Any, length: Any,
    smooth: Any, found: Any,
) -> None:  # fmt: skip
    """Count matches by window and basic window; only those of rows that count."""
    for m in range(len(keys)):
        k = keys[m]
        if counts[k]:
            i = 1 - side[k]
            other = times[0][partners[m] - firsts[0]] if i == 0 else times[1][partners[m] - firsts[1]]
            found[i, age(time[k], other, length, smooth)] += 1


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

    def tally(self, compared: Ints, matched: Ints) -> None:
        """Count comparisons and matches, both by window and basic window."""
        self.compared += compared
        self.matched += matched

    def step(self) -> None:
        """Turn the counts into estimates and sort the basic windows."""
        self._old_matched = self.memory * self._old_matched + self.matched
        self._old_compared = self.memory * self._old_compared + self.compared
        self.matched, self.compared = np.zeros_like(self.matched), np.zeros_like(self.compared)
        for i, n in enumerate(self.count):
            matched, compared = self._old_matched[i, :n], self._old_compared[i, :n]
            average = matched.sum() / compared.sum() if compared.any() else 0.0
            o = np.where(compared > 0, matched / np.maximum(compared, 1e-300), average)
            self.density[i, :n] = o
            self.order[i, :n] = np.argsort(-o, kind="stable")
            before, after = np.concatenate([o[:1], o[:-1]]), np.concatenate([o[1:], o[-1:]])
            self.newer[i, :n] = before >= after

    def mean(self) -> Floats:
        """Return o_i, the matches per comparison with a row anywhere in window i."""
        return np.array([self.density[i, :n].mean() for i, n in enumerate(self.count)])

    def snapshot(self) -> dict[str, Any]:
        """Return the state as arrays."""
        return {
            "matched": self.matched, "compared": self.compared, "old_matched": self._old_matched,
            "old_compared": self._old_compared, "density": self.density, "order": self.order,
            "newer": self.newer.astype(np.int64),
        }  # fmt: skip

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        self.matched, self.compared = state["matched"].copy(), state["compared"].copy()
        self._old_matched, self._old_compared = state["old_matched"].copy(), state["old_compared"].copy()
        self.density, self.order = state["density"].copy(), state["order"].copy()
        self.newer = state["newer"].astype(np.bool_)
