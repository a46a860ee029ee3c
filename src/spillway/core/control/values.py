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

    def __post_init__(self) -> None:
        _check(self, "at_s", -math.inf, math.inf)
        for name in ("period_s", "arrived_rows", "kept_rows", "backlog_rows", "fixed_s", "skip_s"):
            _check(self, name, 0.0, math.inf)
        for name in ("cost_s", "busy_s", "finished_rows", "unit_s"):
            _check(self, name, 0.0, math.inf, optional=True)
        for name in ("delay_s", "worst_delay_s"):  # below zero where the clocks of two machines disagree
            _check(self, name, -math.inf, math.inf, optional=True)
        for name in ("protected_rows", "work_s"):
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
        _check(self, "admit_rows", -math.inf, math.inf, optional=True)
        _check(self, "work_budget", 0.0, math.inf, optional=True)
        _check(self, "row_work", 0.0, math.inf)

    def keep_ratio_for(self, rows: float) -> float:
        """Return the share to keep of a batch whose size is known: the rate and the limit together.

        With limit L, n rows and skip cost s, the kept rows k solve k + s (n - k) = L. However dear the dropped
        rows are, a tenth of the limit is kept: a query that delivers nothing would never learn that it may.

        >>> Decision(queue_limit_rows=500).keep_ratio_for(2000)
        0.25
        >>> Decision(queue_limit_rows=500, skip_cost=0.1).keep_ratio_for(2000)
        0.16666666666666666
        >>> Decision(keep_ratio=0.2, queue_limit_rows=500).keep_ratio_for(100)
        0.2
        """
        limit = self.queue_limit_rows
        if limit is None or rows <= limit:
            return self.keep_ratio
        share = limit / rows
        left = (share - self.skip_cost) / (1.0 - self.skip_cost) if self.skip_cost < 1.0 else 0.0
        return min(self.keep_ratio, max(left, 0.1 * share))

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
