"""Groups whose kept values are all the same, although rows were shed: what the others could be.

Such values have a variance of zero, and that is no knowledge. If X rows of the group differ from them, none of
these is kept with a chance of (1 - 1/w)^X at most. So at a confidence level 1 - α there are fewer than

    X = -ln α · Σ w² / Σ w,      and no more than were shed, N - n

the "rule of three": 3 w rows at 95 %. What each differs by, d, the sample does not say. It is taken to be as much as
the largest value that was kept, so others may be anything from nothing to twice that: for ones and zeros that is
just right. Of zeros alone nothing is known, and d is 1. The caller may say better with ``spread``: 0 for a constant.
The interval reaches d X to both sides for a sum, and d X / N for a mean.
"""

from __future__ import annotations

import math

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.errors import invalid


def require_spread(spread: float | None) -> float | None:
    """Return how far a value may lie from the others, or raise.

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


def fewer_than(level: float) -> float:
    """Return -ln α: how many things of a Poisson number may be there, on average, when none is seen.

    >>> round(fewer_than(0.95), 2)
    3.0
    """
    return -math.log1p(-level)


def distance(spread: float | None, largest: Column) -> Column:
    """Return d."""
    if spread is not None:
        return F.lit(spread)
    return F.when(largest > 0.0, largest).otherwise(1.0)


def others(level: float, *, n: Column, N: Column, A: Column) -> Column:
    """Return X, where A = Σ w (w - 1); NaN of weights that cannot be."""
    return F.when(F.isnan(A), A).otherwise(F.least(fewer_than(level) * F.try_divide(A + N, N), N - n))
