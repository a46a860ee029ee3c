"""The restart's arithmetic: costs from batches, the reference, and what counts as changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spark.restart import RestartPlan, RestartRecord, decisions_changed, judge
from benchmarks.spark.restart_query import QueryOrder
from benchmarks.spark.restart_reference import Costs, Timed, fit, kept_over_reference
from spillway.errors import SpillwayError

COSTS = Costs(fixed_s=0.5, dropped_s=2e-6, kept_s=52e-6)
SIZES = [(5_000, 5_000), (12_000, 12_000), (20_000, 19_000), (100_000, 16_000), (120_000, 13_000)]


def timed(rows: int, kept: int, slow_down: float = 1.0) -> Timed:
    return Timed(rows, kept, slow_down * COSTS.expected_s(Timed(rows, kept, 0.0)))


@given(st.floats(0.05, 2.0), st.floats(0.0, 1e-5), st.floats(1e-5, 1e-3))
def test_exact_times_give_the_costs_back(fixed: float, dropped: float, more: float) -> None:
    costs = Costs(fixed, dropped, dropped + more)
    found = fit([Timed(n, k, costs.expected_s(Timed(n, k, 0.0))) for n, k in SIZES])
    assert found.fixed_s == pytest.approx(fixed, rel=1e-4, abs=1e-6)
    assert found.dropped_s == pytest.approx(dropped, rel=1e-3, abs=1e-9)
    assert found.kept_s == pytest.approx(dropped + more, rel=1e-3)


@given(st.lists(st.floats(0.5, 2.0), min_size=5, max_size=5))
def test_no_cost_is_negative_however_noisy_the_batches(noise: list[float]) -> None:
    batches = [timed(n, k, slow) for (n, k), slow in zip(SIZES, noise, strict=True)]
    try:
        found = fit(batches)
    except SpillwayError:
        return  # rows seem to cost nothing
    assert found.fixed_s >= 0.0
    assert found.kept_s > found.dropped_s >= 0.0


def test_batches_that_tell_nothing_are_refused() -> None:
    with pytest.raises(SpillwayError, match="2 batches"):
        fit([timed(100, 100)] * 2)
    with pytest.raises(SpillwayError, match="kept row"):
        fit([Timed(n, k, 1.0) for n, k in SIZES])


def test_the_reference_keeps_by_its_formula() -> None:
    target_s = 3.0
    for rows, slow in ((100_000, 1.0), (100_000, 1.7), (600_000, 1.0), (3_000, 1.0)):
        left_s = max(target_s / 2 - slow * (0.5 + 2e-6 * rows), target_s / 6)
        assert COSTS.reference_rows(rows, slow, target_s) == pytest.approx(min(left_s / (slow * 50e-6), rows))


def test_the_reference_itself_scores_one_and_sees_slow_downs_a_batch_late() -> None:
    batches, slow = [], 1.0
    for rows, next_slow in ((2_500_000, 4.0), (900_000, 2.0), (150_000, 1.0), (100_000, 1.0)):
        kept = round(COSTS.reference_rows(rows, slow, 3.0))
        batches.append(timed(rows, kept, next_slow))
        slow = next_slow
    assert kept_over_reference(batches, COSTS, 3.0) == pytest.approx(1.0, rel=1e-3)
    halves = [timed(batch.rows, batch.kept_rows // 2) for batch in batches]
    assert kept_over_reference(halves, COSTS, 3.0) < 0.75
    assert kept_over_reference([], COSTS, 3.0) == 1.0


def notes(sizes: list[tuple[int, int]], first: int, began_s: float) -> list[dict[str, Any]]:
    """Batches one after the other, as the query notes them."""
    lines, row = [], 0
    for number, (rows, kept) in enumerate(sizes, start=first):
        ended_s = began_s + timed(rows, kept).took_s
        lines.append(
            {
                "number": number,
                "first_row": row,
                "last_row": row + rows,
                "began_s": began_s,
                "ended_s": ended_s,
                "epoch_s": 1e9,
            }
        )
        row, began_s = row + rows, ended_s
    return lines


def test_batches_before_give_the_costs_and_those_after_the_killed_one_are_judged() -> None:
    plan = RestartPlan(warm_s=10.0, batches=2)
    before = notes([(50_000, 1), *SIZES], 0, 10.0 - timed(50_000, 1).took_s)  # the first one is cold
    before[0]["ended_s"] = 30.0
    after_sizes = [(120_000, 13_000), (400_000, 10_000), (100_000, 16_000), (100_000, 99_999)]
    after = notes(after_sizes, 6, 60.0)
    history = [{"run": "a", "batch": n, "kept_rows": k} for n, (_, k) in enumerate([(0, 1), *SIZES])]
    history += [{"run": "b", "batch": 6 + n, "kept_rows": k} for n, (_, k) in enumerate(after_sizes)]
    seen = RestartRecord(before=before, after=after, history=history, killed=6, decisions_changed=0)
    again = judge(plan, seen)
    assert again.costs.kept_s == pytest.approx(COSTS.kept_s)
    assert [batch.rows for batch in again.after] == [400_000, 100_000]
    assert again.metrics["restart.kept_over_reference"] == pytest.approx(
        26_000 / (COSTS.reference_rows(400_000, 1.0, 3.0) + COSTS.reference_rows(100_000, 1.0, 3.0)), rel=1e-3
    )
    second_s, third_s = again.after[0].took_s, again.after[1].took_s
    late = min(max(1.0 - (3.0 - third_s) / second_s, 0.0), 1.0)
    assert again.metrics["restart.within_target"] == pytest.approx(1.0 - late)
    assert again.metrics["restart.decisions_changed"] == 0.0
    with pytest.raises(SpillwayError, match="1 runs"):
        judge(plan, replace(seen, history=history[:6]))


def test_who_keeps_nothing_does_not_make_its_reference_cheap() -> None:
    plan = RestartPlan(warm_s=0.0, batches=1)
    few = [(n, 40 + 3 * (n % 7)) for n, _ in SIZES]
    before, after = notes(few, 0, 0.0), notes([(90_000, 50), (90_000, 50)], 5, 60.0)
    for note, noise in zip(before, (0.05, -0.03, 0.04, -0.05, 0.02), strict=True):
        note["ended_s"] += noise
    history = [{"run": "a", "batch": n, "kept_rows": k} for n, (_, k) in enumerate(few)]
    history += [{"run": "b", "batch": number, "kept_rows": 50} for number in (5, 6)]
    seen = RestartRecord(before=before, after=after, history=history, killed=5, decisions_changed=0)
    again = judge(plan, seen, [timed(40_000, 40_000)] * 4)
    assert again.costs.kept_s == pytest.approx(COSTS.kept_s, rel=0.1)
    assert again.metrics["restart.kept_over_reference"] < 0.01


def test_a_decision_that_is_gone_counts_as_changed() -> None:
    assert decisions_changed({"1.json": "a"}, {}) == 1
    assert decisions_changed({"1.json": "a"}, {"1.json": "a"}) == 0


def test_the_burst_begins_after_the_lead_and_outlasts_the_kill() -> None:
    plan = RestartPlan()
    trace = plan.trace(1_000.0)
    assert trace.rates[-1] == 5_000.0
    assert sum(trace.spans_s[:-1]) + plan.kill_s == plan.killed_at_s
    assert trace.duration_s > plan.killed_at_s + plan.backlog_s + 60.0


def test_an_order_can_be_read_back() -> None:
    order = QueryOrder(
        trace=RestartPlan().trace(10.0), target_s=3.0, checkpoint="c", notes="n", history="h", batches=11
    )
    assert QueryOrder.from_json(order.to_json()) == order
