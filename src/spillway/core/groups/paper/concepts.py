"""Computes the concept of a window, the statistics that shedding needs (Table II), and its drift (Figure 2).

    query                 concept                                   gives
    scalar aggregate      count, mean, variance of the values       one sampling rate (accuracy.py)
    grouped aggregate     how often each group occurs               rows per group (rates.py)
    equality join         how often each key occurs on each side    rows per key and side (join_allocation.py)

All are updated row by row while a window is open, and merge exactly (up to rounding): the concept of a window is
the merge of the concepts of its parts.

**Drift** has two measures, both from 0 to 1, between the concepts of two windows:

    overlap    groups       |A ∩ B| / |A ∪ B|            the share of groups that both windows have
               scalar       Σ √(p q) of two normals      how much the two distributions have in common
               join         the overlap of the keys that can match
    distance   groups       ½ Σ |p_g - q_g|              the share of rows that would have to change their group
               scalar       √(1 - overlap)               the Hellinger distance
               join         the mean distance of the two sides

p and q are relative frequencies, so twice as many rows alone do not make a window more distant.

**The paper's Figure 2** measures drift on results instead: the top k groups of two windows. :func:`top` selects them.
Its "concept overlap" is :func:`result_overlap`, the intersection's share of the sets, and its "concept distance" is
:func:`result_distance`, the difference's share. These two add up to 1; overlap and distance above don't.

>>> monday, tuesday = Frequencies({"a": 6, "b": 2}), Frequencies({"a": 12, "b": 2, "c": 2})
>>> round(overlap(monday, tuesday), 3), distance(monday, tuesday)
(0.667, 0.125)
>>> best = [top({"a": 9.0, "b": 7.0, "c": 8.0}, 2), top({"a": 9.0, "b": 10.0, "c": 3.0}, 2)]
>>> result_overlap(*best), result_distance(*best)
(0.5, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

import numpy as np

from spillway.errors import SpillwayError, invalid

Counts = Mapping[Hashable, int]


@dataclass(frozen=True, slots=True)
class Moments:
    """The concept of a scalar aggregate: count, mean, and the sum of squares around the mean."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Return the concept of these values.

        >>> Moments.of([1.0, 2.0, 6.0]).variance
        7.0
        """
        found = np.fromiter(values, dtype=np.float64)
        if not len(found):
            return cls()
        mean = float(found.mean())
        return cls(len(found), mean, float(((found - mean) ** 2).sum()))

    @property
    def variance(self) -> float:
        """The sample variance; 0 for fewer than two values."""
        return self.squares / (self.count - 1) if self.count > 1 else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def merged(self, other: Self) -> Self:
        """Return the concept of both parts together."""
        n = self.count + other.count
        if n == 0:
            return self
        step = other.mean - self.mean
        return type(self)(
            n,
            self.mean + step * other.count / n,
            self.squares + other.squares + step**2 * self.count * other.count / n,
        )


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The concept of a grouped aggregate: how many rows each group has."""

    counts: Counts = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Iterable[Hashable]) -> Self:
        """Count the rows of each group; each row is given by its group."""
        counts: dict[Hashable, int] = {}
        for group in groups:
            counts[group] = counts.get(group, 0) + 1
        return cls(counts)

    @property
    def rows(self) -> int:
        """How many rows the window has."""
        return sum(self.counts.values())

    def merged(self, other: Self) -> Self:
        """Return the concept of both parts together."""
        counts = dict(self.counts)
        for group, count in other.counts.items():
            counts[group] = counts.get(group, 0) + count
        return type(self)(counts)


@dataclass(frozen=True, slots=True)
class Sides:
    """The concept of an equality join: how often each key occurs on the left and on the right."""

    left: Frequencies = field(default_factory=Frequencies)
    right: Frequencies = field(default_factory=Frequencies)

    @property
    def matching(self) -> set[Hashable]:
        """The keys that can match: on both sides, and not null."""
        return {key for key in self.left.counts.keys() & self.right.counts.keys() if key is not None}

    def merged(self, other: Self) -> Self:
        """Return the concept of both parts together."""
        return type(self)(self.left.merged(other.left), self.right.merged(other.right))


Concept = Moments | Frequencies | Sides


@dataclass(frozen=True, slots=True)
class Drift:
    """Overlap and distance between each window and the next, and their means."""

    overlaps: tuple[float, ...]
    distances: tuple[float, ...]

    @property
    def overlap(self) -> float:
        """The mean overlap."""
        return _mean(self.overlaps)

    @property
    def distance(self) -> float:
        """The mean distance."""
        return _mean(self.distances)


def drift(concepts: Sequence[Concept]) -> Drift:
    """Return how much each window's concept differs from the one before.

    >>> drift([Frequencies({"a": 1}), Frequencies({"a": 3}), Frequencies({"b": 2})])
    Drift(overlaps=(1.0, 0.0), distances=(0.0, 1.0))
    """
    pairs = list(pairwise(concepts))
    return Drift(tuple(overlap(a, b) for a, b in pairs), tuple(distance(a, b) for a, b in pairs))


def result_drift(results: Sequence[AbstractSet[Hashable]]) -> Drift:
    """Return the drift of the groups in each window's result, as in Figure 2."""
    pairs = list(pairwise(results))
    return Drift(
        tuple(result_overlap(a, b) for a, b in pairs), tuple(result_distance(a, b) for a, b in pairs)
    )


def overlap(a: Concept, b: Concept) -> float:
    """Return how much two concepts have in common, from 0 to 1; two empty ones are the same."""
    if isinstance(a, Frequencies) and isinstance(b, Frequencies):
        return _shared(set(a.counts), set(b.counts))
    if isinstance(a, Sides) and isinstance(b, Sides):
        return _shared(a.matching, b.matching)
    if isinstance(a, Moments) and isinstance(b, Moments):
        return _common(a, b)
    raise _mixed(a, b)


def distance(a: Concept, b: Concept) -> float:
    """Return how far two concepts are apart, from 0 to 1."""
    if isinstance(a, Frequencies) and isinstance(b, Frequencies):
        m, n = a.rows, b.rows
        if m == 0 or n == 0:
            return float(m != n)
        groups = a.counts.keys() | b.counts.keys()
        return sum(abs(a.counts.get(g, 0) * n - b.counts.get(g, 0) * m) for g in groups) / (2 * m * n)
    if isinstance(a, Sides) and isinstance(b, Sides):
        return (distance(a.left, b.left) + distance(a.right, b.right)) / 2.0
    if isinstance(a, Moments) and isinstance(b, Moments):
        return math.sqrt(max(0.0, 1.0 - _common(a, b)))
    raise _mixed(a, b)


def top(result: Mapping[Hashable, float], k: int) -> frozenset[Hashable]:
    """Return the k groups with the largest values; ties are broken by the group's text."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise invalid("k", k, "a whole number >= 1")
    return frozenset(sorted(result, key=lambda group: (-result[group], str(group)))[:k])


def result_overlap(a: AbstractSet[Hashable], b: AbstractSet[Hashable]) -> float:
    """Return the share of two results that is in both, 2 |A ∩ B| / (|A| + |B|)."""
    return 2.0 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


def result_distance(a: AbstractSet[Hashable], b: AbstractSet[Hashable]) -> float:
    """Return the share of two results that is in one of them only, |A Δ B| / (|A| + |B|)."""
    return len(a ^ b) / (len(a) + len(b)) if a or b else 0.0


def _shared(a: set[Hashable], b: set[Hashable]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0


def _common(a: Moments, b: Moments) -> float:
    """Return the Bhattacharyya coefficient of two normal distributions."""
    if a.count == 0 or b.count == 0:
        return float(a.count == b.count)
    v, w = a.variance, b.variance
    if v == 0.0 or w == 0.0:
        return float(v == w and a.mean == b.mean)
    return math.sqrt(2.0 * math.sqrt(v * w) / (v + w)) * math.exp(-((a.mean - b.mean) ** 2) / (4.0 * (v + w)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _mixed(a: object, b: object) -> SpillwayError:
    names = f"{type(a).__name__} and {type(b).__name__}"
    return SpillwayError(f"{names} are concepts of different queries.", hint="compare windows of one query")
