"""Made-up batch engines on machines with neighbours: the plants on which identification has to prove itself.

A plant is drawn by its seed: what a batch and a row cost, how noisy its times are, the target, and the height of a
burst. It runs beside each of several kinds of disturbance (:mod:`~spillway.sim.machine`), in virtual time. The
parameters of the estimator and the controller were chosen on other seeds, from 5000 to 8200.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spillway.core.control import CostModelConfig
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Rates
from spillway.sim import BatchedEngine, Machine

CALM_S, BURST_S, AFTER_S = 40.0, 40.0, 30.0
STEP_S = 0.5  # of slow-downs
LASTS_S = 400.0  # how long slow-downs are laid out for
KILLED_AT_S, BACKLOG_S = 50.0, 20.0


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What a batch engine is like; times in seconds, ``load`` as a multiple of its capacity."""

    target_s: float
    fixed_s: float
    cost_s: float
    skip_s: float
    noise: float
    load: float
    seed: int

    @property
    def capacity(self) -> float:
        """Rows per second in batches that take half of the target."""
        return (1.0 - 2.0 * self.fixed_s / self.target_s) / self.cost_s

    def burst(self) -> Rates:
        """Return arrivals at half the capacity, at the load, and at half the capacity again."""
        half, high = 0.5 * self.capacity, self.load * self.capacity
        return Rates((half, high, half), (CALM_S, BURST_S, AFTER_S))

    def steady(self, load: float, seconds: float = 120.0) -> Rates:
        """Return arrivals at one rate."""
        return Rates((load * self.capacity,), (seconds,))

    def engine(
        self, machine: Machine, *, estimate: bool, lag_batches: int = 1, trigger_s: float = 0.0
    ) -> BatchedEngine:
        """Return the engine on a machine, with the costs estimated from its batches or told as they are."""
        return BatchedEngine(
            cost=constant(self.cost_s),
            fixed_s=self.fixed_s,
            skip_s=self.skip_s,
            noise=self.noise,
            machine=machine,
            lag_batches=lag_batches if estimate else 0,
            trigger_s=trigger_s,
            estimate=CostModelConfig() if estimate else None,
            seed=self.seed,
        )


def plant(seed: int) -> Plant:
    """Draw a plant: rows from 50 to 400 µs, a batch from a twentieth to a quarter of the target."""
    draw = np.random.default_rng(seed)
    target_s = float(draw.uniform(2.0, 4.0))
    cost_s = float(np.exp(draw.uniform(np.log(50e-6), np.log(400e-6))))
    return Plant(
        target_s=target_s,
        fixed_s=target_s * float(draw.uniform(0.05, 0.25)),
        cost_s=cost_s,
        skip_s=cost_s * float(draw.uniform(0.01, 0.06)),
        noise=float(draw.uniform(0.03, 0.1)),
        load=float(draw.uniform(2.0, 5.0)),
        seed=seed,
    )


def machines(seed: int) -> dict[str, Machine]:
    """Return a machine of each kind; where neighbours come and how slow they make it is drawn."""
    draw = np.random.default_rng(seed)
    slow = float(draw.uniform(1.5, 3.0))
    bursts = _on_and_off(draw)
    cold = Machine(cold_factor=float(draw.uniform(2.5, 5.0)), cold_batches=float(draw.uniform(2.0, 5.0)))
    return {
        "quiet": Machine(),
        "steady": Machine(slowdown=constant(slow)),
        "short bursts": Machine(slowdown=bursts),
        "for minutes": Machine(slowdown=_between(20.0, 80.0, slow)),
        "begins in the burst": Machine(slowdown=_between(55.0, LASTS_S, slow)),
        "stalls": Machine(stall_chance=0.1, stall_s=float(draw.uniform(0.2, 0.8))),
        "cold": cold,
        "cold beside bursts": replace(cold, slowdown=bursts),
        "restart": replace(cold, killed_at_s=KILLED_AT_S, down_s=BACKLOG_S),
        "every second": Machine(slowdown=CostTrace(draw.uniform(1.0, 2.0, int(LASTS_S)).tolist(), 1.0)),
        "late rows": Machine(late_s=float(draw.uniform(0.1, 0.8))),
    }


def _between(from_s: float, until_s: float, factor: float) -> CostTrace:
    at_s = np.arange(0.0, LASTS_S, STEP_S)
    return CostTrace(np.where((at_s >= from_s) & (at_s < until_s), factor, 1.0).tolist(), STEP_S)


def _on_and_off(draw: np.random.Generator) -> CostTrace:
    """Return slow-downs of one to five seconds, every ten seconds or so."""
    factors = np.ones(int(LASTS_S / STEP_S))
    step = 0
    while step < factors.size:
        step += 2 + int(draw.exponential(20.0))
        length = int(draw.integers(2, 11))
        factors[step : step + length] = draw.uniform(1.5, 3.5)
        step += length
    return CostTrace(factors.tolist(), STEP_S)
