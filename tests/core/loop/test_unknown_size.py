"""Batches that nobody can count before they run: what is expected of them, waited for, and let in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core import control
from spillway.core.control import Controller, Decision
from spillway.core.groups.rates import Rule
from spillway.core.tuples import GRID, Cut
from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import BatchDecision, Published, Stage, decide
from spillway.loop.kinds.groups import GroupSpec
from spillway.loop.loop import Loop
from spillway.loop.offsets import BatchSize
from spillway.loop.reports import BatchReport, StageReport, read_progress
from spillway.loop.stage_updates import learn
from spillway.spark import control_row
from spillway.spark.control_row import PREFIX, ControlRow

FIXED_S, COST_S = 0.3, 30e-6
LIMITED = Published(decision=Decision(queue_limit_rows=500.0, target_delay_s=2.0))


@dataclass
class Query:
    """A made-up query of a source that cannot be counted, on a target of two seconds."""

    folder: Path
    now: float = 1000.0
    cut_s: float | None = None
    batch: int = 0
    reports: list[BatchReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        def make(state: dict[str, Any] | None) -> Controller:
            return control.make("deadline", target_delay_s=2.0, headroom=1.0, state=state, engine="batched")

        finished = Folder(self.folder / "decisions")
        self.loop = Loop("unknown", make, Folder(self.folder), mode="enforce", finished=finished)
        self.loop.add_stage(0.0)

    def run(self, rows: int, idle_s: float = 0.0, *, rows_waited_s: float = 0.01) -> BatchDecision:
        """Wait for rows, run a batch of them, and report it."""
        self.now += idle_s
        waited_s = None if self.cut_s is None else self.now - self.cut_s
        told = decide(self.loop.published, self.batch, BatchSize(waited_s=waited_s, cut_s=self.now))
        kept = int(rows * told.keep_ratio)
        report = BatchReport(
            query="query",
            run="run",
            batch=self.batch,
            started_s=self.now,
            busy_s=FIXED_S + COST_S * kept,
            units=None,
            backlog_units=None,
            stages=(StageReport(arrived=rows, kept=kept, first_arrival_s=self.now - rows_waited_s),),
        )
        self.loop.take(report)
        self.cut_s, self.now, self.batch = self.now, report.ended_s, self.batch + 1
        return told


def test_rows_are_not_dropped_because_time_has_passed(tmp_path: Path) -> None:
    """Ten thousand rows after a second and after ten minutes, taking turns; each batch takes 0.6 s."""
    query = Query(tmp_path)
    for _ in range(20):
        assert query.run(10_000, idle_s=0.4).keep_ratio == 1.0
        told = query.run(10_000, idle_s=599.4)
        assert told.keep_ratio == 1.0
        assert told.expected_rows is None or told.expected_rows <= 10_000


def test_rows_of_a_busy_query_are_told_from_rate_and_wait(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for _ in range(5):
        query.run(10_000)
    told = query.run(10_000)
    assert told.waited_s == pytest.approx(0.6)
    assert told.expected_rows == pytest.approx(10_000, rel=0.01)
    assert not told.rows_known


@pytest.mark.parametrize(
    ("idle_s", "trigger_s", "rows"),
    [(0.0, None, 10_000), (9.0, None, 1_000), (9.0, 0.01, 1_000), (9.0, 5.0, 5_000), (0.0, 50.0, 10_000)],
)
def test_only_the_busy_part_of_a_wait_counts_and_a_trigger(
    idle_s: float, trigger_s: float | None, rows: float
) -> None:
    decision = replace(LIMITED.decision, trigger_s=trigger_s)
    published = Published(decision=decision, rows_per_s=1_000.0, ended_s=110.0 - idle_s, after_batch=6)
    assert decide(published, 7, BatchSize(waited_s=10.0, cut_s=110.0)).expected_rows == pytest.approx(rows)


@pytest.mark.parametrize(
    ("ended_s", "after_batch"),
    [(None, 6), (109.0, 5), (None, None)],
    ids=["a run has just begun", "the report has not come", "nothing has been reported"],
)
def test_where_idleness_is_not_known_the_size_is_not_either(
    ended_s: float | None, after_batch: int | None
) -> None:
    published = replace(LIMITED, rows_per_s=1_000.0, ended_s=ended_s, after_batch=after_batch)
    told = decide(published, 7, BatchSize(waited_s=3600.0, cut_s=110.0))
    assert (told.expected_rows, told.keep_ratio, told.bound_rows) == (None, 1.0, 500.0)


BUSY = replace(LIMITED, rows_per_s=1_000.0, ended_s=100.0, after_batch=0)


def test_a_batch_is_bounded_where_its_size_is_not_known() -> None:
    assert decide(LIMITED, 0, BatchSize(5_000.0, counts_rows=True)).bound_rows is None
    assert decide(LIMITED, 0, BatchSize()).bound_rows == 500.0
    numbered = decide(LIMITED, 0, BatchSize(12.0, counts_rows=False))
    assert (numbered.bound_rows, numbered.keep_ratio) == (500.0, 1.0), "nobody knows yet what a step brings"
    learned = replace(LIMITED, stages=(Stage(rows_per_unit=100.0),))
    assert decide(learned, 1, BatchSize(12.0, counts_rows=False)).bound_rows is None
    unlimited = Published(decision=Decision(keep_ratio=0.3))
    assert decide(unlimited, 0, BatchSize()).bound_rows is None
    assert decide(replace(LIMITED, decision=Decision(queue_limit_rows=0.0)), 0, BatchSize()).bound_rows == 1.0


@pytest.mark.parametrize("waited_s", [0.1, 0.5, 2.0, 20.0])
def test_the_bound_leaves_a_batch_alone_that_is_as_large_as_expected(waited_s: float) -> None:
    told = decide(BUSY, 1, BatchSize(waited_s=waited_s, cut_s=100.0))
    assert told.expected_rows == pytest.approx(1_000.0 * waited_s)
    assert told.bound_rows is not None
    assert told.bound_rows >= told.expected_rows * (1.0 - 1e-9)
    assert told.bound_rows * told.keep_ratio == pytest.approx(500.0), "in rows that are kept it is the limit"


def test_a_batch_that_may_take_longer_is_not_bounded_below_what_is_expected() -> None:
    decision = Decision(queue_limit_rows=500.0, target_delay_s=9.0, sure_fixed_s=0.2, sure_cost_s=0.0001)
    told = decide(replace(BUSY, decision=decision), 1, BatchSize(waited_s=2.0, cut_s=100.0))
    assert (told.expected_rows, told.keep_ratio, told.bound_rows) == (2_000.0, 1.0, 2_000.0)


def test_stages_share_the_bound_by_their_tasks() -> None:
    rule: Rule = "equal"
    stages = (
        Stage(tasks=6.0),
        Stage(chained=True, tasks=99.0),
        Stage(),
        Stage(groups=GroupSpec(rule=rule, at_least=8), tasks=3.0),
        Stage(groups=GroupSpec(rule="variance", at_least=8, join="pairs"), tasks=50.0),
    )
    assert decide(replace(LIMITED, stages=stages), 0, BatchSize()).tasks == 6.0 + 2.0 + 3.0
    works = (Stage(works=True),)
    assert decide(replace(LIMITED, stages=works), 0, BatchSize()).bound_rows is None


def let_in(tasks: list[int], told: BatchDecision) -> float:
    """Return how many rows of the tasks get in on average."""
    assert told.bound_rows is not None
    return sum(
        min(1.0, told.bound_rows / ((number + 1) * max(told.tasks, task + 1))) ** 2
        for task, rows in enumerate(tasks)
        for number in range(rows)
    )


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=12), st.floats(1.0, 20.0), st.floats(1.0, 2_000.0)
)
def test_what_gets_in_is_bounded_however_many_rows_and_tasks_there_are(
    tasks: list[int], expected: float, limit: float
) -> None:
    decision = Decision(queue_limit_rows=limit)
    told = decide(Published(decision=decision, stages=(Stage(tasks=expected),)), 0, BatchSize())
    more = max(len(tasks) / expected, 1.0)
    assert let_in(tasks, told) <= 2.0 * (1.0 + math.log(more)) * limit * 1.0001
    even = [int(limit / len(tasks))] * len(tasks)
    if len(tasks) >= expected:
        assert let_in(even, told) == pytest.approx(sum(even)), "nothing is dropped that fits"


def finished(stage: StageReport) -> BatchReport:
    return BatchReport(
        query="query",
        run="run",
        batch=1,
        started_s=0.0,
        busy_s=1.0,
        units=None,
        backlog_units=None,
        stages=(stage,),
    )


def test_the_number_of_tasks_is_learned_and_a_smaller_one_believed_at_once() -> None:
    stage, seen = Stage(), []
    for tasks in (8, 8, 2, 12, None, 12):
        report = finished(StageReport(arrived=100, kept=100, tasks=tasks))
        (stage,) = learn([stage], report, None, lambda _: None)
        seen.append(stage.tasks)
    assert seen == pytest.approx([8.0, 8.0, 2.0, 5.0, 5.0, 7.1])


def test_rows_that_were_dropped_for_their_place_do_not_make_utilities_drift() -> None:
    told = BatchDecision(batch=1, keep_ratio=0.5, salt=0, cuts=(Cut(0.5, 1.0, 0.0),))
    problems: list[str] = []
    for bounded in (4_000, 0):
        seen = StageReport(arrived=10_000, kept=1_000, bounded=bounded, quantiles=(0.0,) * len(GRID))
        learn([Stage()], finished(seen), told, problems.append)
        assert bool(problems) == (bounded == 0)


def test_the_control_row_tells_the_bound_and_a_salt_of_its_own(tmp_path: Path) -> None:
    row = ControlRow(str(tmp_path), None, 0)
    told = decide(LIMITED, 0, BatchSize())
    values = row.row(told, "")
    assert (values[f"{PREFIX}bound"], values[f"{PREFIX}tasks"]) == (500.0, 2.0)
    assert values[f"{PREFIX}bound_salt"] != values[f"{PREFIX}salt"]
    assert row.row(None, "no decision")[f"{PREFIX}bound"] is None


class Hearing(Folder):
    """A folder in which the report of a batch comes after so many looks."""

    def __init__(self, root: Path, published: list[Published]) -> None:
        super().__init__(root)
        self.published = published
        self.looks = 0

    def read(self, name: str) -> str | None:
        if name != "latest.json":
            return super().read(name)
        found = self.published[min(self.looks, len(self.published) - 1)]
        self.looks += 1
        return json.dumps({"published": found.to_dict()})


COUNTED = BatchSize(160_000.0, counts_rows=True, waited_s=1.0, cut_s=100.0)
UNCOUNTED = replace(COUNTED, units=None)


@pytest.mark.parametrize(
    ("size", "after_batch", "waits"),
    [
        (UNCOUNTED, 5, True),
        (COUNTED, 5, False),  # it costs time, and the size is known
        (UNCOUNTED, 6, False),  # it has come
        (UNCOUNTED, 4, False),  # several are missing: perhaps nobody listens any more
    ],
)
def test_the_last_report_is_waited_for_where_a_batch_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: BatchSize, after_batch: int, waits: bool
) -> None:
    monkeypatch.setattr(control_row.time, "sleep", lambda _: None)
    old = replace(LIMITED, rows_per_s=1_000.0, ended_s=99.0, after_batch=after_batch)
    new = replace(LIMITED, rows_per_s=10_000.0, ended_s=100.0, after_batch=6)
    folder = Hearing(tmp_path, [old, old, old, new])
    told = control_row._decide(folder, 7, size)
    assert (folder.looks > 1) == waits
    if waits:
        assert told.after_batch == 6
        assert told.expected_rows == 10_000.0, "the rate of the burst, which began in batch 6"


def test_a_report_says_how_many_tasks_had_rows_and_what_the_bound_dropped() -> None:
    counts = {"arrived": 9, "kept": 4, "bounded": 5, "last_number": (3 << 33) + 1}
    progress: Any = SimpleNamespace(
        id="query",
        runId="run",
        batchId=3,
        timestamp="2026-01-01T00:00:00.000",
        sources=[],
        durationMs={},
        observedMetrics={"mine": counts},
    )
    report = read_progress(progress, ["mine"])
    assert report is not None
    assert (report.stages[0].tasks, report.bounded) == (4, 5)
