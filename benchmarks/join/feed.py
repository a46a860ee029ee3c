"""Rows cut into batches of equal time, as a stream would bring them, and joins with full windows to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spillway.core.join import Join, JoinConfig
from spillway.core.join.adaptations import shedding_of


@dataclass(frozen=True)
class Feed:
    """Two tables with rows in the order of ``time``, in seconds."""

    left: pa.Table
    right: pa.Table

    def between(self, low_s: float, high_s: float) -> tuple[pa.Table, pa.Table]:
        """Return the rows from ``low_s`` up to, not including, ``high_s``.

        >>> feed = Feed(pa.table({"time": [0.0, 1.0, 2.0]}), pa.table({"time": [0.5, 1.5]}))
        >>> [part["time"].to_pylist() for part in feed.between(1.0, 2.0)]
        [[1.0], [1.5]]
        """
        parts = []
        for table in (self.left, self.right):
            low, high = np.searchsorted(table["time"].to_numpy(), [low_s, high_s])
            parts.append(table.slice(low, high - low))
        return parts[0], parts[1]

    def batches(self, low_s: float, high_s: float, step_s: float) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield batches of ``step_s``, in order."""
        for number in range(round((high_s - low_s) / step_s)):
            yield self.between(low_s + number * step_s, low_s + (number + 1) * step_s)


def filled(
    config: JoinConfig,
    left: pa.Table,
    right: pa.Table,
    *,
    kept: float = 1.0,
    clock: Callable[[], float] | None = None,
) -> Join:
    """Return a join whose windows hold these rows, or a share of them, none of which has been compared.

    ``kept`` is that share, for a join that drops rows.
    """
    if not shedding_of(config.shedding).drop_rows:
        join = config.build(clock=clock)
        join.process(left, right, fraction=0.0)
        return join
    rng = np.random.default_rng(config.salt + 1)
    thinned = (part.filter(pa.array(rng.random(part.num_rows) < kept)) for part in (left, right))
    storing = replace(config, shedding="newest").build()  # which drops nothing and has the same state
    storing.process(*thinned, fraction=0.0)
    return config.build(storing.snapshot(), clock=clock)
