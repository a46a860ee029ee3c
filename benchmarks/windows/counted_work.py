"""Work that is counted: a plan runs in the reference engine, and every operator's tuples have a price.

The paper's delay operators (Section 4.1) become steps with a cost per tuple, in its milliseconds. The *drop rate
needed* at an excess x is the share of the results that has to be missing so that the work at a rate 1 + x times as
high is no more than the work without a drop was at the rate before:

    (1 + x) work(share) <= work of the plan without a drop

A plan runs with several probabilities. Each run gives the share that is really missing and the work per tuple, and
between two runs the work is taken to be linear in the share. Where even the largest probability does not bring the
work down far enough no drop rate is defined.

>>> Curve(base=10.0, points=((0.0, 10.0), (0.5, 7.5), (1.0, 5.0))).needed(0.25)
0.4
>>> Curve(base=10.0, points=((0.0, 10.0), (1.0, 9.0))).needed(0.25) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.operators import Counts, Tuple
from spillway.core.windows.paper.plan import Aggregated, Change, Drop, Keep, Plan, Split

OVERHEAD = 0.05
"""What a drop costs per tuple, a mark that is looked at, and a fake tuple that is handed on: 1 % of a delay of 5."""

PROBABILITIES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Delay:
    """The function of a step that changes nothing and costs something."""

    cost: float

    def __call__(self, value: Any) -> Any:
        """Return the value."""
        return value


class Chance:
    """The predicate of a random drop: refuses a share p of what it is asked, whatever that is."""

    def __init__(self, drop_probability: float, seed: int = 0) -> None:
        self._p = drop_probability
        self._rng = Random(seed)

    def __call__(self, _: Any) -> bool:
        """Return whether a tuple is kept."""
        return self._rng.random() >= self._p


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Work per tuple against the share of the results that is missing, and the work without a drop."""

    base: float
    points: tuple[tuple[float, float], ...]

    @property
    def ends(self) -> float:
        """The largest excess that can be shed."""
        return self.base / min(work for _, work in self.points) - 1.0

    def needed(self, excess: float) -> float | None:
        """Return the share that has to be missing at this excess, None where no drop will do."""
        allowed = self.base / (1.0 + excess)
        shares = [share for share, _ in self.points]
        works = np.minimum.accumulate([work for _, work in self.points])
        if allowed < works[-1]:
            return None
        return round(float(np.interp(allowed, works[::-1], shares[::-1])), 9)


def delay(cost: float) -> Change:
    """Return a step that costs this much per tuple."""
    return Change(Delay(cost))


def curve(plan: Plan, drop: Callable[[float], Plan], rows: int) -> Curve:
    """Run a plan without a drop, and ``drop(p)`` with every probability, over a tuple per time unit."""
    base, exact = _run(plan, rows)
    found = [_run(drop(p), rows) for p in PROBABILITIES]
    return Curve(base=base, points=tuple(sorted((1.0 - results / exact, work) for work, results in found)))


def needed_share(
    parts: Sequence[tuple[float, float]], *, overhead: float, excess: float, most: float
) -> float | None:
    """Return the drop rate that Section 3.6 expects, from the cost of each part and the share of it that p = 1 saves.

    >>> needed_share([(5.0, 0.0), (5.0, 1.0)], overhead=0.0, excess=0.25, most=1.0)
    0.4
    """
    saved = sum(cost * share for cost, share in parts)
    wanted = overhead + sum(cost for cost, _ in parts) * excess / (1.0 + excess)
    return wanted / saved if wanted <= most * saved else None


def errors(pairs: Sequence[tuple[float | None, float | None]]) -> list[float]:
    """Return the absolute differences of those pairs that have both sides.

    >>> errors([(0.5, 0.25), (None, 1.0)])
    [0.25]
    """
    return [abs(one - other) for one, other in pairs if one is not None and other is not None]


def one_sided(pairs: Sequence[tuple[float | None, float | None]]) -> int:
    """Return how many pairs have one side only: there one says that no drop will do, and the other that some will.

    >>> one_sided([(0.5, 0.25), (None, 1.0), (None, None)])
    1
    """
    return sum((one is None) != (other is None) for one, other in pairs)


def _run(plan: Plan, rows: int) -> tuple[float, int]:
    """Return the work per tuple and the number of results."""
    engine = Engine(plan)
    leaves = engine.run(Tuple(t, t) for t in range(rows))
    return _work(plan, engine.counts, "", False) / rows, sum(map(len, leaves))


def _work(plan: Plan, counts: Mapping[str, Counts], place: str, marked: bool) -> float:
    total = 0.0
    for at, step in enumerate(plan):
        name = f"{place}{at}"
        if isinstance(step, Split):
            parts = enumerate(step.branches)
            return total + sum(_work(part, counts, f"{name}.{n}.", marked) for n, part in parts)
        seen = counts[name]
        if isinstance(step, Change):
            cost = step.function.cost if isinstance(step.function, Delay) else 0.0
            total += cost * seen.tuples + OVERHEAD * seen.fakes
        elif isinstance(step, Drop | Keep):
            total += OVERHEAD * seen.tuples
        elif isinstance(step, Aggregated) and marked:
            total += OVERHEAD * seen.checks
        marked = marked or isinstance(step, Drop)
    return total
