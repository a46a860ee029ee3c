"""Selects the rows that an estimate counts, and checks the options that all estimates share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import and_, mul

from pyspark.sql import Column
from pyspark.sql import functions as F

from spillway.core.groups.student import require_level
from spillway.errors import SpillwayError
from spillway.estimate.local_values import let, struct
from spillway.estimate.student import student

ROUNDING = 1e-9  # a weight that differs from 1 by no more, because of rounding, counts as 1
# If the column is missing, Spark's error shows the plan, which contains this text. It has no other effect.
_REMINDER = "weights come from shed.tuples or shed.groups: see est.check"


def number(field: str, named: str | Column) -> Column:
    """Return a column of numbers, given by name or as a Column, as doubles, or raise.

    The greatest of a column and null is the column itself. With it Spark refuses a column that is not a number when
    it analyses the plan. A column of strings is refused only when the query runs, if a string is no number.
    """
    if isinstance(named, str) and named:
        named = F.col(named)
    if not isinstance(named, Column):
        raise SpillwayError(f"{field} = {named!r} is not allowed: expected a column's name or a Column.")
    return F.greatest(named, F.lit(None).cast("double")).cast("double")


def bare(named: str | Column) -> Column:
    """Return the column as doubles without that check, for repeated use: the estimate checks it in another place."""
    return (F.col(named) if isinstance(named, str) else named).cast("double")


def title(kind: str, *named: str | Column) -> str:
    """Return the name of an estimate's column.

    >>> title("mean", "fare"), title("ratio", "fare", "ride.miles")
    ('mean_fare', 'ratio_fare_ride_miles')
    """
    words = [kind]
    for one in named:
        text = one if isinstance(one, str) else str(one).removeprefix("Column<'").removesuffix("'>")
        words += re.findall(r"\w+", text.rpartition(" AS ")[2])
    return "_".join(words)[:60]


@dataclass(frozen=True)
class Rows:
    """The rows that have a weight and all values. In other rows all of these are null, so sums leave them out."""

    level: float
    w: Column
    a: Column  # w (w - 1), what the random draw of the row adds to the variance
    values: tuple[Column, ...]

    @classmethod
    def of(cls, level: float, weight: str | Column, *values: Column) -> Rows:
        """Check the options that all estimates share."""
        w = number("weight", weight)

        def counted(value: Column, *others: Column) -> Column:
            return F.when(reduce(and_, [other.isNotNull() for other in others]), value) if others else value

        return cls(
            level=require_level(level),
            w=counted(w, *values),
            a=counted(spare(w), *values),
            values=tuple(counted(y, w, *[x for x in values if x is not y]) for y in values),
        )

    def sum(self, *values: Column) -> Column:
        """Return the sum over the rows of the weight times these values."""
        return F.sum(reduce(mul, values, self.w.alias(_REMINDER)))

    def around(
        self,
        value: Column,
        variance: Column,
        dof: Column,
        *,
        least: Column | None = None,
        same: Column | None = None,
        same_reach: Column | None = None,
    ) -> Column:
        """Return value, low and high: t √variance to each side, or ``same_reach`` where all values are the ``same``.

        One infinite value makes a sum infinite regardless of the other values: then both ends are infinite, too.
        """
        reach = student(self.level, dof) * F.sqrt(F.greatest(variance, F.lit(0.0)))
        if same is not None and same_reach is not None:
            reach = F.when(same, same_reach).otherwise(reach)
        reach = F.when(F.abs(value) == float("inf"), 0.0).otherwise(reach)

        def interval(known: Column) -> Column:
            low, high = known["value"] - known["reach"], known["value"] + known["reach"]
            low = low if least is None else F.greatest(low, least)
            return struct(value=known["value"], low=low, high=high)

        return let(interval, value=value, reach=reach)


def spare(w: Column) -> Column:
    """Return w (w - 1) for a weight, NaN for an invalid one (below 1)."""
    least = 1.0 - ROUNDING
    return F.when(w > 1.0 + ROUNDING, w * (w - 1.0)).when(w >= least, 0.0).when(w < least, float("nan"))
