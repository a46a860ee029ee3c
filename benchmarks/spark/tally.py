"""Counts what a streaming query delivers, and how late: some numbers per batch, whatever its size.

Of each batch it is noted how many results count, quantiles of when they were due, and when they were there. So the
percentile of the delay over all batches is that of the quantiles, each with its share of the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from spillway.demo.playback import breathe
from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Tally:
    """What has come so far of the results whose place is from ``low`` up to but not including ``high``.

    ``place`` is a whole number that grows with time, made when it is asked for; ``quantiles`` are those noted of it.
    """

    place: Callable[[], Column]
    low: int
    high: int
    quantiles: tuple[float, ...]
    seen: list[dict[str, Any]] = field(default_factory=list)

    def take(self, frame: DataFrame, _: int) -> None:
        """Count a batch: for ``foreachBatch``."""
        at = self.place()
        counts = at.between(self.low, self.high - 1)
        row = frame.agg(
            F.count_if(counts).alias("n"),
            F.percentile_approx(F.when(counts, at), list(self.quantiles)).alias("at"),
            F.max(at).alias("newest"),
        ).collect()[0]
        self.seen.append(
            {"n": row["n"], "at": row["at"] or [], "newest": row["newest"] or 0, "now_s": time.time()}
        )

    def wait(self, query: StreamingQuery, give_up_s: float, too_late: str) -> None:
        """Wait until later results have come, so that all that count are there."""
        while not any(batch["newest"] >= self.high for batch in self.seen):
            if time.time() > give_up_s:
                raise SpillwayError(too_late)
            breathe(query)

    @property
    def total(self) -> int:
        """How many results have come."""
        return sum(batch["n"] for batch in self.seen)

    def p95_delay_s(self, due_s: Callable[[float], float]) -> float:
        """Return the 95th percentile of the delay; ``due_s`` tells by the clock when a place was due."""
        delays, weights = [], []
        for batch in self.seen:
            for place in batch["at"]:
                delays.append(batch["now_s"] - due_s(place))
                weights.append(batch["n"] / len(self.quantiles))
        return weighted_percentile(delays, weights, 0.95)


def weighted_percentile(values: list[float], weights: list[float], share: float) -> float:
    """Return the value below which this share of the weight lies.

    >>> weighted_percentile([1.0, 3.0, 2.0], [1.0, 1.0, 8.0], 0.85)
    2.0
    """
    if not values:
        return 0.0
    order = np.argsort(values)
    total = np.cumsum(np.asarray(weights)[order])
    at = int(np.searchsorted(total, share * total[-1]))
    return float(np.asarray(values)[order][min(at, len(values) - 1)])
