"""From the latest decision to what one batch is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import Decision
from spillway.core.tuples import GRID, Cut
from spillway.errors import SpillwayError
from spillway.loop.decision import BatchDecision, Published, Stage, decide
from spillway.loop.offsets import BatchSize

LIMITED = Published(decision=Decision(queue_limit_rows=500.0, target_delay_s=2.0))


def test_a_burst_is_cut_in_the_batch_that_brings_it() -> None:
    assert decide(LIMITED, 1, BatchSize(500.0, counts_rows=True)).keep_ratio == 1.0
    assert decide(LIMITED, 1, BatchSize(5000.0, counts_rows=True)).keep_ratio == pytest.approx(0.1)


def test_what_reaches_the_shedder_is_learned_per_unit() -> None:
    exploded = Published(decision=LIMITED.decision, stages=(Stage(rows_per_unit=10.0),))
    told = decide(exploded, 1, BatchSize(100.0, counts_rows=False))
    assert (told.expected_rows, told.rows_known, told.keep_ratio) == (1000.0, True, 0.5)


def test_without_offsets_the_size_comes_from_rate_and_wait() -> None:
    published = Published(decision=LIMITED.decision, rows_per_s=1000.0, ended_s=100.0, after_batch=0)
    told = decide(published, 1, BatchSize(waited_s=2.0, cut_s=100.0))
    assert (told.expected_rows, told.rows_known, told.keep_ratio) == (2000.0, False, 0.25)


def test_without_anything_the_rate_alone_holds() -> None:
    published = Published(decision=Decision(keep_ratio=0.3, queue_limit_rows=5.0))
    assert decide(published, 0, BatchSize()).keep_ratio == 0.3


TIMED = Decision(queue_limit_rows=800.0, batch_s=1.0, fixed_s=0.2, target_delay_s=2.0)


@pytest.mark.parametrize(
    ("waited_s", "limit"), [(1.0, 800.0), (1.1, 725.0), (1.75, 550.0), (60.0, 800.0), (0.9, 850.0)]
)
def test_rows_that_waited_long_leave_less_time_for_their_batch(waited_s: float, limit: float) -> None:
    told = decide(Published(decision=TIMED), 1, BatchSize(2000.0, counts_rows=True, waited_s=waited_s))
    assert told.limit_rows == pytest.approx(limit)
    assert told.keep_ratio == pytest.approx(limit / 2000.0)


@pytest.mark.parametrize(
    ("after_batch", "began_s", "bridged"),
    [
        (2, 50.0, True),  # batch 3 has not been reported
        (2, None, True),  # published before runs were told apart
        (3, 50.0, False),  # it has: the decision knows how long it took
        (2, 150.0, False),  # it was cut before a crash: nobody knows how long it took
    ],
)
def test_a_long_batch_before_counts_if_it_is_of_this_run_and_not_reported(
    after_batch: int, began_s: float | None, bridged: bool
) -> None:
    decision = replace(TIMED, cost_s=0.001)
    published = Published(decision=decision, after_batch=after_batch, began_s=began_s)
    before = decide(Published(decision=decision), 3, BatchSize(800.0, counts_rows=True, cut_s=100.0))
    told = decide(published, 4, BatchSize(2000.0, counts_rows=True, cut_s=102.0, waited_s=2.0), before)
    assert told.limit_rows == pytest.approx(300.0 if bridged else 800.0)


@pytest.mark.parametrize(
    ("ended_s", "after_batch", "keeps_all"),
    [
        (1001.0, 6, True),  # it was idle for four of five seconds: a trigger
        (1005.0, 6, False),  # the batch before took all that time
        (1001.0, 5, False),  # of the batch before nothing is known yet
        (None, 6, False),  # a run has just begun
    ],
)
def test_a_trigger_shows_by_the_time_that_the_query_was_idle(
    ended_s: float | None, after_batch: int, keeps_all: bool
) -> None:
    published = Published(decision=TIMED, cut_s=1000.0, ended_s=ended_s, after_batch=after_batch)
    size = BatchSize(4_000, counts_rows=True, waited_s=5.0, cut_s=1005.0)
    told = decide(published, 7, size)
    assert (told.keep_ratio == 1.0) == keeps_all
    assert decide(published, 7, replace(size, units=1e6)).keep_ratio < 0.01, "a burst is bounded all the same"
    seen = BatchSize(4_000, counts_rows=True, waited_s=5.0, seen_s=1005.0)
    assert (decide(published, 7, seen).keep_ratio == 1.0) == keeps_all, "without a log as well"


def test_two_stages_share_one_decision() -> None:
    published = Published(decision=LIMITED.decision, stages=(Stage(), Stage(protected_share=0.1)))
    told = decide(published, 1, BatchSize(1000.0, counts_rows=True))
    assert told.keep_ratio == 0.5
    assert told.cuts[0].at == 0.5
    assert told.cuts[1].at == pytest.approx(0.4 / 0.9)


def test_each_batch_draws_afresh_and_each_name_differently() -> None:
    salts = {decide(Published(seed=seed), batch, BatchSize()).salt for seed in (1, 2) for batch in range(100)}
    assert len(salts) == 200


finite = st.floats(0.0, 1.0)
quantiles = st.one_of(
    st.none(),
    st.lists(st.floats(allow_nan=False), min_size=len(GRID), max_size=len(GRID)).map(
        lambda values: tuple(sorted(values))
    ),
)
stages = st.builds(
    Stage,
    rows_per_unit=st.none() | st.floats(0, 1e6),
    rows_per_unit_spread=st.floats(1, 1e6),
    measured_in=st.sampled_from(["offsets", "bytes", "files"]),
    protected_share=finite,
    floor=finite,
    quantiles=quantiles,
    tasks=st.none() | st.floats(1, 1e6),
)
published_values = st.builds(
    Published,
    decision=st.builds(
        Decision,
        keep_ratio=finite,
        queue_limit_rows=st.none() | st.floats(0, 1e9),
        skip_cost=finite,
        least_rows=st.none() | st.floats(0, 1e9),
        batch_s=st.none() | st.floats(0, 100),
        fixed_s=st.floats(0, 100),
        trigger_s=st.none() | st.floats(0, 100),
        target_delay_s=st.none() | st.floats(0.1, 100),
    ),
    seed=st.integers(0, 2**32 - 1),
    cost_s=st.none() | st.floats(0, 10),
    fixed_s=st.floats(0, 10),
    rows_per_s=st.none() | st.floats(0, 1e9),
    cut_s=st.none() | st.floats(0, 1e10),
    ended_s=st.none() | st.floats(0, 1e10),
    stages=st.lists(stages, min_size=1, max_size=3).map(tuple),
    after_batch=st.none() | st.integers(0, 10),
)
sizes = st.builds(
    BatchSize,
    st.none() | st.floats(0, 1e9),
    counts_rows=st.booleans(),
    waited_s=st.none() | st.floats(0, 1e6),
    cut_s=st.none() | st.floats(0, 1e10),
    measured_in=st.sampled_from(["offsets", "bytes", "files"]),
    rows_per_unit=st.none() | st.floats(0, 1e6),
)


@given(published_values, sizes)
def test_any_published_value_makes_a_decision_that_survives_its_file(
    published: Published, size: BatchSize
) -> None:
    again = Published.from_dict(json.loads(json.dumps(published.to_dict(), allow_nan=False)))
    assert again == published
    told = decide(published, 7, size)
    assert 0.0 <= told.keep_ratio <= 1.0
    assert len(told.cuts) == len(published.stages)
    assert all(0.0 <= cut.below <= cut.at <= 1.0 for cut in told.cuts)
    assert BatchDecision.from_json(told.to_json()) == told
    assert decide(again, 7, size) == told, "the same inputs tell the same"


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"version":1}', '{"version":2,"cuts":[]}', '{"version":1,"cuts":[{}]}']
)
def test_a_record_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(SpillwayError):
        BatchDecision.from_json(text)


@pytest.mark.parametrize(
    "found", [{}, {"stages": []}, {"stages": [1], "decision": {}}, {"stages": [], "decision": 3}]
)
def test_a_published_value_that_is_not_whole_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(SpillwayError):
        Published.from_dict(found)


def test_a_checkpoint_of_another_version_is_still_readable() -> None:
    found = Published(stages=(Stage(rows_per_unit=0.5),)).to_dict()
    for field in ("rows_per_unit_spread", "measured_in", "tasks"):
        del found["stages"][0][field]
    found["stages"][0]["from_a_later_version"] = found["from_a_later_version"] = 1
    assert Published.from_dict(found) == Published(stages=(Stage(rows_per_unit=0.5),))
    record = json.loads(decide(LIMITED, 1, BatchSize(100.0, counts_rows=True)).to_json())
    for field in ("units", "measured_in", "bound_rows", "tasks"):
        del record[field]
    read = BatchDecision.from_json(json.dumps(record))
    assert (read.units, read.bound_rows, read.tasks) == (None, None, 1.0)


def test_infinite_cuts_survive_their_file() -> None:
    record = BatchDecision(batch=1, keep_ratio=0.5, salt=3, cuts=(Cut(float("inf"), 0.5, 0.1),))
    assert BatchDecision.from_json(record.to_json()) == record


@pytest.mark.parametrize("gap_s", [4.0, 10.0, 600.0])
@pytest.mark.parametrize("last_report", [3, 0])
def test_a_gap_before_a_batch_whose_forerunner_is_not_reported_is_idle_time(
    gap_s: float, last_report: int
) -> None:
    """The commit log says that the batch before had ended, so the gap is not taken for a slow machine."""
    decision = replace(TIMED, cost_s=0.001)
    published = Published(decision=decision, after_batch=last_report, began_s=50.0)
    before = decide(Published(decision=decision), 4, BatchSize(5.0, counts_rows=True, cut_s=100.0))
    size = BatchSize(700.0, counts_rows=True, cut_s=100.0 + gap_s, waited_s=gap_s)
    assert decide(published, 5, size, before).keep_ratio < 1.0, "nobody knows what passed"
    assert decide(published, 5, replace(size, ended_s=100.3), before).keep_ratio == 1.0
    assert decide(published, 5, replace(size, ended_s=40.0), before).keep_ratio < 1.0, "of an earlier run"


def test_fields_of_another_version_are_left_out() -> None:
    record = LIMITED.to_dict()
    record["decision"]["brightness"] = 3
    record["colour"] = "red"
    assert Published.from_dict(json.loads(json.dumps(record))) == LIMITED
