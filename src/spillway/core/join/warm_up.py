"""Compiles every kernel before rows arrive, or loads what has been compiled before.

Compiling takes several seconds, once per machine: the results are cached on disk, and later processes load them in a
fraction of a second. A stream should pay for neither in its first batch, so call this first. Each kernel has a single
signature: whatever the columns are, they have become the same types of arrays when they reach it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spillway.core.join.access.hash_table import empty_table, larger
from spillway.core.join.adaptations import Shedding, shedding_of
from spillway.core.join.config import Access, JoinConfig
from spillway.core.join.predicates import Predicate
from spillway.core.join.selection.utility import Utility


def warm_up(access: Sequence[Access] = ("scan", "index")) -> None:
    """Run small joins through each access path: of single values and of weighted sets, with types."""
    weighted = pa.array([[("a", 1.0)], [("b", 2.0), ("a", 1.0)], []], pa.map_(pa.string(), pa.float64()))
    single = pa.array(["a", "b", "a"])
    utility = Utility("kind", {"x": 1.0})
    sheddings = Shedding(period_s=1.0, sample=1.0, utility=utility), shedding_of("random")
    larger(empty_table())
    for way in access:
        for on, values, shedding in (
            (Predicate("inner_product", "v", "v", 1.0), weighted, sheddings[0]),
            (Predicate("equality", "v", "v"), single, sheddings[0]),
            (Predicate("equality", "v", "v"), single, sheddings[1]),
        ):
            table = pa.table({"time": [0.0, 0.5, 2.5], "v": values, "kind": ["x"] * 3})
            config = JoinConfig(on=on, within_s=1.0, access=way, shedding=shedding)
            join = config.build()
            join.process(table, table, 2)
            join = config.build(join.snapshot())
            later = table.set_column(0, "time", pa.array([10.0, 10.5, 12.0]))
            join.process(later, None)
            join.process(None, later.slice(2), fraction=0.5)
