"""Builds a table of 64-bit keys for use in a query plan: a lookup takes two array accesses.

Every key has two possible places, given by its low and its high bits, and is in one of them (cuckoo hashing). A free
place holds a key that cannot belong there, so that a plain comparison shows whether a key is in the table:

    i = k AND (M - 1)        j = (k >>> 32) AND (M - 1)        k is at i, at j, or not in the table

With at least two and a half places per key nearly all tables can be built; if not, the table is doubled. If that
does not help (keys whose two places are the same as those of two others), the last keys are left out and listed.

>>> table = Lookup.of([5, 2**40 + 5, -3], [0.1, 0.2, 0.3], default=1.0)
>>> [table.find(key) for key in (5, 2**40 + 5, -3, 7)]
[0.1, 0.2, 0.3, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")

_ROOM = 2.5
_LEAST = 8
_MOST_MOVES = 500
_DOUBLINGS = 3


@dataclass(frozen=True, slots=True)
class Lookup(Generic[V]):
    """Keys and values by place; ``left_out`` are keys that got no place."""

    keys: tuple[int, ...]
    values: tuple[V, ...]
    default: V
    left_out: tuple[int, ...] = ()

    @classmethod
    def of(cls, keys: Sequence[int], values: Sequence[V], default: V) -> Lookup[V]:
        """Build a table of keys that are all different."""
        places = _LEAST
        while places < _ROOM * len(keys):
            places *= 2
        for _ in range(_DOUBLINGS):
            placed, left_out = _placed(keys, places)
            if not left_out:
                break
            places *= 2
        value_of = dict(zip(keys, values, strict=True))
        return cls(
            keys=tuple(_not_here(place) if key is None else key for place, key in enumerate(placed)),
            values=tuple(default if key is None else value_of[key] for key in placed),
            default=default,
            left_out=tuple(left_out),
        )

    def find(self, key: int) -> V:
        """Return the value of a key, as the query plan does."""
        i, j = _two_places(key, len(self.keys))
        if self.keys[i] == key:
            return self.values[i]
        return self.values[j] if self.keys[j] == key else self.default


def _two_places(key: int, places: int) -> tuple[int, int]:
    bits = key % 2**64
    return bits & (places - 1), (bits >> 32) & (places - 1)


def _not_here(place: int) -> int:
    """Return a key for which neither place is this one, for any number of places above 1."""
    other = place ^ 1
    return other << 32 | other


def _placed(keys: Sequence[int], places: int) -> tuple[list[int | None], list[int]]:
    table: list[int | None] = [None] * places
    left_out = []
    for key in keys:
        homeless: int | None = key
        at = _two_places(key, places)[0]
        for _ in range(_MOST_MOVES):
            homeless, table[at] = table[at], homeless
            if homeless is None:
                break
            i, j = _two_places(homeless, places)
            at = j if at == i else i
        if homeless is not None:
            left_out.append(homeless)
    return table, left_out
