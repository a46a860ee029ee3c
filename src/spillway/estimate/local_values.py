"""Values that are computed once and used in several places of an expression.

Spark has no such thing for Columns. An expression in which each use repeats what it uses soon has thousands of nodes,
which a streaming query plans anew in every batch: one mean takes more than twice as long. A function applied to an
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
