"""The least possible loss, against trying every choice and against a matching of rows to service slots."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.control import make
from spillway.replay.costs import CostTrace, constant, varying
from spillway.replay.generators import pareto
from spillway.replay.traces import Rates, Times
from spillway.sim import Engine, Targets, least_loss, measure, single_operator
from spillway.sim.minimum import earliest_first, greedy, most_in_time, tokens


def feasible(order, release, due):
    done = 0.0
    for i in order:
        done = max(done, release[i]) + 1.0
        if done > due[i]:
            return False
    return True


def most_by_trying(release, due):
    """Return the largest set of unit jobs that some order, whichever, gets done in time."""
    rows = range(len(release))
    for size in range(len(release), 0, -1):
        for chosen in combinations(rows, size):
            if any(feasible(order, release, due) for order in permutations(chosen)):
                return size
    return 0


def most_by_matching(release, due):
    """Return the size of the largest matching of jobs to whole slots [s, s + 1) (augmenting paths)."""
    taken: dict[int, int] = {}

    def place(job, tried):
        for slot in range(release[job], due[job]):
            if slot not in tried:
                tried.add(slot)
                if slot not in taken or place(taken[slot], tried):
                    taken[slot] = job
                    return True
        return False

    return sum(place(job, set()) for job in range(len(release)))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.0, 1.5), st.floats(0.0, 1.5)), min_size=1, max_size=5), st.floats(0.5, 3.0)
)
def test_no_choice_in_any_order_keeps_more(steps, first_due):
    release = np.cumsum([gap for gap, _ in steps])
    due = release[0] + first_due + np.cumsum([gap for _, gap in steps])
    assert greedy(release, due).sum() == most_by_trying(release, due)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40), st.integers(1, 5))
def test_it_is_a_largest_matching_where_times_are_whole(steps, first_due):
    release = np.cumsum([gap for gap, _ in steps])
    due = np.maximum(release, first_due + np.cumsum([gap for _, gap in steps]))
    kept = greedy(release.astype(float), due.astype(float))
    assert kept.sum() == most_by_matching(release.tolist(), due.tolist())


def in_time_if_set_aside(rows, release, due):
    """Return whether unit jobs that may be interrupted can all be done: no interval asks for more than it has."""
    return all(
        sum(1 for i in rows if release[i] >= start and due[i] <= stop) <= stop - start + 1e-9
        for start in release
        for stop in due
        if stop > start
    ) and all(due[i] - release[i] >= 1.0 - 1e-9 for i in rows)


def most_by_trying_all_sets(release, due):
    rows = range(len(release))
    return max(
        size
        for size in range(len(release) + 1)
        for chosen in combinations(rows, size)
        if in_time_if_set_aside(chosen, release, due)
    )


grid = st.integers(0, 12).map(lambda n: n / 4.0)


@settings(max_examples=200)
@given(st.lists(st.tuples(grid, grid), min_size=1, max_size=8), st.floats(0.0, 0.2))
def test_with_deadlines_out_of_order_no_choice_keeps_more(jobs, off):
    release = np.cumsum([gap / 3.0 + off for gap, _ in jobs])
    due = release + np.array([0.75 + room for _, room in jobs])
    assert earliest_first(release, due) == most_by_trying_all_sets(release, due)
    assert most_in_time(release, due) == most_by_trying_all_sets(release, due)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), min_size=1, max_size=40))
def test_out_of_order_it_is_a_largest_matching_where_times_are_whole(jobs):
    release = np.cumsum([gap for gap, _ in jobs])
    due = release + np.array([room for _, room in jobs])
    kept = earliest_first(release.astype(float), due.astype(float))
    assert kept == most_by_matching(release.tolist(), due.tolist())


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0.0, 1.5), st.floats(0.0, 1.5)), min_size=1, max_size=60))
def test_both_rules_agree_where_deadlines_are_in_order(steps):
    release = np.cumsum([gap for gap, _ in steps])
    due = np.maximum.accumulate(release + np.array([0.5 + 4.0 * room for _, room in steps]))
    assert earliest_first(release, due) == greedy(release, due).sum()


def test_a_falling_target_serves_the_urgent_rows_first():
    assert most_in_time(np.zeros(4), np.array([5.0, 5.0, 1.0, 2.0])) == 4
    trace = Rates((150.0,), (20.0,))
    falling = Targets(((0.0, 5.0), (10.0, 1.0)))
    assert least_loss(trace, constant(0.005), falling, headroom=1.0).loss_ratio == 0.0
    busy = pareto(mean=260, beta=0.5, duration_s=80, seed=1)
    long, mixed, short = (
        least_loss(busy, constant(), target).loss_ratio
        for target in (2.0, Targets(((0.0, 2.0), (40.0, 0.5))), 0.5)
    )
    assert long <= mixed <= short


@settings(max_examples=40)
@given(
    st.lists(st.floats(0.01, 2.0), min_size=1, max_size=6),
    st.floats(0.3, 3.0),
    st.lists(st.floats(0, 20), max_size=9),
)
def test_tokens_are_the_integral_of_the_service_rate(costs, step_s, moments):
    cost = CostTrace(costs, step_s=step_s)
    at = np.array(sorted(moments))
    fine = [np.mean(0.97 / cost.at((np.arange(20_000) + 0.5) * t / 20_000)) * t for t in at]
    np.testing.assert_allclose(tokens(at, cost, 0.97), fine, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_no_controller_that_is_never_late_loses_less(seed):
    """On the queue that the proof speaks of, in an engine that knows nothing of it."""
    trace, cost = pareto(mean=260, beta=0.5, duration_s=80, seed=seed), varying(seed=seed, jitter=0.0)
    least = least_loss(trace, cost, 2.0)
    engine = Engine(network=single_operator(), cost=cost, schedule="fifo")
    for name in ("deadline", "ctrl", "baseline"):
        outcome = engine.run(trace, make(name, target_delay_s=2.0), 2.0)
        in_time = np.nansum(outcome.delay_s <= 2.0)
        assert in_time <= least.delivered_rows
    assert 0.0 < least.loss_ratio <= measure(outcome).loss_ratio + 0.05


def test_a_longer_target_loses_fewer_rows_and_no_load_none():
    trace = pareto(mean=260, beta=0.5, duration_s=80, seed=1)
    losses = [least_loss(trace, constant(), y).loss_ratio for y in (0.1, 0.5, 2.0, 10.0)]
    assert losses == sorted(losses, reverse=True)
    assert least_loss(Rates((100.0,), (50.0,)), constant(), 2.0).loss_ratio == 0.0
    assert least_loss(Times([]), constant(), 2.0).loss_ratio == 0.0
    changing = least_loss(trace, constant(), Targets(((0.0, 0.1), (40.0, 2.0)))).loss_ratio
    assert losses[2] < changing < losses[0]
