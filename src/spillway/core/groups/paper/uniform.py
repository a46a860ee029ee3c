"""Implements uniform shedding, the baseline (Algorithm 1): every row is equally likely to be kept.

    bernoulli    a row is kept if its hash is at most the threshold of b; each by itself, so the number kept varies
    fixed        the ⌊bN + 1/2⌋ rows that come first in the random order

A weight is one over the inclusion probability: 1/b, and N/n. A group of few rows is likely to be missing.

>>> rows = pa.table({"id": range(1000)})
>>> uniform(rows, keep_ratio=0.02).num_rows, uniform(rows, keep_ratio=0.02, method="bernoulli").num_rows
(20, 30)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from spillway.core.groups.random_order import draws
from spillway.core.groups.table_checks import budget_of, require_new, require_table, taken
from spillway.core.random import threshold
from spillway.errors import unknown

Method = Literal["fixed", "bernoulli"]


def uniform(
    table: pa.Table,
    *,
    keep_ratio: float,
    method: Method = "fixed",
    salt: int = 0,
    key: str | Sequence[str] | None = None,
    weight: str = "weight",
) -> pa.Table:
    """Keep a share of a table's rows, each with the same probability, and add the weight of each kept row."""
    require_table(table)
    if method not in get_args(Method):
        raise unknown("method", method, get_args(Method))
    n = budget_of(keep_ratio, table.num_rows)
    require_new("weight", weight, table)
    order = draws(table, key, salt=salt)
    if method == "fixed":
        kept = np.sort(np.argpartition(order, n - 1)[:n] if 0 < n < len(order) else np.arange(n))
        w = table.num_rows / max(n, 1)
    else:
        kept = np.flatnonzero((order <= threshold(keep_ratio)) & (keep_ratio > 0.0))
        w = 1.0 / max(keep_ratio, 1e-300)
    return taken(table, kept).append_column(weight, pa.array(np.full(len(kept), w)))
