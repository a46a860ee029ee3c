"""A stream engine in virtual time: a query network, a controller, and hundreds of seconds in one.

    arrivals ──▶ shedder ──▶ network of operators (one processor, headroom H, cost c(t)) ──▶ results
                    ▲                     │ per period T: rows, queue, cost, delay
                    └──── Decision ◀── controller ◀── Sample

The engine stands in for the paper's Borealis: operators with queues of their own, scheduled round robin, on a
processor of which other work takes 1 - H. What the controller is told is what the paper's monitor measures:

q(k)   rows admitted and not finished, by counting
c(k)   processor time per row, from each operator's measured cost and selectivity in the period:
       c = Σ_o visits(o) · cost(o), visits(o) = Σ_i visits(i) · selectivity(i) over the inputs i of o.
       An operator that read no row in the period counts with what was last known of it. Short periods see few
       rows, so their c is noisy: the lower bound on T that Section 4.5.3 speaks of.

With ``cost_meter`` the monitor sees no operators: c is the processor time over the rows that left, smoothed. With
``headroom_meter`` the controller need not be right about H (:mod:`~spillway.sim.headroom_watch`).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from spillway.core.control import Controller, CostMeterConfig, Decision, HeadroomMeterConfig, Sample
from spillway.core.control.actuators import shed_from_queue_rows
from spillway.errors import invalid, unknown
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Arrivals
from spillway.sim import kernel
from spillway.sim.headroom_watch import HeadroomWatch
from spillway.sim.network import Network, paper_network
from spillway.sim.outcome import Outcome
from spillway.sim.targets import Targets

Schedule = Literal["round_robin", "fifo"]
Shed = Literal["entry", "queue"]

_64_BITS = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A pipelined engine, ready to run.

    ================== ===================================================================================
    ``network``        the operators
    ``cost``           mean processor seconds per row over time
    ``period_s``       the control period T
    ``headroom``       the true share of the processor that the query gets (H)
    ``schedule``       ``round_robin`` (one row a turn, as Borealis) or ``fifo`` (the oldest row first)
    ``shed``           ``entry``: rows are only dropped before they enter; ``queue``: where a decision asks for
                       less than nothing (``admit_rows`` below 0), load also leaves the queues, at random places
    ``lag_periods``    dead time: periods between a decision and its effect
    ``cost_meter``     measure the cost of a row from outside, with this meter, and not operator by operator
    ``headroom_meter`` learn the headroom while running; the config's own must be that of the controller
    ``seed``           of all that is random
    ================== ===================================================================================

    >>> from spillway.core.control import make
    >>> from spillway.replay.generators import step
    >>> trace = step(low=50, high=400, at_s=10, duration_s=60)
    >>> plain, held = (Engine().run(trace, make(name, target_delay_s=2.0), 2.0) for name in ("none", "deadline"))
    >>> bool(plain.delay_s.max() > 50), bool(np.nanmax(held.delay_s) < 2.1)
    (True, True)
    """

    network: Network = field(default_factory=paper_network)
    cost: CostTrace = field(default_factory=constant)
    period_s: float = 1.0
    headroom: float = 0.97
    schedule: Schedule = "round_robin"
    shed: Shed = "entry"
    lag_periods: int = 0
    cost_meter: CostMeterConfig | None = None
    headroom_meter: HeadroomMeterConfig | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.period_s) and self.period_s > 0.0):
            raise invalid("period_s", self.period_s, "seconds above 0")
        if not 0.0 < self.headroom <= 1.0:
            raise invalid("headroom", self.headroom, "a number above 0 and up to 1")
        if self.schedule not in get_args(Schedule):
            raise unknown("schedule", self.schedule, get_args(Schedule))
        if self.shed not in get_args(Shed):
            raise unknown("shed", self.shed, get_args(Shed))
        if self.lag_periods < 0:
            raise invalid("lag_periods", self.lag_periods, "a whole number >= 0")

    def run(self, trace: Arrivals, controller: Controller, target_delay_s: float | Targets) -> Outcome:
        """Play the trace to its end and let all admitted rows finish.

        The controller is asked at the end of every period of the trace, and told of every change of the target.
        Before the first row it is shown an empty period with the cost of a row: what a row costs at first is
        known from a trial, as it is in the paper, and no controller has to let a first burst in unseen.
        """
        targets = Targets.of(target_delay_s)
        run = _Run(self, trace, Monitor(self.network, self.cost, self.cost_meter))
        changes = deque(targets.changes[1:])
        waiting: deque[Decision] = deque()
        samples: list[Sample] = []
        decisions: list[Decision] = []
        run.obey(controller.step(run.measure(at_s=0.0)))
        for k in range(1, math.ceil(trace.duration_s / self.period_s) + 1):
            while changes and changes[0][0] < k * self.period_s:
                controller.retarget(changes.popleft()[1])
            run.advance(until_s=k * self.period_s)
            samples.append(run.measure(at_s=k * self.period_s))
            decisions.append(controller.step(samples[-1]))
            waiting.append(decisions[-1])
            if len(waiting) > self.lag_periods:
                run.obey(waiting.popleft())
        run.advance(until_s=math.inf)
        return Outcome(
            arrival_s=run.world.rows["arrival_s"].copy(),
            delay_s=run.delays_s,
            targets=targets,
            period_s=self.period_s,
            samples=tuple(samples),
            decisions=tuple(decisions),
            elapsed_s=float(max(trace.duration_s, run.world.rows["left_s"].max(initial=0.0))),
        )


class Monitor:
    """Estimates the cost of a row from what the operators did in a period; see the module's text."""

    def __init__(self, network: Network, cost: CostTrace, meter: CostMeterConfig | None = None) -> None:
        self._meter = None if meter is None else meter.build()
        place = {operator.name: number for number, operator in enumerate(network.operators)}
        self._inputs = [[place[name] for name in operator.inputs] for operator in network.operators]
        self._costs = network.costs_s(float(cost.array[0])).tolist()
        self._selectivity = [operator.selectivity for operator in network.operators]

    def cost_s(self, operators: npt.NDArray[np.void], finished_rows: int) -> float:
        """Return c(k) from the operators' meters, and set those to nothing."""
        busy_s = float(operators["processor_s"].sum())
        by_operator_s = self._by_operator_s(operators)
        if self._meter is None:
            return by_operator_s
        # Before a row has left, what a row costs is known from the trial that the run begins with.
        return self._meter.update(busy_s=busy_s, finished_rows=finished_rows) or by_operator_s

    def _by_operator_s(self, operators: npt.NDArray[np.void]) -> float:
        read, passed, spent = (operators[name].tolist() for name in ("read", "passed", "processor_s"))
        visits = [1.0] * len(read)
        total = 0.0
        for o, sources in enumerate(self._inputs):
            if read[o]:
                self._costs[o] = spent[o] / read[o]
                self._selectivity[o] = min(passed[o] / read[o], 1.0)
            if sources:
                visits[o] = sum(visits[i] * self._selectivity[i] for i in sources)
            total += visits[o] * self._costs[o]
        for name in ("read", "passed", "processor_s"):
            operators[name] = 0
        return total


class _Run:
    """One run's arrays, and the way from the kernel's counts to samples and back from decisions."""

    def __init__(self, engine: Engine, trace: Arrivals, monitor: Monitor) -> None:
        self._engine, self._monitor = engine, monitor
        self._decision = Decision()
        self._period = 0
        self._watch = None if engine.headroom_meter is None else HeadroomWatch(engine.headroom_meter)
        self.world = _world(engine, trace)

    def advance(self, until_s: float) -> None:
        """Run on, with the decision that holds."""
        decision = self._decision
        salt = _seed(self._engine.seed, 1, decision.salt)
        limit = math.inf if decision.queue_limit_rows is None else decision.queue_limit_rows
        while kernel.advance(self.world, until_s, salt, decision.keep_ratio, limit) == kernel.QUEUE_FULL:
            self.world = _longer(self.world)

    def measure(self, at_s: float) -> Sample:
        """Return what the monitor saw since the last call."""
        clock = self.world.clock[0]
        finished = int(clock["finished"])
        cost_s = self._monitor.cost_s(self.world.operators, finished)
        sample = Sample(
            at_s=at_s,
            period_s=self._engine.period_s,
            arrived_rows=float(clock["arrived"]),
            kept_rows=float(clock["kept"]),
            backlog_rows=float(clock["outstanding"]),
            cost_s=cost_s,
            busy_s=float(clock["busy_s"]),
            finished_rows=float(finished),
            delay_s=float(clock["delay_sum_s"]) / finished if finished else None,
            worst_delay_s=float(clock["worst_delay_s"]) if finished else None,
        )
        for name in ("arrived", "kept", "finished", "busy_s", "delay_sum_s", "worst_delay_s"):
            clock[name] = 0
        return sample if self._watch is None else self._watch.told(sample)

    def obey(self, decision: Decision) -> None:
        """Let a decision hold from now on."""
        self._decision = decision
        self._period += 1
        if self._engine.shed == "queue" and decision.admit_rows is not None and decision.admit_rows < 0.0:
            outstanding = float(self.world.clock[0]["outstanding"])
            load = shed_from_queue_rows(decision.admit_rows, 1.0, outstanding)
            kernel.remove(self.world, _seed(self._engine.seed, 2, self._period), load)
            if self._watch is not None:
                self._watch.disturbed(float(self.world.clock[0]["now_s"]))

    @property
    def delays_s(self) -> npt.NDArray[np.float64]:
        """Every row's delay, NaN where it was shed."""
        rows = self.world.rows
        return np.where(rows["fate"] == kernel.DONE, rows["left_s"] - rows["arrival_s"], np.nan)


def _world(engine: Engine, trace: Arrivals) -> kernel.World:
    """Lay out the arrays of a run at second 0."""
    network, base_s = engine.network, float(engine.cost.array[0])
    rows = np.zeros(trace.total, kernel.ROW)
    rows["arrival_s"] = trace.times(0, trace.total)
    starts, readers = network.readers
    operators = np.zeros(len(network), kernel.OPERATOR)
    operators["cost_s"] = network.costs_s(base_s)
    operators["selectivity"] = [operator.selectivity for operator in network.operators]
    operators["downstream"] = network.downstream
    operators["first_reader"], operators["last_reader"] = starts[:-1], starts[1:]
    clock = np.zeros(1, kernel.CLOCK)
    clock["cost_step_s"], clock["headroom"] = engine.cost.step_s, engine.headroom
    clock["schedule"] = kernel.ROUND_ROBIN if engine.schedule == "round_robin" else kernel.FIFO
    clock["seed"] = _seed(engine.seed, 0, 0)
    clock["operator"] = -1
    return kernel.World(
        rows=rows,
        operators=operators,
        ring=np.zeros((len(network), 1024), np.int64),
        entries=network.entries,
        readers=readers,
        relative_cost=engine.cost.array / base_s,
        clock=clock,
    )


def _longer(world: kernel.World) -> kernel.World:
    """Return the same world with room for twice as many rows in each queue, moved to the front of its ring."""
    m, room = world.ring.shape
    order = (world.operators["head"][:, None] + np.arange(room)) & (room - 1)
    front = np.take_along_axis(world.ring, order, axis=1)
    world.operators["head"] = 0
    return world._replace(ring=np.concatenate((front, np.zeros((m, room), np.int64)), axis=1))


@lru_cache(maxsize=4096)
def _seed(seed: int, purpose: int, number: int) -> np.uint64:
    """Return 64 bits that differ for every seed and purpose."""
    words = [seed & _64_BITS, purpose, number & _64_BITS]
    return np.uint64(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])
