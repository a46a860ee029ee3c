"""Computes intervals for groups whose kept values are all the same, although rows were shed.

Such values have a variance of zero, but the shed rows may have other values. If X rows of the group have other
values, the probability that none of these rows is kept is (1 - 1/w)^X. At a confidence level 1 - α, numbers X for
which this probability falls below α are excluded. So there are up to

    X = ln α / ln(1 - 1/w̄),      w̄ = Σ w² / Σ w

such rows: about 3 w at 95 %, the "rule of three", and almost none where hardly any row was shed. The sample does not
show the difference d of such a row. It is assumed to be as large as the values that were kept, so other values may
lie anywhere from zero to twice the kept value: for ones and zeros that is exactly right. (For a sum of sampled zeros,
d is the largest value that was not subject to shedding, for a ratio the mean numerator.) If there are only zeros, d
is 1. The caller may give a better d as ``spread``, for example 0 for a constant. The interval extends d X to both
sides for a sum, and d X / N for a mean, where X is at most N.
"""

from __future__ import annotations

import math

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.errors import invalid


def require_spread(spread: float | None) -> float | None:
    """Return how far a value may be from the other values, or raise.

    >>> require_spread(-1)
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: spread = -1 is not allowed: expected a number >= 0, or None.
    """
    if spread is None:
        return None
    number = not isinstance(spread, bool) and isinstance(spread, int | float)
    if not number or not 0.0 <= spread < math.inf:
        raise invalid("spread", spread, "a number >= 0, or None")
    return float(spread)


def distance(spread: float | None, size: Column) -> Column:
    """Return d, the assumed difference, for values of this size."""
    if spread is not None:
        return F.lit(spread)
    return F.when(size > 0.0, size).otherwise(1.0)


def others(level: float, w: Column) -> Column:
    """Return X, the number of rows that may differ, for rows of this average weight."""
    return F.try_divide(F.lit(math.log1p(-level)), F.log(1.0 - F.try_divide(F.lit(1.0), w)))
