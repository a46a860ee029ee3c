"""Whether virtual time stands for real time: units of work against seconds by the clock.

The events of Q1 are processed in parts, without shedding and with it, and the processor's time of each part is taken,
so that other programs do not count. If a unit takes the same time everywhere, seconds are in proportion to units.
Each part has a fixed cost besides: reading, counting.

    r           correlation of seconds and units over the parts
    unit        nanoseconds per unit, the slope
    speed-up    seconds without shedding over seconds of the hybrid at half of the latency, from the third window on;
                2 if it were free itself
    tracking    seconds of an engine that could shed but does not over those of one that could not

In one more run the hybrid does not see units but the processor's time of each part, shared by its events, and holds
half of what that was without shedding: the latency is by the clock, with all that shedding takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.cep.case import Case, Prepared
from benchmarks.cep.tasks import Task
from benchmarks.join.panels import Panel, draw
from benchmarks.results import Figure
from spillway.core.cep import TriggerConfig, WatchConfig
from spillway.core.cep.shedding import Enforcer, Orders, Seen, strategy_of
from spillway.core.cep.shedding.enforcer import Strategy

BOUND = 0.5
PART = 1000
STRATEGIES = ("none", "hybrid", "random_state")
BY_CLOCK = "hybrid by the clock"
PLAIN = "not tracked"


@dataclass(frozen=True, kw_only=True)
class Clocked:
    """Seconds and units of each part but the first, under one strategy; ``settled_s`` from the third window on."""

    name: str
    seconds: tuple[float, ...]
    units: tuple[float, ...]
    recall: float
    settled_s: float


class ByClock:
    """A strategy that is told how long events took by a clock, not how much work they were."""

    def __init__(self, inner: Strategy, clock: Callable[[], float] = time.thread_time) -> None:
        self.inner, self._clock = inner, clock
        self._last = clock()

    def step(self, seen: Seen) -> Orders:
        """Take the time since the last check, shedding in it, for that of the events."""
        now = self._clock()
        took, self._last = now - self._last, now
        return self.inner.step(replace(seen, times=np.full(len(seen.times), took / max(1, len(seen.times)))))

    def snapshot(self) -> bytes:
        """Return what the strategy knows."""
        return self.inner.snapshot()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self.inner.restore(state)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far units stand for seconds; and, with a bound by the clock, the mean latency over it."""

    correlation: float
    unit_ns: float
    part_us: float
    speed_up: float
    latency_over_bound: float
    tracking: float


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A task: the first query by the clock, over some windows."""

    window_ms: float
    windows: int
    weight: ClassVar[int] = 30  # before others: what it compiles they need too

    @property
    def group(self) -> Hashable:
        """It shares nothing."""
        return self

    def tasks(self) -> list[Task]:
        """Return itself."""
        return [self]

    def run(self) -> list[Clocked]:
        """Time it."""
        return measured(self.window_ms, self.windows)


def measured(window_ms: float, windows: int, seed: int = 11) -> list[Clocked]:
    """Time the first query without shedding, with the hybrid and with runs shed at random, and without counting."""
    case = Case.of_q1(window_ms, windows).prepare(seed)
    found = [_timed(case, name) for name in STRATEGIES]
    unshed_s = found[0].settled_s / (case.table.num_rows - case.since)
    return [*found, _timed(case, BY_CLOCK, BOUND * unshed_s), _plain(case)]


def _timed(case: Prepared, name: str, bound_s: float | None = None) -> Clocked:
    seconds, units = [], []
    last = time.thread_time()

    def note(enforcer: Enforcer) -> None:
        nonlocal last
        now = time.thread_time()
        seconds.append(now - last)
        units.append(float(enforcer.patterns.work.spent))
        last = time.thread_time()

    unshed_s = case.unshed_s()
    watch = WatchConfig(trigger=TriggerConfig(bound_s=bound_s or BOUND * unshed_s))
    strategy = strategy_of("hybrid" if bound_s else name, watch, case.learned, unshed_s=unshed_s)
    if bound_s and strategy is not None:
        strategy = ByClock(strategy)
    last = time.thread_time()
    found = case.run(strategy, check_events=PART, each=note)
    return Clocked(
        name=name,
        seconds=tuple(seconds[1:]),
        units=tuple(units[1:]),
        recall=found.recall(case.truth, case.since),
        settled_s=sum(seconds[case.since // PART :]),
    )


def _plain(case: Prepared) -> Clocked:
    """Time an engine that counts nothing by class and cannot shed."""
    patterns = case.config.build()
    patterns.warm_up()
    seconds, units = [], []
    for start in range(0, case.table.num_rows, PART):
        last = time.thread_time()
        patterns.process(case.table.slice(start, PART))
        seconds.append(time.thread_time() - last)
        units.append(float(patterns.work.spent))
    return Clocked(
        name=PLAIN,
        seconds=tuple(seconds[1:]),
        units=tuple(units[1:]),
        recall=1.0,
        settled_s=sum(seconds[case.since // PART :]),
    )


def agreement(found: list[Clocked]) -> Agreement:
    """Return how far units stand for seconds, and what shedding saves by the clock."""
    tracked = [each for each in found if each.name != PLAIN]
    units, seconds = (
        np.concatenate([np.array(getattr(each, name)) for each in tracked]) for name in ("units", "seconds")
    )
    few = seconds <= np.percentile(seconds, 98.0)  # what else the machine did meanwhile
    slope, fixed = np.polyfit(units[few], seconds[few], 1)
    lasted = {each.name: each.settled_s for each in found}
    return Agreement(
        correlation=float(np.corrcoef(units[few], seconds[few])[0, 1]),
        unit_ns=float(1e9 * slope),
        part_us=float(1e6 * fixed),
        speed_up=lasted["none"] / lasted["hybrid"],
        latency_over_bound=lasted[BY_CLOCK] / (BOUND * lasted["none"]),
        tracking=lasted["none"] / lasted[PLAIN],
    )


def figure_of(found: list[Clocked], out: Path | None) -> Figure:
    """Show seconds over units."""
    agrees = agreement(found)
    by_clock = next(each for each in found if each.name == BY_CLOCK)
    checks = {
        "seconds_follow_units": agrees.correlation > 0.9,
        "shedding_pays_by_the_clock": agrees.speed_up > 1.2,
        "bounds_by_the_clock_hold": agrees.latency_over_bound <= 1.0,
    }
    return Figure(
        title=f"Virtual and real time: seconds over units of work, parts of {PART} events",
        paper="All latencies are by the clock.",
        ours=f"Correlation {agrees.correlation:.3f}; a unit takes {agrees.unit_ns:.1f} ns, a part "
        f"{agrees.part_us:.0f} us besides. Under half of the latency the hybrid took 1/{agrees.speed_up:.2f} of the "
        f"time without shedding, with the work of shedding in it. With a bound by the clock the mean was "
        f"{agrees.latency_over_bound:.2f} of it, and recall {by_clock.recall:.2f}. To be able to shed takes "
        f"{agrees.tracking:.2f} times as long as not to.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            **asdict(agrees),
            "seconds": {each.name: sum(each.seconds) for each in found},
            "recall": {each.name: each.recall for each in found},
        },
        files=draw(
            [
                Panel(
                    title=f"parts of {PART} events",
                    x="thousand units of work",
                    y="milliseconds",
                    curves={each.name: _sorted(each) for each in found},
                    markers=False,
                )
            ],
            out,
            "cep-clock",
        ),
    )


def _sorted(each: Clocked) -> tuple[list[float], list[float]]:
    pairs = sorted(zip(each.units, each.seconds, strict=True))
    return [1e-3 * units for units, _ in pairs], [1e3 * seconds for _, seconds in pairs]
