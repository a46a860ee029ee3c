"""What is known of a stream's groups, how the budget is rationed, and the table that a plan looks limits up in."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.groups.accuracy import Accuracy
from spillway.core.groups.census import MOST_GROUPS, Census, ration
from spillway.core.groups.limit_table import Lookup
from spillway.core.random import mix

KEYS = st.integers(-(2**63), 2**63 - 1)


@given(keys=st.lists(KEYS, unique=True, max_size=200), others=st.lists(KEYS, max_size=50))
def test_every_key_is_found_and_no_other(keys: list[int], others: list[int]) -> None:
    table = Lookup.of(keys, list(range(len(keys))), default=-1)
    out = set(table.left_out)  # possible for keys that are no hashes
    assert [table.find(key) for key in keys] == [-1 if key in out else n for n, key in enumerate(keys)]
    assert all(table.find(key) == -1 for key in others if key not in keys)


def test_a_table_of_hashes_has_room_for_all() -> None:
    keys = [mix(n) for n in range(4_000)]
    assert Lookup.of(keys, keys, default=0).left_out == ()


def test_keys_that_share_both_places_are_left_out_and_named() -> None:
    keys = [n << 60 for n in range(4)]
    table = Lookup.of(keys, [1, 2, 3, 4], default=0)
    assert len(table.left_out) == 3, "their two places are one and the same"
    assert {key for key in keys if table.find(key)} | set(table.left_out) == set(keys)


def test_counts_are_forgotten_and_bounded() -> None:
    census = Census()
    for batch in range(20):
        top = [(batch * 1_000 + n, 5) for n in range(1_000)]
        census = census.after(top, arrived=10_000)
        assert len(census.keys) <= MOST_GROUPS
    assert 0 not in census.keys, "not seen for twenty batches"
    assert 1.0 - census.shares.sum() == pytest.approx(0.62, abs=0.01), (
        "half is not in the top, and old groups are forgotten"
    )
    assert Census.from_dict(json.loads(json.dumps(census.to_dict()))) == census


@given(
    counts=st.lists(st.integers(1, 5_000), min_size=1, max_size=60),
    unknown=st.integers(0, 5_000),
    keep=st.floats(0.01, 0.99),
    rule=st.sampled_from(["proportional", "equal", "variance"]),
)
def test_the_ration_meets_its_budget_and_leaves_no_group_out(
    counts: list[int], unknown: int, keep: float, rule: str
) -> None:
    rows = sum(counts) + unknown
    census = Census().after(list(enumerate(counts)), arrived=rows)
    found = ration(census, keep_ratio=keep, rows=rows, rule=rule, at_least=8)  # type: ignore[arg-type]
    chance = dict(zip(found.keys, found.chances, strict=True))
    expected = sum(n * chance.get(key, found.rest) for key, n in enumerate(counts)) + unknown * found.rest
    assert expected <= keep * rows + 1.0
    assert found.rest > 0.0
    assert all(0.0 < each <= 1.0 for each in found.chances)
    if keep * rows - unknown >= 8 * len(counts) + 1 and unknown <= 0.5 * keep * rows:
        kept = np.array([n * chance.get(key, found.rest) for key, n in enumerate(counts)])
        assert (kept >= np.minimum(counts, 8) - 1e-9).all()


def test_groups_that_vary_get_more() -> None:
    sample = [(1, value) for value in (10.0, 10.1, 9.9, 10.0)] + [
        (2, value) for value in (1.0, 19.0, 5.0, 15.0)
    ]
    census = Census().after([(1, 1_000), (2, 1_000)], arrived=2_000, sample=sample)
    found = ration(census, keep_ratio=0.1, rows=2_000, rule="variance", at_least=8)
    steady, varying = found.chances
    assert varying > 3 * steady


def test_before_anything_is_known_all_rows_have_the_same_chance() -> None:
    assert ration(Census(), keep_ratio=0.2, rows=100, rule="equal", at_least=8).rest == 0.2
    assert ration(Census(), keep_ratio=1.0, rows=100, rule="equal", at_least=8).rest == 1.0


def test_no_group_gets_more_rows_than_its_accuracy_takes():
    """By hand: z = 1.96, so a variation of 0.5 needs 9,604 rows of a million for 1 %, and one of 0.05 needs 96."""
    moments = [(1_000_000, 10.0, 25.0), (1_000_000, 10.0, 0.25), (20, 10.0, 25.0)]
    census = Census.counted(2_000_020, [1, 2, 3], [1_000_000, 1_000_000, 20], moments)
    asked = Accuracy(0.01, 0.95)
    found = ration(census, keep_ratio=1.0, rows=2_000_020, rule="variance", at_least=8, accuracy=asked)
    chances = dict(zip(found.keys, found.chances, strict=True))
    assert chances[1] * 1e6 == pytest.approx(9_604 / (1 + 9_604 / 1e6), rel=0.01)
    assert chances[2] * 1e6 == pytest.approx(96, rel=0.02)
    assert chances[3] > 0.99
    assert found.rest == 1.0
    tight = ration(census, keep_ratio=0.001, rows=2_000_020, rule="variance", at_least=8, accuracy=asked)
    assert sum(c * n for c, n in zip(tight.chances, (1e6, 1e6, 20), strict=False)) <= 2_020
    unknown = Census.counted(100, [1], [100])
    assert ration(unknown, keep_ratio=1.0, rows=100, rule="variance", at_least=8, accuracy=asked).chances == (
        1.0,
    )


def test_with_less_than_a_row_a_group_small_groups_have_a_chance_too():
    """A group of 100,000 rows and a thousand of 10, a budget of 500 rows: a quarter of a row a group at least."""
    census = Census.counted(110_000, range(1_001), [100_000, *[10] * 1_000])
    found = ration(census, keep_ratio=500 / 110_000, rows=110_000, rule="equal", at_least=8)
    chances = np.array(found.chances)
    assert chances[0] * 100_000 > 200, "the large one is there all the same"
    assert (chances[1:] * 10 > 0.24).all()
    assert chances[0] * 100_000 + chances[1:].sum() * 10 == pytest.approx(500)


def test_where_all_groups_are_new_in_every_batch_the_budget_holds():
    census = Census()
    for batch in range(3):
        census = census.after([(100 * batch + n, 250) for n in range(40)], arrived=10_000)
    assert ration(census, keep_ratio=0.02, rows=10_000, rule="equal", at_least=8).rest == pytest.approx(0.018)
    for _ in range(20):
        census = census.after([(200 + n, 250) for n in range(40)], arrived=10_000)
    assert census.fresh < 0.001, "they stay now"
    assert Census.from_dict(json.loads(json.dumps(census.to_dict()))) == census


def test_groups_that_seldom_come_take_nothing_from_the_others():
    """Of 1,000 groups a twentieth of a row is expected each: kept whole they cost 50 rows, not 1,000."""
    counts = [20_000, 20_000, *[1] * 1_000]
    census = Census.counted(41_000, range(1_002), counts)
    found = ration(census, keep_ratio=0.1, rows=2_050, rule="equal", at_least=8)
    chances = np.array(found.chances)
    assert (chances[2:] == 1.0).all()
    assert chances[:2] * 1_000 == pytest.approx([77.5, 77.5])
