"""Quantiles: the value at a share of the weights, with Woodruff's interval.

The share F(y) of the rows up to y is a ratio, whose error is known. Its interval around q, turned back into values by
the same sample, is the interval of the quantile. It needs no density and is as asymmetric as the data.

Ranks cannot be computed from sums. The values and weights of a group are collected, sorted and scanned twice: first
for the value and G, the share of the variance that lies below it; then, with G, for both ends. Rows of equal value
are ordered by their weights, so that the order of arrival has no effect. The result is exact for any weights; a group
holds its kept rows, also in the state of a streaming query. (Spark's own ``percentile`` takes only whole-number
frequencies, and its ranks must be constants.)
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.errors import invalid
from spillway.estimate.local_values import let, struct
from spillway.estimate.rows import ROUNDING, Rows, number, spare, title
from spillway.estimate.student import student


def quantile(col: str | Column, q: float, *, level: float = 0.95, weight: str | Column = "weight") -> Column:
    """Estimate the least value that a share ``q`` of the values does not exceed; nulls are skipped.

    It holds all kept rows of a group in memory.
    """
    p = share_of(q)
    rows = Rows.of(level, weight, number("col", col))
    (y,), w, a = rows.values, rows.w, rows.a
    pair = F.when(y.isNotNull(), struct(y=y, w=w))
    sums = {
        "total": rows.sum(),
        "rows": F.collect_list(pair),
        "spare": F.sum(a),
        "spare2": F.sum(a * a),
    }

    def found(known: Column) -> Column:
        t = student(rows.level, F.try_divide(known["spare"] * known["spare"], known["spare2"]))
        group = {
            "rows": F.sort_array(known["rows"]),
            "total": known["total"],
            "spare": known["spare"],
            "t": t,
        }
        return let(reached, **group)

    def reached(group: Column) -> Column:
        return let(lambda once: around(group, once["middle"]), middle=middle(group, p))

    def around(group: Column, crossing: Column) -> Column:
        return interval(group, crossing["y"], _half(group, crossing, p), p)

    return let(found, **sums).alias(title(percentile(p), col))


def share_of(q: float) -> float:
    """Return ``q`` as a share, or raise."""
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0.0 < q < 1.0:
        percent = isinstance(q, int | float) and 1 < q < 100
        hint = f"write {q:g} % as {q / 100:g}" if percent else None
        raise invalid("q", q, "a number between 0 and 1", hint=hint)
    return float(q)


def percentile(p: float) -> str:
    """Return the name of a quantile.

    >>> percentile(0.9), percentile(0.995)
    ('p90', 'p99_5')
    """
    return f"p{100.0 * p:g}".replace(".", "_")


def middle(group: Column, p: float) -> Column:
    """Return the first row at which the weights reach a share of all: its place from 1, and Σ w and Σ a up to it."""
    start = struct(passed=F.lit(0.0), spare=F.lit(0.0), place=F.lit(0), y=_unknown(), w=_unknown())

    def walk(known: Column) -> Column:
        def step(so_far: Column, row: Column) -> Column:
            further = struct(
                passed=so_far["passed"] + row["w"],
                spare=so_far["spare"] + spare(row["w"]),
                place=so_far["place"] + 1,
                y=row["y"],
                w=row["w"],
            )
            return F.when(so_far["passed"] < known["rank"], further).otherwise(so_far)

        return F.aggregate(group["rows"], start, step)

    return let(walk, rank=_rank(group, F.lit(p)))


def above(group: Column, crossing: Column, p: float) -> Column:
    """Return the part of the row at which the weights cross p that lies above p."""
    return F.try_divide(crossing["passed"] - p * group["total"], crossing["w"])


def interval(group: Column, value: Column, half: Column, p: float) -> Column:
    """Return value, low and high, where F has the interval p ± half."""

    def ends(known: Column) -> Column:
        low, high = p - known["half"], p + known["half"]
        return let(closed, value=known["value"], low=low, high=high, ends=_ends(group, low, high))

    def closed(known: Column) -> Column:
        def end(name: str, beyond: float) -> Column:
            share = known[name]
            found = F.when((share > 0.0) & (share < 1.0), known["ends"][name])
            return found.when(share.isNull() | F.isnan(share), share).otherwise(beyond)

        low, high = end("low", float("-inf")), end("high", float("inf"))
        return struct(value=known["value"], low=low, high=high)

    return let(ends, value=value, half=half)


def _half(group: Column, crossing: Column, p: float) -> Column:
    """Return how far the interval of F extends to each side of p."""
    N, A = group["total"], group["spare"]
    G = F.try_divide(crossing["spare"] - spare(crossing["w"]) * above(group, crossing, p), A)
    V = F.greatest(A * (G * (1.0 - p) ** 2 + (1.0 - G) * p**2), F.lit(0.0))
    return F.when(A == 0.0, 0.0).otherwise(group["t"] * F.try_divide(F.sqrt(V), N))


def _ends(group: Column, low: Column, high: Column) -> Column:
    """Return the values at two shares of the weights."""
    start = struct(passed=F.lit(0.0), low=_unknown(), high=_unknown())

    def walk(ranks: Column) -> Column:
        def step(so_far: Column, row: Column) -> Column:
            passed, y = so_far["passed"], row["y"]
            return struct(
                passed=passed + row["w"],
                low=F.when(passed < ranks["low"], y).otherwise(so_far["low"]),
                high=F.when(passed < ranks["high"], y).otherwise(so_far["high"]),
            )

        return F.aggregate(group["rows"], start, step)

    return let(walk, low=_rank(group, low), high=_rank(group, high))


def _rank(group: Column, share: Column) -> Column:
    return (
        group["total"] * share * (1.0 - ROUNDING)
    )  # weights that are added up in another order may fall just short of it


def _unknown() -> Column:
    return F.lit(None).cast("double")
