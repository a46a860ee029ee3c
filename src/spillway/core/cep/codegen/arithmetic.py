"""Arithmetic on 64-bit whole numbers, with tests of whether a result fits: machine code does not report overflow.

The smallest number is null and the next one stands for sums that were too large: a result fits if it is larger than
both. This is tested before the result is computed, because the compiler may assume that overflow does not happen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spillway.core.cep.plan.terms import TOO_LARGE
from spillway.core.kernel import kernel

_SMALL, _LARGEST = 2**31, 2**63 - 1


@kernel
def bits(value: float) -> Any:
    """Return a number as an integer that is equal for equal numbers."""
    return np.float64(value + 0.0).view(np.int64)


@kernel
def rounded(value: float) -> Any:
    """Return the nearest whole number; of two that are equally near, the one farther from zero."""
    whole = np.trunc(value)
    return whole + np.copysign(1.0, value) if abs(value - whole) >= 0.5 else whole


@kernel
def remainder(x: int, y: int) -> Any:
    """Return the remainder of x divided by y, with the sign of x (np.fmod is not the same in Numba)."""
    size = abs(x) % abs(y)
    return size if x >= 0 else -size


@kernel
def sum_fits(x: int, y: int) -> bool:
    """Return whether x + y fits."""
    return x <= _LARGEST - y if y > 0 else x > TOO_LARGE - y


@kernel
def difference_fits(x: int, y: int) -> bool:
    """Return whether x - y fits."""
    return x > TOO_LARGE + y if y > 0 else x <= _LARGEST + y


@kernel
def product_fits(x: int, y: int) -> bool:
    """Return whether x * y fits."""
    if (-_SMALL < x < _SMALL and -_SMALL < y < _SMALL) or y == 0:
        return True
    return abs(x) <= _LARGEST // abs(y) and x * y > TOO_LARGE
