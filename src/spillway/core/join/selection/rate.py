"""Computes the fraction r of the windows to compare with, from a budget of work or from the rows that were fetched.

**From a budget** (:func:`fraction_for`). The caller says how many comparisons B it can afford. The rows of a period
would make D comparisons, so a fraction of about B / D is possible. A share γr of the rows is processed in full, to
learn; the others are compared with a fraction r. Together that is D (γr + (1 - γr) r), and r is the root of

    γr² - (1 + γ) r + B / D = 0,    0 <= r <= 1

**By feedback** (:class:`RateConfig`, the paper's Algorithm 1). Every T_r seconds the rows fetched are compared
with the rows that arrived:

    β = fetched / arrived          the share of the rows that the join kept up with
    β < 1     r <- β r             too slow: compare less
    β >= 1    r <- min(1, δ r)     fast enough: try more

This needs no cost model, but it only learns that r was too high after rows have had to wait or were lost, and at a
steady rate r swings between the right value and δ times that. A budget, where one is known, avoids both.

======  =================================================================
symbol  meaning
======  =================================================================
r       fraction of the windows that rows are compared with
γ       ``sample``: share of rows processed in full, as a multiple of r
δ       ``boost``, the paper's δ_r
T_r     ``period_s``
======  =================================================================

>>> rate = RateConfig().build()
>>> rate.step(fetched_rows=500, arrived_rows=1000), rate.step(fetched_rows=1000, arrived_rows=1000)
(0.5, 0.6)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spillway.core.checks import require_number
from spillway.core.state.records import from_snapshot, to_snapshot
from spillway.errors import invalid


def fraction_for(budget: float, demand: float, sample: float) -> float:
    """Return the fraction r at which ``demand`` comparisons, some of them for learning, take ``budget``.

    >>> fraction_for(100, 1000, 0.0), fraction_for(2000, 1000, 0.1), fraction_for(0, 1000, 0.1)
    (0.1, 1.0, 0.0)
    >>> r = fraction_for(40, 1000, 0.1)
    >>> round(1000 * (0.1 * r + (1 - 0.1 * r) * r), 6)
    40.0
    """
    if budget >= demand:
        return 1.0
    share = max(0.0, budget / demand)
    if sample == 0.0:
        return share
    return 2.0 * share / (1.0 + sample + math.sqrt((1.0 + sample) ** 2 - 4.0 * sample * share))


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """Boost factor and period of Algorithm 1, and the smallest fraction from which it can still rise."""

    boost: float = 1.2
    period_s: float = 5.0
    least: float = 1e-6

    def __post_init__(self) -> None:
        require_number("boost", self.boost, 1.0, above=True)
        require_number("period_s", self.period_s, 0.0, above=True)
        require_number("least", self.least, 0.0, 1.0, above=True)

    def build(self, state: Mapping[str, Any] | None = None) -> Rate:
        """Return the adaptation at r = 1, or as it was when a snapshot was made."""
        return Rate(self, state)


@dataclass
class RateState:
    """The fraction r."""

    fraction: float = 1.0


class Rate:
    """Adapts the fraction to the share of rows that could be fetched."""

    kind = "join_rate"
    version = 1

    def __init__(self, config: RateConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            RateState()
            if state is None
            else from_snapshot(RateState, state, kind=self.kind, version=self.version)
        )
        require_number("state.fraction", self.state.fraction, 0.0, 1.0)

    def step(self, *, fetched_rows: float, arrived_rows: float) -> float:
        """Take the rows of one period, both sides together, and return the fraction for the next one."""
        if fetched_rows < 0 or arrived_rows < 0:
            raise invalid("rows", (fetched_rows, arrived_rows), "0 or more")
        r = self.state.fraction
        beta = fetched_rows / arrived_rows if arrived_rows else 1.0
        r = beta * r if beta < 1.0 else min(1.0, self.config.boost * r)
        self.state.fraction = max(self.config.least, r)
        return self.state.fraction

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
