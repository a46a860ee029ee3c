"""The work budget from a finished batch to the next one's decision, and into history and status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spillway.core.control import Decision
from spillway.loop.decision import BatchDecision, Published, Stage, decide
from spillway.loop.loop import Loop
from spillway.loop.offsets import BatchSize
from spillway.loop.reports import BatchReport, StageReport, WorkReport
from spillway.loop.status import Status
from tests.core.loop.test_loop import loop

ROWS = BatchSize(1000.0, counts_rows=True)
PRICED = Decision(work_budget=1e6, row_work=100.0, target_delay_s=2.0)
WORKS = Stage(works=True)
SHED = ("arrived_rows", "kept_rows", "dropped_rows", "would_drop_rows", "sampled_out_rows")
HELD = ("waiting_rows", "runs", "state_bytes")


def test_rows_take_their_part_of_the_budget() -> None:
    told = decide(Published(decision=PRICED, stages=(WORKS,), unit_s=1e-6), 1, ROWS)
    assert told.work_budgets == (pytest.approx(900_000.0),)
    assert told.cuts[0].at == 1.0, "and none is dropped"
    assert BatchDecision.from_json(told.to_json()) == told


def test_what_has_waited_long_gets_less() -> None:
    published = Published(decision=PRICED, stages=(WORKS,), unit_s=1e-6, fixed_s=0.1)
    waited = replace(ROWS, waited_s=1.5)
    assert decide(published, 1, waited).work_budget == pytest.approx(0.4 / 1e-6)
    assert decide(published, 1, replace(ROWS, waited_s=1.89)).work_budget == pytest.approx(225_000.0)
    assert decide(published, 1, replace(ROWS, waited_s=9.0)).work_budget == pytest.approx(900_000.0)


def test_a_budget_by_hand_is_kept_to_the_unit() -> None:
    fixed = Published(decision=Decision(work_budget=500.0, target_delay_s=2.0), stages=(WORKS,), unit_s=1e-6)
    assert decide(fixed, 1, replace(ROWS, waited_s=1.9)).work_budget == 500.0
    assert decide(fixed, 1, BatchSize()).work_budget == 500.0


def test_two_joins_share_by_what_they_demand() -> None:
    first, second = Stage(works=True, demanded=3e6), Stage(works=True, demanded=1e6)
    told = decide(
        Published(decision=PRICED, stages=(first, Stage(), second)), 1, BatchSize(0.0, counts_rows=True)
    )
    assert told.work_budgets[1] is None
    assert told.work_budgets[0] == pytest.approx(725_000.0)
    assert told.work_budget == pytest.approx(1e6)


def test_without_a_join_there_is_no_budget() -> None:
    assert decide(Published(decision=PRICED), 1, ROWS).work_budgets == ()


def metrics(**changed: Any) -> dict[str, Any]:
    """What two shards observed that worked at once, for 50 ms each of 100."""
    found = {"arrived": 1000, "kept": 1000, "demand": 4e8, "spent": 1e8, "pairs": 7, "late": 2}
    found |= {"unmatched": 3, "work_s": 0.1, "task_s": 0.2, "began_s": 50.0, "ended_s": 50.1}
    return {**found, **changed}


def finished(batch: int, *stages: StageReport) -> BatchReport:
    return BatchReport(
        query="q",
        run="r",
        batch=batch,
        started_s=100.0 + batch,
        busy_s=0.5,
        units=1000.0,
        backlog_units=0.0,
        stages=stages,
    )


def joining(tmp_path: Path, **options: Any) -> Loop:
    made = loop(tmp_path, **options)
    made.add_stage(works=True)
    return made


def test_the_time_of_the_work_is_that_of_the_tasks_over_how_many_ran_at_once() -> None:
    work = WorkReport.of(metrics())
    assert work is not None
    assert work.wall_s == pytest.approx(0.05)
    assert WorkReport.of({"arrived": 5}) is None
    assert (work + work).spent == 2e8


def test_a_batch_teaches_what_a_unit_costs_and_shows_in_history_and_status(tmp_path: Path) -> None:
    made = joining(tmp_path)
    cold = made.published.decision.work_budget
    assert cold is not None, "before the first batch there is a budget"
    rows = StageReport(arrived=600, kept=600)
    for batch in range(3):
        made.take(finished(batch, rows, StageReport.of(metrics())))
    assert made.published.unit_s == pytest.approx(0.5e-9, rel=0.1)
    assert made.published.decision.work_budget > 20 * cold  # type: ignore[operator]
    entry = made.history.last()
    assert entry is not None
    assert (entry.arrived_rows, entry.kept_rows) == (600, 600), "where rows are shed they are counted there"
    assert (entry.work_demanded, entry.work_spent, entry.pairs) == (4e8, 1e8, 7)
    assert (entry.late_rows, entry.unmatched_rows) == (2, 3)
    assert entry.cost_s is not None
    shown = Status(
        name="n", mode="observe", running=True, decision=made.published.decision, last=entry, problems=()
    )
    assert shown.work_ratio == 0.25
    assert "compared 100,000,000 of 400,000,000 (25%), 7 pairs" in str(shown)
    assert "left out: 2 late, 3 that could be in no result" in str(shown)
    again = joining(tmp_path)
    assert again.published.unit_s is not None
    assert 0.4e-9 < again.published.unit_s < 6e-9, "and is known after a restart, of a JVM that may be cold"


def test_rows_that_an_operator_drops_are_dropped_rows(tmp_path: Path) -> None:
    made = joining(tmp_path)
    made.take(finished(0, StageReport(arrived=1000, kept=900), StageReport.of(metrics(dropped=400))))
    made.take(finished(1, StageReport(), StageReport.of(metrics(arrived=0, kept=0, dropped=30))))
    found = [[entry[name] for name in SHED] for entry in made.history.table().to_pylist()]
    assert found == [[1000, 500, 500, 500, 400], [0, 0, 30, 30, 30]], "in the second those that had waited"
    last = made.history.before(1)
    shown = Status(
        name="n", mode="enforce", running=True, decision=made.published.decision, last=last, problems=()
    )
    assert shown.keep_ratio == 0.5
    assert "kept 500 of 1,000 rows" in str(shown)
    assert "400 dropped for lack of time" in str(shown)


def test_a_batch_without_rows_tells_what_is_still_held(tmp_path: Path) -> None:
    made = joining(tmp_path)
    none, held = StageReport(), metrics(waiting=50, runs=9, state_bytes=700, more_waiting=50, more_runs=9)
    made.take(finished(0, none, StageReport.of(held)))
    made.take(finished(1, none, StageReport.of({"arrived": None, "demand": None})))  # no shard was called
    some = metrics(
        arrived=0, waiting=5, runs=1, state_bytes=90, more_waiting=-20, more_runs=-3, more_bytes=-60
    )
    made.take(finished(2, none, StageReport.of(some)))  # one was, because the watermark had moved
    found = [[entry[name] for name in HELD] for entry in made.history.table().to_pylist()]
    assert found == [[50, 9, 700], [50, 9, 700], [30, 6, 640]]
    again = joining(tmp_path)
    again.take(finished(2, none, StageReport.of(some)))
    last = again.history.last()
    assert last is not None
    assert [getattr(last, name) for name in HELD] == [30, 6, 640], (
        "a batch that is done again, after a restart"
    )
    again.take(finished(3, none, StageReport.of(metrics(waiting=1, runs=2, state_bytes=3))))
    assert [made_of[name] for made_of in again.history.table().to_pylist()[-1:] for name in HELD] == [1, 2, 3]


def test_that_no_row_can_be_in_a_result_is_told_until_one_can(tmp_path: Path) -> None:
    made = joining(tmp_path)
    made.take(finished(0, StageReport(), StageReport.of({"arrived": None, "demand": None})))
    assert made.problems == []
    made.take(finished(1, StageReport(arrived=9), StageReport.of(metrics(unmatched=1000))))
    assert "no row could be in a result" in made.problems[-1]
    other = joining(tmp_path / "other")
    for batch, unmatched in enumerate((999, 1000)):
        other.take(finished(batch, StageReport(arrived=9), StageReport.of(metrics(unmatched=unmatched))))
    assert other.problems == []


def test_a_join_alone_counts_its_own_rows() -> None:
    report = replace(finished(0, StageReport.of(metrics())), working=(True,))
    assert (report.arrived, report.kept) == (1000, 1000)
    both = replace(
        finished(0, StageReport(arrived=5, kept=4), StageReport.of(metrics())), working=(False, True)
    )
    assert (both.arrived, both.kept) == (5, 4)


def test_a_controller_without_budgets_is_told_of(tmp_path: Path) -> None:
    made = joining(tmp_path, name="ctrl")
    made.take(finished(0, StageReport(arrived=1, kept=1), StageReport.of(metrics())))
    assert any("sets no work budget" in problem for problem in made.problems)
    none = joining(tmp_path / "none", name="none")
    none.take(finished(0, StageReport(arrived=1, kept=1), StageReport.of(metrics())))
    assert none.problems == []
