"""DEADLINE on a batch engine: how many rows one micro-batch may hold.

**Half the target.** Batches run one after the other. A row that arrives just after a batch was cut waits
for that batch to end and then for its own, so with equal batch times t the slowest rows take 2 t. The batch
time that meets a target y_d is share · y_d with share = 1/2 - margin.

**The limit.** A batch that keeps k of its n rows takes

    t = F + s (n - k) + c k                         so k + (s/c) (n - k) <= (share · y_d - F) / c = limit

The right side is ``queue_limit_rows``, s/c is ``skip_cost``. Both are known before n is; the engine applies
them to the exact size of each batch with :meth:`Decision.keep_ratio_for`, so the first batch of a burst is
cut already. F, s and c come with the sample (:mod:`~spillway.core.control.estimate`); c is replaced by a
cautious c' (:mod:`~spillway.core.control.learned_cost`).

**Work.** Where operators have a budget, such as a join, rows are not all that takes time. With u the time of a unit
of work, which comes with the sample (:mod:`~spillway.core.control.unit_cost`), W units fit beside k rows:

    F + c k + u W <= share · y_d                    so W = (share · y_d - F) / u - (c/u) k

The first term is ``work_budget``, c/u is ``row_work``; :meth:`Decision.work_budget_for` puts them together when k is
known. Rows, if any are shed in front, get at most half of the room.

**Bounds around it**, for what a model of three numbers cannot know:

=================  ==========================================================================================
bound              rule
=================  ==========================================================================================
cold start         before the cost is known, a row is taken to cost ``cold_cost_s``
overrun            after a batch that took half as long again as it may, or whose cost is not yet known, c' is
                   at least what that batch took per row, for one decision: an estimator that is not led
                   astray by one bad batch needs a second to believe in a jump, and each may be a long one
slow start         a batch may be at most ``growth`` times the largest one kept within the last 30 that had
                   rows, or a twentieth of what the cold start would allow: a cost that was underestimated
                   on small batches cannot let a huge one in. In a burst the bound grows with every batch
out of reach       rows get at least a fifth of F, even if F leaves them less: shedding more would hardly
                   shorten a batch. If F alone takes longer than it may, the reason says that the target
                   cannot be met
model error        if rows are late in two periods running although their batches fit by the model, the
                   limit shrinks by 15 % a period, down to a quarter; it leaks back by 5 % of the gap a period
=================  ==========================================================================================

The dead time of the feedback (a decision takes effect one to three batches later) needs no treatment of its
own: the limit depends on what a row costs, not on what the last batches did, so there is no loop that could
swing. Only the correction for model error feeds back, and its small steps keep it from cycling by more than
they are.

======  ====================================================
symbol  meaning
======  ====================================================
n, k    rows that arrived for a batch, rows kept
F       time a batch takes whatever its size
s, c    time a dropped row and a kept row take
g       correction for model error, from 0.25 to 1
u, W    time of a unit of work, units in a batch
======  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spillway.core.control.base import BaseController, TargetState
from spillway.core.control.learned_cost import LearnedCost
from spillway.core.control.model import MOST_COST_S, MOST_ROWS
from spillway.core.control.values import Decision, Sample
from spillway.core.control.wording import duration

if TYPE_CHECKING:
    from spillway.core.control.deadline import DeadlineConfig

_SPREADS = 1.0  # of the cost's spread, added to its level
_RECENT_BATCHES = 30
_COLD_ERROR = 20.0  # how many times dearer than the cold cost a row may well be
_LEAST_ROOM = 0.2  # of the fixed time: rows get this much even if it leaves them less
_LEAST_CORRECTION = 0.25
_ROWS_BESIDE_WORK = 0.5  # of the room
_OVERRUN, _MOST_OVERRUN = 1.5, 16.0
_SHRINK, _LEAK = 0.85, 0.05


@dataclass
class BatchedState(LearnedCost, TargetState):
    """The learnt costs, the sizes of recent batches, and the correction for model error."""

    fixed_s: float = 0.0
    skip_s: float = 0.0
    kept_rows: list[float] = field(default_factory=list)
    correction: float = 1.0
    late_periods: float = 0.0
    fitted: float = 0.0


class BatchedDeadline(BaseController):
    """Bound the rows of a batch so that it ends within its share of the target."""

    kind = "deadline/batched"
    state_type = BatchedState
    config: DeadlineConfig
    state: BatchedState

    def step(self, sample: Sample) -> Decision:
        """Take in a finished batch and decide on the next."""
        state, config = self.state, self.config
        y_d = state.target_delay_s
        state.learn(sample.cost_s)
        n, k = min(sample.arrived_rows, MOST_ROWS), min(sample.kept_rows, MOST_ROWS)
        if n > 0.0:
            state.kept_rows = [*state.kept_rows[1 - _RECENT_BATCHES :], k]
        if sample.cost_s is not None and (n > 0.0 or state.fixed_s == 0.0):
            state.fixed_s, state.skip_s = min(sample.fixed_s, MOST_COST_S), min(sample.skip_s, MOST_COST_S)

        t = (0.5 - (0.07 if config.margin is None else config.margin)) * y_d
        cold = config.cold_cost_s or 10e-6
        c, F, s = state.cautious_s(cold, _SPREADS), state.fixed_s, state.skip_s
        u, w = sample.unit_s, sample.work_s
        busy_s = None if sample.busy_s is None else max(sample.busy_s - w, 0.0)
        if busy_s is not None and k > 0.0 and (state.cost_s is None or busy_s > _OVERRUN * t):
            c = min(max(c, (busy_s - F - s * max(n - k, 0.0)) / k), _MOST_OVERRUN * c)
        room = max(t - F, _LEAST_ROOM * F)
        self._correct(sample, fits=F + s * max(n - k, 0.0) + c * k + w <= 1.1 * t, rows=k)
        by_model = room / c * (1.0 if u is None else _ROWS_BESIDE_WORK)
        by_growth = room / cold
        if state.cost_s is not None:
            by_growth = max(by_growth / _COLD_ERROR, config.growth * max(state.kept_rows, default=0.0))
        limit = min(max(state.correction * min(by_model, by_growth), 1.0), MOST_ROWS)
        reason = self._reason(n, t, limit, slow_start=by_growth < by_model, works=bool(u))
        if not u:
            return Decision(
                queue_limit_rows=limit, skip_cost=min(s / c, 1.0), target_delay_s=y_d, reason=reason
            )
        budget = min(state.correction * room / u, MOST_ROWS)
        return Decision(
            queue_limit_rows=limit,
            skip_cost=min(s / c, 1.0),
            target_delay_s=y_d,
            work_budget=budget,
            row_work=min(c / u, MOST_ROWS),
            reason=f"{reason}; a unit of work costs {duration(u)}: {budget:,.0f} a batch, less what its rows cost",
        )

    def _correct(self, sample: Sample, *, fits: bool, rows: float) -> None:
        """Shrink the limit while rows are late that should not be, and let it leak back."""
        state, worst = self.state, sample.worst_delay_s
        if worst is None or rows <= 0.0:
            return
        # A row waits for the batch before its own, so both have to fit before the model can be blamed.
        late = worst > state.target_delay_s and fits and state.fitted > 0.0
        state.fitted = float(fits)
        state.late_periods = min(state.late_periods + 1.0, 2.0) if late else 0.0
        if state.late_periods >= 2.0:
            state.correction = max(state.correction * _SHRINK, _LEAST_CORRECTION)
        elif not late:
            state.correction += _LEAK * (1.0 - state.correction)

    def _reason(self, n: float, t: float, limit: float, *, slow_start: bool, works: bool) -> str:
        state = self.state
        y_d, F = duration(state.target_delay_s), duration(state.fixed_s)
        arrived = f"; {n:,.0f} arrived"
        if state.cost_s is None:
            return f"no row has been timed yet, so a batch starts with at most {limit:,.0f} rows{arrived}"
        if state.fixed_s >= t:
            least = "some work is done" if works else f"{limit:,.0f} rows a batch are kept"
            return (
                f"a batch takes {F} even without rows, more than the {duration(t)} that a target of {y_d} leaves "
                f"it: the target cannot be met, {least} all the same{arrived}"
            )
        slow = ", no more than the recent batches allow" if slow_start else ""
        cut = (
            "" if state.correction > 0.99 else f", cut to {state.correction:.0%} because rows still come late"
        )
        return (
            f"a row costs {duration(state.cost_s)} and a batch {F}, so {limit:,.0f} rows fit into {duration(t)} "
            f"of the {y_d}{slow}{cut}{arrived}"
        )
