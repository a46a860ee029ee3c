"""Says whether the rows of all sources of a plan are counted before a batch runs (offsets.py).

The plan of a streaming DataFrame names its sources. If the offsets of all of them count rows, the size of a batch is
always known, and nothing has to be added to the plan to bound it. A source that is not known here, or a plan that
cannot be read, is treated as a source whose rows cannot be counted.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED = frozenset({"kafka", "rate-micro-batch", "replay"})
_SOURCE = re.compile(r"\bStreamingRelation\s+([^\s,\[]+)")


def rows_are_counted(df: DataFrame) -> bool:
    """Return whether each source of a streaming DataFrame counts its rows in its offsets."""
    plan = io.StringIO()
    with redirect_stdout(plan):  # the only way to a plan that also exists on Spark Connect
        df.explain()
    return are_counted(plan.getvalue())


def are_counted(plan: str) -> bool:
    """Return whether each source of a physical plan, given as text, counts its rows in its offsets.

    >>> are_counted("*(1) Project [id#1]\\n+- StreamingRelation kafka, [key#0, value#1]")
    True
    >>> are_counted("Union\\n:- StreamingRelation kafka, [key#0]\\n+- StreamingRelation FileSource[/data], [x#5]")
    False
    >>> are_counted("a plan in words that nobody knows")
    False
    """
    sources = set(_SOURCE.findall(plan))
    return bool(sources) and sources <= COUNTED
