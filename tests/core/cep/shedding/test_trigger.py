"""When to shed: the latency and its lag, the bound and its margin."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from spillway.core.cep.shedding.cost_model import CostModel, Counts
from spillway.core.cep.shedding.latency import Latency
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.orders import Seen
from spillway.core.cep.shedding.trigger import TriggerConfig
from spillway.errors import SpillwayError


def test_the_latency_is_that_of_the_last_measurements() -> None:
    mean, high = Latency(3), Latency(3, percentile=100.0)
    for latency in (mean, high):
        assert latency.value == 0.0
        latency.observe(np.array([100.0, 1.0]), 1.0)
        latency.observe(np.array([2.0, 6.0]), 1.0)
    assert (mean.value, high.value) == (3.0, 6.0)


def test_the_expected_latency_knows_what_was_shed() -> None:
    latency = Latency(4)
    latency.observe(np.full(4, 8.0), load=100.0)
    assert latency.expected(50.0) == 4.0
    latency.observe(np.full(4, 4.0), load=50.0)
    assert latency.expected(50.0) == 4.0
    latency.observe(np.full(4, 8.0), load=100.0, fixed=0.25)
    assert latency.expected(50.0) == 2.0 + 3.0
    again = Latency(4)
    again.restore(latency.snapshot())
    assert again.expected(25.0) == latency.expected(25.0)


def test_a_percentile_is_expected_as_if_all_had_been_measured_at_the_load_now() -> None:
    latency = Latency(200, percentile=99.0, each=True)
    loads = np.linspace(10.0, 100.0, 200)
    latency.observe(2.0 * loads, loads)
    assert latency.value == pytest.approx(198.0, abs=1.0)
    assert latency.expected(50.0) == pytest.approx(100.0), "not 99 / 55 times as much"
    assert latency.expected_at(np.array([0.0, 30.0, 100.0])) == pytest.approx([0.0, 60.0, 200.0])
    latency.observe(np.full(200, 8.0), load=4.0, fixed=0.25)
    assert (latency.expected(2.0), latency.fixed_part) == (2.0 + 3.0, 2.0)


def test_an_unknown_load_leaves_the_latency_as_it_is() -> None:
    latency = Latency(4)
    latency.observe(np.full(4, 8.0), load=0.0)
    assert latency.expected(0.0) == 8.0


def test_the_violation_is_what_is_above_the_target() -> None:
    trigger = TriggerConfig(bound_s=1.0, margin=0.2).build()
    assert trigger.violation(0.8) == 0.0
    assert trigger.violation(1.6) == pytest.approx(0.5)


def test_the_margin_rests_where_the_bound_is_held_as_often_as_asked() -> None:
    trigger = TriggerConfig(bound_s=1.0, held=0.9, margin=0.0, margin_step=0.005).build()
    noise = np.sin(np.arange(20_000) * 0.7) * 0.2
    late = []
    for extra in noise:
        measured = trigger.target_s + extra  # the target is met but for the noise
        late.append(measured > 1.0)
        trigger.learn(measured, 100)
    assert np.mean(late[5000:]) == pytest.approx(0.1, abs=0.01)


def test_the_delay_is_kept() -> None:
    trigger = TriggerConfig(bound_s=1.0, delay_events=250).build()
    assert trigger.may_shed(), "at first nothing is to be waited for"
    found = []
    for _ in range(6):
        trigger.learn(1.0, 100)
        found.append(trigger.may_shed())
    assert found == [False, False, True, False, False, True]


@pytest.mark.parametrize(
    "wrong", [{"bound_s": 0.0}, {"held": 1.1}, {"margin": 0.9}, {"delay_events": -1}, {"margin_step": -1.0}]
)
def test_wrong_values_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(SpillwayError, match=next(iter(wrong))):
        TriggerConfig(**{"bound_s": 1.0, **wrong})
    with pytest.raises(SpillwayError, match="over"):
        WatchConfig(trigger=TriggerConfig(bound_s=1.0), over="every")


def seen(alive: float, times: list[float]) -> Seen:
    """Events of one class that complete matches, every second one discarded, with runs of one state."""
    n = len(times)
    table = np.full((1, 1, 1), alive)
    return Seen(
        times=np.array(times),
        work=np.array(times),
        kept=np.arange(n) % 2 == 0,
        matches=np.zeros(n, np.int64),
        classes=np.zeros(n, np.int64),
        counts=Counts(table, table, table, table),
        examined=float(np.sum(times)),
        share_of_slice=1.0,
    )


def all_kept(alive: float, times: list[float]) -> Seen:
    return replace(seen(alive, times), kept=np.ones(len(times), bool))


def test_growth_between_checks_is_reckoned_with() -> None:
    model = CostModel(*np.ones((3, 1, 1, 1)), last=np.ones(1, bool))
    trigger = TriggerConfig(bound_s=1.0, margin=0.0, margin_step=0.0)
    watch = WatchConfig(trigger=trigger, smooth=2).build(model)
    assert watch.violation(all_kept(100.0, [1.0, 1.0])) == 0.0
    watch.leave(np.full((1, 1, 1), 50.0))
    v = watch.violation(all_kept(100.0, [1.0, 1.0]))
    mean = (100 * math.exp(-1) + 75) / (1 + math.exp(-1))
    assert v == pytest.approx((125 - mean) / 100), "as many runs as were there on average cost 1 s"


def test_what_runs_do_not_cause_is_not_saved_by_shedding_them() -> None:
    model = CostModel(*np.ones((3, 1, 1, 1)), last=np.ones(1, bool))
    trigger = TriggerConfig(bound_s=0.8, margin=0.0, margin_step=0.0)
    watch = WatchConfig(trigger=trigger, smooth=2).build(model)
    half = replace(all_kept(100.0, [1.0, 1.0]), examined=1.0)
    assert watch.violation(half) == pytest.approx(0.2 / 0.5), "0.2 s too much, and only 0.5 s come of runs"
    assert watch.violation(replace(half, examined=0.0)) <= 1.0


def test_events_that_are_discarded_make_runs_cheaper() -> None:
    model = CostModel(*np.ones((3, 1, 1, 1)), last=np.ones(1, bool))
    trigger = TriggerConfig(bound_s=1.0, margin=0.0, margin_step=0.0)
    watch = WatchConfig(trigger=trigger, smooth=4).build(model)
    view = all_kept(100.0, [1.0, 1.0, 1.0, 1.0])
    assert watch.violation(view, usually=1.0) == 0.0
    assert watch.expected(view.counts.alive, kept=0.5) == pytest.approx(0.5)
    room = watch.room(count=2)
    assert room is not None
    assert (room.all_s, room.completing_s) == pytest.approx((2.0, 1.0)), (
        "as much as goes out of the last four"
    )
    watch.leave(view.counts.alive / 2)
    room = watch.room(count=2)
    assert room is not None
    assert room.completing_s == pytest.approx(0.5)


def test_only_events_that_complete_and_were_kept_may_count() -> None:
    model = CostModel(*np.ones((3, 1, 1, 1)), last=np.ones(1, bool))
    watch = WatchConfig(trigger=TriggerConfig(bound_s=1.0), over="completing").build(model)
    watch.violation(seen(1.0, [3.0, 0.0, 5.0, 0.0]))
    assert watch.latency.value == 4.0


def steady(alive: float, events: int, share_of_slice: float) -> Seen:
    """Events that each examine all runs that are there."""
    table = np.full((1, 1, 1), alive)
    return Seen(
        times=np.full(events, alive),
        work=np.full(events, alive),
        kept=np.ones(events, bool),
        matches=np.zeros(events, np.int64),
        classes=np.zeros(events, np.int64),
        counts=Counts(table, np.zeros_like(table), table * events, table * events),
        examined=alive * events,
        share_of_slice=share_of_slice,
    )


def test_a_percentile_does_not_depend_on_how_fast_events_come() -> None:
    model = CostModel(*np.ones((3, 1, 1, 1)), last=np.ones(1, bool))
    trigger = TriggerConfig(bound_s=100.0, margin=0.0, margin_step=0.0)
    watch = WatchConfig(trigger=trigger, smooth=20, percentile=99.0).build(model)
    for share_of_slice in (0.5, 0.1, 0.01, 0.3, 2.0):
        watch.learn(steady(80.0, 10, share_of_slice))
        assert watch.violation(steady(80.0, 10, share_of_slice)) == 0.0
        assert watch.expected(np.full((1, 1, 1), 40.0)) == pytest.approx(40.0, rel=0.1)
    again = WatchConfig(trigger=trigger, smooth=20, percentile=99.0).build(model)
    again.restore(watch.snapshot())
    assert again.expected(np.full((1, 1, 1), 40.0)) == watch.expected(np.full((1, 1, 1), 40.0))


def test_a_percentile_is_held_at_the_end_of_the_growth() -> None:
    model = CostModel(*np.ones((3, 1, 1, 1)), last=np.ones(1, bool))
    trigger = TriggerConfig(bound_s=100.0, margin=0.0, margin_step=0.0)
    watch = WatchConfig(trigger=trigger, smooth=20, percentile=99.0).build(model)
    found = []
    for before, alive in ((60.0, 60.0), (60.0, 75.0), (75.0, 90.0)):
        view = replace(steady(alive, 10, 0.01), times=np.linspace(before, alive, 10))
        watch.learn(view)
        found.append(watch.violation(view))
    assert found[:2] == [0.0, 0.0]
    assert found[2] == pytest.approx((105 - 100) / 90, rel=0.4), "15 more runs will have come by then"
    again = WatchConfig(trigger=trigger, smooth=20, percentile=99.0).build(model)
    again.restore(watch.snapshot())
    still = steady(95.0, 10, 0.01)
    found = [each.violation(still) for each in (watch, again)]
    assert found[0] == found[1] > 0.0, "as many may come again"
