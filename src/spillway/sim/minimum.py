"""The least possible loss: what a shedder would lose that knows all arrivals and costs beforehand.

*The problem.* Rows arrive at a₁ <= a₂ <= ... and each must be done by its arrival plus the target. One processor
finishes rows at a rate that changes with their cost, H / c(t). How many rows must be lost at least?

*Service tokens.* Let S(t) = ∫₀ᵗ H / c(s) ds be the rows that a processor which is never idle could have finished
by t. On the clock S every row takes exactly one unit of time, however costs change; row i is released at
rᵢ = S(aᵢ) and due at dᵢ = S(aᵢ + y_d). With a target that stays or rises, releases and deadlines are in the same
order ("agreeable"); after a fall of the target, rows that came later are due earlier.

*The rule, where deadlines are in order.* Go through the rows as they arrive; with F the time at which the last
admitted row will be done, admit row i if and only if max(F, rᵢ) + 1 <= dᵢ, and then F = max(F, rᵢ) + 1.

*Why no other choice keeps more.* Take any set of rows that can all be done in time, and serve them in the order of
arrival: as deadlines are agreeable, swapping two rows that are served out of order keeps both in time. Let j₁ < j₂ <
... be that set, done at C₁, C₂, ..., and g₁ < g₂ < ... the rule's choice, done at G₁, G₂, .... Then for every k the
rule has a k-th row, with g_k <= j_k and G_k <= C_k. By induction: let it hold for k - 1. If the rule admits some row
after g_(k-1) and before j_k, that is g_k, released no later than j_k. If not, it comes to j_k, and with r and d its
release and deadline, max(G_(k-1), r) + 1 <= max(C_(k-1), r) + 1 <= C_k <= d, so it admits j_k. Either way
G_k = max(G_(k-1), r_(g_k)) + 1 <= C_k.

Preemption would not help, by the same exchange.

*The rule, where they are not.* Work on the admitted row that is due first, and set it aside when a row comes that is
due earlier (an operator is less than a row, so an engine can). Admit every row as it comes; if the admitted rows can
then not all be done, let k be the first of them, in the order of deadlines, that would be late, and give up one of
those due no later than k that has not been begun: the one due first. There always is one (the new row is one of
them), and without it all others are in time again, since one unit was too much and one unit is gone.

So no work is ever wasted, the processor idles only when nothing is left to do, and of all the rows that could be
given up it is one that leaves the latest deadlines behind. It is Moore and Hodgson's rule (give up the longest, when
one is late) for rows of one length that are released over time. Where deadlines are in order it admits as many as the
first rule, which is faster. That no choice keeps more was compared with all choices on small cases, in the tests.

*What it knows and what not.* Every row counts with the mean cost of its time: which of the filters a row will pass is
the content of the row, which no shedder here looks at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.kernel import kernel
from spillway.replay.costs import CostTrace
from spillway.replay.traces import Arrivals
from spillway.sim.targets import Targets


@dataclass(frozen=True, slots=True)
class Minimum:
    """The rows that arrived, and how many of them an omniscient shedder delivers in time."""

    rows: int
    delivered_rows: int

    @property
    def loss_ratio(self) -> float:
        """The share that is lost even so."""
        return (self.rows - self.delivered_rows) / self.rows if self.rows else 0.0


def least_loss(
    trace: Arrivals, cost: CostTrace, target_delay_s: float | Targets, *, headroom: float = 0.97
) -> Minimum:
    """Return what a shedder with full knowledge of arrivals and costs loses at least.

    >>> from spillway.replay.costs import constant
    >>> from spillway.replay.traces import Rates
    >>> least_loss(Rates((200.0,), (100.0,)), constant(0.01), 2.0, headroom=1.0)
    Minimum(rows=20000, delivered_rows=10199)
    """
    arrival = trace.times(0, trace.total)
    due = arrival + Targets.of(target_delay_s).at(arrival)
    return Minimum(
        int(arrival.size), most_in_time(tokens(arrival, cost, headroom), tokens(due, cost, headroom))
    )


def most_in_time(release: Floats, due: Floats) -> int:
    """Return how many unit jobs, in order of release, can be done by their deadlines at most.

    >>> most_in_time(np.zeros(4), np.array([5.0, 5.0, 1.0, 2.0]))
    4
    """
    in_order = bool((np.diff(due) >= 0.0).all())
    return int(greedy(release, due).sum()) if in_order else int(earliest_first(release, due))


def tokens(at_s: Floats, cost: CostTrace, headroom: float) -> Floats:
    """Return S(t): how many rows a processor that is never idle could have finished by each second."""
    rate = headroom / cost.array
    step = np.clip((np.asarray(at_s) / cost.step_s).astype(np.int64), 0, rate.size - 1)
    whole = np.concatenate(([0.0], np.cumsum(rate * cost.step_s)))
    return np.asarray(whole[step] + (at_s - step * cost.step_s) * rate[step])


@kernel
def greedy(release: Floats, due: Floats) -> npt.NDArray[np.bool_]:
    """Return which unit jobs the rule of the module's text admits. Releases and deadlines are in order."""
    admitted = np.zeros(release.size, np.bool_)
    done = -np.inf
    for i in range(release.size):
        finish = max(done, release[i]) + 1.0
        if finish <= due[i]:
            admitted[i] = True
            done = finish
    return admitted


@kernel
def earliest_first(release: Floats, due: Floats) -> int:
    """Return how many unit jobs the second rule of the module's text gets done. Releases are in order."""
    slack = 1e-9  # sums of remainders are rounded; a row that just fits must not be given up for that
    ends = np.empty(16)  # deadlines of the admitted rows, in order, and what is left of each
    left = np.empty(16)
    size, done, now = 0, 0, 0.0
    for i in range(release.size):
        finished = 0
        while finished < size and now < release[i]:
            step = min(left[finished], release[i] - now)
            now += step
            left[finished] -= step
            if left[finished] <= slack:
                finished += 1
        now = max(now, release[i])
        done += finished
        size -= finished
        for j in range(size):
            ends[j], left[j] = ends[j + finished], left[j + finished]
        if size == ends.size:
            ends = np.concatenate((ends, np.empty(size)))
            left = np.concatenate((left, np.empty(size)))
        place = size
        while place > 0 and ends[place - 1] > due[i]:
            ends[place], left[place] = ends[place - 1], left[place - 1]
            place -= 1
        ends[place], left[place] = due[i], 1.0
        size += 1
        finish, unbegun = now, -1
        for k in range(size):
            finish += left[k]
            if unbegun < 0 and left[k] == 1.0:
                unbegun = k
            if finish > ends[k] + slack and unbegun >= 0:
                size -= 1
                for j in range(unbegun, size):
                    ends[j], left[j] = ends[j + 1], left[j + 1]
                break
    return done + size
