"""A micro-batch engine in virtual time: what a controller for Spark has to live with, without Spark.

Batches run one after the other. A batch is cut when the one before it is done (and ``trigger_s`` after it was cut,
if that is later); it holds the rows that arrived since the last cut, waits for one if there are none, and takes

    t = F + (c(t) k + s (n - k)) / H             for k of n rows kept

All its rows leave when it is done, so a row's delay is the rest of the batch before its own, and its own. The size
n is known before the batch runs and the decision is applied to it (:meth:`Decision.keep_ratio_for`); decisions
themselves are late by ``lag_batches``, as with an asynchronous listener. The controller is told the true F, c and s,
or, with ``estimate``, what a cost model makes of the batches' sizes and times, as it is on Spark. ``noise`` is the
relative standard deviation of a batch's time around t.

======  ===============================================================
symbol  meaning
======  ===============================================================
F       ``fixed_s``: time a batch takes whatever its size
c, s    ``cost`` of a kept row, ``skip_s`` of a dropped one
H       ``headroom``
======  ===============================================================
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from spillway.core.control import Controller, CostModelConfig, Costs, Decision, Sample
from spillway.errors import invalid
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Arrivals
from spillway.sim.outcome import Outcome
from spillway.sim.targets import Targets


@dataclass(frozen=True, kw_only=True)
class BatchedEngine:
    """A micro-batch engine, ready to run; see the module's table.

    >>> from spillway.core.control import make
    >>> from spillway.replay.generators import burst
    >>> engine = BatchedEngine(cost=constant(100e-6), fixed_s=0.3, lag_batches=2)
    >>> trace = burst(capacity=10_000, calm_s=20, burst_s=20)
    >>> controllers = make("none", target_delay_s=3.0), make("deadline", target_delay_s=3.0, engine="batched")
    >>> [round(float(np.nanmax(engine.run(trace, c, 3.0).delay_s))) for c in controllers]
    [97, 3]
    """

    cost: CostTrace = field(default_factory=lambda: constant(10e-6))
    fixed_s: float = 0.0
    skip_s: float = 0.0
    headroom: float = 1.0
    trigger_s: float = 0.0
    lag_batches: int = 1
    noise: float = 0.0
    estimate: CostModelConfig | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("fixed_s", "skip_s", "trigger_s", "lag_batches", "noise"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise invalid(name, value, "a number >= 0")
        if not 0.0 < self.headroom <= 1.0:
            raise invalid("headroom", self.headroom, "a number above 0 and up to 1")

    def run(self, trace: Arrivals, controller: Controller, target_delay_s: float | Targets) -> Outcome:
        """Play the trace until all of its rows have left. Before the first batch the controller sees an empty one."""
        targets = Targets.of(target_delay_s)
        arrival = trace.times(0, trace.total)
        delay = np.full(arrival.size, np.nan)
        chance = np.random.default_rng(self.seed)
        model = None if self.estimate is None else self.estimate.build()
        changes = deque(targets.changes[1:])
        decision = controller.step(Sample(at_s=0.0, period_s=0.0, arrived_rows=0, kept_rows=0))
        waiting: deque[Decision] = deque()
        samples: list[Sample] = []
        decisions: list[Decision] = []
        first, cut_s, done_s = 0, 0.0, 0.0
        while first < arrival.size:
            cut_s = max(done_s, cut_s + self.trigger_s if samples else 0.0, float(arrival[first]))
            while changes and changes[0][0] <= cut_s:
                controller.retarget(changes.popleft()[1])
            last = int(np.searchsorted(arrival, cut_s, side="right"))
            n = last - first
            kept = first + np.flatnonzero(chance.random(n) < decision.keep_ratio_for(n))
            k, began_s = int(kept.size), done_s
            true = Costs(
                fixed_s=self.fixed_s,
                cost_s=float(self.cost.at(np.array(cut_s))) / self.headroom,
                skip_s=self.skip_s / self.headroom,
            )
            busy_s = true.busy_s(n, k) * math.exp(self.noise * chance.standard_normal())
            done_s = cut_s + busy_s
            told = true if model is None else model.update(arrived_rows=n, kept_rows=k, busy_s=busy_s)
            delay[kept] = done_s - arrival[kept]
            samples.append(
                Sample(
                    at_s=done_s,
                    period_s=done_s - began_s,
                    arrived_rows=n,
                    kept_rows=k,
                    backlog_rows=int(np.searchsorted(arrival, done_s, side="right")) - last,
                    cost_s=told.cost_s if told and told.cost_s > 0.0 else None,
                    fixed_s=told.fixed_s if told else 0.0,
                    skip_s=told.skip_s if told else 0.0,
                    busy_s=busy_s,
                    finished_rows=k,
                    delay_s=float(delay[kept].mean()) if k else None,
                    worst_delay_s=float(delay[kept].max()) if k else None,
                )
            )
            decisions.append(controller.step(samples[-1]))
            waiting.append(decisions[-1])
            if len(waiting) > self.lag_batches:
                decision = waiting.popleft()
            first = last
        return Outcome(
            arrival_s=arrival,
            delay_s=delay,
            targets=targets,
            period_s=max(done_s, trace.duration_s) / max(len(samples), 1),
            samples=tuple(samples),
            decisions=tuple(decisions),
            elapsed_s=max(done_s, trace.duration_s),
        )
