"""``spillway bench cep``."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from spillway.bench.cep import speed
from spillway.bench.cep.bounds import Bounds
from spillway.bench.cep.case import COMPARED, Case
from spillway.bench.cep.tasks import outcomes
from spillway.bench.results import Figure, Results, commit_id
from spillway.bench.suites import Request

_NAMES = (*COMPARED, "state")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is done."""

    turns: int
    bounds: Bounds


FULL = Plan(
    turns=5,
    bounds=Bounds(
        case=Case.of_q1(8, windows=8),
        seeds=(11, 12, 13, 14),
        bounds=(0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
        bound_seeds=(11,),
        completing=(0.1, 0.2, 0.3, 0.5, 0.7),
        percentiles=(0.1, 0.3, 0.5, 0.7, 0.9),
        names=_NAMES,
    ),
)
QUICK = Plan(
    turns=2,
    bounds=Bounds(
        case=Case.of_q1(4, windows=6),
        seeds=(11, 12),
        bounds=(0.1, 0.3, 0.5),
        bound_seeds=(11,),
        completing=(0.1,),
        percentiles=(0.5,),
        names=_NAMES,
    ),
)


def run(request: Request) -> Results:
    """Run the suite."""
    start = time.perf_counter()
    plan = QUICK if request.quick else FULL
    request.tell("speed of one core", 0, 1)
    speeds = speed.measured(plan.turns)
    figures: dict[str, Figure] = {"speed": speed.figure_of(speeds)}
    metrics = speed.metrics(speeds)
    found = outcomes(plan.bounds.tasks(), lambda done, total: request.tell("shedding", done, total))
    metrics |= plan.bounds.metrics(found)
    return Results(
        suite="cep",
        metrics=metrics,
        figures=figures,
        config={"quick": request.quick, "plan": asdict(plan)},
        commit=commit_id(),
        seconds=time.perf_counter() - start,
    )
