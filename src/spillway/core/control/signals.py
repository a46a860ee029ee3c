"""Converts a finished period to the signals of the paper's control laws, for pipelined and for batch engines.

A law says how many rows may enter in the next period: v T = u T + f_out T. It counts rows, not rows per second: the
queue grows by u T (Eq. 3), and periods may differ in length. Where they are equal, this is the law as printed.

**A batch engine.** A period is a batch. Its cut empties the source, so the queue is what the batch holds. A batch
with n rows that arrived and k that are kept does the work of l kept rows:

    l = k + (s/c) (n - k)
    t = F + c l
    y(k) = t(k-1) + t(k)        the oldest row waits for the batch before and for its own: t shall be t_d = y_d / 2
    H(k) = c l / t = 1 - F / t  what the batch left for rows

A batch engine has no single headroom: the longer its batches, the larger it is. It is identified batch by batch and
used for the batch length that each term refers to:

==============  =====================================================================================================
in the law      on a batch engine
==============  =====================================================================================================
ŷ = q c / H     with the headroom of the batch itself: t, which is measured. So e = t_d - t
f_out T = T H/c with the same headroom: l, the work of the last batch. So t(k+1) = t(k) + c u T, the integrator that
                the laws are designed for, for any F
H / c in u      rows that make y a second longer. One more makes a batch longer by c, F or not: H is the config's
AURORA's H / c  what can be done, not what there was to do: H = 1 - F / t_d, of batches as long as they should be
==============  =====================================================================================================

**At the cut** n is known. It is the f_in(k+1) T of Eq. 13, for which a pipelined engine has to use the value of the
period before. So v T is a limit on the rows of the batch, dropped ones counted as s/c. A share from the rate of an
older batch would admit a burst in whole for as many batches as the decision is late, each longer than the one before
by the factor of the overload.

**Dead time.** What a batch shows takes effect m batches after the next: t(k+1+m) = t(k) + c u T, so the poles are
where z^(m+1) = 1 - C(z), with C(z) = (b0 z + b1) / (z + a). For the paper's gains abs(1 - C) <= 0.61 on the unit
circle, and for BASELINE 1 - C = 0: the poles lie inside for every m, the loop just settles later. So the law need not
compensate for rows admitted by decisions not yet reported (Smith's predictor), nor does it need m, which changes on
Spark from batch to batch. Rows that are more expensive than estimated by a factor g multiply C: with the
paper's gains any g < 4.4 is stable at every m, with BASELINE's g < 2.

**Uncertainty.** c is an estimate that becomes more certain. The time of u T is carried over from batch to
batch, so that nothing stays wound up at an old cost. And the size of a batch is bounded by its possible effect on
the next one: three times t_d if all time of the last batch went into its rows, or if the rows that are added to
them cost as much as they plausibly may, c exp(1.64 σ), whichever allows more.

**Authority.** A batch gives rows the least room of DEADLINE, for any u: t_d is at least F plus that room. Where rows
have waited for a trigger, t_d is what this wait leaves of the target; where that is too little, no shedding meets the
target, and a batch may take until the next trigger, but at most twice as long as the last.

======  ==========================================================
symbol  meaning
======  ==========================================================
F       ``fixed_s``: time of a batch regardless of its size
s, c    ``skip_s`` and ``cost_s``: time of a dropped and a kept row
l       work of a batch, in kept rows
t, t_d  how long a batch took and how long it should take
σ       ``spread``: how certain c is
======  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.core.control.actuators import keep_ratio_at_entry
from spillway.core.control.duration_text import duration
from spillway.core.control.model import (
    LEAST_COST_S,
    MOST_COST_S,
    MOST_ROWS,
    capacity_rows_per_s,
    delay_of_queue_s,
)
from spillway.core.control.values import Decision, Sample, least_room_s

if TYPE_CHECKING:
    from spillway.core.control.base import ControllerConfig, CostState

_DEARER = 1.64  # standard deviations: rows are more expensive than that in one case of twenty
_MOST_SPREAD = 4.0  # a larger spread changes nothing more
_LONGEST = 3.0  # times t_d, for a batch whose rows cost as much as they plausibly may
_IDLE_SHARE = (
    0.1  # of the time between two cuts: a query that was idle for longer waited for its trigger or for rows
)
_LONGER = 2.0  # times the last batch: how long a batch may take until the next trigger


@dataclass(frozen=True, slots=True)
class Signals:
    """A period in the paper's symbols, bounded so that no control law can overflow.

    ================= ==================================================================================
    field             meaning
    ================= ==================================================================================
    q                 the queue
    y, y_d            the delay that the queue implies, and the wanted delay
    f_in              rows per second that arrived
    c, H              cost of a row and headroom: H / c more rows make y a second longer
    T                 length of the period
    leaving_rows      f_out T, rows that leave
    capacity_rows     rows that can be processed in the next period
    grown_rows        rows by which the queue really grew, None where that is not known
    target_delay_s    the target that was asked for
    ================= ==================================================================================
    """

    q: float
    y: float
    y_d: float
    f_in: float
    c: float
    H: float
    T: float
    leaving_rows: float
    capacity_rows: float
    grown_rows: float | None
    target_delay_s: float

    def carried_rows(self, rows: float, cost_s: float) -> float:  # noqa: ARG002
        """Return u T of the previous period for use in Eq. 10: the rows, whatever they cost then."""
        return rows

    def decision(self, rows: float, reason: str) -> Decision:
        """Return the decision that ``rows`` rows may enter in the next period."""
        rows = min(max(rows, -MOST_ROWS), MOST_ROWS)
        return Decision(
            keep_ratio=keep_ratio_at_entry(rows / self.T, self.f_in),
            admit_rows=rows,
            target_delay_s=self.target_delay_s,
            reason=reason,
        )

    def in_words(self, rows: float) -> str:
        """Return a text that says how many rows wait, and how many may enter."""
        return (
            f"{self.q:,.0f} rows wait, which takes {duration(self.y)} of {duration(self.y_d)}; "
            f"{max(rows / self.T, 0.0):,.0f} of {self.f_in:,.0f} rows/s may enter"
        )


@dataclass(frozen=True, slots=True)
class BatchSignals(Signals):
    """Signals of a batch: q is the rows that take t, T is t. The next may hold ``least_rows`` to ``most_rows``."""

    arrived_rows: float
    skip_cost: float
    least_rows: float
    most_rows: float

    @property
    def headroom(self) -> float:
        """The headroom that was identified: the share of the batch's time that went into rows."""
        return min(self.leaving_rows * self.c / self.y, 1.0)

    def carried_rows(self, rows: float, cost_s: float) -> float:
        """Return the rows whose current time equals the estimated time of those of the previous batch."""
        return min(max(rows * (cost_s / self.c), -MOST_ROWS), MOST_ROWS)

    def decision(self, rows: float, reason: str) -> Decision:
        """Return the decision that the next batch may hold ``rows`` rows."""
        return Decision(
            queue_limit_rows=self._limit(rows),
            skip_cost=self.skip_cost,
            least_rows=self.least_rows,
            admit_rows=min(max(rows, -MOST_ROWS), MOST_ROWS),
            target_delay_s=self.target_delay_s,
            reason=reason,
        )

    def in_words(self, rows: float) -> str:
        """Return a text that says how long the batch took, and how many rows the next one may hold."""
        return (
            f"a batch took {duration(self.y)} of {duration(self.y_d)}, {self.headroom:.0%} of it for rows; the next "
            f"may hold {self._limit(rows):,.0f}, {self.arrived_rows:,.0f} arrived"
        )

    def _limit(self, rows: float) -> float:
        return max(min(max(rows, self.least_rows), self.most_rows), 1.0)


def signals(sample: Sample, config: ControllerConfig, state: CostState) -> Signals | None:
    """Return a sample's signals, None before any row was timed. The last known cost replaces a missing one."""
    c = sample.cost_s
    # A meter that has seen no row yet reports a cost of exactly 0: that is no measurement.
    c = state.cost_s if c is None or c <= 0.0 else min(max(c, LEAST_COST_S), MOST_COST_S)
    if c is None:
        return None
    of_batch = (
        sample.waited_s is not None or sample.fixed_s > 0.0
    )  # only batches are cut, and have a fixed time
    return (_of_batch if of_batch else _of_period)(sample, config, state.target_delay_s, c)


def keep_all(target_delay_s: float) -> Decision:
    """Return the decision for the time before anything is known."""
    return Decision(target_delay_s=target_delay_s, reason="no row has been timed yet, so everything is kept")


def _of_period(sample: Sample, config: ControllerConfig, target_delay_s: float, c: float) -> Signals:
    """Read a period of a pipelined engine.

    A period of no length counts as a nominal one, any other as at least a tenth of that.
    """
    T = max(sample.period_s, 0.1 * config.period_s) if sample.period_s > 0.0 else config.period_s
    H = config.headroom
    q, done = min(sample.backlog_rows, MOST_ROWS), sample.finished_rows
    leaving = T * capacity_rows_per_s(c, H)  # as if it were busy: it will be, if the target is to be reached
    return Signals(
        q=q,
        y=delay_of_queue_s(q, c, H),
        y_d=target_delay_s,
        f_in=_rate(sample.arrived_rows, sample.period_s or T),
        c=c,
        H=H,
        T=T,
        leaving_rows=leaving,
        capacity_rows=leaving,
        grown_rows=None if done is None else min(sample.kept_rows, MOST_ROWS) - min(done, MOST_ROWS),
        target_delay_s=target_delay_s,
    )


def _of_batch(sample: Sample, config: ControllerConfig, target_delay_s: float, c: float) -> BatchSignals:
    """Read a batch; if none was run, as between two runs of a query, assume one without rows."""
    F, H = min(sample.fixed_s, MOST_COST_S), config.headroom
    t = min(max(F if sample.busy_s is None else sample.busy_s, LEAST_COST_S), MOST_COST_S)
    room_s = least_room_s(F, target_delay_s)
    t_d = _wanted_s(sample, target_delay_s, t, F + room_s)
    n, k = min(sample.arrived_rows, MOST_ROWS), min(sample.kept_rows, MOST_ROWS)
    skip_cost = min(sample.skip_s / c, 1.0)
    l = k + skip_cost * max(n - k, 0.0)  # noqa: E741  the symbol of the module's table
    dear_c = c * math.exp(_DEARER * min(sample.spread, _MOST_SPREAD))
    return BatchSignals(
        q=t * capacity_rows_per_s(c, H),
        y=t,
        y_d=t_d,
        f_in=_rate(n, sample.waited_s or t),
        c=c,
        H=H,
        T=t,
        leaving_rows=l,
        capacity_rows=max(t, t_d) * (1.0 - F / t_d) * capacity_rows_per_s(c, H),
        grown_rows=0.0 if k >= n else None,  # where nothing was dropped, the room to grow was not used
        target_delay_s=target_delay_s,
        arrived_rows=n,
        skip_cost=skip_cost,
        least_rows=min(max(room_s * capacity_rows_per_s(c, H), 1.0), MOST_ROWS),
        most_rows=min(max(_LONGEST * t_d / t * l, l + _LONGEST * t_d / dear_c), MOST_ROWS),
    )


def _wanted_s(sample: Sample, target_delay_s: float, took_s: float, least_s: float) -> float:
    """Return t_d: half of the target; where rows waited for a trigger, the time after it or until the next."""
    wanted_s, waited_s = max(0.5 * target_delay_s, least_s), min(sample.waited_s or 0.0, MOST_COST_S)
    if waited_s <= wanted_s or sample.idle_s <= _IDLE_SHARE * waited_s:
        return wanted_s
    left_s = target_delay_s - waited_s
    return left_s if left_s >= least_s else max(wanted_s, min(_LONGER * took_s, waited_s))


def _rate(rows: float, seconds: float) -> float:
    return min(rows / max(seconds, LEAST_COST_S), MOST_ROWS)
