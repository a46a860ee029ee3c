"""What is learned of the stages from batch to batch: rows per unit of the sources, the protected share, and the ranks
of the utility, which are set aside for a while where they do not hold from one batch to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from spillway.core.groups.census import Census
from spillway.spark.decide import BatchDecision, Stage, chain_lengths
from spillway.spark.report import BatchReport, StageReport

_SMOOTHING = 0.3
_MISJUDGED = 1.5  # by how much the share kept may miss what the ranks promised
_FEW_ROWS = 1_000  # of a batch, from which that can be told
_LONGEST_DISTRUST = 64
_FEW_TIMES = 20  # of a batch's rows, from which the pace of event time can be told
_LEAST_RANKS = 100  # rows of a batch, from which its ranks say something of the next


def learn(
    stages: Sequence[Stage], report: BatchReport, told: BatchDecision | None, note: Callable[[str], None]
) -> list[Stage]:
    """Return the stages after a batch, given what it was told."""
    lengths = chain_lengths(stages)
    found = []
    for number, (stage, seen) in enumerate(zip(stages, report.stages, strict=True)):
        learned = stage if seen.arrived == 0 else _counted(stage, seen, report.units)
        share = None if told is None else _share_by_rank(told, number, lengths[number], seen)
        if share is not None:
            wanted = max(share, stage.protected_share, stage.floor)
            learned = _judged(learned, seen, wanted, report.batch, note)
        found.append(learned)
    return found


def quick_to_rise(old: float | None, new: float | None) -> float | None:
    """Return a rate that believes in a burst at once and in its end step by step."""
    smooth = _smooth(old, new)
    return smooth if new is None or smooth is None else max(new, smooth)


def _counted(stage: Stage, seen: StageReport, units: float | None) -> Stage:
    per_unit = seen.arrived / units if units else None
    ranked = seen.quantiles is not None and seen.arrived >= _LEAST_RANKS
    return replace(
        stage,
        rows_per_unit=_smooth(stage.rows_per_unit, per_unit),
        protected_share=_smooth(stage.protected_share or None, seen.protected / seen.arrived) or 0.0,
        quantiles=seen.quantiles if ranked else stage.quantiles,
        uniform_batches=max(stage.uniform_batches - 1, 0),
        census=_census(stage, seen),
        demanded=_smooth(stage.demanded, None if seen.work is None else seen.work.demanded),
        rows_per_event_s=_smooth(stage.rows_per_event_s, _per_event_s(seen)),
        latest_us=max((us for us in (stage.latest_us, seen.latest_us) if us is not None), default=None),
    )


def _census(stage: Stage, seen: StageReport) -> Census | None:
    if stage.groups is None or seen.groups is None:
        return stage.census
    return (stage.census or Census()).after(seen.groups, seen.arrived, seen.sample)


def _per_event_s(seen: StageReport) -> float | None:
    """Return the rows per second of event time, without the earliest and the latest twentieth of them."""
    if len(seen.times_s) < _FEW_TIMES:
        return None
    ordered = sorted(seen.times_s)
    cut = len(ordered) // 20
    span_s = ordered[-1 - cut] - ordered[cut]
    share = 1.0 - 2.0 * cut / len(ordered)
    return share * seen.arrived / span_s if span_s > 0.0 else None


def _share_by_rank(told: BatchDecision, number: int, length: int, seen: StageReport) -> float | None:
    """Return the share that a stage was to keep by the last batch's ranks, None where nothing can be judged."""
    if seen.quantiles is None or seen.arrived < _FEW_ROWS or number >= len(told.cuts):
        return None
    by_rank = math.isfinite(told.cuts[number].value) and told.keep_ratio < 1.0
    return told.keep_ratio ** (1.0 / length) if by_rank else None


def _judged(stage: Stage, seen: StageReport, wanted: float, batch: int, note: Callable[[str], None]) -> Stage:
    """Trust the ranks more where they held, and leave them out of account for a while where they did not."""
    share = seen.kept / seen.arrived
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
