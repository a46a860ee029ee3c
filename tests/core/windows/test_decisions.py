"""The coins: the bound on the gap, the share, compensation, and pieces that equal the whole."""

from __future__ import annotations

import json
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.random import mix, threshold
from spillway.core.windows import DropConfig
from spillway.errors import SpillwayError


def longest_gap(kept: list[bool]) -> int:
    return max((len(list(run)) for keep, run in groupby(kept) if not keep), default=0)


@given(
    p=st.floats(0, 1),
    gap=st.integers(1, 8),
    salt=st.integers(-(2**63), 2**63 - 1),
    first=st.integers(-50, 50),
)
def test_no_gap_is_longer_than_allowed(p: float, gap: int, salt: int, first: int) -> None:
    kept = DropConfig(max_gap=gap, salt=salt).build().decide(first, first + 400, p)
    assert len(kept) == 400
    assert longest_gap(kept) <= gap


@pytest.mark.parametrize("gap", [1, 2, 5, 10])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 0.95])
def test_the_share_dropped_is_the_one_asked_for(gap: int, share: float) -> None:
    config = DropConfig(max_gap=gap, salt=3)
    p = share * config.most
    kept = config.build().decide(0, 60_000, p)
    assert 1 - sum(kept) / len(kept) == pytest.approx(p, abs=0.02)


@pytest.mark.parametrize("gap", [1, 3, 10])
def test_the_most_that_can_be_dropped(gap: int) -> None:
    kept = DropConfig(max_gap=gap).build().decide(0, 11 * 3 * 1000, 1.0)
    share = sum(kept) / len(kept)
    assert share >= 1 / (gap + 1)
    assert share == pytest.approx(1 / (gap + 1), abs=0.03)


def test_nothing_is_dropped_with_probability_zero() -> None:
    assert all(DropConfig(max_gap=3).build().decide(0, 1000, 0.0))


def coins(salt: int, batches: int, p: float) -> list[bool]:
    return [mix(salt, batch) <= threshold(p) for batch in range(batches)]


def test_whole_batches_go_and_a_second_one_in_a_row_opens_its_first_window() -> None:
    p, B = 0.5, 4
    salt = next(s for s in range(1000) if coins(s, 5, p) == [True, True, False, False, True])
    kept = DropConfig(max_gap=B, salt=salt).build().decide(0, 20, p)
    assert kept[:4] == [False] * 4
    assert kept[4:8] == [True, False, False, False]  # opened, because four are missing already
    assert kept[8:12] == [False, True, True, True]  # made up for, although the coin said keep
    assert kept[12:16] == [True] * 4
    assert kept[16:20] == [False] * 4


@given(
    p=st.floats(0, 1),
    gap=st.integers(1, 6),
    salt=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=10),
)
def test_pieces_equal_the_whole(p: float, gap: int, salt: int, cuts: list[int]) -> None:
    config = DropConfig(max_gap=gap, salt=salt)
    whole = config.build().decide(5, 5 + sum(cuts), p)
    pieces: list[bool] = []
    state = None
    for cut in cuts:
        drops = config.build(state)
        pieces += drops.decide(5 + len(pieces), 5 + len(pieces) + cut, p)
        state = json.loads(json.dumps(drops.snapshot()))
    assert pieces == whole


@given(
    gap=st.integers(1, 6),
    pieces=st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0.0, 0.3, 0.7, 1.0])), max_size=30),
)
def test_the_bound_holds_while_the_probability_changes(gap: int, pieces: list[tuple[int, float]]) -> None:
    drops = DropConfig(max_gap=gap).build()
    kept: list[bool] = []
    for count, p in pieces:
        kept += (piece := drops.decide(len(kept), len(kept) + count, p))
        assert p > 0.0 or all(piece)
    assert longest_gap(kept) <= gap


def test_the_coin_of_a_batch_stands_and_zero_stops_at_once() -> None:
    drops = DropConfig(max_gap=10).build()
    assert drops.decide(0, 4, 1.0).count(False) == 4
    assert drops.decide(4, 10, 0.0001).count(False) == 6  # begun, so it goes on
    assert all(drops.decide(10, 20, 0.0001))
    assert drops.decide(20, 23, 1.0).count(False) == 3
    assert all(drops.decide(23, 30, 0.0))


def test_windows_without_rows_are_decided_on_the_way() -> None:
    config = DropConfig(max_gap=2, salt=1)
    drops = config.build()
    pieces = drops.decide(0, 5, 0.5) + drops.decide(25, 40, 0.5)
    whole = config.build().decide(0, 40, 0.5)
    assert pieces == whole[:5] + whole[25:]
    assert len(drops.decide(10**15, 10**15 + 3, 0.5)) == 3  # a long silence is not counted out


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DropConfig(max_gap=0), "max_gap = 0"),
        (lambda: DropConfig(max_gap=1.5), "max_gap = 1.5"),  # type: ignore[arg-type]
        (lambda: DropConfig(max_gap=1, salt="a"), "salt = 'a'"),  # type: ignore[arg-type]
        (lambda: DropConfig(max_gap=1).build().decide(0, 1, 1.5), "drop_probability = 1.5"),
        (lambda: DropConfig(max_gap=1).build({"kind": "window_drop", "version": 2}), "state.version"),
        (
            lambda: DropConfig(max_gap=1).build(
                {"kind": "window_drop", "version": 1, "next": 3, "run": 2, "owed": 0, "dropping": 1}
            ),
            "state.run = 2",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(SpillwayError, match=message):
        make()  # type: ignore[operator]


def test_a_decision_is_made_once() -> None:
    drops = DropConfig(max_gap=1).build()
    drops.decide(0, 10, 0.5)
    with pytest.raises(SpillwayError, match="window 4 has been decided"):
        drops.decide(4, 6, 0.5)


@given(
    p=st.floats(0.05, 0.8),
    salt=st.integers(0, 10**6),
    first=st.integers(-(10**6), 10**6),
    count=st.integers(4, 60),
)
def test_even_coins_keep_their_share_of_any_few_windows(p: float, salt: int, first: int, count: int) -> None:
    drops = DropConfig(max_gap=40, salt=salt, batch=1, even=True).build()
    dropped = drops.decide(first, first + count, p).count(False)
    assert abs(dropped - p * count) <= 3.0


@given(p=st.floats(0.0, 1.0), gap=st.integers(1, 6), batch=st.integers(1, 6), salt=st.integers(0, 10**6))
def test_the_bound_holds_for_any_batch(p: float, gap: int, batch: int, salt: int) -> None:
    config = DropConfig(max_gap=gap, batch=min(batch, gap), salt=salt, even=True)
    run = 0
    for kept in config.build().decide(0, 300, p):
        run = 0 if kept else run + 1
        assert run <= gap
