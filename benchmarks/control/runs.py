"""One controller on one case, timed; and ratios of what came out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.control.workload import Case
from spillway.core.control import Controller, Decision, Sample, make
from spillway.sim import Engine, Metrics, Minimum, Shed, Targets, least_loss, measure

TARGET_S = 2.0
PERIOD_S = 1.0
HEADROOM = 0.97

# The paper's experiments ran with a shedder that takes load out of the queues, at random places (Section 5); the one
# that only refuses rows at the entry is its other actuator (Section 4.5.2).
SHED: Shed = "queue"
ENTRY: Shed = "entry"

# Where a controller has next to no violation, ratios to it are taken as if it had this much: one row late by a
# second, one late row, 10 ms, one lost row in a thousand. The floors apply to both sides of a ratio, so they can
# only draw it towards 1.
FLOORS = {"acc_violation_s": 1.0, "late_rows": 1.0, "overshoot_s": 0.01, "loss_ratio": 0.001}


class Timed:
    """A controller whose steps are timed."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.steps_s: list[float] = []

    def step(self, sample: Sample) -> Decision:
        """Decide, and note how long that took."""
        start = time.perf_counter()
        decision = self._controller.step(sample)
        self.steps_s.append(time.perf_counter() - start)
        return decision

    def retarget(self, target_delay_s: float) -> None:
        """Change the target while running."""
        self._controller.retarget(target_delay_s)

    def snapshot(self) -> dict[str, Any]:
        """Return the controller's state."""
        return self._controller.snapshot()


@dataclass(frozen=True)
class Run:
    """What came out of one run: the metrics, the paper's y(k), and how long a step and all of it took."""

    metrics: Metrics
    ends_s: npt.NDArray[np.float64]
    delays_s: npt.NDArray[np.float64]
    step_s: float
    simulated_s: float
    wall_s: float


@lru_cache(maxsize=512)
def play(
    case: Case,
    controller: str,
    *,
    targets: Targets | None = None,
    period_s: float = PERIOD_S,
    assumed_headroom: float = HEADROOM,
    shed: Shed = SHED,
    lag_periods: int = 0,
) -> Run:
    """Run a controller over a case. The same run is only made once."""
    wanted = targets or Targets.of(TARGET_S)
    timed = Timed(
        make(controller, target_delay_s=wanted.changes[0][1], period_s=period_s, headroom=assumed_headroom)
    )
    engine = Engine(
        cost=case.cost,
        period_s=period_s,
        headroom=HEADROOM,
        shed=shed,
        lag_periods=lag_periods,
        seed=case.seed,
    )
    start = time.perf_counter()
    outcome = engine.run(case.trace, timed, wanted)
    wall_s = time.perf_counter() - start
    ends_s, delays_s = outcome.delay_series_s()
    return Run(measure(outcome), ends_s, delays_s, float(np.median(timed.steps_s)), outcome.elapsed_s, wall_s)


@lru_cache(maxsize=512)
def minimum(case: Case) -> Minimum:
    """Return the least possible loss on a case."""
    return least_loss(case.trace, case.cost, TARGET_S, headroom=HEADROOM)


def ratio(field: str, above: float, below: float) -> float:
    """Return a ratio of two values of a metric, both at least the metric's floor.

    >>> ratio("late_rows", 50, 0), ratio("late_rows", 0, 0), ratio("overshoot_s", 3.0, 1.5)
    (50.0, 1.0, 2.0)
    """
    floor = FLOORS[field]
    return max(float(above), floor) / max(float(below), floor)


def metric_ratio(case: Case, field: str, above: str, below: str, **options: Any) -> float:
    """Return the ratio of a metric between two controllers on one case."""
    top, bottom = play(case, above, **options).metrics, play(case, below, **options).metrics
    return ratio(field, getattr(top, field), getattr(bottom, field))


def delivered_over_most(case: Case, controller: str, *, shed: Shed = SHED) -> float:
    """Return the rows that a controller delivers within the target over the most that anybody could."""
    return play(case, controller, shed=shed).metrics.in_time_rows / max(minimum(case).delivered_rows, 1)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean, NaN of nothing.

    >>> round(geometric_mean([1.0, 100.0]), 6)
    10.0
    """
    logs = np.log(list(values))
    return float(np.exp(logs.mean())) if logs.size else float("nan")
