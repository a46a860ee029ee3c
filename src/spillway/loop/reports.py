"""The report of one finished batch: a streaming progress event, read into a plain value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from spillway.loop.offsets import advance, parse

Metrics = Mapping[str, Any]
BITS_OF_NUMBER = (
    33  # low bits of monotonically_increasing_id, which count a task's rows; the bits above number the task
)
_WITHOUT_ROWS = ("latestOffset", "queryPlanning", "getBatch", "walCommit", "commitOffsets", "commitBatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """What an operator with a work budget did in a batch: units of work, counts of rows, and the time of the work.

    ``demanded`` is the units that all of the work would have taken, ``spent`` the units that were done; ``wall_s`` is
    the time of the work, divided by the number of tasks that worked in parallel. ``pairs`` are the results of a join,
    ``matches`` the results of a pattern, ``shed_runs`` the partial matches that were discarded, ``runs`` the partial
    matches that are held. ``more_waiting``, ``more_runs`` and ``more_bytes`` are the changes of ``waiting``, ``runs``
    and ``state_bytes`` in the batch.
    """

    demanded: float = 0.0
    spent: float = 0.0
    wall_s: float = 0.0
    pairs: int = 0
    matches: int = 0
    shed_runs: int = 0
    runs: int = 0
    late: int = 0
    unmatched: int = 0
    waiting: int = 0
    dropped: int = 0
    state_bytes: int = 0
    more_waiting: int = 0
    more_runs: int = 0
    more_bytes: int = 0

    @classmethod
    def of(cls, metrics: Metrics) -> WorkReport | None:
        """Read the metrics of an operator; None for a stage without a budget, and for an empty batch."""
        if metrics.get("demand") is None:
            return None
        began, ended = _number(metrics.get("began_s")), _number(metrics.get("ended_s"))
        span_s = 0.0 if began is None or ended is None else ended - began
        tasks_s = _number(metrics.get("task_s")) or 0.0
        at_once = max(1.0, tasks_s / span_s) if span_s > 0.0 else 1.0
        rows = ("late", "unmatched", "waiting", "dropped")
        held = ("runs", "state_bytes", "more_waiting", "more_runs", "more_bytes")
        counts = (*rows, *held, "pairs", "matches", "shed_runs")
        return cls(
            demanded=float(metrics["demand"]),
            spent=float(metrics.get("spent") or 0.0),
            wall_s=(_number(metrics.get("work_s")) or 0.0) / at_once,
            **{name: int(metrics.get(name) or 0) for name in counts},
        )

    def held_after(self, waiting: int, runs: int, state_bytes: int) -> WorkReport:
        """Return the report of a batch without rows, given what was held before it.

        A batch with rows calls all shards. A batch without rows calls only the shards that have something to do, and
        what the other shards hold does not change.

        >>> WorkReport(waiting=1, more_waiting=-3).held_after(10, 20, 30).waiting
        7
        """
        return replace(
            self,
            waiting=max(0, waiting + self.more_waiting),
            runs=max(0, runs + self.more_runs),
            state_bytes=max(0, state_bytes + self.more_bytes),
        )

    def __add__(self, other: WorkReport) -> WorkReport:
        return WorkReport(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One shedding stage's counts in a batch.

    ``bounded`` rows were dropped only because the size of the batch was not known, and ``tasks`` is how many tasks
    had rows in such a batch (position_bound.py); None where the size was known.
    """

    arrived: int = 0
    kept: int = 0
    protected: int = 0
    utility_missing: int = 0
    arrival_missing: int = 0
    first_arrival_s: float | None = None
    mean_arrival_s: float | None = None
    note: str | None = None
    quantiles: tuple[float, ...] | None = None
    passed: int | None = None
    latest_us: int | None = None
    groups: tuple[tuple[int, int], ...] | None = None
    sample: tuple[tuple[int, float], ...] = ()
    times_s: tuple[float, ...] = ()
    work: WorkReport | None = None
    bounded: int = 0
    tasks: int | None = None

    @classmethod
    def of(cls, metrics: Metrics) -> StageReport:
        """Read the metrics that a stage observed; an empty batch has counts of 0 and nothing else.

        Spark Connect writes infinite numbers and NaN as text.
        """
        counts = ("arrived", "kept", "protected", "utility_missing", "arrival_missing", "bounded")
        quantiles, groups = metrics.get("quantiles"), metrics.get("groups")
        last_number = _whole(metrics.get("last_number"))
        return cls(
            **{name: int(metrics.get(name) or 0) for name in counts},
            first_arrival_s=_number(metrics.get("first_arrival")),
            mean_arrival_s=_number(metrics.get("mean_arrival")),
            note=metrics.get("note"),
            passed=_whole(metrics.get("passed")),
            latest_us=_whole(metrics.get("latest_us")),
            quantiles=None if quantiles is None else tuple(float(value) for value in quantiles),
            groups=None if groups is None else tuple((int(item), int(n)) for item, n in map(_pair, groups)),
            sample=tuple((int(key), float(value)) for key, value in map(_pair, metrics.get("sample") or ())),
            times_s=tuple(float(value) for value in metrics.get("times") or ()),
            work=WorkReport.of(metrics),
            tasks=None if last_number is None else (last_number >> BITS_OF_NUMBER) + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """One finished batch; times are in seconds since the epoch.

    ``units`` is how far the offsets advanced, and ``counts_rows`` whether each unit is a row or a gap;
    ``input_rows`` are the rows that the sources delivered, 0 where Spark does not report them. ``overhead_s`` is the
    part of ``busy_s`` in which no row is processed: finding offsets, planning, and the two logs.
    """

    query: str
    run: str
    batch: int
    started_s: float
    busy_s: float
    units: float | None
    backlog_units: float | None
    stages: tuple[StageReport, ...]
    counts_rows: bool = False
    input_rows: int = 0
    overhead_s: float = 0.0
    chained: tuple[bool, ...] = ()
    working: tuple[bool, ...] = ()

    @property
    def ended_s(self) -> float:
        """When the batch was committed."""
        return self.started_s + self.busy_s

    @property
    def arrived(self) -> int:
        """Rows that reached a stage, counted at the first stage of each chain."""
        return sum(stage.arrived for number, stage in self._counted() if not self._follows(number))

    @property
    def kept(self) -> int:
        """Rows that were let through, counted at the last stage of each chain."""
        return sum(stage.kept for number, stage in self._counted() if not self._follows(number + 1))

    @property
    def work(self) -> WorkReport | None:
        """The sum of the work of all operators with a budget, None where there is none."""
        found = [stage.work for stage in self.stages if stage.work is not None]
        return sum(found, WorkReport()) if found else None

    @property
    def all_shards_told(self) -> bool:
        """Whether all shards of the operators were called, as they are in a batch with rows."""
        return any(stage.arrived for stage in self.stages if stage.work is not None)

    @property
    def early_dropped(self) -> int:
        """Rows that were dropped because none of their windows is kept, counted where windows are shed."""
        return sum(stage.arrived - stage.passed for stage in self.stages if stage.passed is not None)

    @property
    def bounded(self) -> int:
        """Rows that were dropped because the size of the batch was not known."""
        return sum(stage.bounded for stage in self.stages)

    def _counted(self) -> list[tuple[int, StageReport]]:
        """Return the stages whose rows count: those that shed rows or, if there are none, the operators."""
        all_work = all(self.working) or not self.working
        return [
            (number, stage)
            for number, stage in enumerate(self.stages)
            if all_work or not (number < len(self.working) and self.working[number])
        ]

    def _follows(self, number: int) -> bool:
        return 0 < number < len(self.chained) and self.chained[number]


def read_progress(
    progress: Any, names: list[str], counted: Mapping[str, Metrics] | None = None
) -> BatchReport | None:
    """Return a progress event as a report, or None if it belongs to another query.

    :param progress: a ``StreamingQueryProgress`` of PySpark, here without its type: the loop needs no Spark
    :param counted: what was counted outside of the plan, within ``foreachBatch``
    """
    observed = {**(progress.observedMetrics or {}), **(counted or {})}
    if not any(name in observed for name in names):
        return None
    started = datetime.fromisoformat(progress.timestamp).replace(tzinfo=UTC).timestamp()
    sources = progress.sources
    starts = [parse(source.startOffset) for source in sources]
    ends = [parse(source.endOffset) for source in sources]
    latest = [parse(source.latestOffset) for source in sources]
    if progress.batchId == 0:
        starts = [0 if start is None else start for start in starts]
    advanced, waiting = advance(ends, starts), advance(latest, ends)
    return BatchReport(
        query=str(progress.id),
        run=str(progress.runId),
        batch=progress.batchId,
        started_s=started,
        busy_s=_seconds(progress, "triggerExecution"),
        units=None if advanced is None else advanced.units,
        backlog_units=None if waiting is None else waiting.units,
        stages=tuple(StageReport.of(_as_dict(observed.get(name))) for name in names),
        counts_rows=advanced is not None and advanced.counts_rows,
        input_rows=sum(getattr(source, "numInputRows", None) or 0 for source in sources),
        overhead_s=sum(_seconds(progress, part) for part in _WITHOUT_ROWS),
    )


def _seconds(progress: Any, part: str) -> float:
    """Return a part of a batch's time, 0 where there was none."""
    return float(progress.durationMs.get(part, 0)) / 1000.0


def _as_dict(row: Any) -> Mapping[str, Any]:
    if row is None:
        return {}
    if isinstance(row, Mapping):
        return row
    found: dict[str, Any] = row.asDict()
    return found


def _pair(found: Any) -> tuple[Any, Any]:
    """Return the two fields of a struct, which Spark Connect delivers as a dict."""
    first, second = found.values() if isinstance(found, Mapping) else found
    return first, second


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _number(value: Any) -> float | None:
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None
