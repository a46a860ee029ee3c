"""Delays from batches and a trace, against a loop over single rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.demo.run_record import Batch, Recording
from spillway.replay.costs import CostTrace
from spillway.replay.traces import Rates

TRACE = Rates((10.0, 100.0, 10.0), (4.0, 2.0, 4.0))
TIMES = TRACE.times(0, TRACE.total).tolist()


def recording(
    ends: list[tuple[int, float, float]], *, until_s: float = 30.0, from_s: float = 1.0
) -> Recording:
    """A run whose batches end at (row, second) and keep a share of their rows."""
    batches, first, before = [], 0, 0.0
    for number, (last, ended_s, share) in enumerate(ends):
        kept = round((last - first) * share)
        batches.append(
            Batch(
                number=number, first_row=first, last_row=last, began_s=before, ended_s=ended_s, kept_rows=kept
            )
        )
        first, before = last, ended_s
    return Recording(
        variant="spillway", trace=TRACE, target_s=3.0, from_s=from_s, until_s=until_s, batches=tuple(batches)
    )


@st.composite
def runs(draw: st.DrawFn) -> Recording:
    """Batches that cover some of the trace, in order, each committed after its last row arrived."""
    cuts = sorted(draw(st.sets(st.integers(1, TRACE.total), min_size=1, max_size=6)))
    ends, clock = [], 0.0
    for last in cuts:
        arrived = TIMES[last - 1]
        clock = max(clock, arrived) + draw(st.floats(0.01, 5.0))
        ends.append((last, clock, draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))))
    until_s = clock + draw(st.floats(0.0, 3.0))
    return recording(ends, until_s=until_s, from_s=draw(st.sampled_from([0.0, 1.0, 4.5])))


def row_by_row(run: Recording) -> tuple[list[tuple[float, float]], list[float]]:
    """The delay and weight of each delivered row, and the age of each waiting one, one at a time."""
    delivered, waiting = [], []
    read = max(batch.last_row for batch in run.batches)
    for row in range(TRACE.total):
        at = TIMES[row]
        if at <= run.from_s or at > run.until_s:
            continue
        if row >= read:
            waiting.append(run.until_s - at)
        for batch in run.batches:
            if batch.first_row <= row < batch.last_row:
                delivered.append((batch.ended_s - at, batch.keep_ratio))
    return delivered, waiting


@given(runs())
def test_counts_and_shares_are_those_of_single_rows(run: Recording) -> None:
    delivered, waiting = row_by_row(run)
    kept = sum(weight for _, weight in delivered)
    assert run.kept_rows == pytest.approx(kept)
    assert run.dropped_rows == pytest.approx(sum(1.0 - weight for _, weight in delivered))
    assert run.waiting_rows == len(waiting)
    assert run.arrived_rows == pytest.approx(run.kept_rows + run.dropped_rows + len(waiting))
    in_time = sum(weight for delay, weight in delivered if delay <= run.target_s)
    assert run.within_target == pytest.approx(in_time / kept if kept else 0.0, abs=1e-6)


@given(runs(), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_a_quantile_leaves_that_share_below(run: Recording, q: float) -> None:
    delivered, waiting = row_by_row(run)
    rows = delivered + [(age, 1.0) for age in waiting]
    total = sum(weight for _, weight in rows)
    if total == 0.0:
        return
    at = run.quantile_s(q)
    assert sum(weight for delay, weight in rows if delay <= at + 1e-9) >= q * total - 1e-6
    assert sum(weight for delay, weight in rows if delay < at - 1e-9) <= q * total + 1e-6
    assert run.worst_s == pytest.approx(max(delay for delay, _ in rows))


@given(runs())
def test_the_lines_go_through_first_and_last_rows(run: Recording) -> None:
    at, delay = run.delay_line()
    drawn = {round(second, 6): late for second, late in zip(at.tolist(), delay.tolist(), strict=True)}
    for batch in run.batches:
        if TIMES[batch.last_row - 1] > run.from_s and batch.kept_rows:
            last = TIMES[batch.last_row - 1]
            assert drawn[round(last, 6)] == pytest.approx(batch.ended_s - last)
    _, behind = run.behind_line()
    longest = max(batch.ended_s - TIMES[batch.first_row] for batch in run.batches)
    assert behind.max() >= longest - 1e-9


def test_rows_that_wait_count_with_their_age() -> None:
    run = recording([(40, 5.0, 1.0)], until_s=12.0)
    assert run.waiting_rows == TRACE.total - 40
    assert run.oldest_waiting_s == pytest.approx(12.0 - TIMES[40])
    assert run.worst_s == pytest.approx(run.oldest_waiting_s)
    at, age = run.waiting_line()
    assert age[0] == pytest.approx(run.oldest_waiting_s)
    assert at[-1] == pytest.approx(TRACE.duration_s)


def test_nothing_finished_is_no_error() -> None:
    run = replace(recording([(40, 5.0, 1.0)]), batches=())
    assert run.within_target == 0.0
    assert run.kept_rows == 0.0
    assert run.waiting_rows == run.arrived_rows
    empty = replace(run, until_s=0.5)
    assert empty.quantile_s(0.99) == 0.0
    assert empty.worst_s == 0.0


def test_the_least_loss_is_what_is_left_of_the_burst() -> None:
    run = recording([(40, 5.0, 1.0)])
    # 100 rows a second for 2 s. Served are 20 a second, in the burst and for the target's 3 s after it.
    assert run.least_lost_rows(20.0) == pytest.approx(100 * 2 - 20 * (2 + 3), abs=3)


def test_what_is_possible_is_counted_over_the_rows_that_count() -> None:
    run = recording([(TRACE.total, 12.0, 0.5)], until_s=12.0, from_s=5.0)
    assert run.arrived_rows == 100 + 40
    assert run.best_rows(20.0) + run.least_lost_rows(20.0) == run.arrived_rows
    # The second of the burst before the rows count fills no queue: 100 of the 100 are served in the 5 s they have.
    assert run.least_lost_rows(25.0) == pytest.approx(0, abs=2)
    cut_off = replace(run, until_s=6.0)
    assert cut_off.best_rows(1000.0) == cut_off.arrived_rows == 100


def test_a_capacity_that_falls_serves_less_from_then_on() -> None:
    run = recording([(40, 5.0, 1.0)])
    falls = CostTrace((1 / 20, 1 / 10), step_s=6.0)
    # In the burst 20 a second; in the 3 s after it 10 a second, which is what arrives then.
    assert run.least_lost_rows(falls) == pytest.approx(100 * 2 - 20 * 2 - 10 * 3, abs=4)
    assert run.least_lost_rows(CostTrace((1 / 20,))) == run.least_lost_rows(20.0)


@given(runs(), st.sampled_from([5.0, 20.0, 1000.0]))
def test_delivered_in_time_is_compared_with_the_best(run: Recording, capacity: float) -> None:
    delivered, _ = row_by_row(run)
    in_time = sum(weight for delay, weight in delivered if delay <= run.target_s)
    assert run.in_time_rows == pytest.approx(in_time, abs=1e-6)
    best = run.best_rows(capacity)
    assert 0 <= best <= run.arrived_rows
    assert run.delivered_over_best(capacity) == pytest.approx(in_time / max(best, 1), abs=1e-6)
