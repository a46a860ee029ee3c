"""What a row costs over time: the second disturbance beside the arrivals (Tu et al., Section 5, Figure 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spillway.core.arrays import Floats
from spillway.errors import invalid
from spillway.replay.generators import bounded_pareto

PAPER_CAPACITY_ROWS_S = 190.0
"""What the paper's engine takes in a second when it has the whole processor: 5.26 ms a row."""


@dataclass(frozen=True)
class CostTrace:
    """Processor seconds per row, constant for ``step_s`` at a time; the last value holds from then on.

    >>> CostTrace((0.005, 0.010), step_s=1.0).at(np.array([0.0, 0.99, 1.0, 50.0])).tolist()
    [0.005, 0.005, 0.01, 0.01]
    """

    costs_s: tuple[float, ...]
    step_s: float = 1.0
    _array: Floats = field(init=False, repr=False, compare=False)

    def __init__(self, costs_s: Sequence[float], step_s: float = 1.0) -> None:
        array = np.array([float(cost) for cost in costs_s])
        if not array.size or not np.isfinite(array).all() or array.min() <= 0.0:
            raise invalid("costs_s", _short(costs_s), "at least one number of seconds above 0")
        if not (math.isfinite(step_s) and step_s > 0.0):
            raise invalid("step_s", step_s, "seconds above 0")
        array.setflags(write=False)
        object.__setattr__(self, "costs_s", tuple(array.tolist()))
        object.__setattr__(self, "step_s", float(step_s))
        object.__setattr__(self, "_array", array)

    @property
    def array(self) -> Floats:
        """The costs as a read-only array."""
        return self._array

    def at(self, at_s: Floats) -> Floats:
        """Return the cost at each of the given seconds."""
        index = np.clip(np.floor(np.asarray(at_s) / self.step_s), 0, len(self.costs_s) - 1)
        return self._array[index.astype(np.int64)]


def constant(cost_s: float = 1.0 / PAPER_CAPACITY_ROWS_S) -> CostTrace:
    """Return a cost that never changes, as in the paper's identification of the engine."""
    return CostTrace((cost_s,))


def varying(
    *,
    base_s: float = 1.0 / PAPER_CAPACITY_ROWS_S,
    duration_s: float = 400.0,
    seed: int = 0,
    step_s: float = 1.0,
    jitter: float = 0.2,
    jitter_s: float = 10.0,
    beta: float = 1.5,
    small_peak: float = 1.5,
    large_peak: float = 2.5,
    terrace: float = 2.0,
) -> CostTrace:
    """Return the cost trace of the paper's Figure 14: a Pareto base with two peaks and a terrace.

    ============== ========================================================================================
    when           what (heights are multiples of the base; the figure's are not printed, these are ours)
    ============== ========================================================================================
    throughout     a bounded Pareto factor of mean 1 every ``step_s``, ``jitter`` of the way from 1 to it
    40 to 60 s     ``small_peak``, up and down in straight lines, highest at 50 s
    125 to 150 s   ``large_peak``, a sudden jump, then down in a straight line
    230 to 250 s   a gradual rise to the terrace
    250 to 350 s   ``terrace``, then a sudden drop
    ============== ========================================================================================

    A longer trace goes through the same again every 400 s, each time with other jitter.

    >>> cost = varying(jitter=0.0)
    >>> (cost.at(np.array([10.0, 50.0, 124.0, 125.0, 300.0, 350.0])) * 190).round(2).tolist()
    [1.0, 1.49, 1.0, 2.48, 2.0, 1.0]
    """
    steps = math.ceil(duration_s / step_s)
    at = (np.arange(steps) + 0.25) * step_s % 400.0
    corners = [0, 40, 50, 60, 125, 125, 150, 230, 250, 350, 350, 400]
    heights = [1, 1, small_peak, 1, 1, large_peak, 1, 1, terrace, terrace, 1, 1]
    shape = np.interp(at, corners, heights)
    knots = np.arange(0.0, duration_s + jitter_s, jitter_s)
    drawn = bounded_pareto(np.random.default_rng(seed).random(knots.size), beta=beta, peak=10.0)
    draws = np.interp((np.arange(steps) + 0.5) * step_s, knots, drawn)
    return CostTrace(tuple((base_s * shape * (1.0 + jitter * (draws - 1.0))).tolist()), step_s)


def _short(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."
