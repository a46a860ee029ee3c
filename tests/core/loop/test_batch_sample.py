"""From a batch's report to the sample of the controllers: what waited, what was idle, and what is not known."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from spillway.core.control import Costs, Sample
from spillway.core.control.cost_model import cost_fields
from spillway.loop.batch_sample import BatchClock, Wait, sample_of
from spillway.loop.reports import BatchReport, StageReport

COSTS = Costs(fixed_s=0.2, cost_s=1e-3, skip_s=1e-4, spread=0.3, pace=1.5)
NO_WAIT = Wait()


def report(
    started_s: float, busy_s: float, *, run: str = "run", batch: int = 0, rows: int = 100
) -> BatchReport:
    return BatchReport(
        query="query",
        run=run,
        batch=batch,
        started_s=started_s,
        busy_s=busy_s,
        units=float(rows),
        backlog_units=0.0,
        stages=(StageReport(arrived=rows, kept=rows),),
    )


def test_the_clock_goes_from_cut_to_cut() -> None:
    clock = BatchClock()
    assert clock.next(report(100.0, 1.5)) == NO_WAIT, "of the first batch nothing is known"
    assert clock.next(report(101.5, 0.5)) == Wait(1.5, 0.0), "it follows at once"
    assert clock.next(report(105.0, 0.5)) == Wait(3.5, 3.0), "idle from 102 to 105"
    assert (clock.cut_s, clock.ended_s) == (105.0, 105.5)


def test_what_lies_between_two_runs_is_no_waiting() -> None:
    clock = BatchClock()
    clock.next(report(100.0, 1.0))
    assert clock.next(report(900.0, 1.0, run="another")) == NO_WAIT
    assert clock.next(report(901.0, 1.0, run="another")) == Wait(1.0, 0.0)


def test_clocks_that_run_backwards_or_overlap_do_no_harm() -> None:
    clock = BatchClock()
    clock.next(report(100.0, 1.0))
    assert clock.next(report(90.0, 1.0)) == NO_WAIT
    assert clock.next(report(90.0, 1.0)) == NO_WAIT
    assert clock.next(report(90.5, 1.0)) == Wait(0.5, 0.0), "a batch that began before the last one ended"


def test_the_rate_is_that_of_the_time_between_the_cuts() -> None:
    assert Wait(4.0, 3.0).rate(100) == 25.0
    assert NO_WAIT.rate(100) is None


def test_a_sample_by_hand() -> None:
    stages = (
        StageReport(arrived=60, kept=30, protected=5, first_arrival_s=97.0, mean_arrival_s=99.0),
        StageReport(arrived=40, kept=10, protected=2, first_arrival_s=96.0, mean_arrival_s=98.0),
    )
    found = replace(report(100.0, 2.0), stages=stages, units=50.0, backlog_units=1.0)
    sample = sample_of(found, 40, COSTS, Wait(4.0, 1.0))
    assert sample == Sample(
        at_s=102.0,
        period_s=4.0,
        arrived_rows=100,
        kept_rows=40,
        backlog_rows=1.0 * (100 / 50) + 100 / 4.0 * 2.0 * 0.4,
        cost_s=1e-3,
        fixed_s=0.2,
        skip_s=1e-4,
        busy_s=2.0,
        finished_rows=40,
        delay_s=102.0 - (30 * 99.0 + 10 * 98.0) / 40,
        worst_delay_s=6.0,
        protected_rows=7,
        spread=0.3,
        pace=1.5,
        waited_s=4.0,
        idle_s=1.0,
    )


def test_what_is_not_known_is_not_made_up() -> None:
    sample = sample_of(report(100.0, 2.0), 100, None, NO_WAIT)
    assert (sample.cost_s, sample.waited_s, sample.delay_s, sample.worst_delay_s) == (None, None, None, None)
    assert (sample.period_s, sample.idle_s, sample.spread, sample.pace) == (2.0, 0.0, 0.0, 1.0)
    empty = sample_of(
        replace(report(100.0, 2.0, rows=0), units=None, backlog_units=None), 0, COSTS, Wait(2.0)
    )
    assert (empty.arrived_rows, empty.backlog_rows, empty.waited_s) == (0, 0.0, 2.0)


@pytest.mark.parametrize(("left", "known"), [(0.0, True), (4.0, True), (6.0, False), (1e9, False)])
def test_rows_that_a_limit_at_the_source_held_back_have_waited_longer_than_is_known(
    left: float, known: bool
) -> None:
    """maxOffsetsPerTrigger left more than a twentieth: the oldest row did not come after the last cut."""
    found = replace(report(100.0, 1.0), backlog_units=left)
    assert (sample_of(found, 100, COSTS, Wait(1.0)).waited_s is not None) == known


def test_all_of_the_costs_are_handed_on() -> None:
    assert cost_fields(None) == {}
    assert set(cost_fields(COSTS)) == {field.name for field in fields(Costs)}
    assert Costs(**cost_fields(COSTS)) == COSTS
