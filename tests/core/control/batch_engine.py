"""A batch engine in a few lines, to close the loop around a controller: written apart from the simulator.

A batch is cut when the one before it has ended, or ``trigger_s`` after that was cut if this is later. It takes in all
rows that came since the cut before, keeps what the decision in force lets it keep, and takes F + s · dropped +
c(t) · kept seconds, times how slow the machine is then. What a batch tells the controller takes effect
``dead_batches`` batches later, on top of the one that is already running. The first batch takes three times as long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from spillway.core.control import Controller, CostModel, CostModelConfig, Costs, Decision, Sample


@dataclass
class Run:
    ended_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    worst_delay_s: list[float] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    costs: list[Costs | None] = field(default_factory=list)

    def within(self, target_s: float, *, after_s: float = 0.0) -> float:
        """Share of the kept rows in time, rows spread evenly over the time in which their batch came in."""
        good = total = 0.0
        for end, busy, kept, worst in zip(
            self.ended_s, self.busy_s, self.kept, self.worst_delay_s, strict=True
        ):
            if end >= after_s and kept:
                span = max(worst - busy, 1e-9)
                good += kept * min(max((target_s - busy) / span, 0.0), 1.0)
                total += kept
        return good / total if total else 1.0

    def kept_per_s(self, *, after_s: float, before_s: float = math.inf) -> float:
        """Rows kept per second of the batches that ended in a span of time."""
        inside = [i for i, end in enumerate(self.ended_s) if after_s < end < before_s]
        return sum(self.kept[i] for i in inside) / sum(self.busy_s[i] for i in inside)

    def shed_batches(self, *, after_s: float = 0.0) -> list[int]:
        """Numbers of the batches that lost rows."""
        return [
            number
            for number, (end, n, k) in enumerate(zip(self.ended_s, self.arrived, self.kept, strict=True))
            if k < n and end > after_s
        ]


def drive(
    controller: Controller,
    rate: Callable[[float], float],
    *,
    duration_s: float,
    cost_s: Callable[[float], float],
    fixed_s: float = 0.3,
    skip_s: float = 0.2e-6,
    slowdown: Callable[[float], float] = lambda _: 1.0,
    trigger_s: float = 0.0,
    dead_batches: int = 1,
    noise: float = 0.03,
    pauses: float = 0.0,
    seed: int = 0,
    extra_delay_s: float = 0.0,
    model: CostModel | None = None,
) -> Run:
    """Run batches until the time is up, measuring costs with a CostModel as the Spark side does."""
    random_ = random.Random(seed)
    model = model or CostModelConfig().build()
    model.begin_run()
    in_force = controller.step(Sample(at_s=0.0, period_s=0.0, arrived_rows=0, kept_rows=0))
    waiting: list[Decision] = []
    run = Run()
    cut, cut_before, idle = 0.1, 0.0, 0.0  # before the very first batch some rows come
    while cut < duration_s:
        waited = cut - cut_before
        steps = max(1, int(waited / 0.05))
        width = waited / steps
        n = math.floor(sum(rate(cut_before + (i + 0.5) * width) * width for i in range(steps)))
        k = math.floor(n * in_force.keep_ratio_for(n, waited_s=waited, idle_s=idle))
        busy = (fixed_s + skip_s * (n - k) + cost_s(cut) * k) * math.exp(random_.gauss(0.0, noise))
        busy *= slowdown(cut) * (3.0 if not run.busy_s else 1.0)
        busy += 2.0 if random_.random() < pauses else 0.0
        end = cut + busy
        worst = end - cut_before + extra_delay_s
        costs = model.update(arrived_rows=n, kept_rows=k, busy_s=busy)
        sample = Sample(
            at_s=end,
            period_s=busy,
            arrived_rows=n,
            kept_rows=k,
            cost_s=None if costs is None else costs.cost_s,
            fixed_s=0.0 if costs is None else costs.fixed_s,
            skip_s=0.0 if costs is None else costs.skip_s,
            busy_s=busy,
            finished_rows=k,
            worst_delay_s=worst if k else None,
            spread=0.0 if costs is None else costs.spread,
            pace=1.0 if costs is None else costs.pace,
            waited_s=waited,
            idle_s=idle,
        )
        waiting.append(controller.step(sample))
        run.ended_s.append(end)
        run.busy_s.append(busy)
        run.arrived.append(n)
        run.kept.append(k)
        run.worst_delay_s.append(worst)
        run.decisions.append(in_force)
        run.costs.append(costs)
        if len(waiting) > dead_batches:
            in_force = waiting.pop(0)
        cut_before, cut = cut, max(end, cut + trigger_s)
        idle = cut - end
    return run
