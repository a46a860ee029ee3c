"""The same joins in real time: rows arrive by the clock, and the join sheds by the time it has.

Batches of a quarter of a second are joined when their last row has come, and should be done when the next batch is
due. What a unit of work costs is learned from batch to batch, and the budget is what fits into the time that is left.
The scan is the one that the library has, with bit sets, so the rates are far above the paper's:

    2 λ c_row + 2 λ² w c_unit = 1 s          the rate λ at which one core is just busy, measured before

and the streams come at five times that, as 500 rows a second are five times 100. Who does nothing joins all of it,
and falls behind.

A row's delay is from its arrival until its batch is done. ``adaptation_cost`` is the share of the join's time that
choosing and learning take, by its own account.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.join.feed import Feed, filled
from benchmarks.join.panels import Panel, draw
from benchmarks.join.scenario import Setting, named
from benchmarks.join.speed import Cost, Timing, measure
from benchmarks.results import Figure
from spillway.core.join import Join, Shedding
from spillway.core.join.adaptations import shedding_of
from spillway.replay.traces import Rates

STEP_S = 0.25
OVERLOAD = 5.0
MARGIN = 0.9
"""Share of the time that is planned with."""
MOST_RATE = 60_000.0

Clock = Callable[[], float]
Sleep = Callable[[float], None]


@dataclass(frozen=True, kw_only=True)
class RealTime:
    """How long: windows, learning, counting, and the period of adaptation, in seconds; and what is run."""

    window_s: float = 20.0
    learn_s: float = 10.0
    count_s: float = 20.0
    period_s: float = 5.0
    methods: tuple[str, ...] = ("none", "random", "rate", "timecorr", "selective")


@dataclass(frozen=True, kw_only=True)
class Lived:
    """What came out of a run by the clock."""

    output_per_s: float
    comparisons_per_s: float
    fraction: float
    p95_delay_s: float
    busy: float
    adapting: float
    behind_s: float


def method_of(name: str, plan: RealTime) -> str | Shedding:
    """Return a way to shed, with basic windows in the paper's proportion to the window."""
    if name == "none":
        return "newest"
    given = named(name, plan.window_s / 20.0)
    return replace(given, period_s=plan.period_s) if isinstance(given, Shedding) else given


def capacity(window_s: float, timing: Timing) -> tuple[float, Cost]:
    """Return the rate at which one core is just busy, and what rows and units cost there."""
    probe = Setting(rate=2_000.0, window_s=min(window_s, 4.0))
    trace = Rates((probe.rate,), (probe.window_s + timing.seconds,))
    feed = Feed(*(probe.stream(side).table(trace, seed=side) for side in (0, 1)))
    cost = measure(probe.config("newest"), feed, timing)
    linear, square = 2.0 * cost.row_s, 2.0 * window_s * cost.unit_s
    return float((-linear + np.sqrt(linear**2 + 4.0 * square)) / (2.0 * square)), cost


def live(
    setting: Setting,
    name: str,
    feed: Feed,
    plan: RealTime,
    cost: Cost,
    *,
    clock: Clock = time.perf_counter,
    sleep: Sleep = time.sleep,
) -> Lived:
    """Join by the clock, with full windows, and return what came out after the time of learning."""
    shedding = method_of(name, plan)
    kept = 1.0 / OVERLOAD if shedding_of(shedding).drop_rows else 1.0
    join = filled(setting.config(shedding), *feed.between(0.0, setting.window_s), kept=kept, clock=clock)
    unit_s, lasts_s = cost.unit_s, plan.learn_s + plan.count_s
    counted = _Counted()
    start = clock()
    batches = feed.batches(setting.window_s, setting.window_s + lasts_s, STEP_S)
    for number, (left, right) in enumerate(batches):
        due = start + (number + 1) * STEP_S
        sleep(max(0.0, due - clock()))
        began = clock()
        if began - start >= lasts_s + STEP_S:
            break
        rows = left.num_rows + right.num_rows
        left_s = MARGIN * max(0.0, due + STEP_S - began) - rows * cost.row_s
        pairs = join.process(left, right, None if name == "none" else max(0.0, left_s) / unit_s)
        done = clock()
        if join.work.spent:
            seen = max(1e-12, done - began - rows * cost.row_s) / join.work.spent
            unit_s += 0.3 * (seen - unit_s)
        if number * STEP_S >= plan.learn_s or name == "none":
            counted.add(join, pairs.num_rows, done - began, done - (due - STEP_S))
    return counted.over(plan.count_s if name != "none" else lasts_s)


class _Counted:
    """Adds batches up."""

    def __init__(self) -> None:
        self.pairs = self.comparisons = self.demand = 0
        self.busy = self.adapting = 0.0
        self.delays: list[float] = []

    def add(self, join: Join, pairs: int, took_s: float, since_first_s: float) -> None:
        self.pairs += pairs
        self.comparisons += join.work.comparisons
        self.demand += join.work.demand
        self.busy += took_s
        self.adapting += join.work.adapting_s
        self.delays += [since_first_s - STEP_S * part for part in (0.1, 0.3, 0.5, 0.7, 0.9)]

    def over(self, seconds: float) -> Lived:
        return Lived(
            output_per_s=self.pairs / seconds,
            comparisons_per_s=self.comparisons / seconds,
            fraction=self.comparisons / max(1, self.demand),
            p95_delay_s=float(np.percentile(self.delays, 95)) if self.delays else 0.0,
            busy=self.busy / seconds,
            adapting=self.adapting / max(1e-9, self.busy),
            behind_s=max(self.delays, default=0.0),
        )


def measured(
    plan: RealTime, timing: Timing, tell: Callable[[str], None]
) -> tuple[dict[str, Lived], dict[str, Any]]:
    """Run all methods, one after the other, on the same rows."""
    starts_at, cost = capacity(plan.window_s, timing)
    setting = Setting(rate=min(MOST_RATE, OVERLOAD * starts_at), window_s=plan.window_s)
    trace = Rates((setting.rate,), (plan.window_s + plan.learn_s + plan.count_s,))
    feed = Feed(*(setting.stream(side).table(trace, seed=side) for side in (0, 1)))
    found = {}
    for name in plan.methods:
        tell(f"real time: {name}")
        found[name] = live(setting, name, feed, plan, cost)
    return found, {"shedding_starts_at_rows_per_s": starts_at, "rate": setting.rate, "plan": asdict(plan)}


def figure_of(found: dict[str, Lived], run: dict[str, Any], out: Path | None) -> Figure:
    """Return the numbers, in the terms of Figures 12 and 15."""
    ratio = found["selective"].output_per_s / max(1e-9, found["random"].output_per_s)
    checks = {
        "three_times_the_output_of_a_random_drop": ratio >= 3.0,
        "in_time": all(of.p95_delay_s <= 4 * STEP_S for name, of in found.items() if name != "none"),
        "adaptation_costs_less_than_2_percent": found["selective"].adapting < 0.02,
    }
    told = ", ".join(f"{name} {of.output_per_s:,.0f}" for name, of in found.items())
    late = f"; none is {found['none'].behind_s:.1f} s behind at the end" if "none" in found else ""
    return Figure(
        title="By the clock, on one core, at five times the rate at which it is busy",
        paper="The paper's figures are all by the clock: up to 500 % more than a random drop (Figure 15).",
        ours=f"{run['rate']:,.0f} rows/s on each side; pairs/s: {told}. Selection has {ratio:.1f} times the output "
        f"of a random drop; p95 of the delay {found['selective'].p95_delay_s:.2f} and "
        f"{found['random'].p95_delay_s:.2f} s{late}. Adaptation takes "
        f"{100 * found['selective'].adapting:.1f} % of the join's time.",
        holds=all(checks.values()),
        numbers={"checks": checks, "run": run, "methods": {name: asdict(of) for name, of in found.items()}},
        files=draw(
            [
                Panel(
                    title="Output by the clock",
                    x="p95 of the delay, s",
                    y="pairs/s",
                    curves={n: ([of.p95_delay_s], [of.output_per_s]) for n, of in found.items()},
                )
            ],
            out,
            "join-real-time",
        ),
    )
