"""Table 4: what a window drop costs that drops nothing, timed in the reference engine and in counted work.

    filter -> count over tumbling(size)

**Timed.** The same tuples go through the plan with a drop of p = 0 and without one, in turns in one process. The
ratio of the CPU times is that of the throughputs at saturation; of several turns the median counts. The operators
here do next to nothing, so the drop is a large part of the work, which it was not on the paper's system. What does
not depend on that is what the drop adds to a tuple, and from it follows how dear the rest of a query must be for
the paper's ratio.

**Counted.** A tuple that an operator handles is one piece of work, a fake one too. The drop adds a comparison per
tuple and per window a mark that is set and one that is decoded, at the prices below. The prices are ours, the counts
are the engine's: how often marks are set, and how many become fake tuples because the filter refuses them.

Wall clock on real Spark is another matter (:mod:`~benchmarks.windows.on_spark`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median
from time import process_time

from benchmarks.results import Figure
from spillway.core.windows import tumbling
from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.operators import Counts, Tuple
from spillway.core.windows.paper.plan import Aggregated, Drop, Keep, Plan

SIZES = (25, 50, 75, 100)
SELECTIVITIES = (1.0, 0.5)
TURNS = 5
COMPARISON = 0.005
MARK = 0.1
PAPER = {"1": (0.99, 0.99, 1.0, 1.0), "0.5": (0.96, 0.98, 0.98, 1.0)}
PAPER_LEAST = 0.96


@dataclass(frozen=True, slots=True)
class Timed:
    """Throughput with the drop over that without, and the CPU time of a tuple without it and what the drop adds."""

    ratio: float
    plain_us: float
    added_us: float


def table_4(*, rows: int, turns: int = TURNS) -> Figure:
    """Compare a plan with a drop of p = 0 to that without."""
    counted = {f"{share:g}": [ratio(size, share, rows) for size in SIZES] for share in SELECTIVITIES}
    runs = {f"{share:g}": [timed(size, share, rows, turns) for size in SIZES] for share in SELECTIVITIES}
    ratios = {share: [each.ratio for each in row] for share, row in runs.items()}
    every, half = ratios.values()
    cells = [each for row in runs.values() for each in row]
    added, plain = (median(getattr(each, field) for each in cells) for field in ("added_us", "plain_us"))
    dear = added * PAPER_LEAST / (1.0 - PAPER_LEAST)
    ends = {
        share: [row[0], row[-1]] for share, row in ratios.items()
    }  # neighbours are closer than clocks are good
    checks = {**shape(ends), **{f"counted_{name}": holds for name, holds in shape(counted).items()}}
    return Figure(
        title="Throughput with a window drop of p = 0 over that without",
        paper="Sizes 25, 50, 75, 100: 0.99, 0.99, 1.0, 1.0 at selectivity 1.0 and 0.96, 0.98, 0.98, 1.0 at 0.5.",
        ours=f"{_listed(every, 2)} and {_listed(half, 2)}, timed in the reference engine: the drop adds {added:.2f} "
        f"µs to the {plain:.1f} µs that this query takes per tuple. From {dear:.0f} µs per tuple on the ratio would "
        f"be {PAPER_LEAST} or more. In counted work, at prices that are assumed: {_listed(counted['1'], 3)} and "
        f"{_listed(counted['0.5'], 3)}.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "sizes": list(SIZES),
            "throughput_ratio": ratios,
            "counted_ratio": counted,
            "paper": {share: list(values) for share, values in PAPER.items()},
            "added_us_per_tuple": {share: [each.added_us for each in row] for share, row in runs.items()},
            "plain_us_per_tuple": {share: [each.plain_us for each in row] for share, row in runs.items()},
            "turns": turns,
            "prices": {"comparison": COMPARISON, "mark": MARK},
        },
    )


def shape(ratios: Mapping[str, Sequence[float]]) -> dict[str, bool]:
    """Return whether ratios have the shape of the paper's table."""
    every, half = ratios.values()
    return {
        "overhead_is_low": min(*every, *half) >= 0.95,
        "falls_with_the_size": all(low <= high for row in (every, half) for low, high in pairwise(row)),
        "higher_at_selectivity_0.5": all(low <= high for low, high in zip(half, every, strict=True)),
    }


def timed(
    size: int, selectivity: float, rows: int, turns: int, clock: Callable[[], float] = process_time
) -> Timed:
    """Run the plan with and without a drop in turns; every other turn begins with the drop."""
    query = _query(size, selectivity, rows)
    stream = [Tuple(t, t) for t in range(rows)]
    plans: tuple[Plan, Plan] = (query, (Drop(0.0, 1), *query))
    found: list[tuple[float, float]] = []
    for turn in range(turns + 1):
        took = {}
        for at in (0, 1) if turn % 2 else (1, 0):
            engine = Engine(plans[at])
            start = clock()
            engine.run(stream)
            took[at] = clock() - start
        found.append((took[0], took[1]))
    found = found[1:]  # the first turn warms up
    plain, added = median(one for one, _ in found), median(other - one for one, other in found)
    return Timed(median(one / other for one, other in found), 1e6 * plain / rows, 1e6 * added / rows)


def ratio(size: int, selectivity: float, rows: int) -> float:
    """Return the counted work without a drop over that with one."""
    query = _query(size, selectivity, rows)
    plain, (drop, *rest) = _counts(query, rows), _counts((Drop(0.0, 1), *query), rows)
    marks = MARK * (drop.checks + rest[1].checks)
    return _handled(plain) / (_handled(rest) + COMPARISON * drop.tuples + marks)


def _query(size: int, selectivity: float, rows: int) -> Plan:
    rng = Random(size)
    passes = [rng.random() < selectivity for _ in range(rows)]
    return (Keep(passes.__getitem__), Aggregated(tumbling(size)))


def _counts(plan: Plan, rows: int) -> list[Counts]:
    engine = Engine(plan)
    engine.run(Tuple(t, t) for t in range(rows))
    return [engine.counts[str(at)] for at in range(len(plan))]


def _handled(counts: list[Counts]) -> float:
    return sum(each.tuples + each.fakes for each in counts) + counts[-1].outputs


def _listed(ratios: Sequence[float], digits: int) -> str:
    return ", ".join(f"{each:.{digits}f}" for each in ratios)
