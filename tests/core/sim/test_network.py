"""Query networks: wiring, visits, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from spillway.errors import SpillwayError
from spillway.sim import Network, Operator, Targets


def test_visits_follow_the_selectivities_along_every_path():
    #        ┌─ b (0.5) ─┐
    #  a 0.8 ┤           ├─ d
    #        └─ c (0.1) ─┘
    network = Network(
        (
            Operator("a", selectivity=0.8),
            Operator("b", ("a",), selectivity=0.5),
            Operator("c", ("a",), selectivity=0.1),
            Operator("d", ("b", "c"), share=2.0),
        )
    )
    np.testing.assert_allclose(network.visits, [1.0, 0.8, 0.8, 0.8 * 0.6])
    starts, readers = network.readers
    assert [readers[starts[o] : starts[o + 1]].tolist() for o in range(4)] == [[1, 2], [3], [3], []]
    costs = network.costs_s(1.0)
    assert costs[3] == pytest.approx(2.0 * costs[0])
    assert network.downstream[0] == pytest.approx(1.0)
    assert network.downstream[3] == pytest.approx(costs[3])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Network(()), "at least one"),
        (lambda: Network((Operator("a"), Operator("a"))), "twice"),
        (lambda: Network((Operator("parse"), Operator("b", ("prase",)))), "did you mean 'parse'"),
        (lambda: Network((Operator("b", ("b",)),)), "b.inputs = 'b'"),
        (lambda: Operator("a", share=0.0), "a.share"),
        (lambda: Operator("a", selectivity=1.2), "from 0 to 1"),
        (lambda: Operator("a", ("b", "b")), "each operator once"),
        (lambda: Targets(()), "the first at second 0"),
        (lambda: Targets(((0.0, 1.0), (0.0, 2.0))), "in order"),
        (lambda: Targets(((0.0, -1.0),)), "target_delay_s = -1.0"),
    ],
)
def test_what_is_no_network_or_target_is_refused(make, words):
    with pytest.raises(SpillwayError, match=words):
        make()
