"""The rows of one side that are in its window, as columns in the order of time.

Rows are numbered from 0 in order of arrival and keep their number. Items are numbered in the same way: row k has the
items ``starts[k]`` up to ``starts[k + 1]``. A column is an array that begins at number ``first``, so row k is at
k - first. New rows go to the end; rows below ``head`` have expired. When an array is full its live part moves to the
front, into a larger array if it fills more than half: each row is moved a bounded number of times on average.

::

    times    [ . . . . | 12 12 15 17 20 20 21 | free     ]
               expired   live                   end
    items    [ . . . . . . | 3 7 9 | 7 8 | ...            ]   starts say where each row's items begin

``times``, ``numbers``, ``types``, ``sizes`` and ``words`` are per row; ``items`` and ``weights`` are per item, and so
are the ``links`` of an index, which are moved with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spillway.core.arrays import Array
from spillway.core.data.vocabulary import EMPTY
from spillway.core.join.item_sets import Rows

_LEAST = 64


class Store:
    """One side's window."""

    def __init__(self, weighted: bool, words: int) -> None:
        self.weighted = weighted
        self.first = self.head = self.end = 0
        self.first_item = self.end_item = 0
        self.times = np.empty(_LEAST, np.int64)
        self.numbers = np.empty(_LEAST, np.int64)
        self.types = np.empty(_LEAST, np.int64)
        self.starts = np.zeros(_LEAST + 1, np.int64)
        self.sizes = np.empty(_LEAST, np.int64)
        self.words = np.zeros((words, _LEAST), np.uint64)
        self.items = np.empty(_LEAST, np.int64)
        self.weights = np.empty(_LEAST if weighted else 0)
        self.links = np.empty((0, 3), np.int64)

    def __len__(self) -> int:
        return self.end - self.head

    @property
    def live(self) -> slice:
        """The live part of a column."""
        return slice(self.head - self.first, self.end - self.first)

    @property
    def live_items(self) -> slice:
        """The live part of a column of items."""
        return slice(
            int(self.starts[self.head - self.first]) - self.first_item, self.end_item - self.first_item
        )

    def add(self, rows: Rows) -> None:
        """Put rows at the end; they must not be older than the rows in the store."""
        count, items = len(rows), len(rows.items)
        self._make_room(count, items)
        at = slice(self.end - self.first, self.end - self.first + count)
        self.times[at], self.numbers[at], self.types[at] = rows.times, rows.numbers, rows.types
        self.sizes[at] = np.diff(rows.starts) - (rows.items[rows.starts[:-1]] == EMPTY)
        self.starts[at.start : at.stop + 1] = rows.starts + self.end_item
        into = slice(self.end_item - self.first_item, self.end_item - self.first_item + items)
        self.items[into] = rows.items
        if self.weighted:
            self.weights[into] = rows.weights
        self.end += count
        self.end_item += items

    def expire(self, before: int) -> None:
        """Discard rows whose time is before the given one."""
        self.head += int(np.searchsorted(self.times[self.live], before, side="left"))

    def view(self) -> tuple[Any, ...]:
        """Return what compiled code reads: sizes, starts, items, weights, words, links, first row and first item."""
        columns = (self.sizes, self.starts, self.items, self.weights, self.words, self.links)
        return (*columns, self.first, self.first_item)

    def use_words(self, words: int) -> None:
        """Give each row this number of 64-bit words, all zero."""
        self.words = np.zeros((words, len(self.times)), np.uint64)

    def use_links(self, room: bool) -> None:
        """Give each item three numbers for an index to use."""
        self.links = np.empty((len(self.items) if room else 0, 3), np.int64)

    def snapshot(self) -> dict[str, Array]:
        """Return the live rows as arrays."""
        at, items = self.live, self.live_items
        state = {"times": self.times[at], "numbers": self.numbers[at], "types": self.types[at]}
        state |= {"lengths": np.diff(self.starts[at.start : at.stop + 1]), "items": self.items[items]}
        return state | ({"weights": self.weights[items]} if self.weighted else {})

    def restore(self, state: Mapping[str, Array]) -> None:
        """Load the rows of a snapshot, numbered from 0."""
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(state["lengths"])])
        weights = state.get("weights", np.empty(0))
        self.add(Rows(state["numbers"], state["times"], state["types"], starts, state["items"], weights))

    def _make_room(self, count: int, items: int) -> None:
        if _should_move(self.end - self.first + count, len(self) + count, len(self.times)):
            shift = self.head - self.first
            room = _room(len(self) + count, len(self.times))
            live_end = self.end - self.first
            self.times = _moved(self.times, shift, live_end, room)
            self.numbers = _moved(self.numbers, shift, live_end, room)
            self.types = _moved(self.types, shift, live_end, room)
            self.sizes = _moved(self.sizes, shift, live_end, room)
            self.starts = _moved(self.starts, shift, live_end + 1, room + 1)
            words = np.zeros((len(self.words), room), np.uint64)
            words[:, : live_end - shift] = self.words[:, shift:live_end]
            self.words = words
            self.first = self.head
        oldest = int(self.starts[self.head - self.first])
        if _should_move(
            self.end_item - self.first_item + items, self.end_item - oldest + items, len(self.items)
        ):
            shift, live_end = oldest - self.first_item, self.end_item - self.first_item
            room = _room(live_end - shift + items, len(self.items))
            self.items = _moved(self.items, shift, live_end, room)
            if self.weighted:
                self.weights = _moved(self.weights, shift, live_end, room)
            if len(self.links):
                self.links = _moved(self.links, shift, live_end, room)
            self.first_item = oldest


def _should_move(reach: int, used: int, room: int) -> bool:
    """Whether an array is too short for what it has to hold, or far too long for what is in use."""
    return reach > room or room > 8 * max(_LEAST, used)


def _room(used: int, now: int) -> int:
    """Return a room of which at most half is in use."""
    room = max(_LEAST, 2 * used)
    return now if room <= now <= 2 * room else room


def _moved(array: Array, low: int, high: int, room: int) -> Array:
    moved = np.empty((room, *array.shape[1:]), array.dtype)
    moved[: high - low] = array[low:high]
    return moved
