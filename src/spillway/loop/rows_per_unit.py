"""Estimates the rows of a batch from its size in the units of its sources.

A unit is what can be counted before a batch runs (offsets.py): an offset of Kafka, a byte of a file. How many rows
reach the shedder per unit is learned from finished batches, and it may change from one batch to the next. A topic
with compaction or transactions has gaps in its offsets: old segments of a compacted topic are nearly empty, and its
end is full. A filter before the shedder may pass more rows at times. A mean of such ratios is wrong in both
directions: 400 rows were estimated as 400,200, and the 200,000 rows after them as 200. So the loop keeps a range of
ratios instead, and the estimate is the value whose worst error over the range is smallest.

=========== ==================================================================================================
symbol      what it is
=========== ==================================================================================================
U           units of the batch
[l, h]      range of rows per unit that is believed possible
L           rows that fit (the limit of the batch)
n, n̂        rows of the batch, and the estimate of n; the share min(1, L / n̂) is kept
=========== ==================================================================================================

**The estimate.** If n̂ is too high, n̂ / max(n, L) times fewer rows are kept than could have been. If n̂ is too low,
n / n̂ times more rows are let in than fit. The first is worst at n = l U and the second at n = h U; the larger of
the two is smallest where they are equal::

    n̂ = sqrt(h U * max(l U, L))        both are sqrt(h U / max(l U, L))

If even h U rows fit, nothing has to be shed and n̂ is the middle of the range. Ratios that differ by less than a
factor of 2 are treated as random variation, and n̂ is their middle; a range of a factor of 4 or more counts in full.

**The range.** It begins at the ratio that the first batch would have had if each offset held a row. Spark reports
how many rows the sources delivered, so the effect of a filter or an explode before the shedder can be separated from
gaps. Hence no batch is estimated at more rows than it has offsets, unless an offset was seen to become several rows.
Until the first batch is finished an offset of Kafka counts as a row, because most topics have no gaps and the first
batch is often the largest. Then the ratio of each finished batch

- extends the range to itself at once if it lies outside: what has been seen is possible;
- pulls the high end down towards itself, by 30 % of the distance in logs and at most by a factor of 1.5: a constant
  ratio of 1/10 is believed after 5 batches, one of 1/1000 only after 15: the full end of the topic may still come;
- pulls the low end up towards itself, by half of the distance in logs: gaps lie in old segments, which are read once.

A count of n rows varies randomly by n ± 2 sqrt(n), so small batches change the range little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

_RISE = 0.5  # the part of the distance in logs by which the low end moves in a batch
_FALL = 0.3  # the part of the distance in logs by which the high end moves in a batch,
_LARGEST_FALL = math.log(1.5)  # at most: after one empty stretch, a full stretch must still be expected
_EVEN = math.sqrt(2.0)  # from the middle to either end; so narrow a range is treated as random variation
_DEVIATIONS = 2.0  # standard deviations of a count of rows that are treated as random variation


@dataclass(frozen=True, slots=True)
class RowsPerUnit:
    """The range of rows per unit that is believed possible.

    >>> gaps = RowsPerUnit(0.001, 1.0)
    >>> round(gaps.estimate(200_000, limit=86_000)), round(gaps.estimate(80_000, limit=86_000))
    (131149, 2530)
    >>> RowsPerUnit(1.0, 1.0).after(rows=400, units=400_200).low
    0.0009995...
    """

    low: float
    high: float

    @classmethod
    def around(cls, middle: float, spread: float) -> Self:
        """Make a range from its middle (in logs) and the factor from there to either end."""
        return cls(middle / spread, middle * spread)

    @classmethod
    def total(cls, ranges: Iterable[RowsPerUnit]) -> Self:
        """Add up the rows that reach several stages per unit of the same sources."""
        parts = list(ranges)
        return cls(sum(part.low for part in parts), sum(part.high for part in parts))

    @property
    def middle(self) -> float:
        """The middle of the range, in logs."""
        return self.low if self.low == self.high else math.sqrt(self.low) * math.sqrt(self.high)

    @property
    def spread(self) -> float:
        """The factor from the middle to either end."""
        return math.sqrt(self.high / self.low) if self.low > 0.0 else 1.0

    def estimate(self, units: float, limit: float | None) -> float:
        """Return the estimated rows of a batch. ``limit`` is how many rows fit, None where there is no limit."""
        spread = min(self.spread, max(1.0, (self.spread / _EVEN) ** 2))
        low, high = self.middle / spread * units, self.middle * spread * units
        if limit is None or high <= limit or low >= limit:
            return self.middle * units
        return math.sqrt(high) * math.sqrt(limit)

    def after(self, rows: int, units: float) -> RowsPerUnit:
        """Return the range after a batch of this many rows and units."""
        chance = _DEVIATIONS * math.sqrt(rows)
        least, most = max(0.0, rows - chance) / units, (rows + chance + _DEVIATIONS) / units
        seen = max(rows, 1) / units
        low = seen if self.low > most else _rise(self.low, least)
        high = seen if self.high < least else _fall(self.high, most)
        return RowsPerUnit(low, high)


def _rise(end: float, goal: float) -> float:
    return end if end >= goal or end <= 0.0 else end * (goal / end) ** _RISE


def _fall(end: float, goal: float) -> float:
    return end if end <= goal else end * math.exp(-min(_LARGEST_FALL, _FALL * math.log(end / goal)))
