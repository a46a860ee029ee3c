"""Clusters similar runs: k-means on what they brought and took, with the number of clusters by the gap statistic.

The gap statistic compares how tight k clusters are with how tight k clusters of evenly spread points in the same box
would be. With W_k the sum of squared distances to the centres, and E* the mean over B sets of even points,

    Gap(k) = E*[log W_k] - log W_k

and the number of clusters is the smallest k for which Gap(k) >= Gap(k + 1) - s(k + 1), s being the standard deviation
of log W_k over the B sets, times sqrt(1 + 1/B) (Tibshirani, Walther and Hastie, 2001).

Columns are scaled to unit variance; columns that do not vary have no information and are left out.
"""

from __future__ import annotations

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.random import mix


def clustered(points: Floats, clusters: int | None, *, most: int = 10, seed: int = 0) -> Ints:
    """Return the cluster of each point; where no number is given the gap statistic says how many, up to ``most``."""
    scaled = _scaled(points)
    distinct = len(np.unique(scaled, axis=0)) if scaled.shape[1] else 1
    limit = min(distinct, most if clusters is None else clusters)
    if limit <= 1:
        return np.zeros(len(points), np.int64)
    k = limit if clusters is not None else gap_number(scaled, limit, seed=seed)
    return _k_means(scaled, k, seed)[0]


def gap_number(points: Floats, most: int, *, sets: int = 5, seed: int = 0) -> int:
    """Return the number of clusters that the gap statistic finds, at most ``most``."""
    low, high = points.min(axis=0), points.max(axis=0)
    even = [low + (high - low) * _even(points.shape, mix(seed, b)) for b in range(sets)]
    gaps, spread = [], []
    for k in range(1, most + 1):
        logs = np.array([_log_within(reference, k, seed) for reference in even])
        gaps.append(float(logs.mean()) - _log_within(points, k, seed))
        spread.append(float(logs.std()) * np.sqrt(1 + 1 / sets))
        if k > 1 and gaps[-2] >= gaps[-1] - spread[-1]:
            return k - 1
    return most


def _log_within(points: Floats, k: int, seed: int) -> float:
    return float(np.log(max(_k_means(points, k, seed)[1], 1e-12)))


def _k_means(points: Floats, k: int, seed: int) -> tuple[Ints, float]:
    from sklearn.cluster import KMeans  # noqa: PLC0415

    if k == 1:
        return np.zeros(len(points), np.int64), float(((points - points.mean(axis=0)) ** 2).sum())
    fitted = KMeans(k, n_init=2, max_iter=100, random_state=seed % 2**32).fit(points)
    return fitted.labels_.astype(np.int64), float(fitted.inertia_)


def _scaled(points: Floats) -> Floats:
    deviation = points.std(axis=0)
    varies = deviation > 1e-12 * (1.0 + np.abs(points).max(axis=0, initial=0.0))
    scaled: Floats = (points[:, varies] - points[:, varies].mean(axis=0)) / deviation[varies]
    return scaled


def _even(shape: tuple[int, ...], salt: int) -> Floats:
    """Return numbers from 0 to 1, spread evenly: the finaliser of splitmix64 over a counter."""
    z = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(salt % 2**64)
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) / 2.0**53).reshape(shape)
