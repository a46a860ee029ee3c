"""Computes quantiles of Student's t for any level and any degrees of freedom from 1 up, also fractional ones.

With t = √ν tan θ the distribution function is 1/2 + C ∫_0^θ cos^(ν-1), a smooth function on a finite range: the
integral is computed by Gauss-Legendre quadrature, the quantile by bisection. Beyond 200 degrees of freedom the
Cornish-Fisher expansion around the normal quantile is exact to nine digits.

>>> t_quantile(0.95, np.array([1.0, 2.0, 9.0, 1e9])).round(4)
array([12.7062,  4.3027,  2.2622,  1.96  ])
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from spillway.core.arrays import Floats
from spillway.errors import invalid

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)


def require_level(level: float) -> float:
    """Return a confidence level, or raise.

    >>> require_level(95)
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: level = 95 is not allowed: ... Hint: write 95 % as 0.95
    """
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        hint = (
            f"write {level:g} % as {level / 100:g}" if isinstance(level, int | float) and level >= 1 else None
        )
        raise invalid("level", level, "a number between 0 and 1", hint=hint)
    return float(level)


def z_quantile(level: float) -> float:
    """Return how many standard deviations on each side of the mean hold the given share of a normal distribution.

    >>> round(z_quantile(0.95), 4)
    1.96
    """
    return NormalDist().inv_cdf((1.0 + require_level(level)) / 2.0)


def t_quantile(level: float, dof: Floats) -> Floats:
    """Return the same quantile for Student's t; without degrees of freedom it is infinite."""
    unique, at = np.unique(np.asarray(dof, dtype=np.float64), return_inverse=True)
    found = np.full(len(unique), np.inf)
    z = z_quantile(level)
    far = unique > 200.0
    found[far] = _expanded(z, unique[far])
    near = (unique > 0.0) & ~far
    found[near] = _bisected(level, unique[near])
    answer: Floats = found[at]
    return answer


def _expanded(z: float, nu: Floats) -> Floats:
    g1 = (z**3 + z) / 4.0
    g2 = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    g3 = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + g1 / nu + g2 / nu**2 + g3 / nu**3


def _bisected(level: float, nu: Floats) -> Floats:
    """Find θ with ∫_0^θ cos^(ν-1) = level ∫_0^(π/2) cos^(ν-1)."""
    whole = _integral(np.full_like(nu, np.pi / 2.0), nu)
    low, high = np.zeros_like(nu), np.full_like(nu, np.pi / 2.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        short = _integral(middle, nu) < level * whole
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    answer: Floats = np.sqrt(nu) * np.tan(high)
    return answer


def _integral(theta: Floats, nu: Floats) -> Floats:
    at = theta[:, None] * (_NODES + 1.0) / 2.0
    answer: Floats = theta / 2.0 * (np.cos(at) ** (nu[:, None] - 1.0) @ _WEIGHTS)
    return answer
