"""The columns of a window against a plain list, while rows come, go and move; and the hash table against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.join.access.hash_table import empty_table, larger, place, remove
from spillway.core.join.item_sets import Rows
from spillway.core.join.window_store import Store

batches = st.lists(st.tuples(st.lists(st.integers(1, 4), max_size=60), st.integers(0, 40)), max_size=12)


@given(batches=batches, weighted=st.booleans())
def test_rows_keep_their_items_and_numbers(batches: list[tuple[list[int], int]], weighted: bool) -> None:
    store, model, number, time = Store(weighted, 2), [], 0, 0
    for sizes, goes in batches:
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        items = np.arange(starts[-1]) + 1000 * number
        times = np.arange(time, time + len(sizes))
        numbers = np.arange(number, number + len(sizes))
        weights = items / 2 if weighted else np.empty(0)
        store.add(Rows(numbers, times, numbers % 3, starts, items, weights))
        model += [(int(t), items[a:b].tolist()) for t, a, b in zip(times, starts, starts[1:], strict=False)]
        number, time = number + len(sizes), time + len(sizes)
        store.expire(time - goes)
        model = [row for row in model if row[0] >= time - goes]
        assert len(store) == len(model)
        assert store.times[store.live].tolist() == [t for t, _ in model]
        assert store.items[store.live_items].tolist() == [item for _, row in model for item in row]
        if weighted:
            assert store.weights[store.live_items].tolist() == [item / 2 for _, row in model for item in row]
        again = Store(weighted, 2)
        again.restore(store.snapshot())
        for name, array in store.snapshot().items():
            assert again.snapshot()[name].tolist() == array.tolist()


def test_memory_follows_what_is_in_the_window() -> None:
    store = Store(False, 2)
    for batch in range(50):
        count = 20_000 if batch == 10 else 100
        times = np.full(count, batch)
        ones = np.arange(count + 1)
        store.add(Rows(times, times, times, ones, ones[:-1], np.empty(0)))
        store.expire(batch - 2)
    assert len(store.times) <= 4000
    assert len(store.items) <= 4000


keys = st.tuples(st.integers(-2, 2), st.integers(-5, 5))


@given(steps=st.lists(st.tuples(st.booleans(), keys), max_size=200))
def test_the_table_is_a_dict(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    table, model = empty_table()[:16].copy(), dict[tuple[int, int], int]()
    for number, (put, (window, item)) in enumerate(steps):
        slot = place(table, window, item)
        if put:
            table[slot] = window, item, number, 1
            model[window, item] = number
        elif (window, item) in model:
            remove(table, slot)
            del model[window, item]
        if 2 * len(model) > len(table):
            table = larger(table)
        for key, value in model.items():
            assert table[place(table, *key), 2] == value
        assert table[:, 3].sum() == len(model)
