"""When rows of a join have waited so long for the other side that its owner should know.

Rows wait in the state until both sides have come as far (shard.py). That is right while a side is only slow. If
it is silent for good the rows of the other one wait without end, and Spark writes all of them in every batch. Which
of the two it is nobody can tell, so they wait, and the status says so: as soon as those that wait span a time of

    S = 10 · (the longer window + the longer delay of a watermark), but at least a minute

and again whenever that has doubled. Time is that of the rows, so that a batch that is done again says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WINDOWS = 10
_LEAST_US = 60_000_000
_US = 1_000_000


@dataclass(frozen=True)
class Patience:
    """How long rows may wait before it is told: a span S of their own time."""

    span_us: int

    @classmethod
    def of(cls, windows_us: Sequence[int], delays_us: Sequence[int]) -> Patience:
        """Return that of a join.

        >>> Patience.of((20_000_000, 5_000_000), (0, 1_000_000))
        Patience(span_us=210000000)
        """
        return cls(max(_LEAST_US, _WINDOWS * (max(windows_us) + max(delays_us))))

    def level(self, waited_us: int) -> int:
        """Return 0 while rows have not waited for S, then 1, and one more for each time that has doubled.

        >>> [Patience(100).level(waited_us) for waited_us in (0, 99, 100, 199, 200, 400, 799)]
        [0, 0, 1, 1, 2, 3, 3]
        """
        return (max(0, waited_us) // self.span_us).bit_length()

    def said(self, before_us: int, waited_us: int, behind: str) -> str:
        """Return what to say after a batch, given how long rows had waited before it; mostly nothing.

        >>> Patience(60 * _US).said(50 * _US, 70 * _US, "right")[:61]
        'the right side is behind, and the rows of 70 s wait for it in'
        """
        if self.level(waited_us) <= self.level(before_us):
            return ""
        return (
            f"the {behind} side is behind, and the rows of {waited_us / _US:,.0f} s wait for it in the state: pass "
            "idle= to the join if it need not be waited for"
        )
