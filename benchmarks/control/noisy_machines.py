"""DEADLINE on machines that are not its own, and where there is nothing to shed: goodput against what was possible.

================================== ==================================================================================
metric                             meaning
================================== ==================================================================================
noisy.kept_over_reference          rows kept over those of a reference that knows the costs and the slow-down of the
                                   batch before: geometric mean over plants and disturbances
noisy.worst_profile                the same, mean over plants, of the disturbance where it is least
noisy.within_target_gap            the reference's share of rows within the target less ours, mean over plants, of the
                                   disturbance where it is largest
noisy.delivered_over_reference     rows delivered within the target over the reference's: geometric mean
restart.kept_over_reference        rows kept in the ten batches after a crash with 20 s of backlog and a cold JVM,
                                   over those of the reference: geometric mean over plants
restart.within_target_gap          of the delivered rows that arrived after that, the reference's share within the
                                   target less ours, mean over plants: who keeps too much fails by this
idle.loss                          the largest share of rows lost where keeping everything uses at most nine tenths of
                                   the target, or where trigger and fixed time alone exceed it, at any trigger and
                                   lag, from the first batch on; rows of the plant's cost and cheap ones
idle.loss_at_the_edge              the same where keeping everything uses more than that and is just in time
delivered_over_best.deadline       rows delivered within the target over the most that any shedder of a family
                                   delivers that knows the costs (:mod:`~spillway.sim.best`), from the tenth second
                                   on: the least over all loads
delivered_over_best.lags           the same with decisions up to five batches late
p99_over_target.lags               the 99th percentile of the delay over the target, the largest of those
================================== ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control.plants import Plant, machines, plant
from benchmarks.control.runs import geometric_mean
from benchmarks.results import Figure
from spillway.core.control import Controller, make
from spillway.report.plots import panels, save
from spillway.sim import Machine, Outcome
from spillway.sim.best import best_delivered, delivered, drawn
from spillway.sim.reference import Reference

FIRST_SEED = 1000
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
QUICK_LOADS = (0.5, 0.8, 1.0, 1.25, 2.0, 3.0)
TRIGGERS_S = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
QUICK_TRIGGERS_S = (0.0, 1.0, 3.0, 10.0)
LAGS = (0, 1, 2, 3, 5)
IDLE_LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
IDLE_LAGS = (0, 1, 3, 5)
ROOM = 0.9  # of the target: where keeping everything takes no more, nobody has a reason to shed
CHEAP_ROWS_S, CHEAP_S = (0.3e-6, 1e-6, 5e-6), 6.0  # what a row costs, and how long such a query is looked at
NOISES = 3  # draws of the noise that a plant is seen with; one alone would make the luckiest shedder the best
AFTER_RESTART = 10  # batches
LEARN_S = 10.0  # that do not count where the best is told the costs from the first batch on and we have to learn them
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Compared:
    """One plant beside one disturbance: rows kept over the reference's, both shares within the target, goodput."""

    profile: str
    kept: float
    within: float
    reference_within: float
    in_time: float
    after_restart: float | None = None
    restart_gap: float | None = None


def within(outcome: Outcome, *, from_s: float = 0.0) -> float:
    """Return the share within the target of the delivered rows that arrived from a given second on."""
    return delivered(outcome, from_s=from_s) / max(
        float(outcome.delivered[outcome.arrival_s >= from_s].sum()), 1.0
    )


def compare(one: Plant, profile: str, machine: Machine) -> Compared:
    """Play the burst with DEADLINE and with the reference."""
    trace, target_s = one.burst(), one.target_s
    ours = one.engine(machine, estimate=True).run(trace, deadline(one), target_s)
    knowing = Reference(target_s - machine.late_s)
    reference = one.engine(machine, estimate=False).run(trace, knowing, target_s)
    back_s = None if machine.killed_at_s is None else machine.killed_at_s + machine.down_s
    return Compared(
        profile=profile,
        kept=float(ours.delivered.sum()) / float(reference.delivered.sum()),
        within=within(ours),
        reference_within=within(reference),
        in_time=delivered(ours) / max(delivered(reference), 1.0),
        after_restart=None if back_s is None else _after_restart(ours, reference, back_s),
        restart_gap=None
        if back_s is None
        else within(reference, from_s=back_s) - within(ours, from_s=back_s),
    )


def deadline(one: Plant) -> Controller:
    """Return the controller as it is on Spark."""
    return make("deadline", target_delay_s=one.target_s, engine="batched")


def neighbours(out: Path | None, *, plants: int, tell: Tell) -> tuple[Figure, dict[str, float]]:
    """Compare on all disturbances."""
    runs: list[Compared] = []
    for number in range(plants):
        tell(f"neighbours, plant {number + 1} of {plants}")
        one = plant(FIRST_SEED + number)
        runs += [compare(one, name, machine) for name, machine in machines(one.seed).items()]
    by_profile = {name: [run for run in runs if run.profile == name] for name in machines(FIRST_SEED)}
    kept = {name: geometric_mean(run.kept for run in found) for name, found in by_profile.items()}
    gaps = {
        name: float(np.mean([run.reference_within - run.within for run in found]))
        for name, found in by_profile.items()
    }
    in_time = {name: geometric_mean(run.in_time for run in found) for name, found in by_profile.items()}
    restarts = [run.after_restart for run in runs if run.after_restart is not None]
    metrics = {
        "noisy.kept_over_reference": geometric_mean(run.kept for run in runs),
        "noisy.worst_profile": min(kept.values()),
        "noisy.within_target_gap": max(gaps.values()),
        "noisy.delivered_over_reference": geometric_mean(run.in_time for run in runs),
        "restart.kept_over_reference": geometric_mean(restarts),
        "restart.within_target_gap": float(
            np.mean([run.restart_gap for run in runs if run.restart_gap is not None])
        ),
    }
    worst = min(kept, key=lambda name: kept[name])
    checks = {
        "keeps_nine_tenths": metrics["noisy.kept_over_reference"] >= 0.9,
        "no_profile_below_0.8": metrics["noisy.worst_profile"] >= 0.8,
        "as_many_in_time": metrics["noisy.within_target_gap"] <= 0.05,
        "restart_keeps_0.8": metrics["restart.kept_over_reference"] >= 0.8,
        "restart_in_time": metrics["restart.within_target_gap"] <= 0.1,
        "nine_tenths_in_time": metrics["noisy.delivered_over_reference"] >= 0.9,
    }
    figure = Figure(
        title="Beside neighbours, on a cold JVM, through stalls and a restart",
        paper="no paper: a shedder that knows the costs, and the slow-down of the batch before, is the measure",
        ours=f"{metrics['noisy.kept_over_reference']:.2f} times its rows are kept, {kept[worst]:.2f} times where it "
        f"is least ({worst}); {metrics['noisy.delivered_over_reference']:.2f} times as many are in time.",
        holds=all(checks.values()),
        numbers={"checks": checks, "kept": kept, "gap": gaps, "in_time": in_time, "restarts": restarts},
        files=_draw(out, kept, in_time),
    )
    return figure, metrics


def sweeps(out: Path | None, *, plants: int, quick: bool, tell: Tell) -> tuple[Figure, dict[str, float]]:
    """Go through loads, triggers and lags."""
    some = [plant(FIRST_SEED + 100 + number) for number in range(plants)]
    draws = 1 if quick else NOISES
    loads: dict[str, float] = {}
    for load in QUICK_LOADS if quick else LOADS:
        tell(f"load {load:g}")
        loads[f"{load:g}"] = min(_over_best(one, load, lag=1, draws=draws)[0] for one in some)
    tell("late decisions")
    lags = {lag: [_over_best(one, 2.0, lag=lag, draws=draws) for one in some] for lag in LAGS}
    idle: dict[str, float] = {}
    edge: dict[str, float] = {}
    for trigger_s in QUICK_TRIGGERS_S if quick else TRIGGERS_S:
        tell(f"trigger {trigger_s:g} s")
        losses = [_idle_loss(one, trigger_s) for one in some]
        idle[f"{trigger_s:g}"] = max(with_room for with_room, _ in losses)
        edge[f"{trigger_s:g}"] = max(at_the_edge for _, at_the_edge in losses)
    tell("cheap rows")
    idle["cheap rows"] = max(_cheap_rows_loss(one) for one in some)
    metrics = {
        "idle.loss": max(idle.values()),
        "idle.loss_at_the_edge": max(edge.values()),
        "delivered_over_best.deadline": min(loads.values()),
        "delivered_over_best.lags": min(ratio for found in lags.values() for ratio, _ in found),
        "p99_over_target.lags": max(p99 for found in lags.values() for _, p99 in found),
    }
    checks = {
        "nothing_lost_in_vain": metrics["idle.loss"] == 0.0,
        "nearly_the_best_at_every_load": metrics["delivered_over_best.deadline"] >= 0.95,
    }
    numbers: dict[str, Any] = {"checks": checks, "loads": loads, "idle": idle, "edge": edge}
    numbers["lags"] = {str(lag): [list(pair) for pair in found] for lag, found in lags.items()}
    figure = Figure(
        title="Rows delivered in time, by load, trigger and lag",
        paper="no paper: a shedder that knows the costs and aims at the best batch time is the measure",
        ours=f"At every load from {LOADS[0]:g} to {LOADS[-1]:g} at least {min(loads.values()):.0%} of what the best "
        f"delivers; with decisions up to {LAGS[-1]} batches late {metrics['delivered_over_best.lags']:.0%}. Where "
        f"shedding is of no use {metrics['idle.loss']:.2%} are lost.",
        holds=all(checks.values()),
        numbers=numbers,
        files=_draw_loads(out, loads),
    )
    return figure, metrics


def _over_best(one: Plant, load: float, *, lag: int, draws: int = 1) -> tuple[float, float]:
    """Return rows in time over the best, and the 99th percentile of the delay over the target."""
    trace, target_s = one.steady(load), one.target_s
    runs = [
        engine.run(trace, deadline(one), target_s)
        for engine in drawn(one.engine(Machine(), estimate=True, lag_batches=lag), draws)
    ]
    best = _best(one, load, draws)
    p99_s = max(float(np.nanquantile(run.delay_s[run.arrival_s >= LEARN_S], 0.99)) for run in runs)
    return sum(delivered(run, from_s=LEARN_S) for run in runs) / draws / best, p99_s / target_s


@lru_cache(maxsize=512)
def _best(one: Plant, load: float, draws: int) -> float:
    """Return the most rows that are delivered in time; it has no decisions that could be late."""
    engine = one.engine(Machine(), estimate=False)
    return best_delivered(engine, one.steady(load), one.target_s, from_s=LEARN_S, draws=draws)


def _idle_loss(one: Plant, trigger_s: float) -> tuple[float, float]:
    """Return the largest share of rows lost at loads and lags where shedding is of no use.

    The first number is where keeping everything leaves room, or where trigger and fixed time alone miss the target;
    the second where everything would just have been in time.
    """
    with_room = at_the_edge = 0.0
    for load in IDLE_LOADS:
        everything = one.engine(Machine(), estimate=False, trigger_s=trigger_s).run(
            one.steady(load, 90.0), make("none", target_delay_s=one.target_s), one.target_s
        )
        used = float(everything.delay_s.max()) / one.target_s
        in_vain = trigger_s + one.fixed_s >= one.target_s
        if in_vain or used <= ROOM:
            with_room = max(with_room, _loss(one, trigger_s, load, 90.0))
        elif used <= 1.0:
            at_the_edge = max(at_the_edge, _loss(one, trigger_s, load, 90.0))
    return with_room, at_the_edge


def _cheap_rows_loss(one: Plant) -> float:
    """Return the same in the first seconds of queries whose rows cost less than is believed at a cold start."""
    losses = [
        _loss(replace(one, cost_s=cost_s, skip_s=0.05 * cost_s), trigger_s, load, CHEAP_S)
        for cost_s in CHEAP_ROWS_S
        for trigger_s, load in ((0.0, 0.5), (0.5 * one.target_s - one.fixed_s, 0.3))
    ]
    return max(losses)


def _loss(one: Plant, trigger_s: float, load: float, seconds: float) -> float:
    """Return the largest share of rows lost with decisions some batches late."""
    trace = one.steady(load, seconds)
    runs = [
        one.engine(Machine(), estimate=True, lag_batches=lag, trigger_s=trigger_s).run(
            trace, deadline(one), one.target_s
        )
        for lag in IDLE_LAGS
    ]
    return max(1.0 - float(run.delivered.mean()) for run in runs)


def _after_restart(ours: Outcome, reference: Outcome, back_s: float) -> float:
    """Return the rows kept in the batches after the restart over those of the reference."""

    def kept(outcome: Outcome) -> float:
        return sum([s.kept_rows for s in outcome.samples if s.at_s > back_s][1 : 1 + AFTER_RESTART])

    return kept(ours) / max(kept(reference), 1.0)


def _draw(out: Path | None, kept: dict[str, float], in_time: dict[str, float]) -> list[str]:
    if out is None:
        return []
    with panels(1, 1, width=8.0, height=3.0) as (figure, (axis,)):
        place = np.arange(len(kept))
        axis.bar(place - 0.2, list(kept.values()), 0.4, label="kept")
        axis.bar(place + 0.2, list(in_time.values()), 0.4, label="in time")
        axis.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
        axis.set_xticks(place, list(kept), rotation=30, ha="right")
        axis.set(ylabel="rows over the reference's", title="Beside neighbours")
        axis.legend(loc="lower right")
        return save(figure, out, "noisy-machines")


def _draw_loads(out: Path | None, loads: dict[str, float]) -> list[str]:
    if out is None:
        return []
    with panels(1, 1, width=6.0, height=2.6) as (figure, (axis,)):
        axis.plot([float(load) for load in loads], list(loads.values()), marker="o", markersize=3)
        axis.axhline(0.95, color="black", linewidth=0.8, linestyle="--")
        axis.set(
            xlabel="load", ylabel="delivered over best", ylim=(0.8, 1.02), title="Worst plant at each load"
        )
        return save(figure, out, "delivered-by-load")
