"""Defines the input and the output of a controller: two frozen values with a JSON form.

A controller is anything with ``step(sample) -> Decision``. It knows nothing about Spark, operators or the
clock: a :class:`Sample` describes a finished control period, a :class:`Decision` sets the limits of the next.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, Self, runtime_checkable

from spillway.errors import SpillwayError, invalid

_IDLE_SHARE, _IDLE_S = 0.05, 0.5  # share of the time between two cuts, and most seconds: see was_idle
_HALF_BUSY = 0.5  # of the time: the assumed load of a query about which nothing is known yet
_CHEAPEST = 40.0
"""Times the limit: the most rows of a batch that is kept whole while the cost of rows is unknown.

The limit of a cold start takes rows of 10 µs. No plain query on a few cores was measured below 0.3 µs a row, and 40
times the limit of such rows still fit the target."""
_WORTH_DROPPING = 0.5  # of a kept row's cost: a dropped row that saves less than that hardly shortens a batch
LONGEST_UNKNOWN = 8.0  # times the target: the longest batch after an idle time that may be no trigger

LEAST_ROOM = 1.0 / 6.0
"""Of the target: rows get this much time in every batch, since less would hardly shorten it (see DEADLINE)."""

_NEAR_TARGET = 0.8  # of the target: with a longer fixed time next to no row is in time
_LONG_ROOM = 3.0  # times F, for the rows of a batch that misses the target anyway: three quarters of its time

_SHORTENED, _LENGTHENED = 0.75, 0.5  # of the time by which the previous batch was too long or too short
_MUCH_LONGER = 1.3  # times the expected time of a batch
_WHILE_UNKNOWN = 2.0  # times the trigger, for a batch of an idle query whose row cost is unknown
_TELLING_ROWS = 100.0  # of a batch, from which its time shows something about the cost of a row


def was_idle(idle_s: float, waited_s: float) -> bool:
    """Return whether a query has waited for its trigger, or for rows, between two cuts.

    >>> was_idle(0.1, 1.0), was_idle(0.02, 1.0), was_idle(0.6, 20.0)
    (True, False, True)
    """
    return idle_s > min(_IDLE_SHARE * waited_s, _IDLE_S)


def least_room_s(fixed_s: float, target_s: float) -> float:
    """Return the time that rows get in every batch, however much the batch itself and dropped rows take.

    A sixth of the target, and less where F takes more than half of it: there the best batch time 2 F y / (F + y)
    leaves F (y - F) / (F + y). From F = 0.8 y on, where not even one row in eight can be in time, the room grows to
    3 F, three quarters of a batch: shedding there loses rows, and hardly any result comes sooner.

    >>> [round(least_room_s(fixed_s, 3.0), 2) for fixed_s in (0.3, 1.5, 2.4, 2.7, 3.0, 4.0)]
    [0.5, 0.5, 0.27, 4.12, 9.0, 12.0]
    """
    F, y = fixed_s, target_s
    if F / y <= 0.5:
        return LEAST_ROOM * y
    beyond = min(max((F / y - _NEAR_TARGET) / (1.0 - _NEAR_TARGET), 0.0), 1.0)
    return (1.0 - beyond) * F * (y - F) / (F + y) + beyond * _LONG_ROOM * F


class _Json:
    """The JSON form of both values. Fields unknown to this version are ignored, missing ones get their defaults."""

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
    """Raise if a field is not a number within bounds; convert numbers of other libraries to plain floats."""
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
    fixed_s           estimated time per batch regardless of its size, 0 on a pipelined engine
    skip_s            estimated time per row that is read and then dropped
    busy_s            time spent processing in this period, None where it was not measured
    finished_rows     rows that left (f_out · T), None where it was not measured
    delay_s           mean delay of rows that left, from arrival to result; None where it was not measured
    worst_delay_s     the longest of those delays
    protected_rows    rows that were kept because they must never be dropped
    unit_s            estimated time per unit of work (u); None where no operator has a budget
    work_s            the part of ``busy_s`` spent on units of work
    spread            how certain ``cost_s`` is: the standard deviation of its logarithm, 0 where it is known
    pace              how slow the machine currently is, as a factor that all costs include
    waited_s          time from the previous cut to the cut of this batch: its oldest row may have waited that long
    idle_s            the part of it after the previous batch had ended, as with a trigger interval
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
    """The limits of the next period. Both bounds apply together: a row enters if it passes each of them.

    ================= ====================================================================================
    field             meaning
    ================= ====================================================================================
    keep_ratio        share of the arriving rows to keep, from 0 to 1 (the paper's 1 - α)
    queue_limit_rows  rows that may be outstanding at once, or in one batch; None: no bound, only the rate
    skip_cost         cost of a dropped row, as a share of a kept one; a batch engine subtracts it from the limit
    least_rows        rows to keep however much the dropped ones cost; None: a tenth of the limit
    batch_s           how long a batch should take; None where the controller does not plan it
    fixed_s           the part of it that a batch takes regardless of its size
    cost_s            time of a kept row; None while it is hardly known
    trigger_s         time between the cuts of batches that rows wait for in any case; None: not known
    sure_fixed_s      ``fixed_s`` if rows cost as much as they plausibly may
    sure_cost_s       ``cost_s`` if they do; None where that is unknown
    cold              whether nothing at all is known yet about the cost of a row
    admit_rows        rows wanted in the next period (v · T); below 0: that many should leave the queue
    work_budget       work units (comparisons, probes) stateful operators may spend in a batch; None: no bound
    row_work          units that each row of the batch subtracts from the budget
    target_delay_s    the target that the decision was made for
    salt              part of the hash that selects the rows
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
        """Return the share to keep of a batch whose size is known, by the rate and the limit together.

        With limit L, n rows and skip cost s, the kept rows k solve k + s (n - k) = L. However expensive the
        dropped rows are, ``least_rows`` are kept. L is that of :meth:`limit_for`. Where reading and dropping all rows
        already takes longer than L, the batch is late in any case: if dropping saves less than half of a kept row's
        cost, more rows are kept the less it saves, and all of them where it saves nothing.

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
        """Return whether all rows of a batch, and those that arrive meanwhile, are in time even if rows are
        expensive.

        A batch of time b whose oldest row has waited w is in time if w + b is within the target. While it runs, rows
        keep arriving at the same rate; they wait for b or for the trigger and fill the next batch. A limit alone
        would shed in vain after a batch that took long by chance, although the query is not overloaded. Where the
        cost of a row is unknown, the query is assumed to be half busy, as a query that just started usually is, and
        no row to cost less than the cheapest ones do. If the previous batch is not reported yet, its whole time is
        attributed to its rows instead.

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
        """Return the limit of a batch, corrected by what is known about the time before it without any report.

        ``waited_s`` is the time since the cut before and ``idle_s`` how much of it the query was idle. ``unreported``
        are the rows that arrived for the previous batch and those that it kept, if this decision was made before the
        time of that batch was known.

        * If rows wait for the next trigger so long that the target leaves their batch next to nothing, they are late
          in any case. Then the batch may take as long as they wait, so that it is done before the next trigger, and
          twice as long while the cost of a row is hardly known, since an idle query is probably not overloaded. If
          the wait may have been a lack of rows instead of a trigger, it counts as at most eight times the target.
        * If the previous batch took much longer than expected and the decision does not include it yet, it shows how
          slow the machine is now: the limit is what fits if everything is slower by the same factor. While the cost
          of a row is hardly known, its rows are taken to be expensive instead. This bridges the dead time.
        * A batch after a long one is shortened by three quarters of the excess, by a quarter at most, so
          that more of its oldest rows are in time; after a short one it may take half of the time left over, up to
          15 % more. A full compensation would make long and short batches alternate.

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
        if waited_s >= y or room <= 0.0:  # late in any case: no reason to drop the fresh rows behind
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
        """Return how many rows fit after a batch that took ``took_s``; infinite if about as long as expected.

        Where the cost of a row is known, everything is assumed to be slower by the same factor. Where it is not,
        the time beyond the batch's fixed time is attributed to its rows.
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
        """Return the units of work that are left beside the rows of a batch, None for no bound.

        However many rows there are, at least a tenth of the budget is left: a join that compares nothing would never
        learn where matches are.

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
    """Decides how much to shed. Call it once per period, in order; it keeps its own state, which can be saved."""

    def step(self, sample: Sample) -> Decision:
        """Read the sample of a finished period and return the decision for the next one."""

    def retarget(self, target_delay_s: float) -> None:
        """Change the target while running."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``make(..., state=...)`` continues exactly."""
