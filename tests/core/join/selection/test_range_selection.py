"""Which rows are compared: the basic windows by definition, in both ways of sliding.

ages       0        1        2        3      with b = 1, at time 3.5
smooth     [--B0---][--B1---][--B2---][...   always full
step       [B0-][--B1---][--B2---][--B3---   on the grid 3, 2, 1, 0: the newest is half full
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.join.item_sets import Rows
from spillway.core.join.meetings import meetings
from spillway.core.join.selection.range_selection import Chooser, basic_windows
from spillway.core.join.window_store import Store


def store_of(times: list[int]) -> Store:
    store, count = Store(False, 0), len(times)
    numbers = np.arange(count)
    store.add(
        Rows(numbers, np.array(times, np.int64), numbers * 0, np.arange(count + 1), numbers, np.empty(0))
    )
    return store


def age(time: int, other: int, length: int, slide: str) -> int:
    if slide == "step":
        return time // length - other // length
    return max(0, (time - other + length - 1) // length - 1)


times = st.lists(st.integers(0, 60), max_size=25).map(sorted)


@given(
    left=times,
    right=times,
    w=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    length=st.integers(1, 12),
    slide=st.sampled_from(["step", "smooth"]),
    share=st.floats(0, 1),
    data=st.data(),
)
def test_the_best_basic_windows_are_taken_as_far_as_they_go(
    left: list[int], right: list[int], w: Any, length: int, slide: Any, share: float, data: st.DataObject
) -> None:
    stores = store_of(left), store_of(right)
    coming = meetings(stores, (len(left), len(right)), w)
    chooser = Chooser(w, length, slide)
    n = int(chooser.count.max())
    order = np.array([[*data.draw(st.permutations(range(int(c)))), *range(int(c), n)] for c in chooser.count])
    newer = np.array([data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2)])
    full = np.array(data.draw(st.lists(st.booleans(), min_size=len(coming), max_size=len(coming))), np.bool_)
    ranges = chooser.choose(stores, coming, full, np.full((2, 1), share), order, newer, count_all=True)
    begins, ends, taken, parts = ranges.columns
    carry, met = [0.0, 0.0], np.zeros((2, n), np.int64)
    for k in range(len(coming)):
        i = 1 - coming.side[k]
        time, opposite = int(coming.time[k]), (left, right)[i]
        window = [
            (row, age(time, opposite[row], length, slide))
            for row in range(len(opposite))
            if time - opposite[row] <= w[i] and (opposite[row] < time or (opposite[row] == time and i == 0))
        ]
        allowed = len(window)
        if not full[k] and share < 1.0:
            carry[i] += share * len(window)
            allowed = min(len(window), int(carry[i] + 1e-9))
            carry[i] -= allowed
        expected: set[int] = set()
        for j in order[i]:
            inside = [row for row, at in window if at == j]
            room = allowed - len(expected)
            kept = (
                inside
                if len(inside) <= room
                else (inside[len(inside) - room :] if newer[i, j] else inside[:room])
            )
            expected |= set(kept)
            met[i, j] += len(kept)
        found = [row for low, high in parts[begins[k] : ends[k]] for row in range(low, high)]
        assert found == sorted(expected)
        assert taken[k] == len(found)
        if k + 1 == len(coming):  # after earlier ones the store has rows that are yet to come
            held = (
                np.bincount([at for _, at in window], minlength=n)
                if window
                else np.arange(n) < chooser.count[i]
            )
            assert chooser.shares(stores, time)[i] == pytest.approx(held / held.sum())
    assert (chooser.met[:, 0] == met).all()


@pytest.mark.parametrize(
    ("window", "length", "slide", "n"),
    [(20, 1, "step", 21), (20, 1, "smooth", 20), (0, 1, "smooth", 1), (0, 1, "step", 2), (7, 3, "step", 4)],
)
def test_how_many_basic_windows_there_are(window: int, length: int, slide: Any, n: int) -> None:
    assert basic_windows(window, length, slide) == n
