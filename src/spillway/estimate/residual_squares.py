"""Computes sums of squared residuals, Σ c (y - R x)², in one pass without losing digits.

The plain formula, Σ c y² - 2m Σ c y + m² Σ c, loses a factor of (m / deviation)² of the sixteen digits: all of them
for a time in milliseconds. Spark's covariance keeps its sums centred as it runs, so the squares are computed from
covariances. With ȳ the plain average, η = y - ȳ, and C(u, v) = Σ (u - ū)(v - v̄),

    Σ c η  = C(c, y)
    Σ c η² = C(c y, y) - ȳ C(c, y)
    ȳ - m  = -C(w, y) / N
    Σ c (y - m)² = Σ c η² + 2 (ȳ - m) Σ c η + (ȳ - m)² Σ c

which loses a factor of m / deviation, no more than the stored values have lost themselves. C(c, y) is zero where all
c are equal. For a ratio, y is replaced by y - R x throughout, multiplied out into the terms of y and x.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def sums(w: Column, c: Column, y: Column, x: Column | None = None) -> dict[str, Column]:
    """Return the aggregates that :func:`about_mean` needs, or with ``x`` :func:`about_ratio`."""
    found = {
        "avg_y": F.avg(y),
        "wy": F.covar_pop(w, y),
        "cy": F.covar_pop(c, y),
        "cyy": F.covar_pop(c * y, y),
    }
    if x is not None:
        found |= {"avg_x": F.avg(x), "wx": F.covar_pop(w, x), "cx": F.covar_pop(c, x)}
        found |= {"cxx": F.covar_pop(c * x, x), "cyx": F.covar_pop(c * y, x)}
    return found


def about_mean(known: Column, *, n: Column, N: Column, C: Column) -> Column:
    """Return Σ c (y - m)² of n rows, where N = Σ w and C = Σ c."""
    cy = known["cy"]
    squares = known["cyy"] - known["avg_y"] * cy
    return _moved(n, C, squares, products=cy, off=F.try_divide(n * known["wy"], -N))


def about_ratio(known: Column, R: Column, *, n: Column, N: Column, C: Column) -> Column:
    """Return Σ c (y - R x)² of n rows, where N = Σ w and C = Σ c."""
    cy, cx = known["cy"], known["cx"]
    yy, xx = known["cyy"] - known["avg_y"] * cy, known["cxx"] - known["avg_x"] * cx
    yx = known["cyx"] - known["avg_y"] * cx
    off = F.try_divide(n * (known["wy"] - R * known["wx"]), -N)
    return _moved(n, C, yy - 2.0 * R * yx + R * R * xx, products=cy - R * cx, off=off)


def _moved(n: Column, C: Column, squares: Column, *, products: Column, off: Column) -> Column:
    """Return the squares about a centre whose distance from the average is ``off``."""
    return n * squares + 2.0 * off * n * products + off * off * C
