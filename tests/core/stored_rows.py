"""What the makers of stored states share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.core.spark.shards.join_shards import FakeState

US = 1_000_000


def drawn(number: int) -> int:
    """Return a number that looks like one by chance."""
    return number * 2_654_435_761 % 2**32 >> 12


def with_states(keys: Sequence[int], states: Sequence[Any]) -> dict[int, FakeState]:
    """Return the states of shards; none where nothing was stored."""
    made = {}
    for key, value in zip(keys, states, strict=False):
        made[key] = FakeState()
        made[key].value = tuple(value)
    return made
