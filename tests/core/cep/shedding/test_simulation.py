"""Patterns under a bound, on the real engine: no match is invented, the bound holds, classes beat chance."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.estimation import EstimationConfig, learn
from spillway.core.cep.language import parse
from spillway.core.cep.shedding import (
    HybridConfig,
    Learned,
    Outcome,
    TriggerConfig,
    WatchConfig,
    may_invent,
    precision,
    simulate,
    strategy_of,
)
from spillway.core.cep.shedding.draws import draws
from spillway.core.cep.shedding.enforcer import Enforcer
from spillway.errors import SpillwayError

WINDOW = 1000
Q1 = f"PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN {WINDOW} us"
Q4 = "PATTERN SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 300 us"
NAMES = ("hybrid", "state", "input", "random_input", "selective_input", "random_state", "selective_state")


def stream(rows: int, salt: int = 1) -> pa.Table:
    """One event per microsecond: the paper's first data set. Values of C go up to 10, sums of A and B to 20."""
    kind, value, key = (draws(np.arange(rows), mixed) for mixed in (salt, salt + 1, salt + 2))
    types = np.array(list("ABCD"))[(kind * 4).astype(int)]
    low = np.where(types == "C", 2, 1)
    return pa.table(
        {
            "ts": pa.array(np.arange(rows)).cast(pa.timestamp("us")),
            "type": types,
            "ID": (key * 5).astype(int),
            "V": low + (value * (11 - low)).astype(int),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return stream(12_000)


@pytest.fixture(scope="module")
def config(table: pa.Table) -> PatternConfig:
    return PatternConfig(Q1, table.schema, time="ts", type="type", index="attributes")


@pytest.fixture(scope="module")
def learned(config: PatternConfig) -> Learned:
    return learn(config, stream(5000, salt=7), EstimationConfig(clusters=6))


@pytest.fixture(scope="module")
def truth(config: PatternConfig, table: pa.Table, learned: Learned) -> Outcome:
    return simulate(config, table, learned, None, check_events=1000, keep_matches=True)


def bounded(share: float, truth: Outcome) -> WatchConfig:
    return WatchConfig(trigger=TriggerConfig(bound_s=share * truth.latency_s(WINDOW)))


def rows(table: pa.Table | None) -> set[tuple[int, ...]]:
    assert table is not None
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_what_is_learned_tells_useful_runs(config: PatternConfig, learned: Learned) -> None:
    names = config.build().feature_names(1)
    sums = np.arange(2, 21.0)
    x = np.zeros((len(sums), len(names)))
    x[:, names.index("a.V+b.V")] = sums
    gain = learned.gain[1, learned.trees[1].classify(x)].sum(axis=1)
    assert (gain[sums > 10] == 0).all()
    assert (gain[sums < 10] > 0).all()
    assert learned.selectivity[-1] == 0.0


def test_events_that_never_came_have_classes_where_runs_wait_for_them(learned: Learned) -> None:
    values = np.stack([np.zeros(19), np.arange(2.0, 21)], axis=1)
    classes = learned.last.classify(values)
    assert len(set(classes[values[:, 1] > 10])) > 5
    assert (learned.event_rate[classes[values[:, 1] > 10]] == 0).all()


def test_states_may_be_learned_elsewhere(config: PatternConfig, learned: Learned) -> None:
    def elsewhere(function: object, states: object) -> list[object]:
        function, states = pickle.loads(pickle.dumps((function, list(states))))
        return pickle.loads(pickle.dumps([function(state) for state in states]))

    again = learn(config, stream(5000, salt=7), EstimationConfig(clusters=6), each=elsewhere)
    assert np.array_equal(again.gain, learned.gain)
    assert np.array_equal(again.trees[1].threshold, learned.trees[1].threshold)


def test_without_shedding_all_matches_are_there(
    config: PatternConfig, table: pa.Table, truth: Outcome
) -> None:
    plain = config.build()
    assert rows(plain.process(table)) == rows(truth.found)
    assert truth.matches.sum() == len(rows(truth.found))
    assert truth.shed_runs == 0
    assert truth.discarded_share == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_no_match_is_invented_and_the_same_choices_are_made_again(
    name: str, config: PatternConfig, table: pa.Table, learned: Learned, truth: Outcome
) -> None:
    part = table.slice(0, 6000)
    found = [
        simulate(config, part, learned, strategy_of(name, bounded(0.3, truth), learned), keep_matches=True)
        for _ in range(2)
    ]
    assert rows(found[0].found) == rows(found[1].found)
    assert rows(found[0].found) < rows(truth.found)
    assert precision(found[0].found, truth.found) == 1.0
    assert np.array_equal(found[0].times, found[1].times)


def test_the_bound_is_held_and_hybrid_shedding_finds_most(
    config: PatternConfig, table: pa.Table, learned: Learned, truth: Outcome
) -> None:
    recall, since = {}, 2 * WINDOW
    for name in ("hybrid", "random_input", "random_state"):
        watch = bounded(0.5, truth)
        outcome = simulate(
            config, table, learned, strategy_of(name, watch, learned, unshed_s=truth.latency_s(WINDOW))
        )
        recall[name] = outcome.recall(truth, since)
        assert outcome.latency_s(since) < watch.trigger.bound_s
        if name != "random_input":
            assert outcome.held(watch.trigger.bound_s, since=since) >= 0.8  # of ten intervals
    assert recall["hybrid"] > 0.9
    assert recall["hybrid"] > 1.6 * max(recall["random_input"], recall["random_state"])


def test_the_filter_is_off_when_there_is_nothing_to_shed(
    config: PatternConfig, table: pa.Table, learned: Learned, truth: Outcome
) -> None:
    outcome = simulate(config, table, learned, strategy_of("hybrid", bounded(3.0, truth), learned))
    assert outcome.recall(truth) == 1.0
    assert outcome.discarded_share == 0.0


def test_the_latency_of_matches_may_be_bounded_instead(
    config: PatternConfig, table: pa.Table, learned: Learned, truth: Outcome
) -> None:
    able = np.asarray(table["type"]) == "C"
    bound = 0.5 * float(truth.times[WINDOW:][able[WINDOW:]].mean())
    watch = WatchConfig(trigger=TriggerConfig(bound_s=bound), over="completing", smooth=500)
    outcome = simulate(config, table, learned, strategy_of("hybrid", watch, learned), over="completing")
    assert outcome.kept[able].all(), "discarding them would not make the others faster"
    assert outcome.latency_s(2 * WINDOW) < bound
    assert outcome.recall(truth, 2 * WINDOW) > 0.8


def test_shedding_may_invent_matches_of_queries_with_negation() -> None:
    table = stream(4000)
    config = PatternConfig(Q4, table.schema, time="ts", type="type", index="attributes")
    known = learn(config, stream(2000, salt=9), EstimationConfig(clusters=3))
    truth = simulate(config, table, known, None, keep_matches=True)
    watch = WatchConfig(trigger=TriggerConfig(bound_s=0.5 * truth.latency_s()))
    found = simulate(config, table, known, strategy_of("random_input", watch, known), keep_matches=True)
    assert found.found is not None
    assert truth.found is not None
    assert 0.0 < precision(found.found, truth.found) < 1.0


def test_it_is_told_where_shedding_may_invent_matches() -> None:
    assert may_invent(parse(Q1)) is None
    assert "no longer forbids" in str(may_invent(parse(Q4)))
    assert "strict" in str(may_invent(replace(parse(Q1), policy="strict")))


def test_resource_costs_weigh_examinations(
    config: PatternConfig, table: pa.Table, learned: Learned, truth: Outcome
) -> None:
    loads = []
    for resource in ("none", "conditions", "length"):
        strategy = HybridConfig(watch=bounded(0.5, truth)).build(learned.model(), learned.events())
        simulate(config, table.slice(0, 3000), learned, strategy, resource=resource)
        own = strategy.model.own
        loads.append(own[1].max() / own[0].max())
    assert loads[1] > 1.5 * loads[0], "three conditions where a run of a and b meets c, one where a meets b"
    assert loads[2] > 1.5 * loads[0]


def test_the_length_of_a_run_is_that_of_its_rows() -> None:
    """Five A in a row make runs of one to five rows, and the B that comes looks at all 31 of them."""
    table = pa.table({"ts": pa.array(np.arange(6), pa.timestamp("us")), "type": list("AAAAAB"), "v": [1] * 6})
    query = "PATTERN SEQ(A+ a[], B b) WITHIN 100 us"
    config = PatternConfig(query, table.schema, time="ts", type="type", tracked=True, compile=False)
    counted = {}
    for omega in (None, "length"):
        finder = config.build()
        finder.process(table.slice(0, 5))
        finder.counted()
        finder.process(table.slice(5))
        counted[omega] = finder.counted(omega=omega).own[0].sum()
    assert counted == {None: 31, "length": sum(math.comb(5, rows) * rows for rows in range(1, 6))}


def test_what_is_learned_with_resource_costs_agrees_with_what_is_counted(config: PatternConfig) -> None:
    omega = [1.0, 4.0, 1.0]
    plain, weighted = (learn(config, stream(3000, salt=7), resource=r) for r in ("none", omega))
    assert weighted.own[1].max() == pytest.approx(4 * plain.own[1].max())
    assert weighted.own[0].max() == pytest.approx(plain.own[0].max())
    with pytest.raises(SpillwayError, match="resource"):
        learn(config, stream(300), resource=[1.0])


def test_time_may_be_that_of_a_clock(config: PatternConfig, table: pa.Table, learned: Learned) -> None:
    ticks = iter(np.arange(10_000) * 0.5)
    outcome = simulate(config, table.slice(0, 500), learned, None, clock=lambda: float(next(ticks)))
    assert outcome.times.reshape(5, 100).sum(axis=1) == pytest.approx(np.full(5, 0.5))
    assert outcome.offered_runs > 0


def test_rows_that_may_forbid_are_kept() -> None:
    table = stream(4000)
    query = (
        "PATTERN SEQ(A a, NEG B n, C c, B b) WHERE a.ID = n.ID AND a.ID = c.ID AND a.ID = b.ID WITHIN 200 us"
    )
    config = PatternConfig(query, table.schema, time="ts", type="type", index="attributes")
    known = learn(config, stream(2000, salt=9), EstimationConfig(clusters=3))
    truth = simulate(config, table, known, None, keep_matches=True)
    for name in ("hybrid", "input"):
        watch = WatchConfig(trigger=TriggerConfig(bound_s=0.4 * truth.latency_s()))
        found = simulate(config, table, known, strategy_of(name, watch, known), keep_matches=True)
        assert found.kept[np.asarray(table["type"]) == "B"].all()
        assert found.found is not None
        assert precision(found.found, truth.found) == 1.0


def test_wrong_values_are_told(config: PatternConfig, learned: Learned, truth: Outcome) -> None:
    with pytest.raises(SpillwayError, match="did you mean 'hybrid'"):
        strategy_of("hybrit", bounded(0.5, truth), learned)
    strategy = HybridConfig(watch=bounded(0.5, truth)).build(learned.model(), learned.events())
    with pytest.raises(SpillwayError, match="tracked"):
        Enforcer(config.build(), strategy, learned.trees, learned.last)
    with pytest.raises(SpillwayError, match="longer stretch"):
        learn(config, stream(0))


@pytest.mark.parametrize(("pattern", "paired"), [("A+ a[], B b, C c", True), ("A a, B+ b[], C c", False)])
def test_runs_that_bring_matches_through_longer_ones_are_not_judged_by_pairs(
    pattern: str, paired: bool
) -> None:
    repeated = pattern.partition("+")[0]
    same = f"{repeated.lower()[-1]}[i+1].ID = {repeated.lower()[-1]}[i].ID"
    query = f"PATTERN SEQ({pattern}) WHERE {same} WITHIN 20 us"
    events = stream(400)
    known = learn(PatternConfig(query, events.schema, time="ts", type="type", compile=False), events)
    assert (known.pairs() is not None) == paired
    assert known.gain[-2].sum() > 0.0
