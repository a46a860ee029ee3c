"""A hash table from (basic window, item) to a list, in one array, with open addressing.

A slot is a row of four numbers: basic window, item, first node of the list, and 1 if it is in use. On a collision a
key is put into the next free slot. When a key is removed, keys behind it that were displaced move back. So there are
no tombstones (slots marked as deleted), and the table does not become slower over time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.inlined import inlined
from spillway.core.kernel import kernel

WHOLE = -(2**63)  # in place of a basic window: the list of the whole window
_LEAST = 256


@inlined
def _home(table: Any, window: int, item: int) -> Any:
    """Return the preferred slot of a key."""
    z = np.uint64(item) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(window) * np.uint64(0xC2B2AE3D27D4EB4F)
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(z >> np.uint64(20)) & (len(table) - 1)


@inlined
def place(table: Any, window: int, item: int) -> Any:
    """Return the slot of a key, or the free one where it belongs."""
    mask = len(table) - 1
    slot = _home(table, window, item)
    while table[slot, 3] and (table[slot, 1] != item or table[slot, 0] != window):
        slot = (slot + 1) & mask
    return slot


@inlined
def remove(table: Any, slot: int) -> None:
    """Free a slot, and close the gap."""
    mask = len(table) - 1
    gap = slot
    table[gap, 3] = 0
    at = (gap + 1) & mask
    while table[at, 3]:
        # a key may fill the gap if the gap lies between its preferred slot and its present slot
        if ((at - _home(table, table[at, 0], table[at, 1])) & mask) >= ((at - gap) & mask):
            for part in range(4):
                table[gap, part] = table[at, part]
            table[at, 3] = 0
            gap = at
        at = (at + 1) & mask


@kernel
def _rehash(old: Any, new: Any) -> None:
    for slot in range(len(old)):
        if old[slot, 3]:
            at = place(new, old[slot, 0], old[slot, 1])
            for part in range(4):
                new[at, part] = old[slot, part]


def empty_table(keys: int = 0) -> Any:
    """Return a table with no keys, and room for ``keys`` of them.

    >>> len(empty_table()), len(empty_table(1000))
    (256, 2048)
    """
    return np.zeros((max(_LEAST, 1 << (2 * keys).bit_length()), 4), np.int64)


def larger(table: Any) -> Any:
    """Return the same table with twice the slots."""
    new = np.zeros((2 * len(table), 4), np.int64)
    _rehash(table, new)
    return new
