"""Count, sum, mean and ratio: the estimates that are computed from sums, in one pass."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.estimate import residual_squares
from spillway.estimate.local_values import let
from spillway.estimate.rows import Rows, number, title
from spillway.estimate.unseen_values import distance, others, require_spread

ALIKE = 1e-12  # quotients that differ by no more are equal except for rounding


def count(*, level: float = 0.95, weight: str | Column = "weight") -> Column:
    """Estimate how many rows there were before any were shed."""
    rows = Rows.of(level, weight)
    sums = {
        "total": F.coalesce(rows.sum(), F.lit(0.0)),  # 0 if there are no rows, as in Spark's own count
        "spare": F.coalesce(F.sum(rows.a), F.lit(0.0)),
        "spare2": F.sum(rows.a * rows.a),
        "rows": F.count(rows.w),
    }

    def found(known: Column) -> Column:
        N, A, A2, n = (known[name] for name in sums)
        return rows.around(N, A, F.try_divide(A * A, A2), least=n.cast("double"))

    return let(found, **sums).alias(title("count"))


def sum(
    col: str | Column, *, level: float = 0.95, weight: str | Column = "weight", spread: float | None = None
) -> Column:
    """Estimate the sum of a column; nulls are skipped. To count rows of a kind, sum ones and zeros.

    ``spread`` is how far a value may be from zero in a group of which only zeros were kept; by default it is the
    largest value that was not subject to shedding, or 1.
    """
    rows = Rows.of(level, weight, number("col", col))
    (y,), apart = rows.values, require_spread(spread)
    square = rows.a * y * y
    sums = {
        "of_y": rows.sum(y),
        "squares": F.sum(square),
        "squares2": F.sum(square * square),
        "largest": F.max(F.abs(y)),
        "total": rows.sum(),
        "spare": F.sum(rows.a),
    }

    def found(known: Column) -> Column:
        Y, V, V2, largest, N, A = (known[name] for name in sums)
        reach = distance(apart, largest) * others(rows.level, F.try_divide(A + N, N))
        return rows.around(Y, V, F.try_divide(V * V, V2), same=(V == 0.0) & (A > 0.0), same_reach=reach)

    return let(found, **sums).alias(title("sum", col))


def mean(
    col: str | Column, *, level: float = 0.95, weight: str | Column = "weight", spread: float | None = None
) -> Column:
    """Estimate the mean of a column; nulls are skipped.

    ``spread`` is how far a value may be from the others in a group whose kept values are all the same; by default it
    is the size of the kept values, or 1.
    """
    rows = Rows.of(level, weight, number("col", col))
    (y,), apart = rows.values, require_spread(spread)
    sums = {
        "of_y": rows.sum(y),
        **_of_weights(rows),
        **residual_squares.sums(rows.w, rows.a, y),
        **extremes(y),
    }

    def found(known: Column) -> Column:
        n, N, A = known["rows"], known["total"], known["spare"]
        Q = residual_squares.about_mean(known, n=n, N=N, C=A)
        m = F.try_divide(known["of_y"], N)
        return _around(rows, known, m, Q, scale=N, same=alike(known), apart=apart)

    return let(found, **sums).alias(title("mean", col))


def ratio(
    numerator: str | Column,
    denominator: str | Column,
    *,
    level: float = 0.95,
    weight: str | Column = "weight",
    spread: float | None = None,
) -> Column:
    """Estimate the sum of one column divided by the sum of another, over rows that have both values.

    It is null if the second sum is 0. ``spread`` is how far a numerator may differ in a group whose kept numerators
    are all in the same proportion to their denominators; by default it is the size of their mean, or 1.
    """
    rows = Rows.of(level, weight, number("numerator", numerator), number("denominator", denominator))
    (y, x), apart = rows.values, require_spread(spread)
    sums = {
        "of_y": rows.sum(y),
        "of_x": rows.sum(x),
        **_of_weights(rows),
        **residual_squares.sums(rows.w, rows.a, y, x),
        **extremes(y, x),
    }

    def found(known: Column, R: Column) -> Column:
        n, N, A, X = known["rows"], known["total"], known["spare"], known["of_x"]
        Q = residual_squares.about_ratio(known, R, n=n, N=N, C=A)
        return _around(rows, known, R, Q, scale=X, same=alike(known, ALIKE), apart=apart)

    def quotient(known: Column) -> Column:
        return let(lambda once: found(known, once["R"]), R=F.try_divide(known["of_y"], known["of_x"]))

    return let(quotient, **sums).alias(title("ratio", numerator, denominator))


def extremes(y: Column, x: Column | None = None) -> dict[str, Column]:
    """Return the aggregates that show whether all values are the same, or in the same proportion to x."""
    part = y
    if x is not None:  # 0 to 0 fits any proportion
        part = F.when(x != 0.0, F.try_divide(y, x)).when(y != 0.0, F.lit(float("nan")))
    return {"lowest": F.min(part), "highest": F.max(part)}


def alike(known: Column, rounding: float = 0.0) -> Column:
    """Return whether all values are the same, given the aggregates of ``extremes``."""
    low, high = known["lowest"], known["highest"]
    return F.coalesce(high - low <= rounding * F.abs(high), F.lit(False))


def _of_weights(rows: Rows) -> dict[str, Column]:
    w, a = rows.w, rows.a
    return {
        "rows": F.count(w),
        "total": rows.sum(),
        "spare": F.sum(a),
        "spare2": F.sum(a * a),
        "spare_w": F.sum(a * w),
    }


def _around(
    rows: Rows,
    known: Column,
    value: Column,
    Q: Column,
    *,
    scale: Column,
    same: Column,
    apart: float | None,
) -> Column:
    """Return the interval of a quotient, given Q, the sum of its squared residuals."""
    n, N, A, A2, AW = (known[name] for name in ("rows", "total", "spare", "spare2", "spare_w"))
    f = 1.0 - 2.0 * F.try_divide(AW, A * N) + F.try_divide(A + N, N * N)  # A + N = Σ w²
    X = others(rows.level, F.try_divide(A + N, N))
    same = same & (A > 0.0) & ~F.isnan(A) & (n > 1)
    d = distance(apart, F.abs(F.try_divide(known["of_y"], N)))
    reach = F.try_divide(d * F.least(X, N), F.abs(scale))

    def found(once: Column) -> Column:
        V = F.try_divide(once["Q"], once["f"] * scale * scale)
        V = F.when(A == 0.0, 0.0).when(n < 2, A * float("inf")).otherwise(V)
        dof = F.try_divide(A * A, A2) * once["f"]
        return rows.around(value, V, dof, same=same, same_reach=reach)

    return let(found, Q=Q, f=F.greatest(f, F.lit(1e-12)))
