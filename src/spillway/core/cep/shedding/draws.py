"""Repeatable random draws: a number from 0 to 1 for each row, a hash of the salt and the row's number."""

from __future__ import annotations

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.random import mix


def draws(numbers: Ints, salt: int) -> Floats:
    """Return a number from 0 up to 1 for each number (the finaliser of splitmix64).

    >>> draws(np.arange(3), salt=7).round(4).tolist() == draws(np.arange(3), salt=7).round(4).tolist()
    True
    >>> bool(abs(draws(np.arange(10_000), salt=1).mean() - 0.5) < 0.01)
    True
    """
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(mix(salt) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53
