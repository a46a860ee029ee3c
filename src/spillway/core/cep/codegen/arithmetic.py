"""Whole numbers of 64 bits, and when a result is one: machine code does not say that it was too large.

The smallest one is null and the next is kept for sums that were too large: a result fits if it is larger than both.
That is found out before it is computed, for compiled code may be made as if it could not be too large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.cep.plan.terms import TOO_LARGE
from spillway.core.kernel import kernel

_SMALL, _LARGEST = 2**31, 2**63 - 1


@kernel
def bits(value: float) -> Any:
    """Return a number as an integer that is the same for equal numbers."""
    return np.float64(value + 0.0).view(np.int64)


@kernel
def rounded(value: float) -> Any:
    """Return the nearest whole number, of two that are as near the one that is farther from zero."""
    whole = np.trunc(value)
    return whole + np.copysign(1.0, value) if abs(value - whole) >= 0.5 else whole


@kernel
def remainder(x: int, y: int) -> Any:
    """Return what is left of x when it is divided by y, with the sign of x (np.fmod is not the same in Numba)."""
    size = abs(x) % abs(y)
    return size if x >= 0 else -size


@kernel
def sum_fits(x: int, y: int) -> bool:
    """Return whether x + y is a whole number."""
    return x <= _LARGEST - y if y > 0 else x > TOO_LARGE - y


@kernel
def difference_fits(x: int, y: int) -> bool:
    """Return whether x - y is a whole number."""
    return x > TOO_LARGE + y if y > 0 else x <= _LARGEST + y


@kernel
def product_fits(x: int, y: int) -> bool:
    """Return whether x * y is a whole number."""
    if (-_SMALL < x < _SMALL and -_SMALL < y < _SMALL) or y == 0:
        return True
    return abs(x) <= _LARGEST // abs(y) and x * y > TOO_LARGE
