"""Whether virtual time stands for real time: units of work against seconds by the clock.

The events of Q1 are processed in parts, without shedding and with it, and the processor's time of each part is taken,
so that other programs do not count. If a unit takes the same time everywhere, seconds are in proportion to units.
Each part has a fixed cost besides: reading, counting.

    r           correlation of seconds and units over the parts
    unit        nanoseconds per unit, the slope
    speed-up    seconds without shedding over seconds of the hybrid at half of the latency: 2 if it were free itself
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spillway.bench.cep.case import Case, Prepared
from spillway.bench.join.drawing import Panel, draw
from spillway.bench.results import Figure
from spillway.core.cep import TriggerConfig, WatchConfig
from spillway.core.cep.shedding import Enforcer, strategy_of

Floats = npt.NDArray[np.float64]
BOUND = 0.5
PART = 400
STRATEGIES = ("none", "hybrid", "random_state")


@dataclass(frozen=True, kw_only=True)
class Clocked:
    """Seconds and units of each part, under one strategy."""

    name: str
    seconds: tuple[float, ...]
    units: tuple[float, ...]
    recall: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far units stand for seconds."""

    correlation: float
    unit_ns: float
    part_us: float
    speed_up: float


def measured(window_ms: float, windows: int, seed: int = 11) -> list[Clocked]:
    """Time the first query without shedding, with the hybrid and with runs shed at random."""
    case = Case.of_q1(window_ms, windows).prepare(seed)
    return [_timed(case, name) for name in STRATEGIES]


def _timed(case: Prepared, name: str) -> Clocked:
    seconds, units = [], []
    last = time.thread_time()

    def note(enforcer: Enforcer) -> None:
        nonlocal last
        now = time.thread_time()
        seconds.append(now - last)
        units.append(float(enforcer.patterns.work.spent))
        last = time.thread_time()

    unshed_s = case.unshed_s()
    watch = WatchConfig(trigger=TriggerConfig(bound_s=BOUND * unshed_s))
    strategy = strategy_of(name, watch, case.learned, unshed_s=unshed_s)
    last = time.thread_time()
    found = case.run(strategy, check_events=PART, each=note)
    return Clocked(
        name=name,
        seconds=tuple(seconds[1:]),
        units=tuple(units[1:]),
        recall=found.recall(case.truth, case.since),
    )


def agreement(found: list[Clocked]) -> Agreement:
    """Return how far units stand for seconds, and what shedding saves by the clock."""
    units, seconds = (
        np.concatenate([np.array(getattr(each, name)) for each in found]) for name in ("units", "seconds")
    )
    few = seconds <= np.percentile(seconds, 98.0)  # what else the machine did meanwhile
    slope, fixed = np.polyfit(units[few], seconds[few], 1)
    took = {each.name: sum(each.seconds) for each in found}
    return Agreement(
        correlation=float(np.corrcoef(units[few], seconds[few])[0, 1]),
        unit_ns=float(1e9 * slope),
        part_us=float(1e6 * fixed),
        speed_up=took["none"] / took["hybrid"],
    )


def figure_of(found: list[Clocked], out: Path | None) -> Figure:
    """Show seconds over units."""
    agrees = agreement(found)
    checks = {
        "seconds_follow_units": agrees.correlation > 0.9,
        "shedding_pays_by_the_clock": agrees.speed_up > 1.2,
    }
    return Figure(
        title=f"Virtual and real time: seconds over units of work, parts of {PART} events",
        paper="All latencies are by the clock.",
        ours=f"Correlation {agrees.correlation:.3f}; a unit takes {agrees.unit_ns:.1f} ns, a part "
        f"{agrees.part_us:.0f} us besides. Under half of the latency the hybrid took 1/{agrees.speed_up:.2f} of the "
        "time without shedding, with the work of shedding in it.",
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
