"""The history: a log of all batches, appended to the checkpoint and read back as a pyarrow Table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from spillway.core.control.values import Decision, Sample
from spillway.loop.checkpoint_store import Folder
from spillway.loop.reports import WorkReport

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.loop.decision import BatchDecision
    from spillway.loop.reports import BatchReport

LINES_PER_FILE = 10_000
FILES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finished batch: its decision, its measurements, and the decision that the controller made after it.

    ``keep_ratio`` to ``waited_s`` are the decision of this batch; ``next_keep_ratio``, ``next_limit_rows`` and
    ``reason`` are the controller's decision after it. Where windows are shed, a row counts as kept by the share of
    its windows that are kept; ``early_dropped_rows`` counts the rows none of whose windows is kept.
    ``windows_dropped`` counts the dropped windows that were settled since the batch before. ``bound_rows`` and
    ``bounded_rows`` belong to batches whose size was not known before they ran (position_bound.py): the number of
    rows after which dropping began, and how many rows were dropped for that reason, or would have been.

    For joins and patterns, ``work_demanded`` is the units of work (comparisons, probes of an index, steps of a
    pattern) that all rows would have taken, ``work_spent`` the units that were done and ``work_budget`` the units
    that were allowed; ``pairs`` or ``matches`` are the results. ``late_rows`` came after the watermark had passed
    them and ``unmatched_rows`` had no value to match by, so both were left out; ``sampled_out_rows`` were dropped by
    the operator, in each shard separately, and ``shed_runs`` counts the partial matches that a pattern discarded.
    ``runs`` counts the partial matches that are held after the batch, ``waiting_rows`` the rows that wait for the
    watermark then, and ``state_bytes`` is the size of the state.

    ``dropped_rows`` counts all rows that were shed in the batch, including ``sampled_out_rows``, and ``kept_rows``
    the rest of the rows that arrived. A row that waited may be dropped in a later batch than the one it arrived in,
    so more rows may be dropped than arrived. ``would_drop_rows`` is the same number if nothing is enforced, except
    for joins and patterns: how many rows they would have dropped is not known, only that ``work_budget`` is less than
    ``work_demanded``.
    """

    batch: int
    run: str
    at_s: float
    period_s: float
    arrived_rows: int
    kept_rows: int
    dropped_rows: int
    would_drop_rows: int
    protected_rows: int
    utility_missing_rows: int
    arrival_missing_rows: int
    backlog_rows: float
    busy_s: float
    delay_s: float | None
    worst_delay_s: float | None
    cost_s: float | None
    fixed_s: float
    skip_s: float
    target_delay_s: float | None
    keep_ratio: float
    expected_rows: float | None
    limit_rows: float | None
    waited_s: float | None
    logged: bool
    next_keep_ratio: float
    next_limit_rows: float | None
    reason: str
    early_dropped_rows: int = 0
    windows_dropped: int = 0
    work_demanded: float = 0.0
    work_spent: float = 0.0
    work_budget: float | None = None
    next_work_budget: float | None = None
    pairs: int = 0
    late_rows: int = 0
    unmatched_rows: int = 0
    waiting_rows: int = 0
    sampled_out_rows: int = 0
    state_bytes: int = 0
    unit_s: float | None = None
    matches: int = 0
    shed_runs: int = 0
    runs: int = 0
    bound_rows: float | None = None
    bounded_rows: int = 0

    @classmethod
    def of(
        cls,
        report: BatchReport,
        sample: Sample,
        told: BatchDecision | None,
        decision: Decision,
        before: Entry | None = None,
    ) -> Self:
        """Make the entry of a batch; ``before`` is the entry of the batch before it."""
        kept, work = int(sample.kept_rows), report.work or WorkReport()
        if before is not None and not report.all_shards_told:
            work = work.held_after(before.waiting_rows, before.runs, before.state_bytes)
        return cls(
            batch=report.batch,
            run=report.run,
            at_s=sample.at_s,
            period_s=sample.period_s,
            arrived_rows=report.arrived,
            kept_rows=max(0, kept - work.dropped),
            dropped_rows=report.arrived - kept + work.dropped,
            would_drop_rows=report.arrived - report.kept + work.dropped,
            protected_rows=sum(stage.protected for stage in report.stages),
            utility_missing_rows=sum(stage.utility_missing for stage in report.stages),
            arrival_missing_rows=sum(stage.arrival_missing for stage in report.stages),
            backlog_rows=sample.backlog_rows,
            busy_s=report.busy_s,
            delay_s=sample.delay_s,
            worst_delay_s=sample.worst_delay_s,
            cost_s=sample.cost_s,
            fixed_s=sample.fixed_s,
            skip_s=sample.skip_s,
            target_delay_s=decision.target_delay_s,
            keep_ratio=1.0 if told is None else told.keep_ratio,
            expected_rows=None if told is None else told.expected_rows,
            limit_rows=None if told is None else told.limit_rows,
            waited_s=None if told is None else told.waited_s,
            logged=told is not None,
            next_keep_ratio=decision.keep_ratio,
            next_limit_rows=decision.queue_limit_rows,
            reason=decision.reason,
            early_dropped_rows=0 if report.kept != kept else report.early_dropped,
            work_demanded=work.demanded,
            work_spent=work.spent,
            work_budget=None if told is None else told.work_budget,
            next_work_budget=decision.work_budget,
            pairs=work.pairs,
            matches=work.matches,
            shed_runs=work.shed_runs,
            runs=work.runs,
            late_rows=work.late,
            unmatched_rows=work.unmatched,
            waiting_rows=work.waiting,
            sampled_out_rows=work.dropped,
            state_bytes=work.state_bytes,
            unit_s=sample.unit_s,
            bound_rows=None if told is None else told.bound_rows,
            bounded_rows=report.bounded,
            windows_dropped=sum(0 if each is None else each.dropped for each in told.windows) if told else 0,
        )


class History:
    """A bounded log of entries: ten files of ten thousand entries on disk, the newest entry also in memory."""

    def __init__(self, folder: Folder, note: Callable[[str], None]) -> None:
        self._folder = folder
        self._note = note
        self._unsaved: list[Entry] = []
        self._last: Entry | None = None
        self._last_with_rows: Entry | None = None
        self._lines: int | None = None

    def add(self, entry: Entry) -> None:
        """Add an entry. If it cannot be written, it stays in memory, and a problem is noted in the status."""
        self._last = entry
        if entry.arrived_rows or entry.work_demanded:
            self._last_with_rows = entry
        try:
            if self._lines is None:
                self._lines = self._count()
            number, line = divmod(self._lines, LINES_PER_FILE)
            self._folder.append(f"history/{number}.jsonl", json.dumps(asdict(entry)))
            self._lines += 1
            if line == 0:
                self._folder.remove(f"history/{number - FILES}.jsonl")
        except OSError as error:
            self._note(f"the history is kept in memory only: {error}")
            self._unsaved = [*self._unsaved[1 - LINES_PER_FILE :], entry]

    def last(self) -> Entry | None:
        """Return the newest entry of this process."""
        return self._last

    def last_with_rows(self) -> Entry | None:
        """Return the newest entry of this process that had rows. (Spark also runs batches without rows.)"""
        return self._last_with_rows

    def before(self, batch: int) -> Entry | None:
        """Return the newest entry before a batch, even if another process wrote it; None if there is none."""
        if self._last is not None and self._last.batch < batch:
            return self._last
        earlier = [entry for file in self._files()[-1:] for entry in self._read(file) if entry.batch < batch]
        return earlier[-1] if earlier else None

    def table(self) -> pa.Table:
        """Return all entries, oldest first. A batch that was replayed appears once per run."""
        import pyarrow as pa  # noqa: PLC0415  not needed to run a query

        entries = [entry for file in self._files() for entry in self._read(file)] + self._unsaved
        schema = pa.schema([(field.name, _arrow_type(field.type)) for field in fields(Entry)])
        columns = {name: [getattr(entry, name) for entry in entries] for name in schema.names}
        return pa.table(columns, schema=schema)

    def _files(self) -> list[str]:
        found = [name for name in self._folder.names("history") if name.removesuffix(".jsonl").isdigit()]
        return sorted(found, key=lambda name: int(name.removesuffix(".jsonl")))

    def _count(self) -> int:
        """Return how many lines have ever been written, from the newest file's number and length."""
        files = self._files()
        if not files:
            return 0
        newest = self._folder.read(f"history/{files[-1]}") or ""
        if newest and not newest.endswith("\n"):  # a crash cut off the last line: end that line
            self._folder.append(f"history/{files[-1]}", "")
        return int(files[-1].removesuffix(".jsonl")) * LINES_PER_FILE + newest.count("\n")

    def _read(self, file: str) -> list[Entry]:
        names = {field.name for field in fields(Entry)}
        try:
            lines = (self._folder.read(f"history/{file}") or "").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            self._note(f"history/{file} cannot be read: {error}")
            return []
        return [entry for entry in (_parse(line, names) for line in lines) if entry is not None]


def _parse(line: str, names: set[str]) -> Entry | None:
    """Return an entry, or None for a line that a crash has cut off."""
    try:
        found: Any = json.loads(line)
        return Entry(**{name: value for name, value in found.items() if name in names})
    except (ValueError, TypeError, AttributeError):
        return None


def _arrow_type(annotation: Any) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415

    kinds = {"int": pa.int64(), "str": pa.string(), "bool": pa.bool_(), "float": pa.float64()}
    return kinds[str(annotation).split(" | ", maxsplit=1)[0]]
