"""Table 4: what a window drop costs that drops nothing, in counted work.

    filter -> count over tumbling(size)

A tuple that an operator handles is one piece of work, a fake one too. The drop adds a comparison per tuple and per
window a mark that is set and one that is decoded, at the prices below. The prices are ours, the counts are
the engine's: how often marks are set, and how many become fake tuples because the filter refuses them. Wall clock on
real Spark is another matter.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from spillway.bench.results import Figure
from spillway.core.windows import tumbling
from spillway.core.windows.engine import Engine
from spillway.core.windows.operators import Counts, Tuple
from spillway.core.windows.plan import Aggregated, Drop, Keep, Plan

SIZES = (25, 50, 75, 100)
SELECTIVITIES = (1.0, 0.5)
COMPARISON = 0.005
MARK = 0.1
PAPER = {"1": (0.99, 0.99, 1.0, 1.0), "0.5": (0.96, 0.98, 0.98, 1.0)}


def table_4(*, rows: int) -> Figure:
    """Compare the work with a drop of p = 0 to that without."""
    found = {f"{share:g}": [ratio(size, share, rows) for size in SIZES] for share in SELECTIVITIES}
    every, half = found.values()
    checks = {
        "overhead_is_low": min(every + half) >= 0.95,
        "falls_with_the_size": all(low <= high for row in (every, half) for low, high in pairwise(row)),
        "higher_at_selectivity_0.5": all(low <= high for low, high in zip(half, every, strict=True)),
    }
    return Figure(
        title="Throughput with a window drop of p = 0 over that without",
        paper="Sizes 25, 50, 75, 100: 0.99, 0.99, 1.0, 1.0 at selectivity 1.0 and 0.96, 0.98, 0.98, 1.0 at 0.5.",
        ours=f"{_listed(every)} and {_listed(half)} in counted work, at prices that are assumed.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "sizes": list(SIZES),
            "throughput_ratio": found,
            "paper": {share: list(values) for share, values in PAPER.items()},
            "prices": {"comparison": COMPARISON, "mark": MARK},
        },
    )


def ratio(size: int, selectivity: float, rows: int) -> float:
    """Return the work without a drop over that with one."""
    rng = Random(size)
    passes = [rng.random() < selectivity for _ in range(rows)]
    query: Plan = (Keep(lambda row: passes[row]), Aggregated(tumbling(size)))
    plain, (drop, *rest) = _counts(query, rows), _counts((Drop(0.0, 1), *query), rows)
    marks = MARK * (drop.checks + rest[1].checks)
    return _handled(plain) / (_handled(rest) + COMPARISON * drop.tuples + marks)


def _counts(plan: Plan, rows: int) -> list[Counts]:
    engine = Engine(plan)
    engine.run(Tuple(t, t) for t in range(rows))
    return [engine.counts[str(at)] for at in range(len(plan))]


def _handled(counts: list[Counts]) -> float:
    return sum(each.tuples + each.fakes for each in counts) + counts[-1].outputs


def _listed(ratios: list[float]) -> str:
    return ", ".join(f"{each:.3f}" for each in ratios)
