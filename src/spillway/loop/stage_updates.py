"""Updates what is known about the stages after each batch.

That is the rows per unit of the sources (rows_per_unit.py), the protected share, the number of tasks that have rows
(position_bound.py), and the ranks of the utility. Ranks that do not hold from one batch to the next are not used for
some batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from spillway.core.groups.census import Census
from spillway.loop.decision import BatchDecision, Stage, chain_lengths
from spillway.loop.offsets import OFFSETS
from spillway.loop.reports import BatchReport, StageReport
from spillway.loop.rows_per_unit import RowsPerUnit

_SMOOTHING = 0.3
_MISJUDGED = 1.5  # the factor by which the kept share may differ from the share expected by rank
_FEW_ROWS = 1_000  # the rows of a batch from which that difference can be judged
_LONGEST_DISTRUST = 64
_FEW_TIMES = 20  # the event times of a batch from which the pace of event time can be computed
_LEAST_RANKS = 100  # the rows of a batch from which its ranks are useful for the next batch


def learn(
    stages: Sequence[Stage], report: BatchReport, told: BatchDecision | None, note: Callable[[str], None]
) -> list[Stage]:
    """Return the stages after a batch, given the decision it ran with."""
    lengths = chain_lengths(stages)
    found = []
    for number, (stage, seen) in enumerate(zip(stages, report.stages, strict=True)):
        learned = _measured(stage, seen, report, told)
        if seen.arrived > 0:
            learned = _counted(learned, seen)
        share = None if told is None else _share_by_rank(told, number, lengths[number], seen)
        if share is not None:
            wanted = max(share, stage.protected_share, stage.floor)
            learned = _judged(learned, seen, wanted, report.batch, note)
        found.append(learned)
    return found


def quick_to_rise(old: float | None, new: float | None) -> float | None:
    """Return a smoothed rate that follows a rise at once and a fall step by step."""
    smooth = _smooth(old, new)
    return smooth if new is None or smooth is None else max(new, smooth)


def _quick_to_fall(old: float | None, new: int | None) -> float | None:
    """Return how many tasks to expect. Too high a number drops rows needlessly, too low a number lets more in."""
    smooth = _smooth(old, new)
    return smooth if new is None or smooth is None else min(float(new), smooth)


def _measured(stage: Stage, seen: StageReport, report: BatchReport, told: BatchDecision | None) -> Stage:
    """Learn the rows per unit, in the units in which the batch was measured before it ran."""
    units, measured_in = report.units, OFFSETS
    if told is not None and told.units is not None:
        units, measured_in = told.units, told.measured_in
    if not units:
        return stage
    before = stage.range_per_unit if stage.measured_in == measured_in else None
    if before is None:
        before = _without_gaps(seen.arrived, units, report if measured_in == OFFSETS else None)
    if before is None:
        return stage
    per_unit = before.after(seen.arrived, units)
    return replace(
        stage,
        rows_per_unit=per_unit.middle,
        rows_per_unit_spread=per_unit.spread,
        measured_in=measured_in,
    )


def _without_gaps(arrived: int, units: float, report: BatchReport | None) -> RowsPerUnit | None:
    """Return the rows per unit as if no offset were a gap; where units are not rows, the ratio that was seen."""
    ratio = arrived / units
    if report is not None and report.counts_rows:
        ratio = arrived / min(units, report.input_rows) if arrived and report.input_rows else max(ratio, 1.0)
    return RowsPerUnit(ratio, ratio) if ratio > 0.0 else None


def _counted(stage: Stage, seen: StageReport) -> Stage:
    ranked = seen.quantiles is not None and seen.arrived >= _LEAST_RANKS
    return replace(
        stage,
        protected_share=_smooth(stage.protected_share or None, seen.protected / seen.arrived) or 0.0,
        quantiles=seen.quantiles if ranked else stage.quantiles,
        uniform_batches=max(stage.uniform_batches - 1, 0),
        census=_census(stage, seen),
        demanded=_smooth(stage.demanded, None if seen.work is None else seen.work.demanded),
        rows_per_event_s=_smooth(stage.rows_per_event_s, _per_event_s(seen)),
        tasks=_quick_to_fall(stage.tasks, seen.tasks),
        latest_us=max((us for us in (stage.latest_us, seen.latest_us) if us is not None), default=None),
    )


def _census(stage: Stage, seen: StageReport) -> Census | None:
    if stage.groups is None or seen.groups is None:
        return stage.census
    return (stage.census or Census()).after(seen.groups, seen.arrived, seen.sample)


def _per_event_s(seen: StageReport) -> float | None:
    """Return the rows per second of event time, without the earliest and the latest twentieth of the rows."""
    if len(seen.times_s) < _FEW_TIMES:
        return None
    ordered = sorted(seen.times_s)
    cut = len(ordered) // 20
    span_s = ordered[-1 - cut] - ordered[cut]
    share = 1.0 - 2.0 * cut / len(ordered)
    return share * seen.arrived / span_s if span_s > 0.0 else None


def _share_by_rank(told: BatchDecision, number: int, length: int, seen: StageReport) -> float | None:
    """Return the share that a stage was to keep by the ranks of the last batch, None where it cannot be judged."""
    if seen.quantiles is None or seen.arrived < _FEW_ROWS or number >= len(told.cuts):
        return None
    by_rank = math.isfinite(told.cuts[number].value) and told.keep_ratio < 1.0
    return told.keep_ratio ** (1.0 / length) if by_rank else None


def _judged(stage: Stage, seen: StageReport, wanted: float, batch: int, note: Callable[[str], None]) -> Stage:
    """Trust the ranks more if they held; if they did not, do not use them for some batches."""
    share = (seen.kept + seen.bounded) / seen.arrived  # the share that the ranks kept
    if wanted / _MISJUDGED <= share <= wanted * _MISJUDGED:
        return replace(stage, distrust=stage.distrust // 2)
    distrust = min(max(2 * stage.distrust, 1), _LONGEST_DISTRUST)
    note(
        f"batch {batch}: utilities drift, {share:.0%} of the rows were kept instead of {wanted:.0%}; rows are "
        f"dropped whatever their utility, for {distrust} batch{'es' * (distrust > 1)}"
    )
    return replace(stage, uniform_batches=distrust, distrust=distrust)


def _smooth(old: float | None, new: float | None) -> float | None:
    if new is None:
        return old
    return new if old is None else old + _SMOOTHING * (new - old)
