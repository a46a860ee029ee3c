"""Estimates over results that share random draws: of a join whose inputs were shed, and of rows shed together.

A random draw decides whether an input row, or a set of rows with one key, is kept (class ``Coin``). A result of a
join is made of a left row, kept with probability π, and a right row, kept with probability ρ. It has the weight
w = 1 / (π ρ). For T = Σ w e over all kept results,

    V = L + R - D
    L = Σ_l (1 - π) z_l²,   z_l = Σ w e over the results of left row l
    R = Σ_r (1 - ρ) z_r²,   z_r = Σ w e over the results of right row r
    D = Σ (1 - π) (1 - ρ) w² e²

is on average the variance of T, because z_l² is on average the square of the true sum plus the variance that the
right draws add. So on average L is α + δ, R is β + δ and D is δ, where α + β + δ is the variance: α is the part of
the left draws alone, β that of the right draws alone, δ that of both together. L and R come from the sums of
:mod:`~spillway.estimate.shared_draws`. As α and β are at least 0, V = D + max(L - D, 0) + max(R - D, 0), and
Satterthwaite's rule gives V² / (L²/ν_L + R²/ν_R) degrees of freedom. With one draw per result, V = L.

    =========  =======================  =========
    estimate   value                    e
    =========  =======================  =========
    count      N = Σ w                  1
    sum        Σ w y                    y
    mean       m = Σ w y / N            (y - m) / N
    ratio      R = Σ w y / Σ w x        (y - R x) / Σ w x
    =========  =======================  =========

Where only one side was shed, 1 - ρ = 0 and only L remains; where nothing was shed, the interval has no width. For
kept values that are all the same the interval is that of :mod:`~spillway.estimate.unseen_values`, but X is 3/m of all
results, as all results of one draw may differ at once. Two results of the same two draws count in D as if each had
its own draws, which makes V too large where their signs agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.core.groups.student import require_level
from spillway.errors import invalid
from spillway.estimate import residual_squares
from spillway.estimate.checks import check_shared
from spillway.estimate.linear import ALIKE, alike, extremes
from spillway.estimate.local_values import let
from spillway.estimate.quantiles import percentile, share_of
from spillway.estimate.rows import Rows, bare, number, title
from spillway.estimate.shared_draws import Coin, Key, together, variance
from spillway.estimate.shared_quantiles import quantile
from spillway.estimate.unseen_values import distance, others, require_spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def joined(
    *,
    left: Key | None = None,
    right: Key | None = None,
    left_weight: str | Column = "left_weight",
    right_weight: str | Column = "right_weight",
    level: float = 0.95,
) -> Shared:
    """Return the estimates for a join whose inputs were shed; their intervals account for results that share a row.

    ``left`` and ``right`` name the columns that identify the rows of an input, by their names after the join. If the
    input was shed with ``key=``, these are the columns of that key. Leave out an input that was not shed.
    """
    sides = (("left", left, left_weight), ("right", right, right_weight))
    coins = tuple(Coin.of(n, f, key, w) for n, (f, key, w) in enumerate(sides) if key is not None)
    if not coins:
        raise invalid("left", None, "the columns that tell the rows of a shed input apart, or right= or both")
    return Shared(coins, require_level(level))


def clustered(key: Key, *, weight: str | Column = "weight", level: float = 0.95) -> Shared:
    """Return the estimates for rows that were kept or dropped together; ``key`` is the key given when shedding."""
    return Shared((Coin.of(0, "key", key, weight),), require_level(level))


@dataclass(frozen=True)
class Shared:
    """Estimates for ``agg`` over results that depend on one or two random draws, each shared with other results."""

    coins: tuple[Coin, ...]
    level: float

    def check(self, df: DataFrame) -> DataFrame:
        """Return the DataFrame unchanged if it has all columns that these estimates need, or raise."""
        return check_shared(df, self.coins)

    def count(self) -> Column:
        """Estimate how many results there would be if no row had been shed."""
        rows = self._rows()
        sums = {
            "total": F.coalesce(rows.sum(), F.lit(0.0)),
            "rows": F.count(rows.w),
            **self._by_coin("y"),
            "both": F.sum(self._both(rows)),
        }

        def found(known: Column, err: Column) -> Column:
            return rows.around(known["total"], err["V"], err["nu"], least=known["rows"].cast("double"))

        return self._let(found, sums).alias(title("count"))

    def sum(self, col: str | Column, *, spread: float | None = None) -> Column:
        """Estimate the sum of a column; nulls are skipped. ``spread`` is as in :func:`~.linear.sum`."""
        rows = self._rows(number("col", col))
        (y,), apart = rows.values, require_spread(spread)
        sums = {
            **self._common(rows, y),
            **self._by_coin("y", bare(col)),
            "both": F.sum(self._both(rows) * y * y),
            "largest": F.max(F.abs(y)),
        }

        def found(known: Column, err: Column) -> Column:
            same = (err["V"] == 0.0) & (err["m"] > 0.0)
            reach = distance(apart, known["largest"]) * self._others(known, err)
            return rows.around(known["of_y"], err["V"], err["nu"], same=same, same_reach=reach)

        return self._let(found, sums).alias(title("sum", col))

    def mean(self, col: str | Column, *, spread: float | None = None) -> Column:
        """Estimate the mean of a column; nulls are skipped. ``spread`` is as in :func:`~.linear.mean`."""
        rows = self._rows(number("col", col))
        return self._quotient(rows, spread, bare(col), None).alias(title("mean", col))

    def ratio(
        self, numerator: str | Column, denominator: str | Column, *, spread: float | None = None
    ) -> Column:
        """Estimate the sum of one column divided by the sum of another, over results that have both values.

        It is null if the second sum is 0. ``spread`` is as in :func:`~.linear.ratio`.
        """
        rows = self._rows(number("numerator", numerator), number("denominator", denominator))
        values = bare(numerator), bare(denominator)
        return self._quotient(rows, spread, *values).alias(title("ratio", numerator, denominator))

    def quantile(self, col: str | Column, q: float) -> Column:
        """Estimate the least value that a share ``q`` of the values does not exceed; nulls are skipped.

        It holds all kept results of a group in memory.
        """
        return quantile(self._rows(number("col", col)), self.coins, q).alias(
            title(percentile(share_of(q)), col)
        )

    def _quotient(self, rows: Rows, spread: float | None, bare_y: Column, bare_x: Column | None) -> Column:
        apart, c, y = require_spread(spread), self._both(rows), rows.values[0]
        x = None if bare_x is None else rows.values[1]
        sums = {
            **self._common(rows, y),
            "of_x": rows.sum() if x is None else rows.sum(x),
            **self._by_coin("y", bare_y if bare_x is None else F.when(bare_x.isNotNull(), bare_y)),
            **self._by_coin("x", F.when(bare_y.isNotNull(), F.lit(1.0) if bare_x is None else bare_x)),
            "both": F.sum(c),
            **extremes(y, x),
        }
        if len(self.coins) == 2:
            sums |= residual_squares.sums(rows.w, c, y, x)

        def both(known: Column, R: Column) -> Column:
            if len(self.coins) == 1:
                return known["both"]
            n, N, C = known["rows"], known["total"], known["both"]
            if x is None:
                return residual_squares.about_mean(known, n=n, N=N, C=C)
            return residual_squares.about_ratio(known, R, n=n, N=N, C=C)

        def found(known: Column, err: Column, R: Column) -> Column:
            X, scale = F.least(self._others(known, err), known["total"]), F.abs(known["of_x"])
            same = alike(known, 0.0 if x is None else ALIKE) & (err["m"] > 1.0) & (err["V"] < float("inf"))
            d = distance(apart, F.abs(F.try_divide(known["of_y"], known["total"])))
            reach = F.try_divide(d * X, scale)
            return rows.around(
                R, F.try_divide(err["V"], scale * scale), err["nu"], same=same, same_reach=reach
            )

        def divided(known: Column) -> Column:
            R = F.try_divide(known["of_y"], known["of_x"])
            return let(lambda once: residuals(known, once["R"]), R=R)

        def residuals(known: Column, R: Column) -> Column:
            err = self._error(known, both(known, R), R)
            return let(lambda once: found(known, once["err"], R), err=err)

        return let(divided, **sums)

    def _rows(self, *values: Column) -> Rows:
        return Rows.of(self.level, reduce(mul, [coin.w for coin in self.coins]), *values)

    def _common(self, rows: Rows, y: Column) -> dict[str, Column]:
        return {
            "of_y": rows.sum(y),
            "total": rows.sum(),
            "rows": F.count(rows.w),
            "squares": F.sum(rows.w * rows.w),
        }

    def _by_coin(self, name: str, e: Column | None = None) -> dict[str, Column]:
        w = reduce(mul, [bare(coin.weight) for coin in self.coins])
        return {f"{name}{coin.side}": coin.sums(w if e is None else w * e) for coin in self.coins}

    def _both(self, rows: Rows) -> Column:
        """Return what a result adds to D, without the factor e²: 0 with one draw, NaN for an invalid weight."""
        loss = reduce(mul, [coin.loss for coin in self.coins])
        return rows.w * rows.w * loss if len(self.coins) == 2 else rows.w * loss * 0.0

    def _error(self, known: Column, D: Column, R: Column | None = None) -> Column:
        """Return V, its degrees of freedom, and how many places of the sketch are used."""
        sides = []
        for side in (coin.side for coin in self.coins):
            S = known[f"y{side}"]
            if R is not None:
                S = F.zip_with(S, known[f"x{side}"], lambda y, x: y - R * x)
            sides.append(variance(S, centred=R is not None))
        return together(sides, D)

    def _let(self, found: Callable[[Column, Column], Column], sums: dict[str, Column]) -> Column:
        def body(known: Column) -> Column:
            return let(lambda once: found(known, once["err"]), err=self._error(known, known["both"]))

        return let(body, **sums)

    def _others(self, known: Column, err: Column) -> Column:
        """Return how many results may differ where all kept values are the same: those of X/w̄ draws out of m."""
        w = F.try_divide(known["squares"], known["total"])
        return F.try_divide(known["total"] * others(self.level, w), err["m"] * w)
