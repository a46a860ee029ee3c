"""Gains and costs of runs and of events: the equations, adaptation, snapshots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.shedding.cost_model import CostModel, Counts, resource_costs
from spillway.core.cep.shedding.event_model import EventModel
from spillway.errors import SpillwayError


def model(**tables: list[float]) -> CostModel:
    """One class, two states, as many slices as numbers."""
    found = {name: np.array([[values], [values]], float) for name, values in tables.items()}
    return CostModel(found["gain"], found["own"], found["cost"], np.array([False, True]))


def test_what_is_ahead_begins_in_the_middle_of_the_slice() -> None:
    m = model(gain=[4, 2, 6], own=[1, 1, 1], cost=[1, 1, 1])
    assert m.ahead(m.gain)[1, 0].tolist() == [2 + 2 + 6, 1 + 6, 3]


def test_shares_are_of_all_matches_and_of_all_work() -> None:
    m = model(gain=[2, 2], own=[1, 1], cost=[1, 1])
    m.cost[0] = 5.0
    alive = np.array([[[1.0, 0.0]], [[2.0, 2.0]]])
    loss, saving = m.shares(alive)
    assert loss[1].sum() == pytest.approx(1.0), "each match to come is in one run of the last state"
    own = 1 * 1.5 + 2 * 1.5 + 2 * 0.5
    assert saving[0, 0, 0] == pytest.approx(1 * 1.5 / own)
    assert saving.sum() == pytest.approx(1.0)
    assert m.worth()[0, 0, 0] == pytest.approx((1 + 2) / (2.5 + 5)), (
        "the work of its offspring makes it worth less"
    )


def test_no_runs_have_no_shares() -> None:
    loss, saving = model(gain=[1], own=[1], cost=[1]).shares(np.zeros((2, 1, 1)))
    assert not loss.any()
    assert not saving.any()


def test_adaptation_weighs_the_new_with_w() -> None:
    m = model(gain=[4, 4], own=[1, 1], cost=[2, 2])
    alive = np.full((2, 1, 2), 10.0)
    m.expose(alive, 0.5)
    m.expose(alive, 0.5)
    m.adapt(Counts(alive, completed=alive * 20, own=alive * 3, tested=alive * 4))
    assert m.gain.ravel().tolist() == [12.0] * 4
    assert m.own.ravel().tolist() == [2.0] * 4
    assert m.cost.ravel().tolist() == [3.0] * 4
    assert not m.exposure.any()


def test_few_matches_tell_little_of_gains() -> None:
    """Without any, nothing looks worthless; with 30 they have a tenth of the weight."""
    for matches, gain in ((0.0, 4.0), (30.0, 4.0 * 0.95 + 0.05 * 1.5), (300.0, 4.0 * 0.5 + 0.5 * 15.0)):
        m = model(gain=[4, 4], own=[1, 1], cost=[2, 2])
        alive = np.full((2, 1, 2), 10.0)
        m.expose(alive, 1.0)
        m.adapt(Counts(alive, completed=np.full((2, 1, 2), matches / 2), own=alive * 3, tested=alive * 4))
        assert m.gain.ravel() == pytest.approx(gain)
        assert m.own.ravel() == pytest.approx(2.0)


def test_what_was_hardly_there_keeps_its_values_and_what_is_new_counts_in_full() -> None:
    m = CostModel.empty(1, 2, 1)
    m.expose(np.array([[[10.0], [1.0]]]), 1.0)
    m.adapt(Counts(*(np.array([[[20.0], [5.0]]]) for _ in range(4))))
    assert m.gain.ravel().tolist() == [2.0, 0.0]
    assert m.worth().ravel().tolist() == [1.0, np.inf], "nothing is known against the second"


def test_load_is_own_work_now() -> None:
    m = model(gain=[1, 1], own=[2, 4], cost=[9, 9])
    alive = np.array([[[1.0, 1.0]], [[3.0, 0.0]]])
    assert m.load(alive) == 2 + 4 + 6
    assert m.load(alive, only_last=True) == 6


@given(st.lists(st.floats(0, 100), min_size=12, max_size=12))
def test_a_snapshot_goes_on_the_same(numbers: list[float]) -> None:
    tables = np.array(numbers).reshape(3, 2, 1, 2)
    m = CostModel(*tables.copy(), last=np.array([False, True]), weight=0.3)
    alive = tables[0] + 1
    m.expose(alive, 0.7)
    again = CostModel.restore(m.snapshot())
    for each in (m, again):
        each.adapt(Counts(alive, *tables))
    assert all(
        np.array_equal(a, b) for a, b in zip(m.snapshot().values(), again.snapshot().values(), strict=True)
    )


def test_wrong_shapes_and_names_are_told() -> None:
    with pytest.raises(SpillwayError, match="gain"):
        CostModel(np.zeros((1, 2, 3)), np.zeros((1, 2, 2)), np.zeros((1, 2, 3)), np.ones(1, bool))
    with pytest.raises(SpillwayError, match="last"):
        CostModel(*np.zeros((3, 1, 2, 3)), last=np.ones(2, bool))
    with pytest.raises(SpillwayError, match="did you mean 'length'"):
        resource_costs("lengths", [1])


def test_events_are_counted_by_class() -> None:
    m = EventModel(2)
    classes, kept = np.array([0, 1, 1, -1]), np.array([True, True, False, True])
    m.count(classes, kept, np.array([10.0, 30.0, 0.0, 4.0]), np.array([1, 6, 0, 0]))
    m.adapt()
    assert m.rate.tolist() == [0.25, 0.5]
    assert m.work.tolist() == [10.0, 30.0]
    assert m.matches.tolist() == [1.0, 6.0]
    loss, saving = m.shares()
    assert loss.tolist() == [0.25 * 1 / (7 / 4), 0.5 * 6 / (7 / 4)]
    assert saving.tolist() == [0.25 * 10 / 11, 0.5 * 30 / 11]
    assert m.worth().tolist() == [0.1, 0.2]
    m.count(np.array([0, -1]), np.array([True, True]), np.array([20.0, 0.0]), np.array([3, 0]))
    again = EventModel.restore(m.snapshot())
    for each in (m, again):
        each.adapt()
        assert each.work.tolist() == [15.0, 30.0], "half of the old, half of the new"
    m.adapt()
    assert m.work.tolist() == [15.0, 30.0], "nothing was counted"
