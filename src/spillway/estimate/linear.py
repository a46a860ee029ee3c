"""Count, sum, mean and ratio: estimates made of sums, in one pass.

**Large means.** Σ a (y - m)² by the squares alone, Σ a y² - 2m Σ a y + m² Σ a, loses (m / deviation)² of the
sixteen digits: all of them for a time in milliseconds. Spark's covariance keeps its sums centred as it goes, so the
squares are put together from covariances. With ȳ the plain average, η = y - ȳ, and C(u, v) = Σ (u - ū)(v - v̄),

    Σ a η  = C(a, y)
    Σ a η² = C(a y, y) - ȳ C(a, y)
    ȳ - m  = -C(w, y) / N
    Σ a (y - m)² = Σ a η² + 2 (ȳ - m) Σ a η + (ȳ - m)² Σ a

which loses m / deviation, as much as the values have lost themselves. C(a, y) is zero for equal weights. For a
ratio, y is replaced by y - R x throughout, multiplied out into the terms of y and x.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.estimate.binding import let
from spillway.estimate.rows import Rows, number, title


def count(*, level: float = 0.95, weight: str | Column = "weight") -> Column:
    """Estimate how many rows there were before any were shed."""
    rows = Rows.of(level, weight)
    sums = {
        "total": F.coalesce(rows.sum(), F.lit(0.0)),  # no rows are none, as in Spark's own count
        "spare": F.coalesce(F.sum(rows.a), F.lit(0.0)),
        "spare2": F.sum(rows.a * rows.a),
        "rows": F.count(rows.w),
    }

    def found(known: Column) -> Column:
        N, A, A2, n = (known[name] for name in sums)
        return rows.around(N, A, F.try_divide(A * A, A2), least=n.cast("double"))

    return let(found, **sums).alias(title("count"))


def sum(col: str | Column, *, level: float = 0.95, weight: str | Column = "weight") -> Column:
    """Estimate the sum of a column; nulls are skipped. To count rows of a kind, sum ones and zeros."""
    rows = Rows.of(level, weight, number("col", col))
    (y,) = rows.values
    square = rows.a * y * y
    sums = {"of_y": rows.sum(y), "squares": F.sum(square), "squares2": F.sum(square * square)}

    def found(known: Column) -> Column:
        Y, V, V2 = (known[name] for name in sums)
        return rows.around(Y, V, F.try_divide(V * V, V2))

    return let(found, **sums).alias(title("sum", col))


def mean(col: str | Column, *, level: float = 0.95, weight: str | Column = "weight") -> Column:
    """Estimate the mean of a column; nulls are skipped."""
    rows = Rows.of(level, weight, number("col", col))
    (y,) = rows.values
    sums = {
        "of_y": rows.sum(y),
        **_of_weights(rows),
        "avg_y": F.avg(y),
        "wy": F.covar_pop(rows.w, y),
        "ay": F.covar_pop(rows.a, y),
        "ayy": F.covar_pop(rows.a * y, y),
    }

    def found(known: Column) -> Column:
        n, N = known["rows"], known["total"]
        off = F.try_divide(n * known["wy"], -N)
        squares = n * (known["ayy"] - known["avg_y"] * known["ay"])
        return _around(
            rows,
            known,
            F.try_divide(known["of_y"], N),
            squares=squares,
            products=n * known["ay"],
            off=off,
            scale=N,
        )

    return let(found, **sums).alias(title("mean", col))


def ratio(
    numerator: str | Column,
    denominator: str | Column,
    *,
    level: float = 0.95,
    weight: str | Column = "weight",
) -> Column:
    """Estimate the sum of one column over that of another, over rows that have both; null if the latter is 0."""
    rows = Rows.of(level, weight, number("numerator", numerator), number("denominator", denominator))
    w, a, (y, x) = rows.w, rows.a, rows.values
    sums = {
        "of_y": rows.sum(y),
        "of_x": rows.sum(x),
        **_of_weights(rows),
        **{"avg_y": F.avg(y), "wy": F.covar_pop(w, y), "ay": F.covar_pop(a, y), "ayy": F.covar_pop(a * y, y)},
        **{"avg_x": F.avg(x), "wx": F.covar_pop(w, x), "ax": F.covar_pop(a, x), "axx": F.covar_pop(a * x, x)},
        "ayx": F.covar_pop(a * y, x),
    }

    def found(known: Column, R: Column) -> Column:
        n, ax, ay = known["rows"], known["ax"], known["ay"]
        yy, xx = known["ayy"] - known["avg_y"] * ay, known["axx"] - known["avg_x"] * ax
        yx = known["ayx"] - known["avg_y"] * ax
        return _around(
            rows,
            known,
            R,
            squares=n * (yy - 2.0 * R * yx + R * R * xx),
            products=n * (ay - R * ax),
            off=F.try_divide(n * (known["wy"] - R * known["wx"]), -known["total"]),
            scale=known["of_x"],
        )

    def quotient(known: Column) -> Column:
        return let(lambda once: found(known, once["R"]), R=F.try_divide(known["of_y"], known["of_x"]))

    return let(quotient, **sums).alias(title("ratio", numerator, denominator))


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
    *,
    squares: Column,
    products: Column,
    off: Column,
    scale: Column,
) -> Column:
    """Return the interval of a quotient, by Σ a ε², Σ a ε and ē of its residuals e, where ε = e - ē."""
    n, N, A, A2, AW = (known[name] for name in ("rows", "total", "spare", "spare2", "spare_w"))
    f = 1.0 - 2.0 * F.try_divide(AW, A * N) + F.try_divide(A + N, N * N)  # A + N = Σ w²
    Q = squares + 2.0 * off * products + off * off * A

    def found(once: Column) -> Column:
        V = F.try_divide(once["Q"], once["f"] * scale * scale)
        V = F.when(A == 0.0, 0.0).when(n < 2, A * float("inf")).otherwise(V)
        return rows.around(value, V, F.try_divide(A * A, A2) * once["f"])

    return let(found, Q=Q, f=F.greatest(f, F.lit(1e-12)))
