"""The true chance of a match by age, and the best that any choice of comparisons can find.

Two rows match with a probability that depends only on how far the popular items of the one are ahead of the other's.
A right row that is y seconds older than a left one is Δ items behind, in a circle of L:

    left row arrives, right one is y older      Δ = L (τ + y) / ς        f_2(y) = P(match | Δ)
    right row arrives, left one is y older      Δ = L (τ - y) / ς        f_1(y) = P(match | Δ)

P is counted over pairs of samples of sets, for each of the L shifts: no clock, no windows, none of the
join's code. With the ages of both windows sorted by f, the best choice of a share r of all comparisons takes them
from the top:

    best(r)  =  mean of f over the r best ages / mean of f over all

which is how many times the output of a random choice it finds. φ is what a join finds over that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from benchmarks.join.scenario import Setting
from spillway.core.arrays import Floats
from spillway.core.join.selection.coverage import most

AGES = 400
BLOCKS, BLOCK = 12, 300


@dataclass(frozen=True)
class Truth:
    """f_1 and f_2 in the middle of equal slices of the windows."""

    left: Floats
    right: Floats

    def best(self, fraction: float) -> float:
        """Return how many times the output of a random choice the best choice of a fraction finds."""
        both = np.concatenate([self.left, self.right])
        return most(both, fraction) / fraction / float(both.mean())


def truth_of(setting: Setting) -> Truth:
    """Return the true distributions for two equal windows."""
    chance = match_probability(setting.skew, setting.at_least)
    stream = setting.stream(1)
    y = (np.arange(AGES) + 0.5) / AGES * setting.window_s
    behind = (stream.shift_s + np.array([-1.0, 1.0])[:, None] * y) * stream.items / stream.cycle_s
    left, right = (_between(chance, row) for row in behind)
    return Truth(left, right)


@lru_cache(maxsize=8)
def match_probability(skew: float, at_least: int, *, blocks: int = BLOCKS) -> Floats:
    """Return how likely two sets match whose popular items are 0, 1, 2, ... places apart.

    Many small blocks, since what varies most is the sets, not the pairs of them.
    """
    stream = Setting(skew=skew).stream(0)
    rng = np.random.default_rng(2007)
    found = np.zeros(stream.items)
    for _ in range(blocks):
        one, other = (_as_bits(*stream.draw(rng, BLOCK), stream.items) for _ in (0, 1))
        for shift in range(stream.items):
            common = one @ np.roll(other, -shift, axis=1).T
            found[shift] += np.count_nonzero(common >= at_least - 0.5)
    mirrored = np.concatenate([found[:1], found[:0:-1]])  # which of the two is behind does not matter
    return np.asarray((found + mirrored) / (2.0 * blocks * BLOCK**2))


def _as_bits(
    ranks: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], items: int
) -> npt.NDArray[np.float32]:
    bits = np.zeros((len(ranks), items), np.float32)
    row, at = np.nonzero(np.arange(ranks.shape[1]) < sizes[:, None])
    bits[row, ranks[row, at]] = 1.0
    return bits


def _between(chance: Floats, places: Floats) -> Floats:
    """Return the chance for fractions of a place, around the circle."""
    whole = np.floor(places).astype(np.int64)
    part = places - whole
    n = len(chance)
    return np.asarray((1.0 - part) * chance[whole % n] + part * chance[(whole + 1) % n])
