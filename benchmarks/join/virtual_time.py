"""Joins in virtual time: rows arrive by a trace, and every second the machine can do so much work.

:func:`steady` joins at one rate. The windows are filled first (a join that drops rows fills them with as many as it
keeps), then it learns for a while, then what comes out is counted. :func:`along` joins along a trace of rates, from
empty windows, second by second. In both the budget of a second is what the machine can pay for beside the second's
rows. :func:`fed_back` has no budget: rows wait in a buffer of one second, those that do not fit are lost, and
Algorithm 1 lowers and raises the fraction. :func:`doing_nothing` joins everything, however long it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from benchmarks.join.feed import Feed, filled
from benchmarks.join.machine import Machine
from benchmarks.join.scenario import Setting, streams
from benchmarks.join.speed import Cost
from spillway.core.join import Join, RateConfig, Shedding
from spillway.core.join.adaptations import shedding_of
from spillway.replay.traces import Rates

STEP_S = 1.0
BUFFER_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Seconds for learning and for counting, and how many streams."""

    learn_s: float = 40.0
    count_s: float = 80.0
    seeds: int = 1


@dataclass
class Outcome:
    """What came out, second by second, and what it took."""

    pairs: list[int] = field(default_factory=list)
    fractions: list[tuple[float, float]] = field(default_factory=list)
    comparisons: int = 0
    demand: int = 0
    spent: int = 0
    rows: int = 0
    dropped_rows: int = 0

    def add(self, join: Join, found: pa.Table) -> None:
        """Count what a call did."""
        work = join.work
        self.pairs.append(found.num_rows)
        by_window = join.selection.fractions.mean(axis=1)
        self.fractions.append((float(by_window[0]), float(by_window[1])))
        self.comparisons += work.comparisons
        self.demand += work.demand
        self.spent += work.spent
        self.rows += work.rows
        self.dropped_rows += work.dropped_rows

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            pairs=self.pairs + other.pairs,
            fractions=self.fractions + other.fractions,
            comparisons=self.comparisons + other.comparisons,
            demand=self.demand + other.demand,
            spent=self.spent + other.spent,
            rows=self.rows + other.rows,
            dropped_rows=self.dropped_rows + other.dropped_rows,
        )

    @property
    def output_per_s(self) -> float:
        """Pairs a second."""
        return float(np.mean(self.pairs))

    def output_between(self, low_s: int, high_s: int) -> float:
        """Pairs a second in a part of the time."""
        return float(np.mean(self.pairs[low_s:high_s]))


def steady(
    setting: Setting, shedding: str | Shedding, machine: Machine, lengths: Lengths, *, seed: int = 0
) -> Outcome:
    """Join at one rate with full windows, and return what comes out after a time of learning."""
    found = Outcome()
    for number in range(lengths.seeds):
        found += _one(setting, shedding, machine, lengths, seed + number)
    return found


def _one(
    setting: Setting, shedding: str | Shedding, machine: Machine, lengths: Lengths, seed: int
) -> Outcome:
    filled_s = max(setting.within_s)
    learned_s = filled_s + lengths.learn_s
    trace = Rates((setting.rate,), (learned_s + lengths.count_s,))
    feed = Feed(*streams(setting, trace, seed))
    payer = Payer(machine, setting, shedding)
    config = setting.config(shedding, salt=seed)
    join = filled(config, *feed.between(0.0, filled_s), kept=payer.kept)
    for batch in feed.batches(filled_s, learned_s, STEP_S):
        payer.process(join, *batch)
    found = Outcome()
    for batch in feed.batches(learned_s, learned_s + lengths.count_s, STEP_S):
        found.add(join, payer.process(join, *batch))
    return found


def along(
    setting: Setting, shedding: str | Shedding, machine: Machine, trace: Rates, *, seed: int = 0
) -> Outcome:
    """Join along a trace of rates."""
    feed = Feed(*streams(setting, trace, seed))
    join = setting.config(shedding, salt=seed).build()
    payer = Payer(machine, setting, shedding)
    found = Outcome()
    for batch in feed.batches(0.0, trace.duration_s, STEP_S):
        found.add(join, payer.process(join, *batch))
    return found


class Payer:
    """Gives each second's rows the budget that is left beside them."""

    def __init__(self, machine: Machine, setting: Setting, shedding: str | Shedding) -> None:
        self.machine = machine
        self.dropping = shedding_of(shedding).drop_rows
        self.cost: Cost = machine.cost(setting.kind, dropping=self.dropping)
        self.kept = kept_share(machine, self.cost, setting) if self.dropping else 1.0

    def process(self, join: Join, left: pa.Table, right: pa.Table) -> pa.Table:
        """Join the rows of a second."""
        rows = left.num_rows + right.num_rows
        found = join.process(left, right, self.machine.budget(self.cost, rows * self.kept, STEP_S))
        if self.dropping and rows:
            self.kept = 1.0 - join.work.dropped_rows / rows
        return found


def kept_share(machine: Machine, cost: Cost, setting: Setting) -> float:
    """Return the share q of the rows that a join which drops rows can keep in the long run.

    Kept rows meet kept rows: q rows c_row + q² D c_unit = 1 / S.
    """
    linear = 2.0 * setting.rate * cost.row_s
    square = setting.demand_per_s * cost.units_per_comparison * cost.unit_s
    limit = 1.0 / machine.slowdown
    return min(1.0, 2.0 * limit / (linear + math.sqrt(linear**2 + 4.0 * square * limit)))


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """A join that does nothing about being too slow: pairs a second that came in time, and how late it was."""

    output_per_s: float
    delay_s: float


def doing_nothing(setting: Setting, machine: Machine, lasts_s: float, *, seed: int = 0) -> Backlog:
    """Join everything with full windows, for so long, and return what was out by then and the delay at the end."""
    filled_s = max(setting.within_s)
    feed = Feed(*streams(setting, Rates((setting.rate,), (filled_s + lasts_s,)), seed))
    join, cost = filled(setting.config("newest"), *feed.between(0.0, filled_s)), machine.cost(setting.kind)
    now = arrived = pairs = 0.0
    for batch in feed.batches(filled_s, filled_s + lasts_s, STEP_S):
        arrived += STEP_S
        found = join.process(*batch)
        now = max(now, arrived) + machine.seconds(cost, join.work.rows, join.work.spent)
        if now > lasts_s:
            break
        pairs += found.num_rows
    return Backlog(output_per_s=pairs / lasts_s, delay_s=lasts_s - (arrived - STEP_S))


def fed_back(
    setting: Setting,
    shedding: str | Shedding,
    machine: Machine,
    trace: Rates,
    *,
    rate: RateConfig | None = None,
    step_s: float = 0.25,
    seed: int = 0,
) -> list[float]:
    """Return the fraction r at the end of each second, as Algorithm 1 sets it without knowing any cost."""
    adapted = (rate or RateConfig()).build()
    feed = Feed(*streams(setting, trace, seed))
    join, cost = setting.config(shedding, salt=seed).build(), machine.cost(setting.kind)
    r, now, fetched, arrived, found = 1.0, 0.0, 0, 0, list[float]()
    period = adapted.config.period_s
    for number, batch in enumerate(feed.batches(0.0, trace.duration_s, step_s)):
        end = (number + 1) * step_s
        rows = batch[0].num_rows + batch[1].num_rows
        arrived += rows
        now = max(now, end - step_s)
        if now < end + BUFFER_S:  # what has waited for longer has been pushed out of the buffer
            join.process(*batch, fraction=r)
            now += machine.seconds(cost, rows, join.work.spent)
            fetched += rows
        if _passes(end, period, step_s):
            r = adapted.step(fetched_rows=fetched, arrived_rows=arrived)
            fetched = arrived = 0
        if _passes(end, 1.0, step_s):
            found.append(r)
    return found


def _passes(end_s: float, period_s: float, step_s: float) -> bool:
    return math.floor(end_s / period_s + 1e-9) > math.floor((end_s - step_s) / period_s + 1e-9)


def listed(values: Sequence[float], digits: int = 2) -> str:
    """Return numbers in a row, for a sentence.

    >>> listed([1.0, 2.345])
    '1.00, 2.35'
    """
    return ", ".join(f"{value:.{digits}f}" for value in values)
