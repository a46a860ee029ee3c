"""What runs and events bring to each other: prices within a core, and what is remembered of counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.shedding.pair_prices import Pairs, cores

SMALL = st.integers(0, 4)


@given(st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=6), st.integers(0, 9))
def test_all_of_a_core_are_worth_more_than_its_price(rows: list[tuple[int, int, int]], tenths: int) -> None:
    p = np.array(rows, np.float64) / 4
    born, rate = np.arange(1.0, len(rows) + 1), np.array([1.0, 2.0, 3.0])
    price = tenths / 10
    of_runs, of_events = cores(p, born, rate)
    s, v = np.flatnonzero(of_runs > price), np.flatnonzero(of_events > price)
    assert (len(s) > 0) == (len(v) > 0), "runs are worth nothing without events, nor events without runs"
    if len(s):
        assert (p[np.ix_(s, v)] @ rate[v] > price * rate[v].sum() - 1e-9).all()
        assert (born[s] @ p[np.ix_(s, v)] > price * born[s].sum() - 1e-9).all()
    assert np.isfinite(of_runs).all()
    assert (of_runs[p.sum(axis=1) == 0] == 0).all()


def test_runs_and_events_may_stay_by_order() -> None:
    p, born, rate = np.eye(2), np.array([1.0, 3.0]), np.ones(2)
    of_runs, of_events = cores(p, born, rate, events=False)
    assert (of_runs == 0.5).all()
    assert np.isinf(of_events).all()


def pairs() -> Pairs:
    """Runs of two classes and events of two, each completing its like."""
    return Pairs(1e4 * np.eye(2), np.full((2, 2), 1e4), np.full((2, 4), 50.0), np.full(2, 100.0))


def count(known: Pairs, classes: list[int], pair: tuple[int, int] | None = None) -> None:
    found = np.zeros((2, 2))
    if pair is not None:
        found[pair] = 5.0
    kinds = np.array(classes * 50)
    known.count(found, np.full((2, 4), 5.0), np.full(2, 100.0), kinds, np.ones(len(kinds), bool), 0.1)


def test_what_is_shed_keeps_its_price() -> None:
    known = pairs()
    before = known.prices()
    for _ in range(20):  # events of class 1 still come but are discarded, and nothing is counted for them
        kinds = np.array([0, 1] * 50)
        known.count(np.zeros((2, 2)), np.full((2, 4), 5.0), np.zeros(2), kinds, kinds == 0, 0.1)
    assert np.allclose(known.prices()[1], before[1])


def test_a_change_of_what_comes_is_noticed_at_once() -> None:
    known = pairs()
    for _ in range(10):
        count(known, [0, 1])
    assert known.surprise < 0.05
    for _ in range(3):
        count(known, [1])
    assert known.rate[1] > 2 * known.rate[0], "most of what comes is of class 1 now"
    for _ in range(10):
        count(known, [1])
    assert known.rate[1] > 10 * known.rate[0], "and what came before is forgotten soon"
    assert np.isclose(known.rate[1], 500.0, rtol=0.05), "50 events in a tenth of a slice"


def test_what_was_never_tried_is_hoped_to_be_good_and_what_was_tried_is_not_hoped_for_again() -> None:
    tried = np.array([[100.0, 100.0], [100.0, 0.0]])
    known = Pairs(np.array([[60.0, 0.0], [0.0, 0.0]]), tried, np.full((2, 4), 50.0), np.full(2, 100.0))
    assert known.prices()[0][1] > 0.0, "nothing is known of the second run with the second event"
    for _ in range(3):
        count(known, [0, 1], (0, 0))
    for _ in range(200):  # runs of the second class are shed, and hardly any is examined
        found = np.array([[50.0, 0.0], [0.0, 0.0]])
        kinds = np.array([0, 1] * 50)
        known.count(found, np.full((2, 4), 5.0), np.array([100.0, 0.0]), kinds, kinds >= 0, 0.1)
    assert known.prices()[0][1] == 0.0


def test_a_snapshot_goes_on_the_same() -> None:
    first = pairs()
    count(first, [0, 1], (0, 0))
    again = Pairs.restore(first.snapshot())
    for known in (first, again):
        count(known, [0], (0, 0))
    assert all(np.array_equal(a, b) for a, b in zip(first.prices(), again.prices(), strict=True))
    assert np.array_equal(first.population, again.population)
