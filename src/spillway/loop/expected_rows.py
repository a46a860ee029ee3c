"""Computes how many rows a batch is expected to have, and its bound where they cannot be counted before it runs.

The symbols are those of decision.py; position_bound.py describes how a batch is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillway.core.control.values import Decision
from spillway.loop.offsets import BatchSize
from spillway.loop.rows_per_unit import RowsPerUnit

if TYPE_CHECKING:
    from spillway.loop.decision import Published, Stage

_TASKS_AT_FIRST = 2.0  # tasks of a stage before any report; position_bound.py says why
_MOST_BOUND = 1e18  # rows; larger row numbers are not possible


def idle_s_of(published: Published, batch: int, size: BatchSize) -> float | None:
    """Return how long the query was idle before a batch was cut; None where that is not known.

    The report of the batch before says when that batch ended. Where the report has not come, its entry in the commit
    log says so, if it was written in this run: the time between two runs is not idle time.
    """
    cut_s = size.cut_s if size.cut_s is not None else size.seen_s
    ended_s = published.ended_s
    if ended_s is None or published.after_batch != batch - 1:
        ended_s = size.ended_s
        if ended_s is not None and published.began_s is not None and ended_s < published.began_s:
            return None
    return None if ended_s is None or cut_s is None else max(cut_s - ended_s, 0.0)


def gathered_s(wanted: Decision, waited_s: float | None, idle_s: float | None) -> float | None:
    """Return for how long rows gathered because the query was busy or waited for its trigger.

    An idle query would have taken rows at once, so the length of its wait does not tell how many rows there are.
    """
    if waited_s is None or idle_s is None:
        return None
    return min(waited_s, max(waited_s - idle_s, wanted.trigger_s or 0.0))


def expected_rows(
    published: Published, size: BatchSize, gathered_s: float | None, limit: float | None
) -> tuple[float | None, bool]:
    """Return the rows of a batch (None where nothing is known about them), and whether they were counted."""
    per_unit = _per_unit(_first(published.stages), size)
    if size.units is not None and per_unit is not None:
        return per_unit.estimate(size.units, limit), True
    if published.rows_per_s is not None and gathered_s is not None:
        return published.rows_per_s * gathered_s, False
    return None, False


def bound_of(published: Published, rows: float | None, keep: float, limit: float | None) -> dict[str, float]:
    """Return the fields that bound a batch of unknown size; an empty dict where no limit is wanted."""
    bounded = [stage for stage in _first(published.stages) if stage.is_bounded]
    if limit is None or keep <= 0.0 or not bounded:
        return {}
    arriving = max(max(limit, 1.0) / keep, 0.0 if rows is None else rows)
    return {
        "bound_rows": min(arriving, _MOST_BOUND),
        "tasks": sum(stage.tasks or _TASKS_AT_FIRST for stage in bounded),
    }


def _first(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages at which arriving rows are counted: the first stage of each chain."""
    rows_only = [stage for stage in stages if not stage.works] or stages
    return [stage for number, stage in enumerate(rows_only) if number == 0 or not stage.chained]


def _per_unit(stages: Sequence[Stage], size: BatchSize) -> RowsPerUnit | None:
    """Return the rows per unit of the sources, as learned or, before any batch, as guessed."""
    alike = [stage.range_per_unit for stage in stages if stage.measured_in == size.measured_in]
    learned = [per_unit for per_unit in alike if per_unit is not None]
    if learned:
        return RowsPerUnit.total(learned)
    guess = 1.0 if size.counts_rows else size.rows_per_unit
    return None if guess is None else RowsPerUnit(guess, guess)
