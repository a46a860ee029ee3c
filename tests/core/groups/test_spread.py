"""What is learned of the groups' variation: by hand, with forgetting, bounded, and back from a snapshot."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from spillway.core.groups import Spread, SpreadConfig
from spillway.errors import SpillwayError


def learn(spread: Spread, values: dict[int, list[float]]) -> None:
    keys = np.array(list(values))
    codes = np.repeat(np.arange(len(keys)), [len(each) for each in values.values()])
    spread.learn(keys, codes=codes, values=np.array([y for each in values.values() for y in each]))


def variation(spread: Spread, *keys: int) -> list[float]:
    return spread.variation(np.array(keys)).tolist()


def test_a_group_is_drawn_towards_the_others() -> None:
    spread = SpreadConfig(prior_rows=1.0).build()
    learn(spread, {1: [9.0, 10.0, 11.0], 2: [5.0, 5.0]})
    own, pooled = 0.1, (2 * 0.1 + 1 * 0.0) / 3
    assert variation(spread, 1, 2) == pytest.approx([(pooled + 2 * own) / 3, (pooled + 0.0) / 2])
    assert variation(spread, 99) == pytest.approx([pooled])


def test_nothing_known_is_the_same_for_all() -> None:
    spread = SpreadConfig().build()
    assert variation(spread, 1, 2) == [1.0, 1.0]
    learn(spread, {1: [3.0], 2: [4.0]})
    assert variation(spread, 1, 2) == [1.0, 1.0]


def test_windows_of_one_row_each_teach_by_their_differences() -> None:
    spread = SpreadConfig(memory=1.0).build()
    for value in (8.0, 12.0, 10.0):
        learn(spread, {1: [value]})
    assert variation(spread, 1) == pytest.approx([0.2])


def test_the_past_is_forgotten() -> None:
    spread = SpreadConfig(memory=0.5).build()
    learn(spread, {1: list(np.linspace(0.0, 20.0, 50))})
    wild = variation(spread, 1)[0]
    for _ in range(12):
        learn(spread, {1: [10.0] * 10})
    assert variation(spread, 1)[0] < 0.03 * wild


def test_a_mean_of_zero_does_not_claim_everything() -> None:
    spread = SpreadConfig().build()
    learn(spread, {1: [-1.0, 1.0, -1.0, 1.0], 2: [10.0, 11.0, 9.0, 10.0]})
    assert max(variation(spread, 1, 2)) < 2.4


def test_values_that_are_missing_are_passed_over() -> None:
    spread = SpreadConfig().build()
    learn(spread, {1: [1.0, float("nan"), 3.0], 2: [float("nan")]})
    assert len(spread) == 1
    assert variation(spread, 1) == pytest.approx([2**0.5 / 2])


def test_memory_is_bounded_and_keeps_the_groups_with_most_rows() -> None:
    spread = SpreadConfig(most_groups=10).build()
    for start in range(0, 1000, 50):
        learn(spread, {key: [1.0, 2.0] for key in range(start, start + 50)} | {-1: [1.0, 3.0, 5.0, 9.0]})
        assert len(spread) <= 10
    assert -1 in spread.snapshot()["keys"]


def test_a_snapshot_goes_on_exactly() -> None:
    spread = SpreadConfig().build()
    learn(spread, {7: [0.1, 0.7, 0.3], -(2**62): [5.0, 9.0]})
    again = SpreadConfig().build(json.loads(json.dumps(spread.snapshot())))
    for each in (spread, again):
        learn(each, {7: [0.4, 0.2], 8: [1.0, 2.0]})
    assert again.snapshot() == spread.snapshot()
    assert variation(again, 7, 8, 9) == variation(spread, 7, 8, 9)


def test_a_copy_learns_alone() -> None:
    spread = SpreadConfig().build()
    learn(spread, {7: [1.0, 2.0]})
    before = spread.snapshot()
    learn(spread.copy(), {7: [100.0, 200.0], 8: [1.0]})
    assert spread.snapshot() == before


def test_the_deviation_is_that_of_the_remembered_mean() -> None:
    spread = SpreadConfig(memory=1.0).build()
    assert spread.deviation(np.array([1]), rows=np.array([1.0]), means=np.array([5.0])) is None
    learn(spread, {1: [9.0, 10.0, 11.0]})
    found = spread.deviation(np.array([1, 2]), rows=np.array([1.0, 1.0]), means=np.array([2.0, 20.0]))
    assert found is not None
    deviation, seen = found
    assert deviation.tolist() == pytest.approx([0.1 * (30.0 + 2.0) / 4, 0.1 * 20.0])
    assert seen.tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": 1.5}, "memory = 1.5"),
        ({"prior_rows": 0.0}, "prior_rows = 0.0"),
        ({"most_groups": 0}, "most_groups = 0"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said):
        SpreadConfig(**options)


def test_foreign_states_are_refused() -> None:
    good = SpreadConfig().build().snapshot()
    for bad in ({**good, "kind": "ctrl"}, {**good, "version": 9}, {**good, "keys": [1, 2]}):
        with pytest.raises(SpillwayError, match="state"):
            SpreadConfig().build(bad)
