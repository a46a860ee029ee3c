"""Random choices among rows: a hash of (salt, purpose, side, number of the row), so that they can be repeated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spillway.core.chance import mix, threshold
from spillway.core.join.values import Ints

SAMPLE, DROP, PROBE = 0, 1, 2  # purposes: which rows are processed in full, are dropped, probe a hash index


def drawn(numbers: Ints, probability: float, *, salt: int, purpose: int, side: int) -> npt.NDArray[np.bool_]:
    """Return which rows are chosen.

    >>> chosen = drawn(np.arange(10_000), 0.3, salt=1, purpose=SAMPLE, side=0)
    >>> 2900 < chosen.sum() < 3100
    np.True_
    >>> int(_hashes(np.array([7]), 5)[0]) == mix(5 ^ 7)
    True
    """
    if probability <= 0.0:
        return np.zeros(len(numbers), np.bool_)
    return np.asarray(_hashes(numbers, mix(salt, purpose, side)) <= threshold(probability))


def _hashes(numbers: Ints, salt: int) -> Ints:
    """Return ``mix(salt ^ number)`` of each number."""
    z = numbers.astype(np.int64).view(np.uint64) ^ np.int64(salt).view(np.uint64)
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)
