"""A pattern under a latency bound in virtual time: the paper's experiments, the same on every machine.

An event takes as long as its work: runs examined, runs made and matches, in units, times seconds per unit. So the
latency is the work, and the bound can be a share of the latency without shedding. Checks are made every
``check_events`` events.

    recall      matches found / matches without shedding
    held        share of the intervals of n measurements whose mean (or percentile) is within the bound

For queries with negation or a policy other than ``any`` shedding may also invent matches; then ``precision`` is the
share of the matches found that are also there without shedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.cep.config import PatternConfig
from spillway.core.cep.shedding.baselines import Baseline, BaselineConfig
from spillway.core.cep.shedding.cost_model import Resource, conditions_of, resource_costs
from spillway.core.cep.shedding.enforcer import Enforcer, Strategy
from spillway.core.cep.shedding.hybrid import HybridConfig, Selection
from spillway.core.cep.shedding.hybrid import Strategy as HybridName
from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.checks import require_whole
from spillway.errors import unknown

StrategyName = Literal[
    "none", "hybrid", "state", "input", "random_input", "selective_input", "random_state", "selective_state"
]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results for a stream.

    - ``times``: seconds per event; ``measured``: which of them count for the latency.
    - ``matches``: per event, how many it completes; for a pattern that ends with a negated element this includes
      those that are forbidden later. ``kept``: which events were processed.
    - ``smoothed``: μ at each check; ``found``: the matches themselves, if they were requested.
    - ``shed_runs``: how many runs were removed or refused; ``offered_runs``: how many were made or refused.
    """

    times: Floats
    measured: Bools
    matches: Ints
    kept: Bools
    smoothed: Floats
    shed_runs: int
    offered_runs: int
    found: pa.Table | None

    def recall(self, truth: Outcome, since: int = 0) -> float:
        """Return the share of the matches that were found, among those completed from event ``since`` on."""
        return float(self.matches[since:].sum() / max(1, truth.matches[since:].sum()))

    @property
    def discarded_share(self) -> float:
        """The share of events that were discarded."""
        return float(1.0 - self.kept.mean()) if len(self.kept) else 0.0

    def latency_s(self, since: int = 0, percentile: float | None = None) -> float:
        """Return the mean latency (or a percentile) of the events that count, from event ``since`` on."""
        times = self.times[since:][self.measured[since:]]
        if not len(times):
            return 0.0
        return float(times.mean() if percentile is None else np.percentile(times, percentile))

    def held(
        self, bound_s: float, size: int = 1000, percentile: float | None = None, since: int = 0
    ) -> float:
        """Return the share of the intervals of ``size`` measurements in which the bound was kept."""
        times = self.times[since:][self.measured[since:]]
        intervals = times[: len(times) // size * size].reshape(-1, size)
        if not len(intervals):
            return 1.0
        values = (
            intervals.mean(axis=1) if percentile is None else np.percentile(intervals, percentile, axis=1)
        )
        return float((values <= bound_s).mean())


def strategy_of(
    name: str,
    watch: WatchConfig,
    learned: Learned,
    *,
    weight: float = 0.5,
    select: Selection = "split",
    unshed_s: float | None = None,
) -> Strategy | None:
    """Return the strategy with this name and the learned models; ``unshed_s`` is the latency without shedding."""
    if name not in get_args(StrategyName):
        raise unknown("strategy", name, get_args(StrategyName))
    if name == "none":
        return None
    if name in get_args(HybridName):
        config = HybridConfig(watch=watch, strategy=name, select=select, weight=weight)  # type: ignore[arg-type]
        return config.build(learned.model(), learned.events(), learned.pairs())
    baseline: Baseline = name  # type: ignore[assignment]
    chosen = BaselineConfig(
        watch=watch,
        unshed_s=unshed_s,
        strategy=baseline,
        elements=max(1, len(learned.trees) - (watch.over == "completing")),
        selectivity=_by_type(learned) if name == "selective_input" else (),
    )
    return chosen.build(learned.model())


def _by_type(learned: Learned) -> tuple[float, ...]:
    """Return the selectivity of types; if no match was found all are equal."""
    found = learned.selectivity
    return found if any(found) else (1.0,) * len(found)


def simulate(
    config: PatternConfig,
    table: pa.Table,
    learned: Learned,
    strategy: Strategy | None,
    *,
    over: Literal["all", "completing"] = "all",
    check_events: int = 100,
    unit_s: float | Sequence[float] = 1e-6,
    resource: Resource | Sequence[float] = "none",
    clock: Callable[[], float] | None = None,
    salt: int = 0,
    keep_matches: bool = False,
    each: Callable[[Enforcer], None] | None = None,
) -> Outcome:
    """Process a table under a strategy, in virtual time. ``each`` is called after every check.

    ``unit_s`` are seconds per unit of work, one number or one per type of the query and one for other types;
    ``resource`` is Ω of the cost model, the same as in learning. With a ``clock`` in seconds, time is not virtual:
    the time between two checks is divided among the events in proportion to their work.
    """
    require_whole("check_events", check_events, 1, 10**9)
    patterns = tracked(config, learned).build()
    enforcer = Enforcer(
        patterns,
        strategy,
        learned.trees,
        learned.last,
        unit_s=unit_s,
        resource=resource_costs(resource, conditions_of(patterns.plan)),
        salt=salt,
        clock=clock,
    )
    watch = getattr(strategy, "watch", None)
    done, smoothed = [], []
    for start in range(0, table.num_rows, check_events):
        part = enforcer.process(table.slice(start, check_events))
        done.append(part)
        smoothed.append(watch.latency.value if watch is not None else float(part.seen.times.mean()))
        if each is not None:
            each(enforcer)
    rest = patterns.flush()
    kept = np.concatenate([part.seen.kept for part in done])
    able = np.concatenate([part.seen.classes for part in done]) >= 0
    return Outcome(
        times=np.concatenate([part.seen.times for part in done]),
        measured=np.ones(len(kept), np.bool_) if over == "all" else able & kept,
        matches=np.concatenate([part.seen.matches for part in done]),
        kept=kept,
        smoothed=np.array(smoothed),
        shed_runs=enforcer.shed_runs + enforcer.refused_runs,
        offered_runs=int(sum(part.seen.offered.sum() for part in done if part.seen.offered is not None)),
        found=pa.concat_tables([*(part.matches for part in done), rest]) if keep_matches else None,
    )


def tracked(config: PatternConfig, learned: Learned) -> PatternConfig:
    """Return the configuration of an operator that can shed with the learned models."""
    return replace(config, tracked=True, classes=learned.classes, slices=learned.gain.shape[2])


def precision(found: pa.Table, truth: pa.Table) -> float:
    """Return the share of the matches that are also in the truth; 1 where none were found."""
    if not found.num_rows:
        return 1.0
    return float(len(_rows(found) & _rows(truth)) / len(_rows(found)))


def _rows(table: pa.Table) -> set[tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    columns = [[tuple(v) if isinstance(v, list) else v for v in column] for column in columns]
    return set(zip(*columns, strict=True))
