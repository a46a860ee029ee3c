"""What a window operator does to a window that is due: shed it by its concept, uniformly, or not at all.

A shedder gets an open window with its concept and its rows, each once and in any order, and returns the rows that
stay with their weights. Coins are hashes of (row key, window), so neither the order nor the buffers matter.

By concept (Figure 6, steps 2 and 3) the frequencies give every group its rows n_g before the scan begins, and the
scan keeps for each group the n_g rows with the smallest coins: memory for the sample, no second pass.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spillway.core.chance import threshold
from spillway.core.groups.checks import budget_of
from spillway.core.groups.concepts import Frequencies, Moments
from spillway.core.groups.draw import group_draws, mixed_one
from spillway.core.groups.opened import Opened, Row
from spillway.core.groups.rates import Rule, allocate
from spillway.core.groups.scalar import Accuracy, rows_needed
from spillway.core.groups.spread import Spread
from spillway.core.groups.strata import Floats, Ints

_MOST_HASHES = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A row that goes to the query, and how many it stands for."""

    time: float
    group: Hashable
    value: float
    key: int
    weight: float


@dataclass(frozen=True, slots=True)
class Shed:
    """What is left of a window, its concept, and in words how much was kept."""

    kept: list[Kept]
    concept: Frequencies | Moments
    reason: str


def coin(window: Opened, row: Row) -> int:
    """Return a row's place in the random order of a window."""
    return mixed_one(window.number, row[3])


def shed_uniformly(window: Opened, rows: Iterable[Row], keep_ratio: float) -> Shed:
    """Keep each row with the same chance (Algorithm 1)."""
    kept: list[Kept] = []
    limit = threshold(keep_ratio)
    for row in rows:
        window.frequencies[row[1]] = window.frequencies.get(row[1], 0) + 1
        if keep_ratio > 0.0 and coin(window, row) <= limit:
            kept.append(Kept(*row, weight=1.0 / keep_ratio))
    return Shed(kept, Frequencies(window.frequencies), f"each row with a chance of {keep_ratio:g}.")


@dataclass(frozen=True, slots=True)
class ConceptShedder:
    """Shed by the window's concept: ``keep_ratio`` of its rows, or what an ``accuracy`` of its mean needs."""

    keep_ratio: float
    rule: Rule
    accuracy: Accuracy | None
    at_least: int
    exceed: bool
    pilot: bool
    salt: int
    spread: Spread
    hashes: dict[tuple[Hashable, int], int]

    def shed(self, window: Opened, rows: Iterable[Row], *, by_group: bool) -> Shed:
        """Give each group its rows, draw them in one scan, and learn from them."""
        groups, sizes = list(window.frequencies), np.array(list(window.frequencies.values()), dtype=np.int64)
        concept = Frequencies(window.frequencies) if by_group else self._moments(window)
        found = allocate(
            sizes,
            self._budget(concept, int(sizes.sum())),
            rule=self.rule,
            variation=self._variation(window, groups),
            at_least=self.at_least,
            exceed=self.exceed,
            order=self._keys(groups, self.salt),
        )
        wanted = dict(zip(groups, found.rows.tolist(), strict=True))
        heaps: dict[Hashable, list[tuple[int, Row]]] = {group: [] for group in groups}
        for row in rows:
            _offer(heaps[row[1]], wanted[row[1]], (-coin(window, row), row))
        kept = [
            Kept(*row, weight=window.frequencies[group] / (wanted[group] * found.chance))
            for group, heap in heaps.items()
            for _, row in heap
        ]
        self._learn(self.spread, groups, [(row.group, row.value) for row in kept])
        return Shed(kept, concept, found.reason)

    def _moments(self, window: Opened) -> Moments:
        return Moments.of(value for _, value in window.sample.items() if not math.isnan(value))

    def _budget(self, concept: Frequencies | Moments, rows: int) -> int:
        if self.accuracy is None or not isinstance(concept, Moments) or concept.count < 2:
            return budget_of(self.keep_ratio, rows)
        return rows_needed(self.accuracy, mean=concept.mean, deviation=concept.deviation, rows=rows)

    def _variation(self, window: Opened, groups: list[Hashable]) -> Floats | None:
        if self.rule != "variance":
            return None
        spread = self.spread
        if self.pilot:
            spread = spread.copy()
            self._learn(spread, groups, window.sample.items())
        return spread.variation(self._keys(groups, 0)) if len(spread) else None

    def _learn(self, spread: Spread, groups: list[Hashable], rows: list[tuple[Hashable, float]]) -> None:
        values = np.array([value for _, value in rows], dtype=np.float64)
        if not np.isnan(values).all():
            places = {group: place for place, group in enumerate(groups)}
            codes = np.array([places[group] for group, _ in rows], dtype=np.int64)
            spread.learn(self._keys(groups, 0), codes=codes, values=values)

    def _keys(self, groups: list[Hashable], salt: int) -> Ints:
        return np.array([self._hash(group, salt) for group in groups], dtype=np.int64)

    def _hash(self, group: Hashable, salt: int) -> int:
        """Return a group's hash, the same that a table with such columns gives."""
        if (group, salt) not in self.hashes:
            if len(self.hashes) >= _MOST_HASHES:
                self.hashes.clear()
            parts = group if isinstance(group, tuple) else (group,)
            columns = {str(place): [part] for place, part in enumerate(parts)}
            self.hashes[group, salt] = int(group_draws(pa.table(columns), salt=salt)[0])
        return self.hashes[group, salt]


def _offer(heap: list[tuple[int, Row]], most: int, item: tuple[int, Row]) -> None:
    """Keep the rows with the smallest coins; coins are negated, so the largest is on top."""
    if len(heap) < most:
        heapq.heappush(heap, item)
    elif most and item[0] > heap[0][0]:
        heapq.heapreplace(heap, item)
