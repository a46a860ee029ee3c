"""``spillway bench join``: the join paper's figures, and what comparing where matches are likely is worth.

In virtual time at 500 rows a second on each side, where about 0.04 of the comparisons can be made (see
:mod:`~benchmarks.join.machine`), unless another unit is named:

=============================================== ==================================================================
metric                                          meaning
=============================================== ==================================================================
``output.selective_over_random.KIND``           output with selection over that with rows dropped at random; KIND is
                                                ``overlap_scan``, ``overlap_index``, ``equi_scan``, ``equi_index``,
                                                or ``overlap_scan_k10`` and ``_k06`` for κ = 1.0 and 0.6
``output.timecorr_over_rate``                   with time correlation adaptation over rate adaptation alone
``output.direction_over_timecorr``              with join direction adaptation besides over that
``output.selective_over_random.real_time``      by the clock, on one core
``phi``                                         output over the best possible for as many comparisons, same rows
``utility.gain.FREQUENCY``                      worth of the output with utility over that without, skew 2
``comparisons_per_s.PATH``                      comparisons of one core, see :mod:`~benchmarks.join.speed`
``adaptation_cost``                             share of the join's time that choosing and learning take, by the clock
``reuters.output.selective_over_random``        on recorded news
``spark.output.selective_over_random``          on Spark, at the same latency target; in the full run only
``spark.p95_over_target.METHOD``                the 95th percentile of the pairs' delay over the target
=============================================== ==================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.join import indexed, machine, news, on_spark, optimality, real_time, worth
from benchmarks.join.indexed import INDEX_WINDOW_S, Gain, Sizes, figure_14, figure_15
from benchmarks.join.machine import Machine
from benchmarks.join.optimality import figure_5, figure_6, output_ratio, phi_of
from benchmarks.join.overload import figure_7
from benchmarks.join.rates import figure_10, figures_8_9
from benchmarks.join.real_time import RealTime
from benchmarks.join.scenario import METHODS, Setting
from benchmarks.join.selective import figure_13, figures_11_12
from benchmarks.join.speed import Timing, kernel_speeds
from benchmarks.join.virtual_time import Lengths, steady
from benchmarks.join.worth import figure_16, figure_17
from benchmarks.results import Figure, Results, commit_id
from benchmarks.suites import Request
from spillway.core.join import warm_up
from spillway.demo.local_session import check_java
from spillway.errors import SpillwayError


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is done."""

    timing: Timing
    lengths: Lengths
    index_lengths: Lengths
    utility_lengths: Lengths
    skews: Sequence[float]
    windows_s: Sequence[float]
    sizes: Sizes
    rates: Sequence[float]
    worth_skews: Sequence[float]
    types: Sequence[int]
    factors: Sequence[float]
    live: RealTime
    news_salts: int


FULL = Plan(
    timing=Timing(seconds=4, turns=5),
    lengths=Lengths(learn_s=40.0, count_s=80.0, seeds=3),
    index_lengths=Lengths(learn_s=40.0, count_s=60.0),
    utility_lengths=Lengths(learn_s=40.0, count_s=80.0, seeds=2),
    skews=(0.4, 0.6, 0.8, 1.0),
    windows_s=(10.0, 20.0, 40.0),
    sizes=Sizes(),
    rates=(50.0, 100.0, 200.0, 300.0, 400.0, 500.0),
    worth_skews=(0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    types=(2, 3, 5, 10, 20, 50),
    factors=(2.0, 4.0, 8.0, 16.0),
    live=RealTime(),
    news_salts=12,
)
QUICK = Plan(
    timing=Timing(seconds=1, turns=2),
    lengths=Lengths(learn_s=40.0, count_s=40.0),
    index_lengths=Lengths(learn_s=30.0, count_s=10.0),
    utility_lengths=Lengths(learn_s=30.0, count_s=30.0),
    skews=(0.6, 1.0),
    windows_s=(10.0, 20.0),
    sizes=Sizes(
        scan_s=(0.25, 1.0, 5.0), index_s=(0.5, 5.0), skews=(0.8,), index_skews=(0.8,), index_window_s=60.0
    ),
    rates=(500.0,),
    worth_skews=(0.0, 2.0),
    types=(2, 5, 20),
    factors=(2.0, 8.0),
    live=RealTime(window_s=10.0, learn_s=1.5, count_s=1.5, period_s=0.5, methods=("random", "selective")),
    news_salts=3,
)


@dataclass(frozen=True)
class Step:
    """Something that is done, and under which names its figures go."""

    names: tuple[str, ...]
    draw: Callable[[], Figure | tuple[Figure, ...]]


def run(request: Request) -> Results:
    """Run the suite."""
    start = time.perf_counter()
    plan, out = (QUICK if request.quick else FULL), request.out
    total = 17
    request.tell("compiling", 0, total)
    warm_up(("scan", "index", "sorted_index"))
    request.tell("speed of one core", 1, total)
    speeds = kernel_speeds(plan.timing)
    virtual = machine.measured(plan.timing, INDEX_WINDOW_S)
    request.tell("all kinds of join", 2, total)
    gains = indexed.gains(virtual, plan.lengths, plan.index_lengths, plan.rates)
    steps = _steps(plan, virtual, gains, request)
    figures: dict[str, Figure] = {}
    for number, step in enumerate(steps):
        request.tell(f"figure {step.names[0]}", 3 + number, total)
        drawn = step.draw()
        figures |= dict(zip(step.names, drawn if isinstance(drawn, tuple) else (drawn,), strict=True))
    request.tell("headline", total - 4, total)
    metrics = headline(plan, virtual, gains, figures)
    metrics |= {f"comparisons_per_s.{name}": value for name, value in speeds.items()}
    lived, ran = real_time.measured(plan.live, plan.timing, lambda what: request.tell(what, total - 3, total))
    figures["real time"] = real_time.figure_of(lived, ran, out)
    metrics["output.selective_over_random.real_time"] = lived["selective"].output_per_s / max(
        1.0, lived["random"].output_per_s
    )
    metrics["adaptation_cost"] = lived["selective"].adapting
    request.tell("recorded news", total - 2, total)
    stories = news.measured(plan.news_salts)
    if not isinstance(stories, str):
        figures["news"] = news.figure_of(stories)
        metrics["reuters.output.selective_over_random"] = stories.ratio
    streamed = spark(request, total - 1, total)
    if not isinstance(streamed, str):
        figures["spark"] = on_spark.figure_of(on_spark.FULL, streamed)
        metrics |= on_spark.metrics(streamed)
    request.tell("done", total, total)
    return Results(
        suite="join",
        metrics=metrics,
        figures=figures,
        config={
            **_config(request.quick, plan, virtual),
            "recorded": stories if isinstance(stories, str) else f"{sum(stories.stories):,} stories",
            "spark": streamed if isinstance(streamed, str) else "measured",
        },
        commit=commit_id(),
        seconds=time.perf_counter() - start,
    )


def _steps(plan: Plan, virtual: Machine, gains: dict[str, dict[float, Gain]], request: Request) -> list[Step]:
    out = request.out
    worths = worth.Worths(virtual, plan.utility_lengths)
    shown = Lengths(learn_s=0.0, count_s=plan.lengths.count_s / 2)
    return [
        Step(("5",), lambda: figure_5(out)),
        Step(("6",), lambda: figure_6(shown, out)),
        Step(("7",), lambda: figure_7(virtual, plan.lengths, out)),
        Step(("8", "9"), lambda: figures_8_9(virtual, out)),
        Step(("10",), lambda: figure_10(virtual, out, skews=plan.skews, windows_s=plan.windows_s)),
        Step(("11", "12"), lambda: figures_11_12(virtual, out)),
        Step(("13",), lambda: figure_13(virtual, out, skews=plan.skews)),
        Step(("14",), lambda: figure_14(virtual, plan.index_lengths, plan.sizes, out)),
        Step(("15",), lambda: figure_15(gains, out)),
        Step(("16",), lambda: figure_16(worths, out, skews=plan.worth_skews)),
        Step(("17",), lambda: figure_17(worths, out, types=plan.types, factors=plan.factors)),
    ]


def headline(
    plan: Plan, virtual: Machine, gains: dict[str, dict[float, Gain]], figures: dict[str, Figure]
) -> dict[str, float]:
    """Return the metrics in virtual time."""
    top = max(plan.rates)
    found = {f"output.selective_over_random.{kind}": of[top].ratio for kind, of in gains.items()}
    for name, skew in (("k06", 0.6), ("k10", 1.0)):
        each = indexed.gain(Setting(skew=skew), virtual, plan.lengths)
        found[f"output.selective_over_random.overlap_scan_{name}"] = each.ratio
    rate, timecorr = (
        steady(Setting(), METHODS[name], virtual, plan.lengths) for name in ("rate", "timecorr")
    )
    found["output.timecorr_over_rate"] = output_ratio(timecorr, rate)
    found["output.direction_over_timecorr"] = output_ratio(gains["overlap_scan"][top].selective, timecorr)
    found["phi"] = phi_of(Setting(), virtual, plan.lengths)
    at = list(plan.worth_skews).index(worth.METRIC_SKEW)
    gained = figures["16"].numbers["gain"]
    return found | {f"utility.gain.{name}": gained[name][at] for name in worth.FREQUENCIES}


def spark(request: Request, done: int, total: int) -> on_spark.Streamed | str:
    """Measure on real Spark, or say why that cannot be."""
    if request.quick:
        return "left out of the quick run, which has no time to warm Spark up"
    try:
        check_java()
    except SpillwayError as error:
        return f"absent: {error}"
    try:
        return on_spark.measure(on_spark.FULL, lambda what: request.tell(what, done, total))
    except SpillwayError as error:
        return f"not measured: {error}"


def _config(quick: bool, plan: Plan, virtual: Machine) -> dict[str, Any]:
    return {
        "quick": quick,
        "virtual_machine": {
            "slowdown": virtual.slowdown,
            "costs": {kind: asdict(cost) for kind, cost in virtual.costs.items()},
        },
        "best_possible_over_random": optimality.best_of((0.6, 0.8, 1.0), 0.04),
        "plan": asdict(plan),
    }
