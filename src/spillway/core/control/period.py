"""Chooses the length of the control period: short enough for bursts, long enough for statistics (Section 4.5.3).

*Bursts* require a short period. To see a burst of width w at all, it has to be sampled twice (Nyquist and
Shannon), so T <= w / 2; to follow its shape, about ten times, so T = w / 10 is the aim.

*Statistics* require a long period. The cost c(k) and the delay y(k) are means over the rows of a period. With
a coefficient of variation v of single rows, the mean of n rows has a relative error of v / √n, so an error
of at most ε needs n >= (v / ε)² rows and

    T >= (v / ε)² / f                      f: rows finished per second

Where both cannot be satisfied, bursts have priority: the loop smooths a noisy cost, but a burst that
falls between two samples is not controlled at all. With the paper's bursts of 4 to 5 s and 190 rows/s this
gives about half a second, in the middle of the best region of its Figure 19 (0.25 to 1 s).

>>> choice = choose_period(burst_width_s=4.5, rows_per_s=190)
>>> choice.period_s, choice.reason
(0.45, 'a tenth of a burst of 4.5 s; 86 rows a period give the cost to 11%')
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from spillway.core.checks import require_number
from spillway.core.control.duration_text import duration


@dataclass(frozen=True, slots=True)
class PeriodChoice:
    """A control period, the bounds it was chosen between, and the reason for the choice."""

    period_s: float
    shortest_s: float
    longest_s: float
    reason: str


def choose_period(
    *, burst_width_s: float, rows_per_s: float, row_variation: float = 1.0, cost_error: float = 0.15
) -> PeriodChoice:
    """Return a control period for bursts of a given width and a given throughput.

    ``row_variation`` is the coefficient of variation of the cost of single rows (1 for exponential costs);
    ``cost_error`` the acceptable relative error of the mean cost.
    """
    require_number("burst_width_s", burst_width_s, 0.0, above=True)
    require_number("rows_per_s", rows_per_s, 0.0, above=True)
    require_number("row_variation", row_variation, 0.0)
    require_number("cost_error", cost_error, 0.0, 1.0, above=True)
    w, f = burst_width_s, rows_per_s
    longest = w / 2.0
    shortest = (row_variation / cost_error) ** 2 / f
    T = min(max(w / 10.0, shortest), longest)
    n = T * f
    error = row_variation / math.sqrt(n)
    rows, burst = f"{n:,.0f} rows a period give the cost", duration(w)
    if shortest > longest:
        why = f"half of a burst of {burst}, although {rows} only to {error:.0%}"
    elif shortest > w / 10.0:
        why = f"{rows} to {error:.0%}; a burst of {burst} spans {w / T:.1f} periods"
    else:
        why = f"a tenth of a burst of {burst}; {rows} to {error:.0%}"
    return PeriodChoice(period_s=T, shortest_s=shortest, longest_s=longest, reason=why)
