"""The most rows that a batch engine delivers in time: the best of a family of shedders that know the costs.

The least possible loss (:mod:`~spillway.sim.minimum`) is that of a processor that finishes rows one by one. A batch
engine cannot reach it: each batch has a fixed time, and all rows of a batch wait for the last. So on a batch engine
the measure is the best of some shedders that run on this very engine and know what we do not: the true costs, and how
slow the machine was in the batch before (:class:`~spillway.sim.reference.Reference`). Each aims at batches of another
share of the target; one keeps everything, which is best where shedding is of no use.

It is no bound: a shedder may be a little better than all of the family. Each run has its own luck with noise and
stalls, and the luckiest of many is not the best, so runs with several draws of the noise can be averaged (``draws``).
"""

from __future__ import annotations

from dataclasses import replace

from spillway.core.control import Controller, make
from spillway.replay.costs import CostTrace
from spillway.replay.traces import Arrivals, Times
from spillway.sim.batched import BatchedEngine
from spillway.sim.outcome import Outcome
from spillway.sim.reference import Reference

_APART = 7_777  # between the seeds of two draws
SHARES = (0.3, 0.36, 0.42, 0.46, 0.48, 0.5, 0.53, 0.57, 0.63, 0.7, 0.8, 0.9)  # of the target, for a batch


def delivered(outcome: Outcome, *, from_s: float = 0.0) -> float:
    """Return the rows that arrived from a given second on and were delivered within the target."""
    counted = outcome.arrival_s >= from_s
    return float((outcome.delay_s[counted] <= outcome.targets.at(outcome.arrival_s[counted])).sum())


def best_delivered(
    engine: BatchedEngine, trace: Arrivals, target_s: float, *, from_s: float = 0.0, draws: int = 1
) -> float:
    """Return the most rows within the target of any shedder that knows the costs and aims at one batch time.

    Its batches take a fixed share of the target, from 0.3 to 0.9, or it keeps everything. The engine must report the
    true costs, without ``estimate``. Rows count that arrive from a given second on; of several draws it is the mean.
    """
    family: list[Controller] = [Reference(target_s, batch_share=share, least_room=0.02) for share in SHARES]
    family.append(make("none", target_delay_s=target_s))
    engines = drawn(engine, draws)
    return max(
        sum(delivered(run.run(trace, one, target_s), from_s=from_s) for run in engines) / draws
        for one in family
    )


def drawn(engine: BatchedEngine, draws: int) -> list[BatchedEngine]:
    """Return the engine with several draws of its noise and stalls, its own one first."""
    return [replace(engine, seed=engine.seed + _APART * draw) for draw in range(draws)]


def thinned(engine: BatchedEngine, trace: Arrivals, most_rows: int) -> tuple[BatchedEngine, Times]:
    """Return the same load in fewer rows: every f-th of them, at f times the cost.

    >>> from spillway.replay.costs import constant
    >>> from spillway.replay.traces import Rates
    >>> engine, trace = thinned(BatchedEngine(cost=constant(1e-5)), Rates((100_000.0,), (60.0,)), 100_000)
    >>> trace.total, round(engine.cost.costs_s[0] * 1e5)
    (100000, 60)
    """
    factor = max(-(-trace.total // most_rows), 1)
    cost = CostTrace([factor * cost_s for cost_s in engine.cost.costs_s], engine.cost.step_s)
    coarse = replace(engine, cost=cost, skip_s=factor * engine.skip_s)
    return coarse, Times(trace.times(0, trace.total)[::factor])
