"""Implements DEADLINE on a pipelined engine: a limit on the queue, shortened by a caution that it pays for.

**The limit.** A row that finds q others takes y = (q + 1) c / H. With admission iff q < L, every admitted
row meets the target y_d if

    L = floor((1 - margin) y_d r H / c')

where c' is a cautious, rather too high forecast of the cost (:mod:`~spillway.core.control.cost_trend`)
and r <= 1 corrects the headroom: the ratio of the rows that left to those the model says should have left,
learned in periods that were busy throughout.

**Why more caution than that.** If the cost jumps up while rows wait, those rows are late and nothing can be done
afterwards: admitted rows cannot be shed. Only a shorter queue helps, and it helps against every
jump.

**Why caution is cheap.** A shorter queue does not lower the throughput; a processor with ten rows waiting is as
busy as one with a thousand. It loses rows only when an overload ends: the queue runs empty earlier, and the
processor idles where it would still have had rows to work on. So a queue shortened by σ rows loses at most
σ rows per busy spell, and nothing at all while the overload lasts.

**So caution is bought with credit.** Each shed row earns the share ``caution`` as credit. The limit
is shortened by the credit, down to the share ``shortest`` of L. When the processor then idles, the rows
that the full limit would still have held (the debt) are subtracted from the credit, because the caution has
cost that much.

    credit  <-  credit + caution · shed - lost                   at most L; 0.1 L to begin with
    debt    <-  min(debt + shed, L - q) - lost                   rows that the full limit would hold now, at most
    lost     =  min(debt, idle · H / c)  if the processor idled, else 0
    limit    =  max(L - credit, shortest · L, 1)

In total, the rows lost to caution never exceed ``caution`` times the rows shed, plus the small first
credit. In a long overload the queue shrinks to a quarter, and jumps of the cost up to fourfold make no row
late. Where overloads are so brief that the full length of the queue is needed, it is available.

======  ===================================================================
symbol  meaning
======  ===================================================================
q       outstanding rows at the end of the period
c'      cautious cost of a row
H, r    headroom, and its correction from 0.25 to 1
L       rows that fit into the target
idle    time in the period in which the processor had nothing to do
======  ===================================================================

Where more rows are outstanding than fit (the cost has jumped), ``admit_rows`` is negative: an engine that
can remove rows from its queue should remove that many. Others ignore it; they admit none until the queue
is short again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.core.control.base import BaseController, TargetState
from spillway.core.control.cost_trend import LearnedCost
from spillway.core.control.duration_text import duration
from spillway.core.control.model import LEAST_COST_S, MOST_ROWS, capacity_rows_per_s
from spillway.core.control.values import Decision, Sample

if TYPE_CHECKING:
    from spillway.core.control.deadline import DeadlineConfig

_FIRST_CREDIT = 0.1  # of the limit: some caution before anything has been shed; it costs rows only once
_SPREADS = 0.3  # of the cost's spread: caution that always applies
_LOW = 0.1  # of the limit: a queue below this may have run empty within the period
_SLACK = 0.05  # less idleness than this cannot be distinguished from measurement noise


@dataclass
class PipelinedState(LearnedCost, TargetState):
    """The learned cost, and the accounts of caution."""

    credit_rows: float | None = None
    debt_rows: float = 0.0
    backlog_rows: float = 0.0
    drain: float = 1.0


class PipelinedDeadline(BaseController):
    """Bound the outstanding rows so that each admitted one is done in time."""

    kind = "deadline/pipelined"
    state_type = PipelinedState
    config: DeadlineConfig
    state: PipelinedState

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished period and return the decision for the next one."""
        state, config = self.state, self.config
        y_d, H = state.target_delay_s, config.headroom
        state.learn(sample.cost_s)
        c = state.cautious_s(config.cold_cost_s or 1e-3, _SPREADS)
        margin = 0.01 if config.margin is None else config.margin
        self._learn_drain(sample)
        L = min(max((1.0 - margin) * y_d * state.drain * H / c, 1.0), MOST_ROWS)
        q = min(sample.backlog_rows, MOST_ROWS)
        credit = self._account(sample, q, L)
        limit = math.floor(max(L - credit, config.shortest * L, 1.0))
        state.backlog_rows = q
        fits = math.floor(L)
        return Decision(
            queue_limit_rows=float(limit),
            admit_rows=fits - q if q > fits else None,
            target_delay_s=y_d,
            reason=self._reason(sample, c, fits, limit),
        )

    def _reason(self, sample: Sample, c: float, fits: int, limit: int) -> str:
        cost_s, y_d = self.state.cost_s, duration(self.state.target_delay_s)
        if cost_s is None:
            return f"no row has been timed yet; {fits:,} rows fit into {y_d} if one costs {duration(c)}"
        held = f", held at {limit:,} for safety" if limit < fits else ""
        arrived = f"{sample.arrived_rows:,.0f} arrived"
        return f"a row costs {duration(cost_s)}, so {fits:,} rows fit into {y_d}{held}; {arrived}"

    def _learn_drain(self, sample: Sample) -> None:
        """Learn r: the rows that left a busy engine over those that should have left by the model."""
        state, c, done = self.state, sample.cost_s, sample.finished_rows
        T = self._period_s(sample)
        if c is None or c <= 0.0 or not done or min(sample.backlog_rows, state.backlog_rows) < 2.0:
            return
        ratio = min(done / T, MOST_ROWS) * c / self.config.headroom
        state.drain = min(max(state.drain + 0.1 * (min(ratio, 1.1) - state.drain), 0.25), 1.0)

    def _account(self, sample: Sample, q: float, L: float) -> float:
        """Add credit for what was shed, subtract what caution has lost, and return the credit in rows."""
        state, config = self.state, self.config
        if state.cost_s is None:
            return 0.0
        credit = _FIRST_CREDIT * L if state.credit_rows is None else state.credit_rows
        shed = min(max(sample.arrived_rows - sample.kept_rows, 0.0), MOST_ROWS)
        debt = min(state.debt_rows + shed, max(L - q, 0.0))
        T, H = self._period_s(sample), config.headroom
        lost = 0.0
        if min(q, state.backlog_rows) < max(_LOW * L, 1.0):
            done = 0.0 if sample.finished_rows is None else sample.finished_rows
            c = state.measured_cost_s or state.cost_s
            idle = 1.0 - min(done * c / (H * T), 1.0)
            if idle > _SLACK:
                lost = min(debt, idle * T * capacity_rows_per_s(state.cost_s, H))
        state.debt_rows = debt - lost
        state.credit_rows = min(max(credit - lost, 0.0) + config.caution * shed, L)
        return state.credit_rows

    def _period_s(self, sample: Sample) -> float:
        """Return the period's length, or the nominal one where the clock has jumped."""
        T = self.config.period_s
        return sample.period_s if LEAST_COST_S < sample.period_s <= 1000.0 * T else T
