"""Turns the wanted rate v into an action on rows: the paper's two actuators (Section 4.5.2).

*At entry.* Each arriving row is kept with probability 1 - α, α = 1 - v / f_in (Eq. 13). The arrival rate of the
coming period is not known; the rate of the last period is used instead.

*From the queue.* As many rows as v allows are admitted. If v is below zero, more rows wait than the target
allows: nothing is admitted, and |v| T rows are removed from the queue. The paper prints the load to
shed as L_q + L_i - L_a (queued plus incoming less admitted). Taken literally, that sheds the whole queue in
the steady state, where L_i = L_a. But the control law asks that the queue *grows by u*, so the
queue's own load is already part of v and is not counted again.
"""

from __future__ import annotations


def keep_ratio_at_entry(wanted_rate: float, arrival_rate: float) -> float:
    """Return the share of arriving rows to keep, 1 - α, from 0 to 1.

    >>> keep_ratio_at_entry(190.0, 380.0)
    0.5
    >>> keep_ratio_at_entry(190.0, 0.0), keep_ratio_at_entry(-10.0, 0.0)
    (1.0, 0.0)
    """
    if wanted_rate <= 0.0:
        return 0.0
    return 1.0 if arrival_rate <= wanted_rate else wanted_rate / arrival_rate


def shed_from_queue_rows(wanted_rate: float, period_s: float, queue_rows: float) -> float:
    """Return how many rows to remove from the queue at once: none unless the wanted rate is below zero.

    >>> shed_from_queue_rows(190.0, 1.0, 500.0), shed_from_queue_rows(-80.0, 0.5, 500.0)
    (0.0, 40.0)
    >>> shed_from_queue_rows(-80.0, 10.0, 500.0)
    500.0
    """
    return min(max(-wanted_rate * period_s, 0.0), queue_rows)
