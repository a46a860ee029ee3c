"""Sheds a window that is due: by its concept, uniformly, or not at all.

A shedder gets an open window with its concept and its rows, each once, and returns the kept rows with their
weights. By concept (Figure 6, steps 2 and 3) the frequencies give every group its rows n_g before the scan begins,
and one scan keeps that many of each (:mod:`~spillway.core.groups.paper.window_scan`): this needs memory for the
sample, but no second pass. Uniform shedding makes a random draw for each row, and does not know groups.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.accuracy import Accuracy, rows_needed
from spillway.core.groups.paper.concepts import Frequencies, Moments
from spillway.core.groups.paper.open_windows import Opened, Row
from spillway.core.groups.paper.window_scan import coin_number, scan_at_random, scan_by_coins, scan_evenly
from spillway.core.groups.random_order import Draw, group_draws
from spillway.core.groups.rates import Rule, allocate
from spillway.core.groups.spread import Spread
from spillway.core.groups.table_checks import budget_of

Item = tuple[Hashable, float]  # group and value
_MOST_HASHES = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A row that goes to the query, and its weight."""

    time: float
    group: Hashable
    value: float
    key: int
    weight: float


@dataclass(frozen=True, slots=True)
class Shed:
    """The kept rows of a window, how many arrived, its concept if there is one, and in words how much was kept."""

    kept: list[Kept]
    arrived: int
    concept: Frequencies | Moments | None
    reason: str


def shed_uniformly(window: Opened, rows: Iterable[Row], keep_ratio: float, salt: int) -> Shed:
    """Keep each row with the same probability (Algorithm 1)."""
    found, arrived = scan_by_coins(rows, number=coin_number(salt, window.number), keep_ratio=keep_ratio)
    kept = [Kept(*row, weight=1.0 / keep_ratio) for row in found]
    return Shed(kept, arrived, None, f"each row with a chance of {keep_ratio:g}.")


def keep_all(rows: Iterable[Row]) -> Shed:
    """Shed nothing."""
    kept = [Kept(*row, weight=1.0) for row in rows]
    return Shed(kept, len(kept), None, "all rows.")


@dataclass(frozen=True, slots=True)
class ConceptShedder:
    """Shed by the window's concept: ``keep_ratio`` of its rows, or what an ``accuracy`` of its mean needs."""

    keep_ratio: float
    rule: Rule
    accuracy: Accuracy | None
    at_least: int
    exceed: bool
    pilot: bool
    draw: Draw
    salt: int
    spread: Spread
    hashes: dict[tuple[Hashable, int], int]

    def shed(self, window: Opened, rows: Iterable[Row], *, by_group: bool) -> Shed:
        """Allocate rows to each group, draw them in one scan, and learn from them."""
        groups, sizes = list(window.frequencies), np.array(list(window.frequencies.values()), dtype=np.int64)
        arrived = int(sizes.sum())
        found = allocate(
            sizes,
            self._budget(window, arrived),
            rule=self.rule,
            variation=self._variation(window, groups) if by_group else None,
            at_least=self.at_least,
            exceed=self.exceed,
            order=self._keys(groups, self.salt),
        )
        wanted = dict(zip(groups, found.rows.tolist(), strict=True))
        scan = scan_evenly if self.draw == "even" else scan_at_random
        number = coin_number(self.salt, window.number)
        drawn = scan(rows, number=number, sizes=window.frequencies, wanted=wanted)
        weights = {group: N / max(wanted[group], 1) / found.chance for group, N in window.frequencies.items()}
        kept = [Kept(*row, weight=weights[row[1]]) for row in drawn]
        items = [(row[1], row[2]) for row in drawn]
        if not by_group:
            return Shed(kept, arrived, _moments(_items(window) or items), found.reason)
        if self.rule == "variance":
            self._learn(self.spread, groups, items)
        return Shed(kept, arrived, Frequencies(window.frequencies), found.reason)

    def _budget(self, window: Opened, rows: int) -> int:
        if self.accuracy is not None and (concept := _moments(_items(window))).count > 1:
            return rows_needed(self.accuracy, mean=concept.mean, deviation=concept.deviation, rows=rows)
        return budget_of(self.keep_ratio, rows)

    def _variation(self, window: Opened, groups: list[Hashable]) -> Floats | None:
        if self.rule != "variance":
            return None
        spread = self.spread
        if self.pilot:
            spread = spread.copy()
            self._learn(spread, groups, _items(window))
        return spread.variation(self._keys(groups, 0)) if len(spread) else None

    def _learn(self, spread: Spread, groups: list[Hashable], items: list[Item]) -> None:
        values = np.array([value for _, value in items], dtype=np.float64)
        if not np.isnan(values).all():
            places = {group: place for place, group in enumerate(groups)}
            codes = np.array([places[group] for group, _ in items], dtype=np.int64)
            spread.learn(self._keys(groups, 0), codes=codes, values=values)

    def _keys(self, groups: list[Hashable], salt: int) -> Ints:
        """Return hashes of groups, the same as for a table with such columns."""
        if len(self.hashes) > _MOST_HASHES:
            self.hashes.clear()
        alike: dict[tuple[type, ...], list[Hashable]] = {}
        for group in groups:
            if (group, salt) not in self.hashes:
                alike.setdefault(tuple(map(type, _parts(group))), []).append(group)
        for fresh in alike.values():
            columns = {
                str(place): pa.array(parts)
                for place, parts in enumerate(zip(*map(_parts, fresh), strict=True))
            }
            drawn = group_draws(pa.table(columns), salt=salt).tolist()
            self.hashes.update(zip(((group, salt) for group in fresh), drawn, strict=True))
        return np.array([self.hashes[group, salt] for group in groups], dtype=np.int64)


def _parts(group: Hashable) -> tuple[Hashable, ...]:
    return group if isinstance(group, tuple) else (group,)


def _items(window: Opened) -> list[Item]:
    return [] if window.sample is None else window.sample.items()


def _moments(items: list[Item]) -> Moments:
    return Moments.of(value for _, value in items if not math.isnan(value))
