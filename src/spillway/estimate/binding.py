"""Values that are computed once and used in several places of an expression.

Spark has no such thing for Columns. An expression in which each use repeats what it uses soon has thousands of nodes,
and a streaming query plans it anew in every batch: half a second for one mean, measured. A function applied to an
array of one element names the element. So each aggregate stands in the plan once.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def struct(**fields: Column) -> Column:
    """Return a struct with these fields."""
    return F.struct(*[value.alias(name) for name, value in fields.items()])


def let(body: Callable[[Column], Column], **fields: Column) -> Column:
    """Return the body's value, where ``known["x"]`` in it is the field x."""
    return F.transform(F.array(struct(**fields)), body)[0]
