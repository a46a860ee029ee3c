"""Quantiles of results that share random draws: Woodruff's interval with the variance of the join.

The method is that of :mod:`~spillway.estimate.quantiles`, but the error of the share F(y) comes from its residuals,
e = 1 - q up to the quantile and -q beyond it, by the formulas of :mod:`~spillway.estimate.shared`. The result at
which the weights cross q counts partly below and partly above it, so that Σ w e = 0. Since a group's results are in
memory anyway, the sums by draw are exact: the results are sorted by the hash of the draw and added up, once for each
side.
"""

from __future__ import annotations

from functools import reduce
from operator import mul

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.estimate.local_values import let, struct
from spillway.estimate.quantiles import above, interval, middle, share_of
from spillway.estimate.rows import Rows
from spillway.estimate.shared_draws import Coin, by_powers, together
from spillway.estimate.student import student


def quantile(rows: Rows, coins: tuple[Coin, ...], q: float) -> Column:
    """Return value, low and high at a share of the weights."""
    p = share_of(q)
    (y,), w = rows.values, rows.w
    ids = {f"id{coin.side}": coin.hash for coin in coins}
    losses = {f"loss{coin.side}": coin.loss for coin in coins}
    full = F.when(y.isNotNull(), struct(y=y, w=w, **ids, **losses))
    sides = [coin.side for coin in coins]

    def found(known: Column) -> Column:
        return let(reached, rows=F.sort_array(known["rows"]), total=known["total"])

    def reached(group: Column) -> Column:
        return let(lambda once: residuals(group, once["middle"]), middle=middle(group, p))

    def residuals(group: Column, crossing: Column) -> Column:
        parts = _residuals(group, crossing, p)
        return let(lambda once: around(group, crossing, once["parts"]), parts=parts)

    def around(group: Column, crossing: Column, parts: Column) -> Column:
        err = together([_side(parts, side) for side in sides], _both(parts, sides))
        return let(lambda once: ends(group, crossing, once["err"]), err=err)

    def ends(group: Column, crossing: Column, err: Column) -> Column:
        half = student(rows.level, err["nu"]) * F.try_divide(F.sqrt(err["V"]), group["total"])
        return interval(group, crossing["y"], half, p)

    return let(found, rows=F.collect_list(full), total=rows.sum())


def _residuals(group: Column, crossing: Column, p: float) -> Column:
    """Return the rows with a field z = w e."""
    below = 1.0 - above(group, crossing, p)

    def part(row: Column, place: Column) -> Column:
        crossed = crossing["place"] - 1
        e = F.when(place < crossed, 1.0 - p).when(place > crossed, -p).otherwise(below - p)
        return row.withField("z", row["w"] * e)

    return F.transform(group["rows"], part)


def _side(parts: Column, side: int) -> Column:
    """Return the variance by the random draws of one side: struct(V, nu, m)."""

    def of_coin(row: Column) -> Column:
        return struct(id=row[f"id{side}"], z=row["z"] * F.sqrt(row[f"loss{side}"]))

    def step(so_far: Column, row: Column) -> Column:
        same = so_far["id"] == row["id"]  # null at the first row
        done = F.when(same, 0.0).otherwise(so_far["z"] * so_far["z"])
        return struct(
            id=row["id"],
            z=F.when(same, so_far["z"]).otherwise(0.0) + row["z"],
            V=so_far["V"] + done,
            V4=so_far["V4"] + done * done,
            m=so_far["m"] + F.when(same, 0.0).otherwise(1.0),
        )

    def finish(so_far: Column) -> Column:
        last = so_far["z"] * so_far["z"]
        return by_powers(so_far["V"] + last, so_far["V4"] + last * last, so_far["m"], centred=True)

    sampled = F.filter(parts, lambda row: row[f"loss{side}"] > 0.0)
    start = struct(id=F.lit(None).cast("bigint"), z=F.lit(0.0), V=F.lit(0.0), V4=F.lit(0.0), m=F.lit(0.0))
    return F.aggregate(F.sort_array(F.transform(sampled, of_coin)), start, step, finish)


def _both(parts: Column, sides: list[int]) -> Column:
    """Return D, the part of the variance that both sides cause together."""
    if len(sides) == 1:
        return F.lit(0.0)

    def step(so_far: Column, row: Column) -> Column:
        return so_far + row["z"] * row["z"] * reduce(mul, [row[f"loss{side}"] for side in sides])

    return F.aggregate(parts, F.lit(0.0), step)
