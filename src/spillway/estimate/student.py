"""Computes Student's t as a Column, for degrees of freedom that are known only when the query runs.

The level is known when the expression is made. So the exact quantiles of the core are taken at the Chebyshev nodes
of u = 1/ν in (0, 1], and log t becomes a polynomial in u of degree 10. Its relative error over all ν >= 1 is below
1e-7 up to a level of 0.95, below 1e-5 up to 0.999, and one in a hundred at 0.99999.

>>> round(math.exp(horner(coefficients(0.95), 1 / 9)), 6)
2.262157
"""

from __future__ import annotations

import math
from functools import cache
from typing import TypeVar

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.core.groups.student import t_quantile
from spillway.estimate.local_values import let

_DEGREE = 10
Number = TypeVar("Number", float, Column)


@cache
def coefficients(level: float) -> tuple[float, ...]:
    """Return the polynomial of log t in 1/ν, highest power first."""
    k = np.arange(_DEGREE + 1)
    u = (1.0 + np.cos(math.pi * (k + 0.5) / (_DEGREE + 1))) / 2.0
    fitted = np.polynomial.Polynomial.fit(u, np.log(t_quantile(level, 1.0 / u)), _DEGREE, domain=[0.0, 1.0])
    return tuple(float(c) for c in fitted.convert().coef[::-1])


def horner(coefficients: tuple[float, ...], u: Number) -> Number:
    """Return the value of a polynomial at a number or at a column."""
    value = u * coefficients[0]
    for c in coefficients[1:-1]:
        value = (value + c) * u
    return value + coefficients[-1]


def student(level: float, dof: Column) -> Column:
    """Return t at a confidence level; less than one degree of freedom counts as one."""
    u = 1.0 / F.greatest(dof, F.lit(1.0))
    return let(lambda known: F.exp(horner(coefficients(level), known["u"])), u=u)
