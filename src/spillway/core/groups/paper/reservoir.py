"""Keeps a uniform sample of at most k rows of a running stream: the sample of an open window.

Every row has a random number, a hash of (salt, row key), and the k rows with the smallest numbers are kept
(bottom-k). This is a reservoir (Figure 5, step 2): each arriving row is added with probability k / seen and replaces
another one. Since the random number depends only on the row,

- a replay keeps the same rows, in any order of arrival;
- the reservoir of two streams is exactly the merge of their reservoirs;
- a row that arrives twice is kept once.

Memory is k rows, however many arrive.

>>> first, second = ReservoirConfig(rows=3, salt=1).build(), ReservoirConfig(rows=3, salt=1).build()
>>> for n in range(50):
...     _ = (first if n % 2 else second).add(n, item=n)
>>> both = first.merged(second)
>>> both.seen, sorted(both.items())
(50, [3, 38, 49])
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.core.random import mix
from spillway.errors import SpillwayError, invalid


@dataclass(frozen=True, slots=True)
class ReservoirConfig:
    """How many rows are kept, and the salt of their random numbers."""

    rows: int
    salt: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise invalid("rows", self.rows, "a whole number >= 1")

    def build(self, state: Mapping[str, Any] | None = None) -> Reservoir:
        """Return an empty reservoir, or one restored from a snapshot."""
        return Reservoir(self, state)


class Reservoir:
    """The k rows with the smallest random numbers so far."""

    kind = "reservoir"
    version = 1

    def __init__(self, config: ReservoirConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.seen = 0
        self._items: dict[int, Any] = {}  # by random number
        self._heap: list[int] = []  # the random numbers, negated: the largest is on top
        if state is not None:
            self._restore(state)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, key: int, item: Any) -> bool:
        """Offer a row by its key, a 64-bit hash; return whether it is in the sample now."""
        self.seen += 1
        return self._take(mix(self.config.salt, key), item)

    def items(self) -> list[Any]:
        """Return the rows of the sample in the order of their random numbers."""
        return [self._items[coin] for coin in sorted(self._items)]

    def merged(self, other: Reservoir) -> Reservoir:
        """Return the reservoir of both streams."""
        if other.config != self.config:
            raise SpillwayError(
                f"{self.config} and {other.config} cannot be merged.",
                hint="use one size and one salt for all parts of a stream",
            )
        both = self.config.build()
        both.seen = self.seen + other.seen
        for part in (self, other):
            for coin, item in part._items.items():
                both._take(coin, item)
        return both

    def snapshot(self) -> dict[str, Any]:
        """Return the state; it is JSON-ready if the rows are."""
        items = [[coin, self._items[coin]] for coin in sorted(self._items)]
        return {"kind": self.kind, "version": self.version, "seen": self.seen, "items": items}

    def _take(self, coin: int, item: Any) -> bool:
        if coin in self._items:
            return True
        if len(self._items) < self.config.rows:
            heapq.heappush(self._heap, -coin)
        elif coin < -self._heap[0]:
            del self._items[-heapq.heapreplace(self._heap, -coin)]
        else:
            return False
        self._items[coin] = item
        return True

    def _restore(self, state: Mapping[str, Any]) -> None:
        for name, value in (("kind", self.kind), ("version", self.version)):
            if state.get(name) != value:
                raise invalid(f"state.{name}", state.get(name), repr(value), hint="start without a state")
        items = state.get("items", [])
        if len(items) > self.config.rows:
            raise invalid("state.items", f"{len(items)} rows", f"at most {self.config.rows}")
        self.seen = int(state["seen"])
        self._items = {int(coin): item for coin, item in items}
        self._heap = [-coin for coin in self._items]
        heapq.heapify(self._heap)
