"""A batch engine in a few lines, to close the loop around a controller: written apart from the simulator.

Batches run back to back. A batch takes in all rows that came while the one before it ran, keeps what the decision
in force lets it keep, and takes F + s · dropped + c(t) · kept seconds. What a batch tells the controller takes effect
``dead_batches`` batches later, on top of the one that is already running.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from spillway.core.control import Controller, CostModel, CostModelConfig, Decision, Sample


@dataclass
class Run:
    ended_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    worst_delay_s: list[float] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def within(self, target_s: float, *, after_s: float = 0.0) -> float:
        """Share of the kept rows in time, rows spread evenly over the time in which their batch came in."""
        good = total = 0.0
        begun = 0.0
        for end, busy, kept, worst in zip(
            self.ended_s, self.busy_s, self.kept, self.worst_delay_s, strict=True
        ):
            if end >= after_s and kept:
                span = max(worst - busy, 1e-9)
                good += kept * min(max((target_s - busy) / span, 0.0), 1.0)
                total += kept
            begun = end
        assert begun >= 0.0
        return good / total if total else 1.0


def drive(
    controller: Controller,
    rate: Callable[[float], float],
    *,
    duration_s: float,
    cost_s: Callable[[float], float],
    fixed_s: float = 0.3,
    skip_s: float = 0.2e-6,
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
    now = 0.0
    since = 0.0
    in_force = controller.step(Sample(at_s=0.0, period_s=0.0, arrived_rows=0, kept_rows=0))
    waiting: list[Decision] = []
    run = Run()
    first = True
    while now < duration_s:
        if now <= since:  # the very first batch: let some rows come
            now += 0.1
        steps = max(1, int((now - since) / 0.05))
        width = (now - since) / steps
        n = math.floor(sum(rate(since + (i + 0.5) * width) * width for i in range(steps)))
        k = math.floor(n * in_force.keep_ratio_for(n))
        busy = (fixed_s + skip_s * (n - k) + cost_s(now) * k) * math.exp(random_.gauss(0.0, noise))
        busy *= 3.0 if first else 1.0
        busy += 2.0 if random_.random() < pauses else 0.0
        begun, opened = now, since
        now, since = now + busy, now
        worst = now - opened + extra_delay_s
        costs = model.update(arrived_rows=n, kept_rows=k, busy_s=busy, warm=not first)
        first = False
        sample = Sample(
            at_s=now,
            period_s=now - begun,
            arrived_rows=n,
            kept_rows=k,
            backlog_rows=0.0,
            cost_s=None if costs is None else costs.cost_s,
            fixed_s=0.0 if costs is None else costs.fixed_s,
            skip_s=0.0 if costs is None else costs.skip_s,
            busy_s=busy,
            finished_rows=k,
            worst_delay_s=worst if k else None,
        )
        waiting.append(controller.step(sample))
        run.ended_s.append(now)
        run.busy_s.append(busy)
        run.arrived.append(n)
        run.kept.append(k)
        run.worst_delay_s.append(worst)
        run.decisions.append(in_force)
        if len(waiting) > dead_batches:
            in_force = waiting.pop(0)
    return run
