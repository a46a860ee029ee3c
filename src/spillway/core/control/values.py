"""What goes into a controller and what comes out of it: two frozen values with a JSON form.

A controller is anything with ``step(sample) -> Decision``. It knows nothing of Spark, of operators or of the
clock: one :class:`Sample` describes a finished control period, one :class:`Decision` says how the next may go.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, Self, runtime_checkable

from spillway.errors import SpillwayError, invalid

_IDLE_SHARE, _IDLE_S = 0.05, 0.25  # of the time between two cuts, and at most this long: see was_idle
_HALF_BUSY = 0.5  # of the time: what a query is taken to need of which nothing is known yet
_CHEAPEST = 40.0
"""Times the limit: the most rows of a batch that is kept whole while nothing is known of them.

The limit of a cold start takes rows of 10 µs. No plain query on a few cores was measured below 0.3 µs a row, and 40
times the limit of such rows still fit the target."""
_WORTH_DROPPING = 0.5  # of a kept row's cost: a dropped row that saves less than that hardly shortens a batch
LONGEST_UNKNOWN = 8.0  # times the target: how long a batch may take after an idle time that may be no trigger

LEAST_ROOM = 1.0 / 6.0
"""Of the target: rows get this much time in every batch, since less would hardly shorten it (see DEADLINE)."""

_NEAR_TARGET = 0.8  # of the target: a fixed time beyond it leaves next to no row in time
_LONG_ROOM = 3.0  # times F, for the rows of a batch that misses the target anyway: three quarters of its time

_SHORTENED, _LENGTHENED = 0.75, 0.5  # of what the batch before was too long or too short
_MUCH_LONGER = 1.3  # times as long as a batch was expected to take
_WHILE_UNKNOWN = 2.0  # times the trigger, for a batch of an idle query whose rows may cost anything
_TELLING_ROWS = 100.0  # of a batch, from which its time says something of a row


def was_idle(idle_s: float, waited_s: float) -> bool:
    """Say whether a query has waited for its trigger, or for rows, in the time between two cuts.

    >>> was_idle(0.1, 1.0), was_idle(0.02, 1.0), was_idle(0.3, 10.0)
    (True, False, True)
    """
    return idle_s > min(_IDLE_SHARE * waited_s, _IDLE_S)


def least_room_s(fixed_s: float, target_s: float) -> float:
    """Return the time that rows get in every batch, however much the batch itself and dropped rows take.

    A sixth of the target, and less where F takes more than half of it: there the best batch time 2 F y / (F + y)
    leaves F (y - F) / (F + y). From F = 0.8 y on, where not even one row in eight can be in time, it goes over into
    3 F, three quarters of a batch: what is shed there is lost and hardly anything comes sooner.

    >>> [round(least_room_s(fixed_s, 3.0), 2) for fixed_s in (0.3, 1.5, 2.4, 2.7, 3.0, 4.0)]
    [0.5, 0.5, 0.27, 4.12, 9.0, 12.0]
    """
    F, y = fixed_s, target_s
    if F / y <= 0.5:
        return LEAST_ROOM * y
    beyond = min(max((F / y - _NEAR_TARGET) / (1.0 - _NEAR_TARGET), 0.0), 1.0)
    return (1.0 - beyond) * F * (y - F) / (F + y) + beyond * _LONG_ROOM * F


class _Json:
    """JSON form shared by both values. Fields unknown to this version are ignored, missing ones are defaults."""

    def to_json(self) -> str:
        """Return the value as one line of JSON."""
        return json.dumps(asdict(self), allow_nan=False, separators=(",", ":"))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read back what :meth:`to_json` wrote."""
        try:
            found = json.loads(text)
        except ValueError as error:
            raise SpillwayError(f"{cls.__name__}: not JSON: {error}.") from error
        if not isinstance(found, dict):
            raise SpillwayError(f"{cls.__name__}: expected a JSON object, found {type(found).__name__}.")
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        try:
            return cls(**{name: value for name, value in found.items() if name in known})
        except TypeError as error:
            raise SpillwayError(f"{cls.__name__}: {error}.") from error


def _check(owner: Any, name: str, low: float, high: float, *, optional: bool = False) -> None:
    """Refuse a field that is not a number within bounds, and make plain floats of those of other libraries."""
    value = getattr(owner, name)
    if value is None and optional:
        return
    number = (isinstance(value, int | float) and not isinstance(value, bool)) or hasattr(value, "__float__")
    if not number or not math.isfinite(value) or not low <= value <= high:
        bound = f"a finite number >= {low:g}" if high == math.inf else f"a number from {low:g} to {high:g}"
        raise invalid(f"{type(owner).__name__}.{name}", value, bound + (" or None" if optional else ""))
    if not isinstance(value, int | float):
        object.__setattr__(owner, name, float(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(_Json):
    """One control period as it was measured.

    On a batch engine the period is one batch; on a pipelined one it is the paper's control period T.

    ================= ====================================================================================
    field             meaning
    ================= ====================================================================================
    at_s              when the period ended, in seconds of any clock that does not run backwards for long
    period_s          its length (T)
    arrived_rows      rows that came in (f_in · T)
    kept_rows         rows admitted out of them
    backlog_rows      rows admitted or waiting but not finished at the end of the period (q)
    cost_s            estimated processing time per kept row (c), None while unknown
    fixed_s           estimated time per batch whatever its size, 0 on a pipelined engine
    skip_s            estimated time per row that is read and then dropped
    busy_s            time spent processing in this period, None where it was not measured
    finished_rows     rows that left (f_out · T), None where it was not measured
    delay_s           mean delay of rows that left, from arrival to result; None where it was not measured
    worst_delay_s     the longest of those delays
    protected_rows    rows that were kept because they must never be dropped
    unit_s            estimated time per unit of work (u); None where no operator has a budget
    work_s            of ``busy_s``, what went into units of work
    spread            how sure ``cost_s`` is: the standard deviation of its logarithm, 0 where it is known
    pace              how slow the machine is just now, as a factor that is part of all costs
    waited_s          time from the cut before to the cut of this batch: its oldest row may have waited so long
    idle_s            of that, what passed after the batch before had ended, as with a trigger interval
    ================= ====================================================================================
    """

    at_s: float
    period_s: float
    arrived_rows: float
    kept_rows: float
    backlog_rows: float = 0.0
    cost_s: float | None = None
    fixed_s: float = 0.0
    skip_s: float = 0.0
    busy_s: float | None = None
    finished_rows: float | None = None
    delay_s: float | None = None
    worst_delay_s: float | None = None
    protected_rows: float = 0.0
    unit_s: float | None = None
    work_s: float = 0.0
    spread: float = 0.0
    pace: float = 1.0
    waited_s: float | None = None
    idle_s: float = 0.0

    def __post_init__(self) -> None:
        _check(self, "at_s", -math.inf, math.inf)
        for name in ("period_s", "arrived_rows", "kept_rows", "backlog_rows", "fixed_s", "skip_s"):
            _check(self, name, 0.0, math.inf)
        for name in ("cost_s", "busy_s", "finished_rows", "unit_s", "waited_s"):
            _check(self, name, 0.0, math.inf, optional=True)
        for name in ("delay_s", "worst_delay_s"):  # below zero where the clocks of two machines disagree
            _check(self, name, -math.inf, math.inf, optional=True)
        for name in ("protected_rows", "work_s", "spread", "pace", "idle_s"):
            _check(self, name, 0.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(_Json):
    """How the next period may go. Both bounds hold together: a row enters if it passes each of them.

    ================= ====================================================================================
    field             meaning
    ================= ====================================================================================
    keep_ratio        share of the arriving rows to keep, from 0 to 1 (the paper's 1 - α)
    queue_limit_rows  rows that may be outstanding at once, or in one batch; None: no bound, only the rate
    skip_cost         what a dropped row costs, as a share of a kept one; a batch engine takes it off the limit
    least_rows        rows to keep however much the dropped ones cost; None: a tenth of the limit
    batch_s           how long a batch should take; None where the controller does not go by that
    fixed_s           of that, what a batch takes whatever its size
    cost_s            what a kept row takes; None while that is hardly known
    trigger_s         time between the cuts of batches that rows wait for in any case; None: not known
    sure_fixed_s      ``fixed_s`` if rows are as dear as they may well be
    sure_cost_s       ``cost_s`` if they are; None where nobody can tell
    cold              whether nothing at all is known of the cost of a row yet
    admit_rows        rows wanted in the next period (v · T); below 0: that many should leave the queue
    work_budget       work units (comparisons, probes) stateful operators may spend in a batch; None: no bound
    row_work          what a row of the batch takes off the budget, in units
    target_delay_s    the target this was decided for
    salt              goes into the hash that picks the rows
    reason            why, in words
    ================= ====================================================================================
    """

    keep_ratio: float = 1.0
    queue_limit_rows: float | None = None
    skip_cost: float = 0.0
    least_rows: float | None = None
    batch_s: float | None = None
    fixed_s: float = 0.0
    cost_s: float | None = None
    trigger_s: float | None = None
    sure_fixed_s: float = 0.0
    sure_cost_s: float | None = None
    cold: bool = False
    admit_rows: float | None = None
    work_budget: float | None = None
    row_work: float = 0.0
    target_delay_s: float | None = None
    salt: int = 0
    reason: str = "nothing measured yet"

    def __post_init__(self) -> None:
        _check(self, "keep_ratio", 0.0, 1.0)
        _check(self, "queue_limit_rows", 0.0, math.inf, optional=True)
        _check(self, "skip_cost", 0.0, 1.0)
        for name in ("least_rows", "batch_s", "cost_s", "trigger_s", "sure_cost_s"):
            _check(self, name, 0.0, math.inf, optional=True)
        for name in ("fixed_s", "sure_fixed_s"):
            _check(self, name, 0.0, math.inf)
        _check(self, "admit_rows", -math.inf, math.inf, optional=True)
        _check(self, "work_budget", 0.0, math.inf, optional=True)
        _check(self, "row_work", 0.0, math.inf)

    def keep_ratio_for(
        self,
        rows: float,
        *,
        waited_s: float | None = None,
        idle_s: float = 0.0,
        unreported: tuple[float, float] | None = None,
    ) -> float:
        """Return the share to keep of a batch whose size is known: the rate and the limit together.

        With limit L, n rows and skip cost s, the kept rows k solve k + s (n - k) = L. However dear the dropped
        rows are, ``least_rows`` are kept. L is that of :meth:`limit_for`. Where to read and drop all rows takes
        longer than L already, the batch is late whatever is kept: the less a dropped row saves below half of what a
        kept one takes, the more are kept, and all of them where it saves nothing.

        >>> Decision(queue_limit_rows=500).keep_ratio_for(2000)
        0.25
        >>> Decision(queue_limit_rows=500, skip_cost=0.1).keep_ratio_for(2000)
        0.16666666666666666
        >>> [round(Decision(queue_limit_rows=500, skip_cost=s).keep_ratio_for(2000), 2) for s in (0.5, 0.75, 1.0)]
        [0.03, 0.5, 1.0]
        >>> Decision(keep_ratio=0.2, queue_limit_rows=500).keep_ratio_for(100)
        0.2
        """
        limit = self.limit_for(waited_s, idle_s, unreported)
        if limit is None or rows <= limit or self.fits_whole(rows, waited_s, unreported):
            return self.keep_ratio
        share = limit / rows
        if share > self.skip_cost:
            left = (share - self.skip_cost) / (1.0 - self.skip_cost)
        else:
            left = (self.skip_cost - _WORTH_DROPPING) / (1.0 - _WORTH_DROPPING)
        least = 0.1 * limit if self.least_rows is None else min(self.least_rows, limit)
        return min(self.keep_ratio, max(left, least / rows))

    def fits_whole(
        self, rows: float, waited_s: float | None, unreported: tuple[float, float] | None = None
    ) -> bool:
        """Say whether all rows of a batch are in time even if rows are dear, and those that come meanwhile are, too.

        A batch of time b whose oldest row has waited w is in time if w + b is within the target. While it runs, rows
        go on coming at the rate of its own; they wait for b or for the trigger and fill the next batch. A limit alone
        would shed in vain after a batch that took long by chance, although the query is not overloaded. Where nothing
        is known of the cost of a row, the query is taken to be half busy, as one that is started usually is, but no
        row to cost less than the cheapest ones do; or what the batch before took, if it is not reported yet, is taken
        for its rows.

        >>> decision = Decision(target_delay_s=2.0, sure_fixed_s=0.2, sure_cost_s=0.001)
        >>> decision.fits_whole(600, 0.9), decision.fits_whole(950, 0.9), decision.fits_whole(600, 0.3)
        (True, False, False)
        >>> cold = Decision(target_delay_s=2.0, cold=True, queue_limit_rows=90_000)
        >>> cold.fits_whole(1e6, 1.2), cold.fits_whole(1e6, 1.5), cold.fits_whole(5e7, 1.2)
        (True, False, False)
        """
        y, F, c = self.target_delay_s, self.sure_fixed_s, self.sure_cost_s
        if y is None or not waited_s or self.work_budget is not None:
            return False
        if self.cold and unreported is not None and unreported[1] >= _TELLING_ROWS:
            F, c = 0.0, waited_s / unreported[1]
        elif self.cold:
            return (1.0 + _HALF_BUSY) * waited_s <= y and rows <= _CHEAPEST * (self.queue_limit_rows or 0.0)
        elif c is None:
            return False
        batch_s = F + c * rows
        next_waits_s = max(batch_s, self.trigger_s or 0.0)
        next_batch_s = F + c * rows / waited_s * next_waits_s
        return max(waited_s + batch_s, next_waits_s + next_batch_s) <= y

    def limit_for(
        self,
        waited_s: float | None,
        idle_s: float = 0.0,
        unreported: tuple[float, float] | None = None,
    ) -> float | None:
        """Return the limit of a batch, given what is known of the time before it without any report.

        ``waited_s`` is the time since the cut before and ``idle_s`` how much of it the query was idle. ``unreported``
        are the rows that arrived for the batch before and those that it kept, if this decision does not know yet how
        long that took.

        * Rows that wait for the next trigger so long that the target leaves their batch next to nothing are late
          whatever is shed: the batch may take as long as they wait, so that it is done before the next trigger, and
          twice as long while the cost of a row is hardly known, since an idle query is probably not overloaded. As
          long as it may have been a lack of rows instead of a trigger, eight times the target are the most.
        * A batch before that took much longer than expected and is not in the decision yet tells how slow the machine
          is now: the limit is what fits if everything takes as many times as long. While the cost of a row is hardly
          known, its rows are taken to be dear instead. This bridges the dead time of the feedback.
        * A batch after a long one is shortened by three quarters of what that was too long, by a quarter at most, so
          that more of its oldest rows are in time; after a short one it may take half of what was left over, up to
          15 % more. To make up for all of it would make long and short batches take turns.

        >>> decision = Decision(queue_limit_rows=100, batch_s=1.0, cost_s=0.01, target_delay_s=2.0)
        >>> [round(decision.limit_for(waited_s)) for waited_s in (1.2, 0.6, 9.0)]
        [85, 115, 100]
        >>> decision.limit_for(9.0, idle_s=8.0)
        900.0
        >>> [round(decision.limit_for(2.0, unreported=rows)) for rows in ((100, 100), (300, 200))]
        [50, 100]
        """
        limit, t, y = self.queue_limit_rows, self.batch_s, self.target_delay_s
        if limit is None or t is None or y is None or waited_s is None:
            return limit
        idle = was_idle(idle_s, waited_s)
        trigger_s = self.trigger_s
        if trigger_s is None:
            trigger_s = min(waited_s, LONGEST_UNKNOWN * y) if idle else 0.0
        room, least_s = t - self.fixed_s, self._least_s(y)
        if trigger_s > 0.0 and trigger_s + self.fixed_s >= y - least_s:
            factor = _WHILE_UNKNOWN if self.cost_s is None else 1.0
            return limit * factor * max(trigger_s - self.fixed_s, room) / room if room > 0.0 else limit
        if unreported is not None and not idle:
            limit = min(limit, self._limit_after(waited_s, *unreported))
        if waited_s >= y or room <= 0.0:  # late whatever is done: no reason to drop the fresh rows behind
            return limit
        over_s = waited_s - max(t, trigger_s)
        change_s = (
            max(-_SHORTENED * over_s, -0.25 * t)
            if over_s > 0.0
            else min(-_LENGTHENED * over_s, 0.15 * t, 0.5 * room)
        )
        return limit * max(room + change_s, least_s) / max(room, least_s)

    def _least_s(self, target_s: float) -> float:
        """Return the time that rows get in any case."""
        if self.least_rows is not None and self.cost_s is not None:
            return self.least_rows * self.cost_s
        return min(least_room_s(self.fixed_s, target_s), LEAST_ROOM * target_s)

    def _limit_after(self, took_s: float, arrived_rows: float, kept_rows: float) -> float:
        """Return how many rows fit after a batch that took so long, infinite where it took as long as expected.

        Where the cost of a row is known, all is taken to cost as many times as much. Where it is not, what the batch
        took more than its fixed time is taken for its rows.
        """
        t, F, c = self.batch_s or 0.0, self.fixed_s, self.cost_s
        least_s = self._least_s(self.target_delay_s or 0.0)
        if c is None:
            if kept_rows < _TELLING_ROWS or took_s <= _MUCH_LONGER * max(t, F):
                return math.inf
            return kept_rows * max(t - F, least_s) / (took_s - F)
        dropped = max(arrived_rows - kept_rows, 0.0)
        pace = took_s / max(F + c * (kept_rows + self.skip_cost * dropped), 1e-9)
        if pace <= _MUCH_LONGER or c == 0.0:
            return math.inf
        return max(t - pace * F, least_s) / (pace * c)

    def work_budget_for(self, rows: float) -> float | None:
        """Return the units that are left for work beside the rows of a batch, None for no bound.

        However many rows there are, a tenth of the budget is left: a join that compares nothing would never learn
        where matches are.

        >>> Decision(work_budget=1e6, row_work=10.0).work_budget_for(40_000)
        600000.0
        >>> Decision(work_budget=1e6, row_work=10.0).work_budget_for(1e9)
        100000.0
        """
        if self.work_budget is None:
            return None
        return max(self.work_budget - self.row_work * rows, 0.1 * self.work_budget)


@runtime_checkable
class Controller(Protocol):
    """Says how much. One call per period, in order; the state between calls is its own and can be saved."""

    def step(self, sample: Sample) -> Decision:
        """Take in a finished period and decide on the next."""

    def retarget(self, target_delay_s: float) -> None:
        """Change the target while running."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``make(..., state=...)`` goes on exactly."""
