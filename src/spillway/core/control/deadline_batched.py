"""Implements DEADLINE on a batch engine: how many rows one micro-batch may hold.

**The limit.** A batch that keeps k of its n rows takes

    t = F + s (n - k) + c k                         so k + (s/c) (n - k) <= (t - F) / c = limit

The right side is ``queue_limit_rows``, s/c is ``skip_cost``. Both are known before n is; the engine applies them to
the exact size of each batch, and to how long its oldest row may have waited (:meth:`Decision.keep_ratio_for`), so the
first batch of a burst is cut already. F, s, c, the uncertainty of c and the pace of the machine come with the sample
(:mod:`~spillway.core.control.cost_model`). How long a batch should take, t, follows from the objective
(:mod:`~spillway.core.control.batch_time`), and rows get at least a sixth of the target in every batch.

**Authority.** Nothing is shed where shedding does not shorten delay.

==================  =========================================================================================
what rows wait for  what the controller does
==================  =========================================================================================
a trigger interval  It is measured as the time that rows wait while the query is idle, as the median of five
                    batches. Where it and F leave rows less than the least room, no shedding meets the target:
                    everything that fits between two triggers is kept, and the reason says so
other delays        The part of a row's delay beyond its wait and its batch, as with a clock that is off. The oldest
                    row and the mean row must both show it, so that a straggler does not count. It is subtracted
                    from the target, unless that leaves a batch next to nothing
F alone             Where the shortest of the last batches takes longer than the target, batches may take four
                    times F: nothing is lost below three quarters of the capacity, and a burst is still bounded
==================  =========================================================================================

**Uncertain costs.** Before two batches had rows, a row is taken to cost ``cold_cost_s``. From then on the size of a
batch is bounded: it may take at most half as long again as planned if rows cost as much as they plausibly may. That
is 1.6 standard deviations more than estimated, or all the time of a recent batch divided by its rows, or a hundred
times the cold cost, whichever is least. So a cost that was learned on tiny batches cannot admit a huge batch, and
each larger batch makes the cost more certain. While the cost is uncertain and much is shed, limits are varied up and
down a little, so that the time of a batch changes by 4 %: batches of one size could never separate F and c.

**Dead time.** On Spark a decision takes effect one to three batches later. The limit depends on costs and
on the batch's own size, not on what the last batches did, so no loop can oscillate. What changes in the meantime
shows in the errors, which compare a batch with what was known two batches before. If a batch has taken far too long
and has not been reported yet, the limit is corrected when the next batch is cut (:meth:`Decision.limit_for`).

**Work.** Where operators have a budget, such as a join, time is also spent on work other than rows. With u the time
of a unit of work, which comes with the sample (:mod:`~spillway.core.control.unit_cost`), W units fit beside k rows:

    F + c k + u W <= t                              so W = (t - F) / u - (c/u) k

The first term is ``work_budget``, c/u is ``row_work``; :meth:`Decision.work_budget_for` combines them when k is
known. If rows are also shed before the operators, they get at most half of the room.

======  ====================================================
symbol  meaning
======  ====================================================
n, k    rows that arrived for a batch, rows kept
F       time a batch takes regardless of its size
s, c    time a dropped row and a kept row take
t, y    time that a batch should take, what is left of the target
u, W    time of a unit of work, units in a batch
======  ====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist, median
from typing import TYPE_CHECKING

from spillway.core.control.base import BaseController, TargetState
from spillway.core.control.batch_time import best_batch_s
from spillway.core.control.duration_text import duration
from spillway.core.control.model import LEAST_COST_S, MOST_COST_S, MOST_ROWS
from spillway.core.control.values import (
    LEAST_ROOM,
    LONGEST_UNKNOWN,
    Decision,
    Sample,
    least_room_s,
    was_idle,
)

if TYPE_CHECKING:
    from spillway.core.control.deadline import DeadlineConfig

_ERRORS = 40  # batches whose errors are remembered
_AHEAD = 2  # batches by which an expectation is older than the batch that it is compared with
_COLD_ERRORS, _COLD_SPREAD = 10, 0.08  # errors that are assumed before any was measured
_LARGEST_ERROR = math.log(16.0)
_DEARER = 1.64  # standard deviations: rows are more expensive than that in one case of twenty
_ROWS_BESIDE_WORK = 0.5  # of the room: the most that rows get beside units of work
_EXTRAS = 5  # batches over which the median of the delay outside of batches is taken
_TRIGGERS, _LEAST_TRIGGERS = 5, 3  # waits while idle, whose median is the trigger; the least number
_ALIKE_WAITS = 0.1  # of a wait: how far others may differ from it where arrival times are unknown
_LEAST_EXTRAS = 3  # batches with such delays, before their median counts
_LEAST_EXTRA = 0.03  # of the target: a shorter delay counts as 0
_RECENT = 30  # batches whose times and rows are remembered
_LATELY = 5  # of them, the last: their mean size is the usual one
_ALIKE = 1.5  # factor of rows within which two batches count as equally large
_OVERRUN = 1.5  # times t: how long a batch may take if its rows cost as much as they plausibly may
_COLD_ERROR = 100.0  # times the cold cost: how much a row may plausibly cost that has hardly been timed
_LEAST_SEEN = 2  # batches with rows before the cold start ends
_TELLING_ROWS = 0.05  # of the cold limit: rows with which one batch can show that rows are expensive
_TELLING_TIME = 3.0  # times as long as at the cold cost: then it shows so
_LEAST_BATCHES = 5  # of a query, before its fixed time may count as most of the target
_COLD_DOUBT = 0.1  # spread of a cost above which one or two batches are only a guess
_HARDLY_KNOWN = 0.7  # spread of a cost that may be wrong by a factor of two
_COLD_SHARE = 0.45  # of the target, for the rows of a batch while their cost is unknown
_TURNS = (1.0, -1.0, -1.0, 1.0, -1.0, 1.0)  # ups and downs, in an order that no trend resembles
_VARIED = 0.04  # of a batch's time, by which its rows are varied while their cost is uncertain
_UNSURE = 0.2  # spread of the cost from which the variation is full
_MOST_VARIED = 0.25  # of the rows: the largest variation
_MOSTLY = 0.7  # of the rows kept: from here on nothing is varied
_GROWTH = 1.2  # times the usual rows, for a batch whose rows are hardly known
_BY_CHANCE = 0.7  # of the current pace: the earlier usual pace is used if it is not less
_SURE = 3.0  # batches in a row after which a target counts as out of reach


def _cold_errors() -> list[float]:
    """Return typical errors of a noisy machine, ordered so that large errors do not follow each other."""
    ranks = [(7 * i) % _COLD_ERRORS for i in range(_COLD_ERRORS)]
    return [_COLD_SPREAD * NormalDist().inv_cdf((rank + 0.5) / _COLD_ERRORS) for rank in ranks]


def _bounded(seconds: float | None) -> float | None:
    """Return a time that is small enough for the arithmetic not to overflow."""
    return None if seconds is None else min(seconds, MOST_COST_S)


@dataclass
class BatchedState(TargetState):
    """The costs reported last and before, the errors of expectations, and the times that rows wait in any case."""

    cost_s: float | None = None
    fixed_s: float = 0.0
    skip_s: float = 0.0
    spread: float = 0.0
    expectations: list[list[float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=_cold_errors)
    extras_s: list[float] = field(default_factory=list)
    triggers_s: list[float] = field(default_factory=list)
    hopeless_periods: float = 0.0
    batches: list[list[float]] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)
    turn: float = 0.0

    @property
    def trigger_s(self) -> float | None:
        """The time between cuts that rows wait for in any case, None before enough idle waits were seen."""
        return median(self.triggers_s) if len(self.triggers_s) >= _LEAST_TRIGGERS else None


class BatchedDeadline(BaseController):
    """Bound the rows of a batch so that as many as possible are delivered within the target."""

    kind = "deadline/batched"
    version = 4
    state_type = BatchedState
    config: DeadlineConfig
    state: BatchedState

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished batch and return the decision for the next one."""
        self._compare(sample)
        self._watch_waits(sample)
        self._learn(sample)
        state, y = self.state, self._target_left_s()
        trigger_s = state.trigger_s or 0.0
        out_of_reach = self._out_of_reach(y)
        cold = self._cold_cost_s()
        c = cold if state.cost_s is None else state.cost_s
        F, s, u = state.fixed_s, state.skip_s, sample.unit_s
        sure_F, sure_c = self._sure_costs(F, c)
        t = self._batch_s(sample, y, trigger_s)
        t = max(t, F + (self._least_room_s(y) if self._is_known() else c * self._least_rows(t, y, sure_c)))
        if out_of_reach:
            t = max(t, trigger_s)
        room = t - F
        by_model = room / c * (1.0 if u is None else _ROWS_BESIDE_WORK)
        sure = max(max(_OVERRUN * t - sure_F, self._least_room_s(y)) / sure_c, t / (cold * _COLD_ERROR))
        is_cold, by_chance = self._is_cold(), self._by_chance()
        if is_cold:
            by_model = sure = self._cold_rows()
        limit = min(max(min(by_model, sure) * self._varied(sample, c * by_model / t), 1.0), MOST_ROWS)
        reason = (
            self._reason_out_of_reach(sample, limit)
            if out_of_reach
            else self._reason(sample, t, limit, held=sure < by_model)
        )
        budget = min(room / u, MOST_ROWS) if u else None
        if u:
            reason = f"{reason}; a unit of work costs {duration(u)}: {budget:,.0f} a batch, less what its rows cost"
        return Decision(
            queue_limit_rows=limit,
            skip_cost=min(s / c, 1.0),
            least_rows=min(limit, max(self._least_room_s(y) / c, 1.0)),
            batch_s=t,
            fixed_s=F,
            cost_s=c if self._is_known() else None,
            trigger_s=state.trigger_s,
            sure_fixed_s=sure_F * by_chance,
            sure_cost_s=None if is_cold else sure_c * by_chance,
            cold=is_cold,
            target_delay_s=state.target_delay_s,
            work_budget=budget,
            row_work=min(c / u, MOST_ROWS) if u else 0.0,
            reason=reason,
        )

    # What is learned

    def _learn(self, sample: Sample) -> None:
        """Store the sample's costs, and remember them for the batches that they will apply to."""
        state = self.state
        if sample.cost_s is not None and sample.cost_s > 0.0:
            state.cost_s = min(max(sample.cost_s, LEAST_COST_S), MOST_COST_S)
            state.fixed_s, state.skip_s = (
                min(value, MOST_COST_S) for value in (sample.fixed_s, sample.skip_s)
            )
            state.spread = min(sample.spread, 10.0)
            state.paces = [*state.paces[1 - _LATELY :], sample.pace]
            told = [
                state.fixed_s,
                state.skip_s,
                state.cost_s,
                0.0 if self._is_known() else self._usual_rows() + 1.0,
            ]
            begins = sample.busy_s is None  # what the run before expected does not hold for a cold JVM
            state.expectations = [told] if begins else [*state.expectations[1 - _AHEAD :], told]

    def _compare(self, sample: Sample) -> None:
        """Record the factor by which the batch deviated from its expected time."""
        state, busy_s = self.state, sample.busy_s
        if busy_s is None or busy_s < LEAST_COST_S or sample.arrived_rows <= 0.0:
            return
        busy_s, k = min(busy_s, MOST_COST_S), min(sample.kept_rows, MOST_ROWS)
        state.batches = [*state.batches[1 - _RECENT :], [busy_s, k]]
        if not state.expectations:
            return
        F, s, c, usual_rows = state.expectations[0]
        if usual_rows and not usual_rows / _ALIKE < k < usual_rows * _ALIKE:
            return  # the cost was only a guess, so a miss says nothing about the machine
        d = min(max(sample.arrived_rows - k, 0.0), MOST_ROWS)
        expected_s = F + s * d + c * k + sample.work_s
        if expected_s > 0.0:
            error = math.log(busy_s) - math.log(expected_s)
            error = min(max(error, -_LARGEST_ERROR), _LARGEST_ERROR)
            state.errors = [*state.errors[1 - _ERRORS :], error]

    def _watch_waits(self, sample: Sample) -> None:
        """Learn what rows wait for independently of batches: a trigger, or a delay outside of batches."""
        state, waited_s = self.state, _bounded(sample.waited_s)
        if waited_s is None or sample.busy_s is None or not sample.kept_rows:
            return
        if sample.worst_delay_s is None:
            self._watch_cuts(sample, waited_s)
            return
        before_s = min(max(sample.worst_delay_s - sample.busy_s, -MOST_COST_S), MOST_COST_S)
        extra_s = before_s - waited_s
        straggling_s = 0.0
        if sample.delay_s is not None:
            # Rows that arrive evenly wait half of the time on average; a single late one hardly changes that.
            mean_s = min(max(sample.delay_s - sample.busy_s, -MOST_COST_S), MOST_COST_S)
            extra_s = min(extra_s, mean_s - 0.5 * waited_s)
            straggling_s = before_s - mean_s - waited_s
        if straggling_s <= state.target_delay_s:  # a few rows that are hours old change the mean, too
            state.extras_s = [*state.extras_s[1 - _EXTRAS :], extra_s]
        if was_idle(sample.idle_s, waited_s):
            seen_s = max(min(before_s - self._extra_s(), waited_s), 0.0)
            state.triggers_s = [*state.triggers_s[1 - _TRIGGERS :], seen_s]
        else:  # batches that follow one another sooner do not wait for a trigger
            state.triggers_s = [min(seen_s, waited_s) for seen_s in state.triggers_s]

    def _watch_cuts(self, sample: Sample, waited_s: float) -> None:
        """Learn the trigger from similar waits of an idle query, where no arrival times are known.

        The cause may also be a producer that sends every minute, so batches get no longer than after any single wait.
        """
        state = self.state
        waited_s = min(waited_s, LONGEST_UNKNOWN * state.target_delay_s)
        if not was_idle(sample.idle_s, waited_s):
            state.triggers_s = [seen_s for seen_s in state.triggers_s if seen_s <= waited_s]
        elif all(abs(seen_s - waited_s) <= _ALIKE_WAITS * waited_s for seen_s in state.triggers_s):
            state.triggers_s = [*state.triggers_s[1 - _TRIGGERS :], waited_s]
        else:
            state.triggers_s = [waited_s]

    def _extra_s(self) -> float:
        """Return the delay that arises outside of batches; a negligible one counts as 0."""
        extra_s = median(self.state.extras_s) if len(self.state.extras_s) >= _LEAST_EXTRAS else 0.0
        return extra_s if extra_s > _LEAST_EXTRA * self.state.target_delay_s else 0.0

    def _target_left_s(self) -> float:
        """Return what delays outside of batches leave of the target; the whole target if next to nothing is left.

        In that case no shedding meets the target, but the query's own part is still held to it.
        """
        y_d = self.state.target_delay_s * (1.0 - (self.config.margin or 0.0))
        left_s = y_d - self._extra_s()
        return left_s if left_s > 2.0 * (self.state.fixed_s + self._least_room_s(y_d)) else y_d

    def _least_batch_s(self) -> float:
        """Return the least time of a batch: the estimate of F, at most the shortest of the last batches.

        The first batches of a query run on a cold JVM: they are no reason to give up a target.
        """
        batches = self.state.batches
        few = [0.5 * self.state.target_delay_s] if len(batches) < _LEAST_BATCHES else []
        return min([self.state.fixed_s, *few, *(busy_s for busy_s, _ in batches)])

    def _least_room_s(self, y: float) -> float:
        """Return the time that rows get in any case; a slow batch does not reduce it."""
        return least_room_s(self._least_batch_s(), y)

    def _out_of_reach(self, y: float) -> bool:
        """Return whether rows wait for a trigger so long that no shedding meets the target."""
        state, least_s = self.state, self._least_batch_s()
        beyond = bool(state.trigger_s) and (state.trigger_s or 0.0) + least_s >= y - self._least_room_s(y)
        state.hopeless_periods = min(state.hopeless_periods + 1.0, _SURE) if beyond else 0.0
        return state.hopeless_periods >= _SURE

    def _sure_costs(self, F: float, c: float) -> tuple[float, float]:
        """Return the fixed time of a batch and the time of a row if rows cost as much as they plausibly may.

        The factor follows from the spread, but a row never takes more than the whole time of a batch over its rows.
        The time of recent batches is known, so the more rows cost, the less of that time is fixed.
        """
        usual_s, usual_rows = self._seen_s(), self._usual_rows()
        dearest_s = [busy_s / rows for busy_s, rows in self.state.batches if rows > 0.0]
        if usual_rows:
            dearest_s.append(usual_s / usual_rows)
        row_s = max(min(c * math.exp(_DEARER * self.state.spread), *dearest_s, MOST_COST_S), LEAST_COST_S)
        return min(max(usual_s - row_s * usual_rows, 0.0), F), row_s

    def _least_rows(self, t: float, y: float, sure_c: float) -> float:
        """Return how many rows a batch gets in any case while their cost is hardly known.

        It is the usual number, scaled by how much usual batches are too short or too long, and grows only slowly.
        A fixed time that may be wrong must not shrink batches until they never show what a row costs.
        """
        seen_s = self._seen_s()
        share = min(t / seen_s, _GROWTH) if seen_s > 0.0 else 0.0
        return max(self._least_room_s(y) / sure_c, share * self._usual_rows())

    def _by_chance(self) -> float:
        """Return the recent median pace over the current one: a batch may be a little slow by chance."""
        paces = self.state.paces
        share = median(paces) / paces[-1] if paces and paces[-1] > 0.0 else 1.0
        return share if _BY_CHANCE < share < 1.0 else 1.0

    def _is_known(self) -> bool:
        """Return whether the cost of a row is certain enough to tell a slow machine from expensive rows."""
        return self.state.cost_s is not None and self.state.spread < _HARDLY_KNOWN

    def _is_cold(self) -> bool:
        """Return whether next to nothing is known about the cost of a row, not even that rows are expensive."""
        seen = [(busy_s, rows) for busy_s, rows in self.state.batches if rows > 0.0]
        cold_s, least_rows = self._cold_cost_s(), _TELLING_ROWS * self._cold_rows()
        least_s = LEAST_ROOM * self.state.target_delay_s
        dear = any(
            rows >= least_rows and busy_s >= _TELLING_TIME * (least_s + cold_s * rows)
            for busy_s, rows in seen
        )
        few = len(seen) < _LEAST_SEEN and not dear
        return few and (self.state.cost_s is None or self.state.spread > _COLD_DOUBT)

    def _cold_rows(self) -> float:
        """Return how many rows a batch may have while their cost is unknown."""
        return _COLD_SHARE * self._target_left_s() / self._cold_cost_s()

    def _cold_cost_s(self) -> float:
        return self.config.cold_cost_s or 10e-6

    # What is decided

    def _batch_s(self, sample: Sample, y: float, trigger_s: float) -> float:
        """Return how long a batch should take."""
        state, F, known = self.state, self.state.fixed_s, self._is_known()
        dropped = max(sample.arrived_rows - sample.kept_rows, 0.0)
        dropping = state.skip_s * min(dropped, MOST_ROWS) / sample.waited_s if sample.waited_s else 0.0
        best_s = best_batch_s(
            y,
            F,
            state.errors,
            spread=state.spread if known else 0.0,  # a cost that is hardly known is bounded in another way
            seen_s=self._seen_s(),
            dropping=min(dropping, 1.0),
            trigger_s=trigger_s,
        )
        if known:
            return best_s
        # A fixed time as uncertain as the cost of a row does not justify a batch of more than half the target.
        return min(best_s, max(0.5 * y, self._least_batch_s() + self._least_room_s(y), trigger_s))

    def _seen_s(self) -> float:
        """Return how long batches of the recent sizes take: this is certain even if the cost of a row is not."""
        return self.state.fixed_s + (self.state.cost_s or 0.0) * self._usual_rows()

    def _usual_rows(self) -> float:
        rows = [rows for _, rows in self.state.batches[-_LATELY:]]
        return sum(rows) / len(rows) if rows else 0.0

    def _varied(self, sample: Sample, share: float) -> float:
        """Return a factor around 1 by which a limit is varied to learn, given the share of rows in a batch's time.

        Limits vary only while many rows are shed anyway: otherwise batches differ by themselves, and learning would
        cost rows.
        """
        state = self.state
        if sample.kept_rows >= _MOSTLY * sample.arrived_rows:
            return 1.0
        state.turn = (state.turn + 1.0) % len(_TURNS)
        unsure = min(state.spread / _UNSURE, 1.0)
        width = min(_VARIED * unsure / max(share, 0.01), _MOST_VARIED)
        return math.exp(_TURNS[int(state.turn)] * width)

    def _reason_out_of_reach(self, sample: Sample, limit: float) -> str:
        state = self.state
        trigger, F, y_d = map(duration, (state.trigger_s or 0.0, state.fixed_s, state.target_delay_s))
        return (
            f"batches begin {trigger} apart and take {F} even without rows, so shedding cannot meet a target of "
            f"{y_d}: everything is kept that fits between two triggers, {limit:,.0f} rows; "
            f"{sample.arrived_rows:,.0f} arrived"
        )

    def _reason(self, sample: Sample, t: float, limit: float, *, held: bool) -> str:
        state = self.state
        y_d, F = duration(state.target_delay_s), duration(state.fixed_s)
        arrived = f"; {sample.arrived_rows:,.0f} arrived"
        if state.cost_s is None or self._is_cold():
            timed = "no row has" if state.cost_s is None else "too few rows have"
            return f"{timed} been timed yet, so a batch starts with at most {limit:,.0f} rows{arrived}"
        if state.fixed_s >= 0.5 * state.target_delay_s:
            least = "some work is done" if sample.unit_s else f"{limit:,.0f} rows a batch are kept"
            return (
                f"a batch takes {F} even without rows, more than half of the target of {y_d}: not all rows can be "
                f"in time, {least} all the same{arrived}"
            )
        sure = ", no more before their cost is surer" if held else ""
        if extra_s := self._extra_s():
            y_d = f"{y_d}, of which {duration(extra_s)} pass before and after batches"
        return (
            f"a row costs {duration(state.cost_s)} and a batch {F}, so {limit:,.0f} rows fit into {duration(t)} of "
            f"the {y_d}{sure}{arrived}"
        )
