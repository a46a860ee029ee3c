"""A micro-batch engine in virtual time: what a controller for Spark has to live with, without Spark.

Batches run one after the other. A batch is cut when the one before it is done (and ``trigger_s`` after it was cut,
if that is later); it holds the rows that arrived since the last cut, waits for one if there are none, and takes

    t = F + (c(t) k + s (n - k)) / H             for k of n rows kept

on a quiet machine, and longer beside neighbours, on a cold JVM and so on (:mod:`~spillway.sim.machine`). All its
rows leave when it is done, so a row's delay is the rest of the batch before its own, and its own. The size n, the
time since the last cut and how much of it the query was idle are known before the batch runs, and the decision is
applied to them (:meth:`Decision.keep_ratio_for`); decisions themselves are late by ``lag_batches``, as with an
asynchronous listener. The controller is told the true F, c and s of a quiet machine, or, with ``estimate``, what a
cost model makes of the batches' sizes and times, as it is on Spark. ``noise`` is the relative standard deviation of
a batch's time around t.

After a crash the batch that was running is repeated as it was decided, and controller and cost model go on from their
snapshots.

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
from spillway.core.control.cost_model import cost_fields
from spillway.errors import invalid
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Arrivals
from spillway.sim.machine import Machine
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
    machine: Machine = field(default_factory=Machine)
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
        changes = deque(targets.changes[1:])
        loop = _Loop(controller, self.estimate, self.lag_batches)
        first, cut_s, done_s, run_batch = 0, 0.0, 0.0, 0
        while first < arrival.size:
            last_cut_s, last_done_s = cut_s, done_s
            cut_s = max(done_s, cut_s + self.trigger_s if loop.samples else 0.0, float(arrival[first]))
            waited_s, idle_s = cut_s - last_cut_s if loop.samples else None, cut_s - done_s
            while changes and changes[0][0] <= cut_s:
                controller.retarget(changes.popleft()[1])
            last = int(np.searchsorted(arrival, cut_s, side="right"))
            n = last - first
            keep = loop.decision.keep_ratio_for(
                n, waited_s=waited_s, idle_s=idle_s, unreported=loop.unreported
            )
            kept = first + np.flatnonzero(chance.random(n) < keep)
            k = int(kept.size)
            true = self._true_costs(cut_s)
            work_s = true.busy_s(n, k) * math.exp(self.noise * chance.standard_normal())
            stall_s = self.machine.stall(chance)
            begin_s, done_s = (
                cut_s,
                self.machine.end_s(cut_s, work_s * self.machine.cold(run_batch)) + stall_s,
            )
            if self.machine.killed_at_s is not None and cut_s <= self.machine.killed_at_s < done_s:
                begin_s, run_batch = self.machine.killed_at_s + self.machine.down_s, 0
                done_s = self.machine.end_s(begin_s, work_s * self.machine.cold(0)) + stall_s
                loop.restart(begin_s)
            run_batch += 1
            delay[kept] = done_s - arrival[kept] + self.machine.late_s
            costs = loop.costs_after(n, k, done_s - begin_s, true)
            loop.take(
                Sample(
                    at_s=done_s,
                    period_s=done_s - last_done_s,
                    arrived_rows=n,
                    kept_rows=k,
                    backlog_rows=int(np.searchsorted(arrival, done_s, side="right")) - last,
                    **cost_fields(costs),
                    waited_s=waited_s,
                    idle_s=idle_s,
                    busy_s=done_s - begin_s,
                    finished_rows=k,
                    delay_s=float(delay[kept].mean()) if k else None,
                    worst_delay_s=float(delay[kept].max()) if k else None,
                )
            )
            first = last
        return Outcome(
            arrival_s=arrival,
            delay_s=delay,
            targets=targets,
            period_s=max(done_s, trace.duration_s) / max(len(loop.samples), 1),
            samples=tuple(loop.samples),
            decisions=tuple(loop.decisions),
            elapsed_s=max(done_s, trace.duration_s),
        )

    def _true_costs(self, at_s: float) -> Costs:
        """Return what a batch costs on a quiet machine."""
        return Costs(
            fixed_s=self.fixed_s,
            cost_s=float(self.cost.at(np.array(at_s))) / self.headroom,
            skip_s=self.skip_s / self.headroom,
        )


class _Loop:
    """The feedback: what a batch took goes in, the decision in force comes out some batches later."""

    def __init__(self, controller: Controller, estimate: CostModelConfig | None, lag_batches: int) -> None:
        self._controller = controller
        self._model = None if estimate is None else estimate.build()
        if self._model is not None:
            self._model.begin_run()
        self._lag_batches = lag_batches
        self._waiting: deque[Decision] = deque()
        self._repeated: int | None = None
        self.samples: list[Sample] = []
        self.decisions: list[Decision] = []
        self.decision = controller.step(Sample(at_s=0.0, period_s=0.0, arrived_rows=0, kept_rows=0))

    def costs_after(self, arrived_rows: int, kept_rows: int, busy_s: float, true: Costs) -> Costs | None:
        """Return what the controller is told of the costs after a batch."""
        if self._model is None:
            return true
        return self._model.update(arrived_rows=arrived_rows, kept_rows=kept_rows, busy_s=busy_s)

    def take(self, sample: Sample) -> None:
        """Hand a finished batch to the controller."""
        self.samples.append(sample)
        self.decisions.append(self._controller.step(sample))
        self._waiting.append(self.decisions[-1])
        if len(self._waiting) > self._lag_batches:
            self.decision = self._waiting.popleft()

    @property
    def unreported(self) -> tuple[float, float] | None:
        """Rows that arrived for the last batch and that it kept, if the decision in force was made before it ended.

        None, too, if that batch was cut before a crash: the time since then does not tell how long it took.
        """
        if not self._waiting or len(self.samples) - 1 == self._repeated:
            return None
        return self.samples[-1].arrived_rows, self.samples[-1].kept_rows

    def restart(self, at_s: float) -> None:
        """Decide anew from what was known before a crash, as a query does when it starts."""
        costs = None if self._model is None else self._model.begin_run()
        self._waiting.clear()
        self._repeated = len(self.samples)
        nothing = Sample(at_s=at_s, period_s=0.0, arrived_rows=0, kept_rows=0, **cost_fields(costs))
        self.decision = self._controller.step(nothing)
