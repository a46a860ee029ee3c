"""``spillway bench cep``: how fast patterns are found, the paper's figures, and what hybrid shedding is worth.

In virtual time, Q1 with windows of 8 ms over streams that nothing was chosen on, unless another unit is named:

================================================ ================================================================
metric                                           meaning
================================================ ================================================================
``events_per_s.q1_1ms``, ``_2ms``, ``_8ms``      by the clock: events per second of one core, matches as Arrow
``events_per_s.q1_8ms.attributes``, ...          the same where a.V + b.V = c.V is tested run by run, as in the paper
``matches.q1_8ms``, ..., ``matches.cluster``     how many there are, in Q1 and in all recorded tasks of the cluster
``recall.STRATEGY.bound50``, ``.bound10``        matches found, under a bound of 50 and 10 % of the latency of matches
``recall.hybrid_over_ri.bound10``, ``_si``, ...  the hybrid's over that of a baseline, at 10 %
``recall.hybrid_over_any``, ``_best``            the largest ratio over any baseline and over the best one, at
                                                 whatever bound
``bound_held``                                   share of intervals of 1,000 of these events within it, hybrid
``all_events.*``                                 the same with bounds on the latency of all events
``bikes.*``, ``cluster.*``                       the same on recorded streams, at 50, 20 and 10 %
``adapt.recall_after``                           recall in the second window after the stream has changed
``clock.correlation``                            of seconds by the clock and units of work
``clock.speed_up``                               by the clock, without shedding over hybrid at 50 %
``clock.latency_over_bound``                     mean latency over the bound where the hybrid goes by the clock
``spark.*``                                      on Spark, in the full run only
================================================ ================================================================
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.cep import clock, speed
from benchmarks.cep.bounds import Bounds, figure_4, figure_5
from benchmarks.cep.case import COMPARED, Case
from benchmarks.cep.case_studies import Studies, Study
from benchmarks.cep.clock import Clock
from benchmarks.cep.drift import Drift, figure_12
from benchmarks.cep.fixed_ratio import Ratios, figure_6
from benchmarks.cep.model_properties import ModelProperties, figures_10_11_13
from benchmarks.cep.negation import Negation, figure_14
from benchmarks.cep.query_properties import QueryProperties, figures_7_to_9
from benchmarks.cep.tasks import Task, outcomes
from benchmarks.results import Figure, Results, commit_id
from benchmarks.suites import Request
from spillway.demo.local_session import check_java
from spillway.errors import SpillwayError

_NAMES = (*COMPARED, "state")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is done. What is None is left out."""

    turns: int
    enough_s: float
    clock: Clock
    bounds: Bounds
    ratios: Ratios
    query: QueryProperties
    drift: Drift
    model: ModelProperties | None
    negation: Negation | None
    studies: Studies

    def tasks(self) -> list[Task]:
        """Return all runs in virtual time."""
        parts = (
            self.clock,
            self.bounds,
            self.ratios,
            self.query,
            self.model,
            self.drift,
            self.negation,
            self.studies,
        )
        return [task for part in parts if part is not None for task in part.tasks()]


FULL = Plan(
    turns=5,
    enough_s=1.0,
    clock=Clock(window_ms=8.0, windows=5),
    bounds=Bounds(
        case=Case.of_q1(8, windows=8),
        seeds=(11, 12, 13, 14),
        bounds=(0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
        bound_seeds=(11,),
        completing=(0.03, 0.1, 0.3, 0.5),
        percentiles=(0.1, 0.5, 0.9),
        names=_NAMES,
    ),
    ratios=Ratios(case=Case.of_q1(2, windows=10)),
    query=QueryProperties(windows=5, seeds=(11,)),
    model=ModelProperties(),
    drift=Drift(),
    negation=Negation(),
    studies=Studies(),
)
QUICK = Plan(
    turns=1,
    enough_s=0.2,
    clock=Clock(window_ms=4.0, windows=3),
    bounds=Bounds(
        case=Case.of_q1(4, windows=5),
        seeds=(11,),
        bounds=(0.1, 0.5),
        bound_seeds=(11,),
        completing=(0.03, 0.1),
        percentiles=(0.5, 0.9),
        names=COMPARED,
    ),
    ratios=Ratios(case=Case.of_q1(1, windows=8), events=(0.3,), runs=(0.5,), seeds=(11,)),
    # Other queries and other numbers of slices are other programs, which take longer to compile than to run.
    query=QueryProperties(
        highest_values=(2, 10), windows_ms=(1, 2), lengths=(), selectivity_ms=1.0, windows=3, seeds=(11,)
    ),
    drift=Drift(windows=(1000, 2000, 4000), seeds=(11,)),
    model=None,
    negation=None,
    studies=Studies(
        studies=(
            Study(name="bikes", bounds=(0.5, 0.1), events=3_000),
            Study(name="cluster", bounds=(0.5, 0.1), events=200_000),
        )
    ),
)


def run(request: Request) -> Results:
    """Run the suite."""
    start = time.perf_counter()
    plan, out = (QUICK if request.quick else FULL), request.out
    tasks = list(dict.fromkeys(plan.tasks()))
    total = len(tasks) + 3
    request.tell("speed of one core", 0, total)
    speeds, joined_rate = speed.measured(plan.turns, plan.enough_s), speed.joined_per_s()
    request.tell("shedding", 1, total)
    found = outcomes(tasks, lambda done, _: request.tell("shedding", 1 + done, total))
    request.tell("drawing", total - 2, total)
    clocked = found[plan.clock]
    agrees = clock.agreement(clocked)
    metrics = (
        speed.metrics(speeds)
        | plan.bounds.metrics(found)
        | plan.studies.metrics(found)
        | plan.drift.metrics(found)
        | {
            "clock.correlation": agrees.correlation,
            "clock.speed_up": agrees.speed_up,
            "clock.latency_over_bound": agrees.latency_over_bound,
            "clock.tracking": agrees.tracking,
        }
    )
    figures: dict[str, Figure] = {
        "speed": speed.figure_of(speeds, joined_rate),
        "4": figure_4(plan.bounds, found, out),
        "5": figure_5(plan.bounds, found, out),
        "6": figure_6(plan.ratios, found, out),
        **figures_7_to_9(plan.query, found, out),
        **({} if plan.model is None else figures_10_11_13(plan.model, found, out)),
        "12": figure_12(plan.drift, found, out),
        **({} if plan.negation is None else {"14": figure_14(plan.negation, found, out)}),
        **plan.studies.figures(found, out),
        "clock": clock.figure_of(clocked, out),
    }
    streamed = spark(request, total - 1, total)
    if not isinstance(streamed, str):
        metrics |= streamed
        figures["spark"] = spark_figure(streamed)
    request.tell("done", total, total)
    return Results(
        suite="cep",
        metrics=metrics,
        figures=figures,
        config=_config(request.quick, plan, streamed),
        commit=commit_id(),
        seconds=time.perf_counter() - start,
    )


def spark(request: Request, done: int, total: int) -> dict[str, float] | str:
    """Measure on real Spark, or say why that cannot be."""
    if request.quick:
        return "left out of the quick run, which has no time to warm Spark up"
    try:
        check_java()
        from benchmarks.cep import on_spark

        return on_spark.measure(on_spark.FULL, lambda what: request.tell(what, done, total))
    except SpillwayError as error:
        return f"not measured: {error}"


def spark_figure(found: dict[str, float]) -> Figure:
    """Return the numbers of Spark."""
    checks = {"hybrid_finds_more": found["spark.recall.hybrid_over_ri"] > 1.0}
    late = {name: found[f"spark.p95_over_target.{name}"] for name in ("hybrid", "random_input")}
    return Figure(
        title="Q1 on Spark: events per second without shedding, and a burst under a target",
        paper="Not measured on an engine that spreads over machines.",
        ours=f"{found['spark.events_per_s']:,.0f} events per second. In a burst the hybrid found "
        f"{found['spark.recall.hybrid']:.2f} of the matches, {found['spark.recall.hybrid_over_ri']:.1f} times what "
        f"random input shedding did, at {late['hybrid']:.2f} and {late['random_input']:.2f} times the target "
        "(95th percentile).",
        holds=all(checks.values()),
        numbers={"checks": checks, **found},
    )


def _config(quick: bool, plan: Plan, streamed: dict[str, float] | str) -> dict[str, Any]:
    absent = plan.studies.absent
    recorded = "; ".join(f"{name} {why}" for name, why in absent.items())
    return {
        "quick": quick,
        "recorded": recorded or "bikes and cluster tasks",
        "spark": streamed if isinstance(streamed, str) else "measured",
        "plan": asdict(plan),
    }
