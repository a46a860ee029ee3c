"""Decides when the status should report that rows of a join have waited too long for the other side.

Rows wait in the state until the time of both sides has passed them (shard.py). That is right while a side is only
slow. If a side has stopped, the rows of the other side wait without end, and Spark writes all of them in every batch.
Spillway cannot know which of the two is the case, so the rows wait, and the status reports it: as soon as the waiting
rows span a time of

    S = 10 · (the longer window + the longer delay of a watermark), but at least a minute

and again whenever this span has doubled. The time is that of the rows, so that a batch that is run again reports the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WINDOWS = 10
_LEAST_US = 60_000_000
_US = 1_000_000


@dataclass(frozen=True)
class Patience:
    """How long rows may wait before the status reports it: a span S of event time."""

    span_us: int

    @classmethod
    def of(cls, windows_us: Sequence[int], delays_us: Sequence[int]) -> Patience:
        """Return the patience of a join, from its windows and the delays of its watermarks.

        >>> Patience.of((20_000_000, 5_000_000), (0, 1_000_000))
        Patience(span_us=210000000)
        """
        return cls(max(_LEAST_US, _WINDOWS * (max(windows_us) + max(delays_us))))

    def level(self, waited_us: int) -> int:
        """Return 0 while rows have waited less than S, then 1, and one more for each doubling of the wait.

        >>> [Patience(100).level(waited_us) for waited_us in (0, 99, 100, 199, 200, 400, 799)]
        [0, 0, 1, 1, 2, 3, 3]
        """
        return (max(0, waited_us) // self.span_us).bit_length()

    def said(self, before_us: int, waited_us: int, behind: str) -> str:
        """Return the note after a batch, given how long rows had waited before it; usually it is empty.

        >>> Patience(60 * _US).said(50 * _US, 70 * _US, "right")[:61]
        'the right side is behind, and the rows of 70 s wait for it in'
        """
        if self.level(waited_us) <= self.level(before_us):
            return ""
        return (
            f"the {behind} side is behind, and the rows of {waited_us / _US:,.0f} s wait for it in the state: pass "
            "idle= to the join if it need not be waited for"
        )
