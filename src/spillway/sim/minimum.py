"""The least possible loss: what a shedder would lose that knows all arrivals and costs beforehand.

*The problem.* Rows arrive at a₁ <= a₂ <= ... and each must be done by its arrival plus the target. One processor
finishes rows at a rate that changes with their cost, H / c(t). How many rows must be lost at least?

*Service tokens.* Let S(t) = ∫₀ᵗ H / c(s) ds be the rows that a processor which is never idle could have finished
by t. On the clock S every row takes exactly one unit of time, however costs change; row i is released at
rᵢ = S(aᵢ) and due at dᵢ = S(aᵢ + y_d). Releases and deadlines are in the same order ("agreeable").

*The rule.* Go through the rows as they arrive; with F the time at which the last admitted row will be done, admit
row i if and only if max(F, rᵢ) + 1 <= dᵢ, and then F = max(F, rᵢ) + 1.

*Why no other choice keeps more.* Take any set of rows that can all be done in time, and serve them in the order of
arrival: as deadlines are agreeable, swapping two rows that are served out of order keeps both in time. Let j₁ < j₂ <
... be that set, done at C₁, C₂, ..., and g₁ < g₂ < ... the rule's choice, done at G₁, G₂, .... Then for every k the
rule has a k-th row, with g_k <= j_k and G_k <= C_k. By induction: let it hold for k - 1. If the rule admits some row
after g_(k-1) and before j_k, that is g_k, released no later than j_k. If not, it comes to j_k, and with r and d its
release and deadline, max(G_(k-1), r) + 1 <= max(C_(k-1), r) + 1 <= C_k <= d, so it admits j_k. Either way
G_k = max(G_(k-1), r_(g_k)) + 1 <= C_k.

*What it knows and what not.* Every row counts with the mean cost of its time: which of the filters a row will pass is
the content of the row, which no shedder here looks at. Preemption would not help, by the same exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spillway.core.kernel import kernel
from spillway.replay.costs import CostTrace
from spillway.replay.traces import Arrivals
from spillway.sim.targets import Targets

Floats = npt.NDArray[np.float64]


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
    admitted = greedy(tokens(arrival, cost, headroom), tokens(due, cost, headroom))
    return Minimum(int(arrival.size), int(admitted.sum()))


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
