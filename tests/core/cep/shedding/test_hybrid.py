"""What strategies order, given what they see: no engine, tables by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spillway.core.cep.shedding.baselines import BaselineConfig
from spillway.core.cep.shedding.cost_model import CostModel, Counts
from spillway.core.cep.shedding.event_model import EventModel
from spillway.core.cep.shedding.hybrid import Hybrid, HybridConfig
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.orders import Seen
from spillway.core.cep.shedding.trigger import TriggerConfig
from spillway.errors import SpillwayError

EVENTS = 100


def watch(bound_s: float, **options: object) -> WatchConfig:
    trigger = TriggerConfig(bound_s=bound_s, margin=0.0, margin_step=0.0)
    return WatchConfig(trigger=trigger, smooth=EVENTS, **options)


def models() -> tuple[CostModel, EventModel]:
    """Two states of three classes: runs of class 0 bring nothing, of class 2 most; and two classes of events."""
    gain = np.zeros((2, 3, 2)) + np.array([0.0, 1.0, 4.0])[None, :, None]
    model = CostModel(gain, np.full((2, 3, 2), 10.0), np.full((2, 3, 2), 20.0), np.array([False, True]))
    model.own[0] = 0.1
    events = EventModel(2)
    events.rate, events.work, events.matches = (
        np.array([0.1, 0.1]),
        np.array([400.0, 400.0]),
        np.array([4.0, 80.0]),
    )
    events.seen[:], events.per_event[:] = True, (100.0, 10.0)
    return model, events


def hybrid(bound_s: float, **options: object) -> Hybrid:
    return HybridConfig(watch=watch(bound_s), spare=0.0, **options).build(*models())


def seen(latency: float = 1.0, alive: float = 50.0) -> Seen:
    """Events that all took the same, with as many runs in each group."""
    table = np.full((2, 3, 2), alive)
    return Seen(
        times=np.full(EVENTS, latency),
        work=np.full(EVENTS, 100.0),
        kept=np.ones(EVENTS, bool),
        matches=np.zeros(EVENTS, np.int64),
        classes=np.full(EVENTS, -1),
        counts=Counts(table, *np.zeros((3, 2, 3, 2))),
        examined=100.0 * EVENTS,
        share_of_slice=0.1,
    )


def test_nothing_is_shed_within_the_bound() -> None:
    orders = hybrid(2.0).step(seen(1.0))
    assert (orders.shed, orders.refuse, orders.events) == (None, None, None)
    assert orders.reason == "the bound holds"


def test_what_brings_nothing_goes_first() -> None:
    orders = hybrid(0.8).step(seen(1.0))
    assert orders.shed is not None
    assert orders.refuse is not None
    assert (orders.shed[:, 1:] == 0).all()
    assert orders.shed[1, 0].max() > 0
    assert (orders.refuse[1, 0] == 1.0).all(), "and is not made any more"
    assert (orders.refuse[1, 1:] == 0).all()


def test_a_tighter_bound_sheds_more_and_what_is_worth_least() -> None:
    shares = []
    for bound in (0.8, 0.5, 0.2, 0.05):
        orders = hybrid(bound).step(seen(1.0))
        assert orders.shed is not None
        shares.append(orders.shed.mean())
        ranks = orders.shed[1].mean(axis=1)
        assert ranks[0] >= ranks[1] >= ranks[2]
    assert shares == sorted(shares)


def test_what_brings_nothing_goes_before_the_bound_is_passed() -> None:
    """Five quiet checks leave room in the mean over six; then there is six times the load, and it would not last."""
    shedder = HybridConfig(watch=replace(watch(1.0), smooth=6 * EVENTS), spare=0.0).build(*models())
    for _ in range(5):
        assert shedder.step(seen(0.2)).shed is None
    orders = shedder.step(seen(1.2, alive=300.0))
    assert shedder.watch.latency.value < 1.0
    assert shedder.price == 0.0
    assert orders.shed is not None
    assert orders.shed[:, 0].max() > 0.0
    assert (orders.shed[:, 1:] == 0.0).all()
    assert orders.refuse is not None
    assert (orders.refuse[:, 1:] == 0.0).all()


def test_poor_events_are_discarded_before_good_runs_are_shed() -> None:
    orders = hybrid(0.5).step(seen(1.0))
    assert orders.events is not None
    assert orders.events.tolist()[1] == 0.0
    assert orders.events[0] > 0.0
    assert orders.shed is not None
    assert (orders.shed[1, 2] == 0).all()


def test_strategies_do_their_part_only() -> None:
    state = hybrid(0.5, strategy="state").step(seen(1.0))
    assert state.shed is not None
    assert (state.events, state.unwanted) == (None, None)
    inputs = hybrid(0.5, strategy="input").step(seen(1.0))
    assert (inputs.shed, inputs.refuse) == (None, None)
    assert inputs.unwanted is not None
    assert inputs.events is not None


@pytest.mark.parametrize("select", ["exact", "greedy"])
def test_whole_groups_may_be_shed_instead(select: str) -> None:
    orders = hybrid(0.6, select=select).step(seen(1.0))
    assert orders.shed is not None
    assert set(np.unique(orders.shed)) <= {0.0, 1.0}


def test_the_filter_is_switched_off_when_the_bound_holds() -> None:
    shedder = hybrid(0.8, hold_windows=0.15)
    assert shedder.step(seen(1.0)).refuse is not None
    found = [shedder.step(seen(0.1, alive=1.0)).refuse is not None for _ in range(6)]
    assert found == [True, True, True, False, False, False]


def test_witnesses_are_spared() -> None:
    config = HybridConfig(watch=watch(0.01), spare=0.1)
    orders = config.build(*models()).step(seen(1.0))
    assert orders.shed is not None
    assert orders.shed.max() == pytest.approx(0.9)
    assert orders.spare == 0.1


def test_the_model_follows_the_stream_while_shedding() -> None:
    shedder = hybrid(0.8)
    table = np.zeros((2, 3, 2))
    table[:, 0] = 50.0 * 10  # now class 0 brings most
    for _ in range(30):
        view = seen(1.0)
        shedder.step(replace(view, counts=Counts(view.counts.alive, table, table, table)))
    assert shedder.model.gain[1, 0].min() > 10 * shedder.model.gain[1, 2].max()


def test_a_snapshot_goes_on_the_same() -> None:
    first = hybrid(0.5)
    for latency in (1.0, 0.7, 0.4, 0.9):
        first.step(seen(latency))
    again = first.config.build(*models(), state=first.snapshot())
    for latency in (0.6, 1.2, 0.1):
        expected, found = first.step(seen(latency)), again.step(seen(latency))
        assert expected.reason == found.reason
        for one, other in ((expected.shed, found.shed), (expected.refuse, found.refuse)):
            assert (one is None) == (other is None)
            assert one is None or np.array_equal(one, other)


def test_random_input_follows_the_latency() -> None:
    config = BaselineConfig(watch=watch(0.5), strategy="random_input", elements=2, unshed_s=2.0)
    shedder = config.build(CostModel.empty(2, 3, 2))
    orders = shedder.step(seen(0.5))
    assert orders.types is not None
    assert orders.types[0] == pytest.approx(0.5), "of a share p of the events p² of the work is left"
    up, down = shedder.step(seen(0.1)).types, None
    for _ in range(3):
        down = shedder.step(seen(2.0)).types
    assert up is not None
    assert down is not None
    assert up[0] < orders.types[0] < down[0]


def test_selective_input_drops_types_without_matches_first() -> None:
    config = BaselineConfig(
        watch=watch(0.5), strategy="selective_input", elements=1, unshed_s=0.625, selectivity=(1.0, 4.0, 0.0)
    )
    orders = config.build(CostModel.empty(2, 3, 2)).step(seen(0.5))
    assert orders.types is not None
    assert orders.types.round(3).tolist() == [0.2, 0.0, 1.0]
    with pytest.raises(SpillwayError, match="selectivity"):
        replace(config, selectivity=())


def test_state_baselines_are_blind_to_classes() -> None:
    for name in ("random_state", "selective_state"):
        orders = BaselineConfig(watch=watch(0.5), strategy=name).build(models()[0]).step(seen(1.0))
        assert orders.shed is not None
        assert (orders.shed.std(axis=(1, 2)) < 1e-12).all()
        assert orders.shed[1].mean() > 0
    assert (
        BaselineConfig(watch=watch(2.0), strategy="random_state").build(models()[0]).step(seen(1.0)).shed
        is None
    )


def test_unknown_names_are_told() -> None:
    with pytest.raises(SpillwayError, match="did you mean 'hybrid'"):
        HybridConfig(watch=watch(1.0), strategy="hybrids")
    with pytest.raises(SpillwayError, match="select"):
        HybridConfig(watch=watch(1.0), select="best")
    with pytest.raises(SpillwayError, match="did you mean 'random_input'"):
        BaselineConfig(watch=watch(1.0), strategy="random_inputs")
