"""Computes which single tuples to keep: a cut through the utilities, above which all rows are kept.

Given the share of rows to keep, :func:`cut_for` returns three inclusion probabilities:

    u > cut    1         the rows that matter most
    u = cut    at        ties, broken by the row's hash
    u < cut    below     the floor, the least share of any class

Without a utility all rows tie, and ``at`` is the keep ratio: uniform shedding is the case of one class.

Equations. Let r be the share of the ordinary rows (those that may be dropped) to keep and φ the floor, at
most r. Giving every row the floor first leaves q = (r - φ) / (1 - φ) of the ranks to be filled from the top,
because q + (1 - q) φ = r. The cut is the (1 - q) quantile of the utility. With A = P(u > cut) and
M = P(u = cut) the ties get π = (q - A) / M of their ranks and at = π + (1 - π) φ.

Rows that must never be dropped use up their part first: of N rows with a share s protected,
r = (keep - s) / (1 - s). If they alone are more than the query can process, only a small remainder of the others is
kept (a hundredth of the requested share), so that the query continues to measure them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from spillway.errors import invalid


def _grid() -> tuple[float, ...]:
    """Return the ranks at which a utility is summarised: evenly spaced in the middle, geometric at both ends."""
    tails = [2.0 ** (-k / 4) for k in range(4, 41)]
    even = [k / 64 for k in range(65)]
    return tuple(sorted({*even, *tails, *(1.0 - t for t in tails)}))


GRID = _grid()


class Distribution(Protocol):
    """The interface of a utility's distribution over the ordinary rows."""

    def at(self, rank: float) -> tuple[float, float, float]:
        """Return the value at a rank with the shares strictly below it and up to it."""


class Values:
    """The exact distribution of values that are all available."""

    def __init__(self, values: Sequence[float]) -> None:
        self._ordered = sorted(values)

    def at(self, rank: float) -> tuple[float, float, float]:
        """Return the value at a rank with the shares strictly below it and up to it.

        >>> Values([1.0, 1.0, 2.0, 3.0]).at(0.4)
        (1.0, 0.0, 0.5)
        """
        v = self._ordered
        x = v[max(0, min(len(v), math.ceil(rank * len(v) + 1e-9)) - 1)]
        return x, bisect_left(v, x) / len(v), bisect_right(v, x) / len(v)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The distribution of a utility as estimated by a sketch: its quantiles at the ranks of :data:`GRID`."""

    quantiles: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.quantiles) != len(GRID):
            raise invalid("quantiles", f"{len(self.quantiles)} values", f"{len(GRID)} values, one a rank")
        if any(not b >= a for a, b in zip(self.quantiles, self.quantiles[1:], strict=False)):
            raise invalid("quantiles", "a sequence that falls", "values in rising order without NaN")

    def at(self, rank: float) -> tuple[float, float, float]:
        """Return the value at a rank with the shares strictly below it and up to it.

        A value at several grid points is a class of its own: its edges lie between grid points and
        are assumed half-way. A value at one grid point is a point of a continuous distribution, without mass.
        """
        v = self.quantiles
        i = min(range(len(GRID)), key=lambda k: abs(GRID[k] - rank))
        first, last = bisect_left(v, v[i]), bisect_right(v, v[i]) - 1
        if first == last:
            return v[i], GRID[i], GRID[i]
        low = 0.0 if first == 0 else (GRID[first - 1] + GRID[first]) / 2
        high = 1.0 if last == len(v) - 1 else (GRID[last] + GRID[last + 1]) / 2
        return v[i], low, high


@dataclass(frozen=True, slots=True)
class Cut:
    """Inclusion probabilities of the ordinary rows around a utility."""

    value: float
    at: float
    below: float

    def probability(self, utility: float) -> float:
        """Return the probability that an ordinary row of this utility is kept."""
        return 1.0 if utility > self.value else self.at if utility == self.value else self.below

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form; the value is text because it may be infinite."""
        return {"value": repr(self.value), "at": self.at, "below": self.below}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read back what :meth:`to_dict` gave."""
        return cls(float(found["value"]), float(found["at"]), float(found["below"]))


KEEP_ALL = Cut(0.0, 1.0, 1.0)


def cut_for(
    keep_ratio: float, *, ranks: Distribution | None = None, protected_share: float = 0.0, floor: float = 0.0
) -> Cut:
    """Return the cut that keeps the given share of all rows.

    >>> cut_for(0.25)
    Cut(value=inf, at=0.25, below=0.25)
    >>> priorities = Values([1.0] * 50 + [2.0] * 30 + [3.0] * 20)
    >>> cut = cut_for(0.35, ranks=priorities)
    >>> cut.value, round(cut.at, 2), cut.below
    (2.0, 0.5, 0.0)
    """
    for name, value in (("keep_ratio", keep_ratio), ("protected_share", protected_share), ("floor", floor)):
        if not 0.0 <= value <= 1.0:
            raise invalid(name, value, "a number from 0 to 1")
    if keep_ratio >= 1.0:
        return KEEP_ALL
    ordinary = 1.0 - protected_share
    sliver = 0.01 * keep_ratio
    r = min(1.0, max((keep_ratio - protected_share) / ordinary, sliver)) if ordinary > 0.0 else 1.0
    if ranks is None:
        return Cut(math.inf, r, r)
    phi = min(floor, r)
    q = (r - phi) / (1.0 - phi) if phi < 1.0 else 1.0
    if q <= 0.0:
        return Cut(math.inf, r, phi)
    value, low, high = ranks.at(1.0 - q)
    above, mass = 1.0 - high, high - low
    pi = min(1.0, max(0.0, (q - above) / mass)) if mass > 0.0 else 1.0
    return Cut(value, pi + (1.0 - pi) * phi, phi)
