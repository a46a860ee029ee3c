"""Estimates the headroom H from observed queues and measured delays (system identification, Section 4.2).

The model says y = x / H with x = (q + 1) c, the processing time of the rows before a row and of the row itself.
Given pairs of x and a measured delay y, H can be found in two ways:

* as the paper does in Figure 6: try candidates and take the one with the least model error;
* directly: the least-squares slope, 1/H = Σ x y / Σ x².

:class:`HeadroomMeter` does the latter while the query runs, with exponentially fading sums. Its input must be the
queue that the rows *found on arrival*, not the queue at the time when their delay is known.

======  ========================================
symbol  meaning
======  ========================================
q       outstanding rows that a row found
c       processing time per row
y       delay measured
H       headroom, from 0.05 to 1
======  ========================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spillway.core.checks import require_number
from spillway.core.state.records import from_snapshot, to_snapshot
from spillway.errors import SpillwayError, invalid

_LEAST = 0.05


@dataclass(frozen=True, slots=True)
class HeadroomFit:
    """A headroom, and how well the model fits with it: the root of the mean squared error in seconds."""

    headroom: float
    error_s: float


def fit_headroom(queue_rows: ArrayLike, cost_s: ArrayLike, delay_s: ArrayLike) -> HeadroomFit:
    """Return the headroom with the least squared model error.

    >>> fit_headroom([99, 199, 399], 0.005, [0.5 / 0.97, 1.0 / 0.97, 2.0 / 0.97]).headroom
    0.97
    """
    x, y = _pairs(queue_rows, cost_s, delay_s)
    H = min(max(float(x @ x) / max(float(x @ y), 1e-300), _LEAST), 1.0)
    H = round(H, 12)
    return HeadroomFit(headroom=H, error_s=_error_s(x, y, H))


def compare_headrooms(
    queue_rows: ArrayLike,
    cost_s: ArrayLike,
    delay_s: ArrayLike,
    candidates: Sequence[float] = (0.95, 0.97, 1.0),
) -> list[HeadroomFit]:
    """Return the model error of each candidate, the smallest first: the paper's Figure 6.

    >>> [fit.headroom for fit in compare_headrooms([99, 199], 0.005, [0.5 / 0.96, 1.0 / 0.96])]
    [0.97, 0.95, 1.0]
    """
    if not candidates:
        raise invalid("candidates", candidates, "at least one headroom")
    for H in candidates:
        require_number("candidates", H, 0.0, 1.0, above=True)
    x, y = _pairs(queue_rows, cost_s, delay_s)
    return sorted((HeadroomFit(H, _error_s(x, y, H)) for H in candidates), key=lambda fit: fit.error_s)


def _pairs(queue_rows: ArrayLike, cost_s: ArrayLike, delay_s: ArrayLike) -> tuple[Any, Any]:
    q, c, y = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (queue_rows, cost_s, delay_s)))
    x = ((q + 1.0) * c).ravel()
    y = y.ravel()
    known = np.isfinite(x) & np.isfinite(y) & (x > 0.0) & (y > 0.0)
    if not known.any():
        raise SpillwayError("headroom: no row with a queue, a cost and a delay above zero.")
    return x[known], y[known]


def _error_s(x: Any, y: Any, H: float) -> float:
    return float(np.sqrt(np.mean((y - x / H) ** 2)))


@dataclass(frozen=True, kw_only=True)
class HeadroomMeterConfig:
    """Options of ``HeadroomMeter``.

    ``headroom`` is the first estimate, weighted like ``trust_s`` seconds of delay; each period forgets ``fade``.
    """

    headroom: float = 0.97
    fade: float = 0.05
    trust_s: float = 1.0

    def __post_init__(self) -> None:
        require_number("headroom", self.headroom, _LEAST, 1.0)
        require_number("fade", self.fade, 0.0, 0.9)
        require_number("trust_s", self.trust_s, 0.0, above=True)

    def build(self, state: Mapping[str, Any] | None = None) -> HeadroomMeter:
        """Return a new meter, or one restored from a snapshot."""
        return HeadroomMeter(self, state)


@dataclass
class HeadroomMeterState:
    """Fading sums of x² and x y."""

    xx: float = 0.0
    xy: float = 0.0


class HeadroomMeter:
    """Estimates H by least squares while the query runs.

    >>> meter = HeadroomMeterConfig(headroom=1.0).build()
    >>> for _ in range(200):
    ...     headroom = meter.update(queue_rows=399, cost_s=0.005, delay_s=2.0 / 0.9)
    >>> round(headroom, 3)
    0.9
    """

    kind = "headroom_meter"
    version = 1

    def __init__(self, config: HeadroomMeterConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        if state is None:
            trust = config.trust_s**2
            self.state = HeadroomMeterState(xx=trust, xy=trust / config.headroom)
        else:
            self.state = from_snapshot(HeadroomMeterState, state, kind=self.kind, version=self.version)

    @property
    def headroom(self) -> float:
        """The estimate, from 0.05 to 1."""
        return min(max(self.state.xx / max(self.state.xy, 1e-300), _LEAST), 1.0)

    def update(self, *, queue_rows: float, cost_s: float, delay_s: float) -> float:
        """Add the queue that a period's rows found, their cost and their mean delay; return the estimate."""
        x = (queue_rows + 1.0) * cost_s
        if math.isfinite(x) and math.isfinite(delay_s) and 0.0 < x < 1e6 and 0.0 < delay_s < 1e6:
            y = min(delay_s, x / _LEAST)  # an absurd delay counts as the least headroom
            keep = 1.0 - self.config.fade
            self.state.xx = keep * self.state.xx + x * x
            self.state.xy = keep * self.state.xy + x * y
        return self.headroom

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
