"""Rows that share coins: sums by coin, squared, in a state of fixed size.

A row of a join is there if both rows that it was made of were kept; with ``key="user"`` all rows of a user stay or go
together. So results that share a coin err together, and the variance needs the sum z of what hangs on each coin
before it is squared. With a coin of chance π, weight 1/π, and results of weight w and value e,

    V = Σ_coins (1 - π) z²,      z = Σ w e over the results of the coin

As many sums as there are coins cannot be kept in an aggregate. Each coin has a place b out of 10 and a sign s = ±1,
both hashed from its key, and what is kept is one sum a place (the "fast AMS sketch"):

    S_b = Σ s √(1 - π) w e,      Σ_b S_b²  is V on average,

since the signs cancel the products of different coins. With few coins most have a place to themselves. With many,
S_b is nearly normal and V has the error of 10 degrees of freedom. That is why t is taken at

    ν = 3 (Σ S²)² / Σ S⁴ - 2,      at most the number m of places taken

degrees of freedom: m for normal S_b, fewer where one coin outweighs the others. Where the residuals e are taken from
the sample's own mean they come out too small: V is multiplied by m / (m - 1), and ν is m - 1 at most. One coin alone
then says nothing, and V is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.errors import SpillwayError
from spillway.estimate.local_values import let, struct
from spillway.estimate.rows import ROUNDING, bare, number

PLACES = (
    10  # with more, a count, a sum and a mean together leave Spark's limit of 100 fields for compiled code
)
_SALTS = 7_046_029_254_386_353_131, 1_609_587_929_392_839_161  # far from any salt of a shedder
Key = str | Column | Sequence[str | Column]


@dataclass(frozen=True)
class Coin:
    """What was kept or dropped as one: the columns that tell it from others, and its weight.

    Columns are made when they are used, so that a coin can be named before there is a session.
    """

    side: int  # 0 or 1: the two coins of a result are hashed apart
    field: str  # the option that named it
    key: tuple[str | Column, ...]
    weight: str | Column

    @classmethod
    def of(cls, side: int, field: str, key: Key, weight: str | Column) -> Coin:
        """Check what names a coin."""
        given = [key] if isinstance(key, str | Column) else key
        if not isinstance(given, Sequence) or not given or not all(_names(one) for one in given):
            raise SpillwayError(
                f"{field} = {key!r} is not allowed: expected a column's name, a Column, or several."
            )
        coin = cls(side, field, tuple(given), weight)
        if not _names(weight):
            raise SpillwayError(
                f"{coin.weight_field} = {weight!r} is not allowed: expected a column's name or a Column."
            )
        return coin

    @property
    def weight_field(self) -> str:
        """The option that named its weight."""
        return "weight" if self.field == "key" else f"{self.field}_weight"

    @property
    def w(self) -> Column:
        """The weight, null where there is none."""
        return number(self.weight_field, self.weight)

    @property
    def hash(self) -> Column:
        """The coin's identity."""
        key = [F.col(one) if isinstance(one, str) else one for one in self.key]
        return F.xxhash64(*key, F.lit(_SALTS[self.side]))

    @property
    def loss(self) -> Column:
        """1 - π of the coin; NaN of a weight that cannot be."""
        w, least = self.w, 1.0 - ROUNDING
        return F.when(w > 1.0 + ROUNDING, 1.0 - 1.0 / w).when(w >= least, 0.0).when(w < least, float("nan"))

    def sums(self, terms: Column) -> Column:
        """Return S_b of the terms w e, an array; null at places that no coin has taken."""
        w, place = bare(self.weight), F.pmod(self.hash, F.lit(PLACES))
        signed, sampled = F.signum(self.hash) * F.sqrt(1.0 - 1.0 / w) * terms, w > 1.0 + ROUNDING
        return F.array(*[F.sum(F.when((place == b) & sampled, signed)) for b in range(PLACES)])


def _names(one: object) -> bool:
    return isinstance(one, Column) or (isinstance(one, str) and one != "")


def variance(S: Column, *, centred: bool) -> Column:
    """Return struct(V, nu, m) from the sums by place; ``centred`` where residuals are from the sample's own mean."""

    def powers(known: Column) -> Column:
        square = _total(known["taken"], lambda one: one * one)
        fourth = _total(known["taken"], lambda one: one * one * one * one)
        return let(found, V=square, V4=fourth, m=F.size(known["taken"]).cast("double"))

    def found(known: Column) -> Column:
        return by_powers(known["V"], known["V4"], known["m"], centred=centred)

    return let(powers, taken=F.filter(S, lambda one: one.isNotNull()))


def by_powers(V: Column, V4: Column, m: Column, *, centred: bool) -> Column:
    """Return struct(V, nu, m) from Σ S², Σ S⁴ and the number of sums."""
    nu = 3.0 * F.try_divide(V * V, V4) - 2.0
    if centred:
        V = F.when(m == 1.0, V + float("inf")).otherwise(V * F.try_divide(m, m - 1.0))
        nu = F.least(nu, m - 1.0)
    return struct(V=F.when(m == 0.0, 0.0).otherwise(V), nu=F.greatest(F.least(nu, m), F.lit(1.0)), m=m)


def together(sides: list[Column], D: Column) -> Column:
    """Return struct(V, nu, m) of one side or two; D is what both do together, m the fewest places of a shed side."""

    def found(known: Column) -> Column:
        each = [known[f"side{n}"] for n in range(len(sides))]
        V = reduce(add, [F.greatest(one["V"] - known["D"], F.lit(0.0)) for one in each], known["D"])
        return let(lambda once: whole(each, once["V"]), V=V)

    def whole(each: list[Column], V: Column) -> Column:
        errors = reduce(add, [one["V"] * one["V"] / one["nu"] for one in each])
        nu = F.when(errors == float("inf"), 1.0).otherwise(F.try_divide(V * V, errors))
        m = F.least(*[F.when(one["m"] > 0.0, one["m"]) for one in each], F.lit(float(PLACES)))
        shed = reduce(or_, [one["m"] > 0.0 for one in each])
        return struct(V=V, nu=nu, m=F.when(shed, m).otherwise(0.0))

    fields = {f"side{n}": side for n, side in enumerate(sides)}
    return let(found, D=F.greatest(F.coalesce(D, F.lit(0.0)), F.lit(0.0)), **fields)


def _total(array: Column, term: Callable[[Column], Column]) -> Column:
    return F.aggregate(array, F.lit(0.0), lambda so_far, one: so_far + term(one))
