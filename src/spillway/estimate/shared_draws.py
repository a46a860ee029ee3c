"""Estimates the variance where rows share random draws, from sums per draw in a state of fixed size.

A row of a join exists if both of its input rows were kept; with ``key="user"`` all rows of a user are kept or dropped
together. In both cases one random draw (here a ``Coin``) decides about several results. Their errors are not
independent, so the variance needs the sum z over all results of a draw before it is squared. With a draw of
probability π, weight 1/π, and results of weight w and value e,

    V = Σ_draws (1 - π) z²,      z = Σ w e over the results of the draw

An aggregate cannot keep one sum per draw. Instead each draw has a place b out of 10 and a sign s = ±1, both hashed
from its key, and one sum is kept per place (the "fast AMS sketch"):

    S_b = Σ s √(1 - π) w e,      Σ_b S_b²  is V on average,

since the signs cancel the products of different draws. With few draws most of them have a place of their own. With
many, S_b is nearly normal and V has the error of 10 degrees of freedom. That is why t is taken at

    ν = 3 (Σ S²)² / Σ S⁴ - 2,      at most the number m of places in use

degrees of freedom: m for normal S_b, fewer where one draw outweighs the others. Where the residuals e are taken from
the sample's own mean they are too small: V is multiplied by m / (m - 1), and ν is at most m - 1. With a single draw
the variance cannot be estimated then, and V is infinite.
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
    10  # with more, a count, a sum and a mean together exceed Spark's limit of 100 fields for compiled code
)
_SALTS = 7_046_029_254_386_353_131, 1_609_587_929_392_839_161  # far from any salt of a shedder
Key = str | Column | Sequence[str | Column]


@dataclass(frozen=True)
class Coin:
    """One random draw, which keeps or drops a set of rows: the columns that identify the set, and its weight.

    Columns are made when they are used, so that a ``Coin`` can be created before there is a session.
    """

    side: int  # 0 or 1: the two draws of a result have different salts
    field: str  # the option that named the columns
    key: tuple[str | Column, ...]
    weight: str | Column

    @classmethod
    def of(cls, side: int, field: str, key: Key, weight: str | Column) -> Coin:
        """Check the key and the weight, and return the draw that they name."""
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
        """The option that named the weight."""
        return "weight" if self.field == "key" else f"{self.field}_weight"

    @property
    def w(self) -> Column:
        """The weight of a row, null where there is none."""
        return number(self.weight_field, self.weight)

    @property
    def hash(self) -> Column:
        """The hash of the key, which identifies the draw."""
        key = [F.col(one) if isinstance(one, str) else one for one in self.key]
        return F.xxhash64(*key, F.lit(_SALTS[self.side]))

    @property
    def loss(self) -> Column:
        """1 - π of the draw; NaN for an invalid weight (below 1)."""
        w, least = self.w, 1.0 - ROUNDING
        return F.when(w > 1.0 + ROUNDING, 1.0 - 1.0 / w).when(w >= least, 0.0).when(w < least, float("nan"))

    def sums(self, terms: Column) -> Column:
        """Return the array of sums S_b of the terms w e; null at places that no draw uses."""
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
    """Return struct(V, nu, m) of one or two sides. D is the part of both, m the fewest places of a shed side."""

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
