"""Repeatable random draws among rows: a hash of (salt, purpose, side, number of the row)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Ints
from spillway.core.inlined import inlined
from spillway.core.kernel import kernel
from spillway.core.random import mix, threshold

SAMPLE, DROP, PROBE = 0, 1, 2  # purposes: which rows are processed in full, are dropped, probe a hash index


@inlined
def hashed(number: int, salt: int) -> Any:
    """Return ``mix(salt ^ number)``."""
    z = (np.uint64(number) ^ np.uint64(salt)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@kernel
def _draw(numbers: Any, salt: int, highest: int, chosen: Any) -> None:
    for k in range(len(numbers)):
        chosen[k] = hashed(numbers[k], salt) <= highest


def drawn(numbers: Ints, probability: float, *, salt: int, purpose: int, side: int) -> npt.NDArray[np.bool_]:
    """Return which rows are chosen.

    >>> chosen = drawn(np.arange(10_000), 0.3, salt=1, purpose=SAMPLE, side=0)
    >>> 2900 < chosen.sum() < 3100
    np.True_
    >>> highest = mix(mix(1, SAMPLE, 0) ^ 7)  # the hash of row 7
    >>> bool(chosen[7]) == (highest <= threshold(0.3))
    True
    """
    chosen = np.zeros(len(numbers), np.bool_)
    if probability > 0.0:
        _draw(numbers, mix(salt, purpose, side), threshold(probability), chosen)
    return chosen
