"""The feedback loop on reports made by hand: what it publishes, remembers, and survives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spillway.core import control
from spillway.core.control import Controller, Decision, Sample
from spillway.core.tuples import GRID
from spillway.errors import SpillwayError
from spillway.loop import history
from spillway.loop.checkpoint_store import KEPT_DECISIONS, Folder
from spillway.loop.decision import Published, decide
from spillway.loop.loop import Loop
from spillway.loop.offsets import BatchSize
from spillway.loop.reports import BatchReport, StageReport, read_progress
from spillway.loop.step_controller import StepOnly
from spillway.spark.control_row import ControlRow, read_published

FIXED_S, COST_S = 0.3, 20e-6


def loop(tmp_path: Path, *, name: str = "deadline", target: float = 2.0, mode: str = "enforce") -> Loop:
    options: dict[str, Any] = {"engine": "batched"} if name == "deadline" else {}

    def make(state: dict[str, Any] | None) -> Controller:
        return control.make(name, target_delay_s=target, headroom=1.0, state=state, **options)

    made = Loop("test", make, Folder(tmp_path), mode=mode, finished=Folder(tmp_path / "decisions"))
    made.add_stage(0.0)
    return made


def report(
    batch: int,
    arrived: int,
    kept: int | None = None,
    *,
    run: str = "run",
    started_s: float | None = None,
    busy_s: float | None = None,
    **stage: Any,
) -> BatchReport:
    """A finished batch; without another word it starts two seconds after the one before it."""
    kept = arrived if kept is None else kept
    return BatchReport(
        query="query",
        run=run,
        batch=batch,
        started_s=1000.0 + 2 * batch if started_s is None else started_s,
        busy_s=FIXED_S + COST_S * kept if busy_s is None else busy_s,
        units=float(arrived),
        backlog_units=0.0,
        stages=(StageReport(arrived=arrived, kept=kept, **stage),),
    )


def feed(made: Loop, sizes: list[int], *, run: str = "run", first: int = 0) -> None:
    """Let batches follow one another."""
    started_s = 1000.0 + 10.0 * first
    for number, size in enumerate(sizes):
        batch = report(first + number, size, run=run, started_s=started_s)
        made.take(batch)
        started_s = batch.ended_s


def test_before_any_batch_there_is_a_safe_decision_on_disk(tmp_path: Path) -> None:
    made = loop(tmp_path)
    published = read_published(Folder(tmp_path))
    assert published == made.published
    assert published.decision.queue_limit_rows is not None
    assert decide(published, 0, BatchSize(1e9, counts_rows=True)).keep_ratio < 0.001


def test_it_learns_what_a_batch_costs_and_bounds_it(tmp_path: Path) -> None:
    made = loop(tmp_path)
    feed(made, [5_000, 10_000, 20_000, 8_000, 25_000, 15_000, 30_000])
    published = read_published(Folder(tmp_path))
    assert published.cost_s is not None
    assert published.fixed_s + published.cost_s * 20_000 == pytest.approx(FIXED_S + COST_S * 20_000, rel=0.1)
    limit = published.decision.queue_limit_rows
    assert limit is not None
    assert FIXED_S + COST_S * limit < 1.15, "two batches in a row fit the target"
    assert FIXED_S + COST_S * limit > 0.6, "and the time is used"
    told = decide(published, 7, BatchSize(100_000, counts_rows=True))
    kept = told.keep_ratio * 100_000
    skipped = published.decision.skip_cost * (100_000 - kept)
    assert kept + skipped == pytest.approx(limit), "dropped rows take their part of the batch's time"
    least = published.decision.least_rows
    assert least is not None
    flood = decide(published, 7, BatchSize(100_000_000, counts_rows=True))
    assert flood.keep_ratio * 100_000_000 == pytest.approx(least), "however many are dropped"
    assert "a row costs" in published.decision.reason


def test_batches_that_follow_one_another_are_no_trigger_and_idle_ones_are(tmp_path: Path) -> None:
    made = loop(tmp_path)
    feed(made, [10_000] * 6)
    assert made.published.decision.trigger_s is None
    idle = loop(tmp_path / "idle")
    for batch in range(6):  # every 5 s a batch of half a second, whose rows have waited for it
        started_s = 1000.0 + 5.0 * batch
        idle.take(report(batch, 10_000, started_s=started_s, first_arrival_s=started_s - 5.0))
    assert idle.published.decision.trigger_s == pytest.approx(5.0, abs=0.1)
    assert idle.published.decision.batch_s == pytest.approx(5.0, abs=0.1)
    assert "shedding cannot meet" in idle.published.decision.reason
    sparse = loop(tmp_path / "sparse")
    for batch in range(6):  # no trigger: rows come every 5 s, and their batch at once
        started_s = 1000.0 + 5.0 * batch
        sparse.take(report(batch, 10_000, started_s=started_s, first_arrival_s=started_s - 0.01))
    assert sparse.published.decision.queue_limit_rows is not None
    assert sparse.published.decision.trigger_s == pytest.approx(0.01, abs=0.02)


def test_a_slow_first_batch_is_the_jvm_and_not_its_rows(tmp_path: Path) -> None:
    """A hundred rows in 9 s: the batches after it are not starved because of that."""
    made = loop(tmp_path)
    made.take(report(0, 100, started_s=0.0, busy_s=9.0))
    limit = made.published.decision.queue_limit_rows
    assert limit is not None
    assert limit > 1_000
    feed(made, [10_000, 20_000, 15_000], first=1)
    assert made.published.cost_s == pytest.approx(COST_S, rel=1.0)
    limit = made.published.decision.queue_limit_rows
    assert limit is not None
    assert limit > 15_000, "what fits is kept"


def test_planning_and_logs_are_measured_apart(tmp_path: Path) -> None:
    """Half a second of planning is no row's doing."""
    plain, planned = loop(tmp_path / "a"), loop(tmp_path / "b")
    now = 1000.0
    for batch in range(12):
        rows = 10_000 + 10_000 * (batch % 3)
        whole = report(batch, rows, started_s=now, busy_s=0.5 + FIXED_S + COST_S * rows)
        plain.take(whole)
        planned.take(replace(whole, overhead_s=0.5))
        now = whole.ended_s
    assert planned.published.fixed_s >= 0.5 + 0.5 * FIXED_S
    assert planned.published.cost_s == pytest.approx(COST_S, rel=0.35)


def test_a_restart_goes_on_where_it_was_with_a_cold_jvm(tmp_path: Path) -> None:
    first = loop(tmp_path)
    feed(first, [5_000, 10_000, 20_000, 8_000, 25_000, 15_000])
    assert first.published.ended_s is not None
    second = loop(tmp_path)
    assert second.problems == []
    before, after = first.published, second.published
    assert after.ended_s is None, "the time in between was no waiting for a trigger"
    assert before.cost_s is not None
    assert after.cost_s is not None
    assert 1.0 < after.cost_s / before.cost_s < 8.0, "a cold JVM takes longer for everything"
    assert before.decision.queue_limit_rows is not None
    assert after.decision.queue_limit_rows is not None
    assert 1_000 < after.decision.queue_limit_rows < before.decision.queue_limit_rows
    assert read_published(Folder(tmp_path)) == after
    assert second.history.table().num_rows == 6
    feed(second, [5_000, 10_000, 20_000], run="another", first=6)  # the JVM was warm after all
    assert second.published.cost_s == pytest.approx(before.cost_s, rel=0.3)
    warm = second.published.decision.queue_limit_rows
    assert warm is not None
    assert warm > 0.6 * before.decision.queue_limit_rows


def test_the_end_of_a_run_publishes_a_decision_for_the_next_one(tmp_path: Path) -> None:
    made = loop(tmp_path)
    feed(made, [5_000, 10_000, 20_000, 8_000])
    running = made.published
    made.ended("another run")
    assert made.published == running
    made.ended("run")
    assert made.published.ended_s is None
    assert made.published.cost_s is not None
    assert running.cost_s is not None
    assert made.published.cost_s > running.cost_s
    assert read_published(Folder(tmp_path)) == made.published


def test_another_controller_after_a_restart_starts_afresh_and_says_so(tmp_path: Path) -> None:
    feed(loop(tmp_path), [5_000, 10_000])
    second = loop(tmp_path, name="ctrl")
    assert any("afresh" in problem for problem in second.problems)
    feed(second, [5_000], first=2)
    assert second.published.decision.admit_rows is not None  # what a rate law says, and `deadline` does not


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"published": {}}', '{"published": 3}', "\x00"])
def test_a_torn_state_is_learned_anew_and_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "latest.json").write_text(text)
    made = loop(tmp_path)
    assert any("learned anew" in problem for problem in made.problems)
    feed(made, [1_000, 2_000])
    assert made.published.after_batch == 1


def test_a_full_disk_is_noted_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loop(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "write", refuse)
    monkeypatch.setattr(Folder, "append", refuse)
    feed(made, [1_000, 2_000, 3_000])
    assert made.published.after_batch == 2
    assert made.history.table()["arrived_rows"].to_pylist() == [1_000, 2_000, 3_000]
    assert any("No space left" in problem for problem in made.problems)


def test_an_error_in_the_controller_is_noted_and_not_raised(tmp_path: Path) -> None:
    class Broken:
        def step(self, sample: control.Sample) -> control.Decision:
            if sample.arrived_rows:
                raise ZeroDivisionError("broken")
            return control.Decision()

        def retarget(self, target_delay_s: float) -> None: ...

        def snapshot(self) -> dict[str, Any]:
            return {}

    made = Loop("test", lambda _: Broken(), Folder(tmp_path), mode="enforce", finished=Folder(tmp_path))
    made.add_stage(0.0)
    made.take(report(0, 100))
    assert any("broken" in problem for problem in made.problems)
    assert made.wait_for(0, 0.0), "the batch counts as heard"


def test_stages_learn_what_they_see(tmp_path: Path) -> None:
    made = loop(tmp_path)
    quantiles = tuple(float(n) for n in range(len(GRID)))
    for batch in range(3):
        made.take(report(batch, 1_000, 300, protected=100, quantiles=quantiles))
    stage = made.published.stages[0]
    assert stage.rows_per_unit == pytest.approx(1.0)
    assert stage.protected_share == pytest.approx(0.1)
    assert stage.quantiles == quantiles
    made.take(report(3, 0))
    assert made.published.stages[0] == stage, "an empty batch teaches nothing"


def test_every_stage_goes_on_with_what_it_knew_before_a_restart(tmp_path: Path) -> None:
    made = loop(tmp_path)
    made.add_stage(0.1)
    seen = (StageReport(arrived=1000, kept=1000), StageReport(arrived=500, kept=500, protected=50))
    for batch in range(5):
        made.take(replace(report(batch, 1000), stages=seen))
    learned = made.published.stages
    again = loop(tmp_path)
    again.add_stage(0.1)
    assert again.published.stages == learned
    assert learned[1].protected_share > 0.0
    assert learned[1].rows_per_unit != learned[0].rows_per_unit


def test_observing_counts_every_row_as_kept(tmp_path: Path) -> None:
    made = loop(tmp_path, mode="observe")
    made.take(report(0, 1_000, 300))
    entry = made.history.last()
    assert entry is not None
    assert (entry.kept_rows, entry.dropped_rows, entry.would_drop_rows) == (1_000, 0, 700)


def test_delays_are_measured_from_arrival_to_commit(tmp_path: Path) -> None:
    made = loop(tmp_path)
    made.take(report(0, 1_000, first_arrival_s=999.0, mean_arrival_s=999.5))
    entry = made.history.last()
    assert entry is not None
    end = 1000.0 + FIXED_S + COST_S * 1_000
    assert entry.worst_delay_s == pytest.approx(end - 999.0)
    assert entry.delay_s == pytest.approx(end - 999.5)


def test_old_decisions_are_cleared_away(tmp_path: Path) -> None:
    made = loop(tmp_path)
    control_row = ControlRow(str(tmp_path), None, 0)
    control_row.decision_for(0, None)
    control_row.decision_for(1, None)
    made.take(report(KEPT_DECISIONS, 10))
    assert Folder(tmp_path).names("decisions") == ["1.json"]


def test_a_clock_that_jumps_back_does_no_harm(tmp_path: Path) -> None:
    made = loop(tmp_path)
    for batch in (5, 1, 7):
        made.take(report(batch, 1_000))
    assert made.problems == []
    assert min(made.history.table()["period_s"].to_pylist()) >= 0.0


def test_the_history_turns_its_files_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LINES_PER_FILE", 4)
    monkeypatch.setattr(history, "FILES", 2)
    made = loop(tmp_path)
    feed(made, [10] * 11)
    again = loop(tmp_path)
    feed(again, [10] * 2, first=11)
    batches = again.history.table()["batch"].to_pylist()
    assert batches == list(range(8, 13)), "two files are left, in order"


def test_a_torn_line_of_the_history_is_passed_over(tmp_path: Path) -> None:
    feed(loop(tmp_path), [10, 20])
    file = tmp_path / "history" / "0.jsonl"
    file.write_text(file.read_text() + '{"batch": 2, "run"')
    again = loop(tmp_path)
    feed(again, [30], first=2)
    assert again.history.table()["batch"].to_pylist() == [0, 1, 2]


def progress(**changes: Any) -> Any:
    source = SimpleNamespace(startOffset='{"rows": 5}', endOffset='{"rows": 9}', latestOffset='{"rows": 19}')
    values: dict[str, Any] = {
        "id": "q",
        "runId": "r",
        "batchId": 3,
        "timestamp": "2026-01-01T00:00:10.500Z",
        "durationMs": {"triggerExecution": 1500},
        "sources": [source],
        "observedMetrics": {"mine": {"arrived": 4, "kept": 2}},
    }
    return SimpleNamespace(**{**values, **changes})


def test_a_progress_event_is_read() -> None:
    found = read_progress(progress(), ["mine"])
    assert found is not None
    assert (found.units, found.backlog_units, found.arrived, found.kept) == (4.0, 10.0, 4, 2)
    assert found.ended_s - found.started_s == 1.5
    assert found.ended_s % 60 == 12.0


def test_progress_of_others_is_not_ours() -> None:
    assert read_progress(progress(observedMetrics={"other": {}}), ["mine"]) is None
    assert read_progress(progress(observedMetrics=None), ["mine"]) is None


def test_progress_without_offsets_or_metrics_is_still_a_batch() -> None:
    source = SimpleNamespace(startOffset="None", endOffset="None", latestOffset="None")
    found = read_progress(progress(sources=[source], observedMetrics={"mine": {}}), ["mine"])
    assert found is not None
    assert (found.units, found.backlog_units, found.arrived) == (None, None, 0)


def test_the_control_row_tells_everyone_the_same(tmp_path: Path) -> None:
    made = loop(tmp_path)
    row = ControlRow(str(tmp_path), None, 0)
    first, note = row.decision_for(0, None)
    made.retarget(50.0)
    assert note == ""
    assert ControlRow(str(tmp_path), None, 1).decision_for(0, None) == (first, "")
    other, _ = row.decision_for(1, None)
    assert other is not None
    assert first is not None
    assert other.salt != first.salt


def test_the_control_row_sheds_nothing_it_cannot_write_down(tmp_path: Path) -> None:
    row = ControlRow(str(tmp_path / "nowhere"), None, 0)
    decision, note = row.decision_for(0, None)
    assert decision is None
    assert note.startswith("nothing shed")
    values = row.row(decision, note)
    assert values["_spillway_at_limit"] == 2**63 - 1
    assert values["_spillway_note"] == note


def test_a_decision_for_a_batch_that_was_lost_is_not_used(tmp_path: Path) -> None:
    folder, checkpoint = Folder(tmp_path / "spillway"), tmp_path
    folder.write("latest.json", json.dumps({"published": Published().to_dict()}))
    (checkpoint / "offsets").mkdir()
    row = ControlRow(str(folder.root), str(checkpoint), 0)

    def cut(at_ms: int) -> None:
        (checkpoint / "offsets" / "0").write_text(f'v1\n{{"batchTimestampMs":{at_ms}}}\n{{"rows":{at_ms}}}')

    cut(1000)
    first, _ = row.decision_for(0, None)
    assert row.decision_for(0, None)[0] == first
    cut(2000)
    second, _ = row.decision_for(0, None)
    assert first is not None
    assert second is not None
    assert (first.expected_rows, second.expected_rows) == (1000.0, 2000.0)


def test_infinities_as_spark_connect_writes_them() -> None:
    values = ["-Infinity", *[0.5] * (len(GRID) - 2), "Infinity"]
    found = StageReport.of({"arrived": 3, "quantiles": values, "first_arrival": "NaN"})
    assert found.quantiles is not None
    assert (found.quantiles[0], found.quantiles[-1]) == (float("-inf"), float("inf"))
    assert found.first_arrival_s is None


QUANTILES = tuple(float(n) for n in range(len(GRID)))


def by_rank(made: Loop, folder: Folder, batch: int, kept: int) -> None:
    """Let a batch of 10,000 rows be told a share by rank, and report how many were kept."""
    told = decide(made.published, batch, BatchSize(100_000.0, counts_rows=True))
    folder.write(f"decisions/{batch}.json", told.to_json())
    made.take(report(batch, 100_000, kept, quantiles=QUANTILES))


def test_ranks_that_do_not_hold_are_set_aside_for_longer_and_longer(tmp_path: Path) -> None:
    made, folder = loop(tmp_path), Folder(tmp_path)
    feed(made, [20_000] * 6)
    by_rank(made, folder, 6, 20_000)  # ranks become known
    uniform = []
    for batch in range(7, 14):
        uniform.append(made.published.stages[0].uniform_batches)
        by_rank(made, folder, batch, 100_000 if uniform[-1] == 0 else 20_000)
    assert uniform == [0, 1, 0, 2, 1, 0, 4]
    assert "utilities drift" in made.problems[-1]
    told = decide(made.published, 14, BatchSize(100_000.0, counts_rows=True))
    assert told.cuts[0].at == told.cuts[0].below == pytest.approx(told.keep_ratio), "all utilities alike"


def test_ranks_that_hold_are_trusted(tmp_path: Path) -> None:
    made, folder = loop(tmp_path), Folder(tmp_path)
    feed(made, [20_000] * 6)
    by_rank(made, folder, 6, 20_000)
    for batch in range(7, 12):
        told = decide(made.published, batch, BatchSize(100_000.0, counts_rows=True))
        by_rank(made, folder, batch, int(told.keep_ratio * 100_000))
    assert made.published.stages[0].uniform_batches == 0
    assert not made.problems


def test_chained_stages_count_once_and_keep_a_root_each(tmp_path: Path) -> None:
    made = loop(tmp_path, name="none")
    made.add_stage(0.0, chained=True)
    first, second = StageReport(arrived=1000, kept=500), StageReport(arrived=500, kept=250)
    made.take(replace(report(0, 1000), stages=(first, second)))
    last = made.history.last()
    assert last is not None
    assert (last.arrived_rows, last.kept_rows) == (1000, 250)
    quarter = replace(made.published, decision=Decision(keep_ratio=0.25))
    told = decide(quarter, 1, BatchSize(1000.0, counts_rows=True))
    assert [cut.at for cut in told.cuts] == [0.5, 0.5]
    assert told.salt_of(0) != told.salt_of(1), "or the second would drop nothing that the first has kept"


def test_decisions_of_batches_never_heard_of_are_pruned_at_the_next_start(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for batch in (3, 4, KEPT_DECISIONS + 3):
        folder.write(f"decisions/{batch}.json", "{}")
    loop(tmp_path)
    assert sorted(folder.names("decisions")) == sorted([f"{KEPT_DECISIONS + 3}.json", "4.json"])


def test_an_object_that_can_only_step_is_a_controller(tmp_path: Path) -> None:
    class Half:
        def step(self, sample: Sample) -> Decision:
            return Decision(keep_ratio=np.float32(0.5), reason=f"{sample.arrived_rows:.0f} rows")

    made = Loop(
        "step", lambda _: StepOnly(Half()), Folder(tmp_path), mode="enforce", finished=Folder(tmp_path / "d")
    )
    made.add_stage(0.0)
    feed(made, [10, 20])
    assert read_published(Folder(tmp_path)).decision == Decision(keep_ratio=0.5, reason="20 rows")
    with pytest.raises(SpillwayError, match="has no retarget"):
        made.retarget(1.0)


class Stubborn:
    """Keeps half until it is told to fail."""

    answer: Any = Decision(keep_ratio=0.5)

    def step(self, sample: Sample) -> Any:  # noqa: ARG002
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [0.5, ValueError("boom")], ids=["a number", "an error"])
def test_a_controller_that_fails_is_noted_and_the_batch_still_counts(tmp_path: Path, answer: Any) -> None:
    chosen = Stubborn()
    made = Loop(
        "x", lambda _: StepOnly(chosen), Folder(tmp_path), mode="enforce", finished=Folder(tmp_path / "d")
    )
    made.add_stage(0.0)
    chosen.answer = answer
    feed(made, [10, 20])
    assert len(made.history.table()) == 2
    assert made.published.decision == Decision(keep_ratio=0.5), "its last decision stays in force"
    assert "the controller failed" in made.problems[0]
    with pytest.raises(SpillwayError, match="controller"):
        Loop(
            "x", lambda _: StepOnly(chosen), Folder(tmp_path / "y"), mode="enforce", finished=Folder(tmp_path)
        )


def test_trouble_is_told(tmp_path: Path) -> None:
    made = loop(tmp_path)
    made.take(report(0, 1000, first_arrival_s=9e9, mean_arrival_s=9e9))
    made.take(report(1, 1000, arrival_missing=1000))
    assert ["in the future" in made.problems[0], "null in all rows" in made.problems[1]] == [True, True]
    Folder(tmp_path).write(
        "decisions/2.json", decide(made.published, 2, BatchSize(1e9, counts_rows=True)).to_json()
    )
    made.take(report(2, 10_000_000, 9_000_000, protected=9_000_000))
    assert "may never be dropped" in made.problems[2]


def test_ranks_of_a_handful_of_rows_are_not_used(tmp_path: Path) -> None:
    made = loop(tmp_path)
    made.take(report(0, 2, quantiles=QUANTILES))
    assert made.published.stages[0].quantiles is None
    made.take(report(1, 200, quantiles=QUANTILES))
    assert made.published.stages[0].quantiles == QUANTILES


def test_a_checkpoint_of_another_query_is_noted_and_batches_are_estimated(tmp_path: Path) -> None:
    made = loop(tmp_path / "spillway")
    feed(made, [1000, 1000])
    decision, note = ControlRow(str(tmp_path / "spillway"), str(tmp_path), 0).decision_for(2, None)
    assert "is this the checkpointLocation" in note
    assert decision is not None
    assert decision.expected_rows is not None
