"""The paper's four metrics of a run (Section 3), over every row rather than per period.

===================== ================================================================ ==================
field                 meaning                                                          paper
===================== ================================================================ ==================
``acc_violation_s``   Σ (y - y_d) over the rows with y > y_d                           accumulated delay violations
``late_rows``         how many those are                                               total delayed tuples
``overshoot_s``       the largest y - y_d, 0 if no row is late                         maximal overshoot
``loss_ratio``        rows shed / rows arrived                                         data loss ratio
===================== ================================================================ ==================

y is a delivered row's delay, y_d the target in force when it arrived. Rows that were shed have no delay.
"""

from __future__ import annotations

from dataclasses import dataclass

from spillway.sim.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Metrics:
    """See the module's table."""

    rows: int
    delivered_rows: int
    acc_violation_s: float
    late_rows: int
    overshoot_s: float
    loss_ratio: float
    mean_delay_s: float

    @property
    def in_time_rows(self) -> int:
        """Rows that were delivered within the target."""
        return self.delivered_rows - self.late_rows


def measure(outcome: Outcome) -> Metrics:
    """Compute a run's metrics."""
    got = outcome.delivered
    delay = outcome.delay_s[got]
    over = delay - outcome.targets.at(outcome.arrival_s[got])
    late = over[over > 0.0]
    rows, delivered = int(got.size), int(delay.size)
    return Metrics(
        rows=rows,
        delivered_rows=delivered,
        acc_violation_s=float(late.sum()),
        late_rows=int(late.size),
        overshoot_s=float(late.max(initial=0.0)),
        loss_ratio=(rows - delivered) / rows if rows else 0.0,
        mean_delay_s=float(delay.mean()) if delivered else 0.0,
    )
