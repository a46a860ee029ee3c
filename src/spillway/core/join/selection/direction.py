"""Algorithm 4, join direction: sheds first in the window that yields less (Section 5.2).

If matching rows reach the left stream later than the right one, then left rows that arrive find their partners in
the right window, and right rows that arrive find few. So comparisons with the left window are given up first, and
with the right one only when those are used up. With D_i the comparisons that all of window i would take in the
period, and o_i the matches per comparison with it, the total stays what r allows:

    r (D_1 + D_2) = r_1 D_1 + r_2 D_2

    o_1 >= o_2    r_1 = min(1, r (D_1 + D_2) / D_1)             as much as possible
    o_1 <  o_2    r_1 = max(0, (r (D_1 + D_2) - D_2) / D_1)     what window 2 leaves
                  r_2 = (r (D_1 + D_2) - r_1 D_1) / D_2

**Error in the paper.** Line 7 has r_2 = r (w_1 + w_2) / w_1 - r_1 w_1 / w_2, which breaks the constraint where w_1
and w_2 differ: the first divisor has to be w_2.

**Deviation.** The paper has the window lengths w_i in place of D_i, as D_i = λ_1 λ_2 w_i for steady rates. Here D_i
is known row by row, so the budget holds even when rates change.

**Limit.** The rule treats any part of one window as better than all of the other. Where rows match in both directions
it gives up the best part of one window for the worst part of the other, and finds fewer matches than without it. So
by default :mod:`spillway.core.join.selection.knapsack` weighs basic windows of both sides against each other, and
this rule is ``direct_by="window"``.

>>> directed(0.25, demand=(100.0, 100.0), density=(0.01, 0.02))
(0.0, 0.5)
>>> directed(0.75, demand=(100.0, 100.0), density=(0.01, 0.02))
(0.5, 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence


def directed(r: float, *, demand: Sequence[float], density: Sequence[float]) -> tuple[float, float]:
    """Return the fractions r_1 and r_2 of the left and of the right window."""
    (D1, D2), (o1, o2) = demand, density
    allowed = r * (D1 + D2)
    if D1 <= 0.0 or D2 <= 0.0:
        return min(1.0, r), min(1.0, r)
    r1 = min(1.0, allowed / D1) if o1 >= o2 else max(0.0, (allowed - D2) / D1)
    r2 = min(1.0, max(0.0, (allowed - r1 * D1) / D2))
    return r1, r2
