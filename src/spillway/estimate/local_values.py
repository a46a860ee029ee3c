"""Gives names to values that are computed once and used in several places of an expression.

Spark has no local variables for Columns. An expression that repeats a value at each use soon has thousands of nodes,
and a streaming query plans them anew in every batch: one mean takes more than twice as long. As a substitute, a
function is applied to an array of one element, and its argument names the element. So each aggregate appears in the
plan once.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def struct(**fields: Column) -> Column:
    """Return a struct with these fields."""
    return F.struct(*[value.alias(name) for name, value in fields.items()])


def let(body: Callable[[Column], Column], **fields: Column) -> Column:
    """Return the value of ``body(known)``, where ``known["x"]`` is the field x."""
    return F.transform(F.array(struct(**fields)), body)[0]
