"""Implements the paper's model of a stream engine: one virtual queue before one processor (Section 4.2).

A query may have many operators, but a fair scheduler makes a row wait until all earlier rows are
done. So the engine behaves as if whole rows were processed one after the other, in the order of their
arrival:

    y = (q + 1) c / H                      the delay of a row that finds q others        (Eq. 2, 11)
    q = y H / c - 1                        the queue that makes a row wait y             (its inverse)
    f_out = H / c                          the rate at which a busy engine finishes rows

======  =====================================================================
symbol  meaning
======  =====================================================================
y       delay, from arrival to result, in seconds
q       outstanding rows: admitted and not finished
c       processing time per row in seconds, averaged over a period
H       headroom: the share of the processor that the query gets, 0 < H <= 1
======  =====================================================================

The delay of a row is only known when the row has left, which is too late to control it by. The queue is
known at once, so all controllers work on the delay that this model predicts from the queue (Section 4.5.1).
For their form on a batch engine see :mod:`~spillway.core.control.signals`.
"""

from __future__ import annotations

# Measurements are clipped to these bounds, which keep every quotient and product of the control laws finite.
LEAST_COST_S = 1e-12
MOST_COST_S = 1e6
MOST_ROWS = 1e15


def delay_of_queue_s(queue_rows: float, cost_s: float, headroom: float = 1.0) -> float:
    """Return the delay of a row that finds ``queue_rows`` rows before it.

    >>> delay_of_queue_s(368, 0.00526, 0.97)
    2.0009...
    """
    return (queue_rows + 1.0) * cost_s / headroom


def queue_of_delay_rows(delay_s: float, cost_s: float, headroom: float = 1.0) -> float:
    """Return the queue that causes the given delay: the inverse of :func:`delay_of_queue_s`.

    >>> queue_of_delay_rows(delay_of_queue_s(368, 0.00526, 0.97), 0.00526, 0.97)
    367.9...
    """
    return delay_s * headroom / cost_s - 1.0


def capacity_rows_per_s(cost_s: float, headroom: float = 1.0) -> float:
    """Return how many rows a second a busy engine finishes.

    >>> round(capacity_rows_per_s(0.00526))
    190
    """
    return headroom / cost_s
