"""The pipelined engine: against a slow copy, against queueing theory, and what it tells the controller."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.control import Decision, make
from spillway.errors import SpillwayError
from spillway.replay.costs import CostTrace, constant, varying
from spillway.replay.generators import pareto, step
from spillway.replay.traces import Rates, Times
from spillway.sim import Engine, Network, Operator, Targets, measure, paper_network, single_operator
from spillway.sim.engine import _seed

sys.path.insert(0, str(Path(__file__).parent))
from slow_engine import slow_run


class Script:
    """A controller that plays back decisions and keeps the samples."""

    def __init__(self, *decisions):
        self.decisions = list(decisions) or [Decision()]
        self.samples = []
        self.targets = []

    def step(self, sample):
        self.samples.append(sample)
        return self.decisions[min(len(self.samples), len(self.decisions)) - 1]

    def retarget(self, target_delay_s):
        self.targets.append((len(self.samples), target_delay_s))

    def snapshot(self):
        return {}


@st.composite
def networks(draw):
    operators = []
    for number in range(draw(st.integers(1, 6))):
        inputs = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        operators.append(
            Operator(
                f"o{number}",
                tuple(f"o{i}" for i in sorted(inputs)),
                share=draw(st.sampled_from([0.5, 1.0, 3.0])),
                selectivity=draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])),
            )
        )
    return Network(tuple(operators))


@settings(max_examples=60)
@given(
    network=networks(),
    gaps=st.lists(st.floats(0.0, 0.3), min_size=1, max_size=60),
    limit=st.one_of(st.just(np.inf), st.integers(0, 12)),
    schedule=st.sampled_from(["round_robin", "fifo"]),
    seed=st.integers(0, 5),
    period_s=st.sampled_from([0.07, 1.0, 30.0]),
)
def test_the_compiled_engine_does_what_the_slow_one_does(network, gaps, limit, schedule, seed, period_s):
    arrivals = np.cumsum(gaps)
    cost = CostTrace((0.1, 0.25, 0.05), step_s=1.0)
    decision = Decision(queue_limit_rows=None if limit == np.inf else float(limit))
    engine = Engine(network=network, cost=cost, period_s=period_s, headroom=0.9, schedule=schedule, seed=seed)
    fast = engine.run(Times(arrivals), Script(decision), 2.0)
    slow = slow_run(
        arrivals,
        network,
        network.costs_s(1.0),
        cost_at=lambda t: float(cost.at(np.array(t))),
        headroom=0.9,
        schedule=schedule,
        limit=limit,
        seed=_seed(seed, 0, 0),
    )
    np.testing.assert_allclose(fast.delay_s, slow, rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(gaps=st.lists(st.floats(0.0, 0.02), min_size=1, max_size=300), cost_s=st.floats(0.001, 0.02))
def test_one_operator_is_lindleys_queue(gaps, cost_s):
    arrivals = np.cumsum(gaps)
    engine = Engine(network=single_operator(), cost=constant(cost_s), headroom=1.0)
    got = engine.run(Times(arrivals), Script(), 2.0).delay_s
    wait = 0.0
    expected = []
    for gap in [0.0, *np.diff(arrivals)]:
        wait = max(wait - gap, 0.0) if expected else 0.0
        expected.append(wait + cost_s)
        wait += cost_s
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("schedule", ["round_robin", "fifo"])
@pytest.mark.parametrize("name", ["none", "ctrl", "aurora", "baseline", "deadline"])
def test_every_row_is_accounted_for(name, schedule):
    trace = pareto(mean=285, beta=0.5, duration_s=60, seed=2)
    engine = Engine(cost=varying(seed=1), schedule=schedule, seed=4)
    outcome = engine.run(trace, make(name, target_delay_s=2.0), 2.0)
    samples = outcome.samples
    assert sum(s.arrived_rows for s in samples) == outcome.arrival_s.size == trace.total
    assert sum(s.kept_rows for s in samples) == outcome.delivered.sum()
    finished = np.cumsum([s.finished_rows for s in samples])
    kept = np.cumsum([s.kept_rows for s in samples])
    np.testing.assert_array_equal([s.backlog_rows for s in samples], kept - finished)
    assert all(0.0 <= s.busy_s <= 1.0 + 1e-9 for s in samples)
    # What left by the end of period k is what has an arrival and a delay that add up to less.
    left = outcome.arrival_s[outcome.delivered] + outcome.delay_s[outcome.delivered]
    for k in (10, 30, 50):
        assert finished[k - 1] == (left <= k + 1e-12).sum()


def test_the_same_seed_gives_the_same_run_and_the_period_does_not_matter_to_the_plant():
    trace = pareto(mean=200, beta=1.0, duration_s=30, seed=2)
    one, two = (Engine(seed=3).run(trace, make("ctrl", target_delay_s=1.0), 1.0) for _ in range(2))
    np.testing.assert_array_equal(one.delay_s, two.delay_s)
    assert one.decisions == two.decisions
    other = Engine(seed=4).run(trace, make("ctrl", target_delay_s=1.0), 1.0)
    assert not np.array_equal(one.delay_s, other.delay_s, equal_nan=True)
    long, short = (Engine(seed=3, period_s=t).run(trace, Script(), 1.0) for t in (7.0, 0.0313))
    np.testing.assert_allclose(long.delay_s, short.delay_s)


@pytest.mark.parametrize("schedule", ["round_robin", "fifo"])
def test_the_virtual_queue_model_holds_for_the_network(schedule):
    """Eq. 2: y = (q + 1) c / H, on average, in an overload and with the true headroom."""
    trace = step(low=20, high=260, at_s=5, duration_s=60)
    outcome = Engine(schedule=schedule, headroom=0.97).run(trace, Script(), 2.0)
    _, y = outcome.delay_series_s()
    q = np.array([0.0, *(s.backlog_rows for s in outcome.samples)])
    seen = 0.5 * (q[:-1] + q[1:])
    error = {H: np.abs(y - (seen + 1.0) / 190.0 / H)[10:].mean() for H in (0.95, 0.97, 1.0)}
    assert error[0.97] < 0.01 * y.max()
    assert error[0.97] < 0.5 * min(error[0.95], error[1.0])


def test_the_monitor_measures_the_cost_of_a_row():
    cost = CostTrace((0.005, 0.005, 0.010, 0.010, 0.010), step_s=1.0)
    trace = Rates((300.0,), (5.0,))
    costs = [s.cost_s for s in Engine(cost=cost).run(trace, Script(), 2.0).samples]
    assert costs[:2] == pytest.approx([0.005, 0.005], rel=0.1)
    assert costs[2:] == pytest.approx([0.010, 0.010, 0.010], rel=0.1)
    exact = Engine(cost=cost, network=single_operator()).run(trace, Script(), 2.0).samples
    assert [s.cost_s for s in exact][1:2] + [s.cost_s for s in exact][3:] == pytest.approx(
        [0.005, 0.010, 0.010]
    )


def test_short_periods_measure_the_cost_with_more_noise():
    trace = Rates((300.0,), (40.0,))
    spread = [
        np.std([s.cost_s for s in Engine(period_s=T).run(trace, Script(), 2.0).samples])
        for T in (0.03125, 1.0)
    ]
    assert spread[0] > 3.0 * spread[1]


def test_the_keep_ratio_is_a_fair_coin_and_the_limit_holds_at_every_row():
    trace = Rates((1000.0,), (20.0,))
    coin = Engine().run(trace, Script(Decision(keep_ratio=0.3)), 2.0)
    assert coin.delivered.mean() == pytest.approx(0.3, abs=0.01)
    limited = Engine(network=single_operator(), headroom=1.0).run(
        trace, Script(Decision(queue_limit_rows=19.0)), 2.0
    )
    assert max(s.backlog_rows for s in limited.samples) == 19.0
    assert np.nanmax(limited.delay_s) == pytest.approx(19 / 190, abs=1e-9)
    assert limited.delivered.sum() == pytest.approx(190 * 20, abs=20)


def test_another_salt_picks_other_rows():
    trace = Rates((100.0,), (5.0,))
    one, two = (Engine().run(trace, Script(Decision(keep_ratio=0.5, salt=s)), 2.0).delivered for s in (1, 2))
    assert (one != two).any()


def test_decisions_take_effect_after_the_lag():
    trace = Rates((50.0,), (8.0,))
    script = (Decision(), Decision(keep_ratio=0.0))
    for lag in (0, 1, 3):
        samples = Engine(lag_periods=lag).run(trace, Script(*script), 2.0).samples
        assert [s.kept_rows > 0 for s in samples] == [True] * (1 + lag) + [False] * (7 - lag)


def test_the_controller_sees_the_cost_before_the_first_row():
    script = Script(Decision(queue_limit_rows=10.0))
    outcome = Engine(cost=constant(0.02)).run(Rates((500.0,), (3.0,)), script, 2.0)
    opening = script.samples[0]
    assert (opening.at_s, opening.arrived_rows, opening.backlog_rows) == (0.0, 0.0, 0.0)
    assert opening.cost_s == pytest.approx(0.02)
    assert len(script.samples) == len(outcome.samples) + 1
    assert outcome.samples[0].backlog_rows <= 10.0


def test_load_leaves_the_queues_only_where_that_is_asked_for():
    trace = Rates((400.0, 1.0), (10.0, 10.0))
    script = [Decision()] * 10 + [Decision(keep_ratio=0.0, admit_rows=-500.0)] + [Decision()] * 10
    kept = Engine(shed="entry").run(trace, Script(*script), 2.0)
    assert kept.delivered[kept.arrival_s < 10.0].all()
    cut = Engine(shed="queue").run(trace, Script(*script), 2.0)
    before, after = cut.samples[9], cut.samples[10]
    assert before.backlog_rows > 2000
    assert before.backlog_rows - after.backlog_rows == pytest.approx(500 + 184, abs=30)
    lost = (~cut.delivered[cut.arrival_s < 10.0]).sum()
    assert lost == pytest.approx(500, abs=25)
    assert lost + cut.delivered.sum() == pytest.approx(trace.total, abs=5)


def test_more_than_everything_cannot_be_taken_out():
    trace = Rates((400.0,), (5.0,))
    cut = Engine(shed="queue").run(trace, Script(Decision(), Decision(), Decision(admit_rows=-1e9)), 2.0)
    assert cut.samples[1].backlog_rows > 100
    assert all(s.backlog_rows <= 400 for s in cut.samples[2:])
    assert np.isfinite(cut.delay_s[cut.delivered]).all()


def test_a_change_of_target_reaches_the_controller_and_the_metrics():
    script = Script(Decision(queue_limit_rows=300.0))
    targets = Targets(((0.0, 1.0), (5.0, 3.0)))
    outcome = Engine().run(Rates((400.0,), (10.0,)), script, targets)
    assert script.targets == [(6, 3.0)]
    assert measure(outcome).late_rows == (outcome.delay_s[outcome.arrival_s < 5.0] > 1.0).sum() > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"period_s": 0.0}, "period_s"),
        ({"headroom": 1.5}, "headroom"),
        ({"schedule": "fair"}, "'fifo', 'round_robin'"),
        ({"shed": "quue"}, "did you mean 'queue'"),
        ({"lag_periods": -1}, "lag_periods"),
    ],
)
def test_an_engine_that_cannot_be_is_refused(options, words):
    with pytest.raises(SpillwayError, match=words):
        Engine(**options)


def test_an_empty_trace_is_an_empty_run():
    outcome = Engine().run(Times([], duration_s=3.0), make("deadline", target_delay_s=2.0), 2.0)
    assert len(outcome.samples) == 3
    assert measure(outcome).rows == 0


def test_the_papers_network_has_fourteen_operators_and_the_cost_it_is_given():
    network = paper_network()
    assert len(network) == 14
    assert network.visits @ network.costs_s(0.00526) == pytest.approx(0.00526)
    assert network.downstream[network.entries] == pytest.approx(1.0)
    assert (network.visits <= 1.0).all()
