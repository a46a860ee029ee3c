"""Groups whose kept values are all the same, although rows were shed: what the others could be.

Such values have a variance of zero, and that is no knowledge. If X rows of the group differ from them, none of
these is kept with a chance of (1 - 1/w)^X. At a confidence level 1 - α that is not believed any more where it falls
to α, so there are up to

    X = ln α / ln(1 - 1/w̄),      w̄ = Σ w² / Σ w

of them: about 3 w at 95 %, the "rule of three", and next to none where hardly a row was shed. What each differs by,
d, the sample does not say. It is taken to be as much as the values that were kept, so others may be anything from
nothing to twice that: for ones and zeros that is just right. (For a sum of sampled zeros it is as much as the
largest value that was not shed, for a ratio as the mean numerator.) Of zeros alone nothing is known, and d is 1. The
caller may say better with ``spread``: 0 for a constant. The interval reaches d X to both sides for a sum, and
d X / N for a mean, where X is N at most.
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


def distance(spread: float | None, size: Column) -> Column:
    """Return d for values of this size."""
    if spread is not None:
        return F.lit(spread)
    return F.when(size > 0.0, size).otherwise(1.0)


def others(level: float, w: Column) -> Column:
    """Return X for rows of this weight on average."""
    return F.try_divide(F.lit(math.log1p(-level)), F.log(1.0 - F.try_divide(F.lit(1.0), w)))
