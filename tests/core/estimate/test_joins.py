"""The variance of results that share coins: exact over all outcomes of few coins; its coverage over many salts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.core.estimate.joins import Results, Side


def results(y: np.ndarray, kept: list[np.ndarray], weights: list[np.ndarray], first: int = 0) -> Results:
    """The results in the kept cells of a matrix, whose rows and columns are numbered from ``first``."""
    cells = np.nonzero(np.outer(*kept))
    sides = [Side.of(n, first + at, w[at]) for n, (at, w) in enumerate(zip(cells, weights, strict=True))]
    return Results(y[cells], np.ones(len(cells[0])), sides)


@pytest.mark.parametrize("signs", [1.0, -1.0])
def test_the_variance_is_right_on_average(signs: float) -> None:
    """Three left and three right rows: each of the 64 outcomes with its probability. No outcome is left to chance."""
    y = np.array([[1.0, 2.0, 0.0], [5.0, 1.0, 3.0], [0.5, 4.0, 2.0]])
    y[1] *= signs
    chances = [np.array([0.5, 0.8, 0.3]), np.array([0.6, 0.4, 1.0])]
    total, square, variance = 0.0, 0.0, 0.0
    for coins in itertools.product([0, 1], repeat=6):
        tossed = [np.array(coins[:3]), np.array(coins[3:])]
        p = np.prod([np.where(up, c, 1 - c).prod() for up, c in zip(tossed, chances, strict=True)])
        kept = results(y, tossed, [1 / c for c in chances])
        if p == 0 or len(kept.y) == 0:
            continue
        z = kept.w * kept.y
        L, R = ((side.sums(z, exact=True) ** 2).sum() for side in kept.sides)
        D = (z**2 * kept.sides[0].loss * kept.sides[1].loss).sum()
        pi, rho = (1 / side.weights for side in kept.sides)
        same_l, same_r = (np.equal.outer(side.ids, side.ids) for side in kept.sides)
        both = np.where(same_l, pi, 1.0) * np.where(same_r, rho, 1.0)
        V = L + R - D
        assert pytest.approx((np.outer(z, z) * (1 - both)).sum()) == V, "as by all pairs of results"
        total, square, variance = total + p * z.sum(), square + p * z.sum() ** 2, variance + p * V
    assert total == pytest.approx(y.sum())
    assert variance == pytest.approx(square - total**2)


@pytest.mark.parametrize(
    ("sizes", "chances"),
    [((40, 40), (0.4, 0.4)), ((25, 100), (0.5, 0.2)), ((60, 30), (0.3, 1.0)), ((12, 14), (0.6, 0.6))],
)
def test_coverage(sizes: tuple[int, int], chances: tuple[float, float]) -> None:
    """Ten sums a side are as good as one for each coin: intervals hold the truth as often as they say."""
    dice = np.random.default_rng(17)
    y = np.outer(dice.gamma(4.0, 1.0, sizes[0]), dice.gamma(4.0, 1.0, sizes[1]))
    w = [np.full(size, 1 / chance) for size, chance in zip(sizes, chances, strict=True)]
    truth = {"count": y.size, "sum": y.sum(), "mean": y.mean(), "quantile": np.quantile(y, 0.5)}
    held: dict[str, list[bool]] = {kind: [] for kind in truth}
    sums = []
    for salt in range(1_000):
        tossed = [dice.random(size) < chance for size, chance in zip(sizes, chances, strict=True)]
        kept = results(y, tossed, w, first=1_000 * salt)  # other numbers, other places
        if len(kept.y) == 0:
            continue
        found = {
            "count": kept.count(),
            "sum": kept.sum(),
            "mean": kept.mean(),
            "quantile": kept.quantile(0.5),
        }
        for kind, (_, low, high) in found.items():
            held[kind].append(low <= truth[kind] <= high)
        sums.append(found["sum"][0])
    assert np.mean(sums) == pytest.approx(y.sum(), abs=3.0 * np.std(sums) / np.sqrt(len(sums))), "unbiased"
    assert all(0.90 <= np.mean(one) <= 0.99 for one in held.values()), {
        k: np.mean(v) for k, v in held.items()
    }
