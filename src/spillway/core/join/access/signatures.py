"""Stores sets as a few words of 64 bits, so that a machine instruction counts common items.

As long as both windows together have few items, each item gets a bit of its own. Then the words are the set, and the
number of common items is exact:

    |A ∩ B| = popcount(A & B)

With more items than bits, a hash assigns items to bits, and items share bits. Then the words are a signature, and
give a bound: of A's items |A| - popcount(A) are hidden behind others with the same bit, so

    |A ∩ B| <= popcount(A & B) + |A| - popcount(A)

and the sorted items themselves are compared only where the bound reaches what the predicate needs. Either way the
answer is exact. Which items have which bit is part of the state, so that a restored join need not count all items
again; the words themselves are rebuilt from the rows.

====================  =======================
distinct items        words
====================  =======================
up to 128             2, exact
up to 256, 512        4, 8, exact
more                  2, signature; 4 for sets of more than 12 items on average
====================  =======================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from spillway.core.arrays import Ints
from spillway.core.data.vocabulary import EMPTY
from spillway.core.inlined import inlined
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel

_EXACT_WORDS = (2, 4, 8)
_SHIFT = 64 - 11  # of a 64-bit hash, to get a position in a table of 2048


@intrinsic  # type: ignore[untyped-decorator]
def popcount(context: Any, word: Any) -> Any:
    """Count the bits that are set."""
    del context, word
    return types.uint64(types.uint64), lambda _, builder, __, args: builder.ctpop(args[0])


@inlined
def _slot(item: int, slots: Any) -> Any:
    """Return the slot of an item in a table of items and bits, or the free slot where it belongs."""
    slot = np.int64((np.uint64(item) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(_SHIFT))
    while slots[slot, 0] != EMPTY and slots[slot, 0] != item:
        slot = (slot + 1) % len(slots)
    return slot


@kernel
def _tabled(known: Any, bits: Any, slots: Any) -> None:
    for k in range(len(known)):
        slot = _slot(known[k], slots)
        slots[slot, 0], slots[slot, 1] = known[k], bits[k]


@kernel
def _fill(
    low: int, high: int, first: int, first_item: int, starts: Any, items: Any, words: Any, exact: bool, slots: Any
) -> bool:  # fmt: skip
    """Write the words of rows. Return whether all items have a bit; if one has none, the words must not be used."""
    room = np.uint64(64 * len(words))
    for row in range(low - first, high - first):
        for word in range(len(words)):
            words[word, row] = 0
        for at in range(starts[row] - first_item, starts[row + 1] - first_item):
            item = items[at]
            if item == EMPTY:
                continue
            if exact:
                slot = _slot(item, slots)
                if slots[slot, 0] != item:
                    return False
                bit = np.uint64(slots[slot, 1])
            else:
                bit = ((np.uint64(item) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) % room
            words[bit >> np.uint64(6), row] |= np.uint64(1) << (bit & np.uint64(63))
    return True


class Signatures:
    """Assigns bits to items and writes the words of both windows."""

    def __init__(self, words: int | None = None) -> None:
        """``words`` = 0 switches signatures off; with None the number of words follows from the items."""
        self.fixed = words
        self.words = _EXACT_WORDS[0] if words is None else words
        self.exact = words is None
        self._known: Ints = np.empty(0, np.int64)
        self._bits: Ints = np.empty(0, np.int64)
        self._slots = _table(self._known, self._bits)

    def write(self, stores: tuple[Store, Store], new: tuple[int, int]) -> None:
        """Write the words of the last ``new`` rows of each side, and of all rows if bits have to be reassigned."""
        if self.words == 0:
            return
        since = [store.end - count for store, count in zip(stores, new, strict=True)]
        if all(self._fill(store, row) for store, row in zip(stores, since, strict=True)):
            return
        if self._learn(stores, new):
            for store in stores:
                store.use_words(self.words)
            since = [store.head for store in stores]
        for store, row in zip(stores, since, strict=True):
            self._fill(store, row)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return which items have which bit, and how many words there are."""
        form = np.array([self.words, int(self.exact)])
        return {"known": self._known, "bits": self._bits, "form": form}

    def restore(self, state: Mapping[str, npt.NDArray[Any]], stores: tuple[Store, Store]) -> None:
        """Load the bits of a snapshot, and write the words of all rows."""
        self._known, self._bits = state["known"], state["bits"]
        self._slots = _table(self._known, self._bits)
        self.words, self.exact = int(state["form"][0]), bool(state["form"][1])
        for store in stores:
            self._fill(store, store.head)

    def _learn(self, stores: tuple[Store, Store], new: tuple[int, int]) -> bool:
        """Assign bits to items seen for the first time; return whether all bits were reassigned for lack of bits."""
        fresh = [
            np.unique(_items(store, store.end - count)) for store, count in zip(stores, new, strict=True)
        ]
        unseen = np.setdiff1d(np.concatenate(fresh), [*self._known, EMPTY])
        if len(self._known) + len(unseen) <= 64 * self.words:
            self._give(unseen)
            return False
        live = np.unique(np.concatenate([_items(store, store.head) for store in stores]))
        live = live[live != EMPTY]
        self._known, self._bits = np.empty(0, np.int64), np.empty(0, np.int64)
        for words in _EXACT_WORDS:
            if len(live) <= 48 * words:  # leaves a quarter of the bits for new items
                self.words = words
                self._give(live)
                return True
        sizes = np.concatenate([store.sizes[store.live] for store in stores])
        self.exact, self.words = False, 2 if sizes.mean() <= 12 else 4
        return True

    def _give(self, items: Ints) -> None:
        known = np.concatenate([self._known, items])
        bits = np.concatenate([self._bits, len(self._bits) + np.arange(len(items))])
        order = np.argsort(known)
        self._known, self._bits = known[order], bits[order]
        self._slots = _table(self._known, self._bits)

    def _fill(self, store: Store, since: int) -> bool:
        if len(store.words) != self.words:
            store.use_words(self.words)
            since = store.head
        at = (since, store.end, store.first, store.first_item)
        return _fill(*at, store.starts, store.items, store.words, self.exact, self._slots)


def _table(known: Ints, bits: Ints) -> Ints:
    """Return items and their bits as a hash table, at most a quarter full."""
    slots = np.full((1 << (64 - _SHIFT), 2), EMPTY, np.int64)
    _tabled(known, bits, slots)
    return slots


def _items(store: Store, since: int) -> Ints:
    low = int(store.starts[since - store.first]) - store.first_item
    return store.items[low : store.end_item - store.first_item]
