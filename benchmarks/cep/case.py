"""A query over a stream, what was learned about it before, and what comes out under a strategy and a bound.

Everything is in virtual time (see :mod:`spillway.core.cep.shedding.simulation`): an event takes as long as its work.

==================  ==================================================================================================
what                how
==================  ==================================================================================================
indexes             only equalities of attributes, as in the paper's engine; a.V + b.V = c.V is tested run by run
history             events of another seed; what is learned from it is the same for all streams of a case
bound               a share of the latency without shedding, on the same events
counted             from the third window on: by then the window is full and the strategies have settled
``over``            the latency of all events, a discarded one counting as no time (``"all"``), or only that of events
                    which can complete a match and were not discarded (``"completing"``: the paper's definition)
recall              matches found over matches there are
held                the share of intervals of 1,000 measurements within the bound
baselines           driven to the same bound as the hybrid; those that discard events have a fixed share of them where
                    feedback does not hold it (see :mod:`~benchmarks.cep.fixed_input_share`)
speed               events per second over that without shedding; the work of shedding itself is not in it
==================  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.cep.data import DS1, Stream
from benchmarks.cep.fixed_input_share import HELD, INPUT_BASED, with_fixed_share
from spillway.core.cep import PatternConfig, TriggerConfig, WatchConfig
from spillway.core.cep.estimation import EstimationConfig, learn
from spillway.core.cep.language.listings import Q1
from spillway.core.cep.shedding import Learned, Outcome, simulate, strategy_of
from spillway.core.cep.shedding.cost_model import Resource
from spillway.core.cep.shedding.load_monitor import Over

HISTORY_SEED = 7
UNIT_S = 1e-6
SHORT = {
    "hybrid": "Hybrid",
    "state": "HyS",
    "input": "HyI",
    "random_input": "RI",
    "selective_input": "SI",
    "random_state": "RS",
    "selective_state": "SS",
}
"""The strategies, and what the paper calls them."""
BASELINES = ("random_input", "selective_input", "random_state", "selective_state")
COMPARED = ("hybrid", *BASELINES)


def q1(window_ms: float) -> str:
    """Return the paper's first query with another window."""
    return Q1.replace("8ms", f"{round(window_ms * 1000)} us")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A query over a stream of one event per microsecond, with windows of ``window`` events.

    ``dear`` are types of events whose units of work take longer, and how many times as long.
    """

    query: str = Q1
    window: int = 8000
    windows: int = 12
    stream: Stream = field(default_factory=DS1)
    history_stream: Stream | None = None
    history_windows: int = 3
    slices: int = 4
    clusters: int | None = 10
    resource: Resource | tuple[float, ...] = "none"
    dear: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of_q1(cls, window_ms: float, windows: int, **options: Any) -> Case:
        """Return the first query with a window in milliseconds, over so many windows."""
        return cls(query=q1(window_ms), window=round(1000 * window_ms), windows=windows, **options)

    def prepare(self, seed: int) -> Prepared:
        """Return the case with the events of a seed; the last few are kept."""
        return _prepared(self, seed)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A query, the events it is run over, what was learned from others, and from which event on it counts."""

    config: PatternConfig
    table: pa.Table
    learned: Learned
    since: int
    resource: Resource | tuple[float, ...] = "none"
    dear: tuple[tuple[str, float], ...] = ()
    smooth: int = 1000
    check_events: int = 100

    @cached_property
    def truth(self) -> Outcome:
        """What comes out without shedding."""
        return self.run(None)

    @cached_property
    def truth_completing(self) -> Outcome:
        """The same, where only events that can complete a match are measured."""
        return replace(self.truth, measured=self.able)

    @cached_property
    def able(self) -> npt.NDArray[np.bool_]:
        """Which events can complete a match."""
        types = pa.array(self.config.build().plan.elements[-1].types)
        found = pc.is_in(self.table[self.config.type].cast(types.type), value_set=types)
        return np.asarray(found.to_numpy()).astype(np.bool_)

    def run(self, strategy: Any, over: Over = "all", **options: Any) -> Outcome:
        """Process the events under a strategy."""
        given = {
            "check_events": self.check_events,
            "resource": self.resource,
            "unit_s": self.units,
        } | options
        return simulate(self.config, self.table, self.learned, strategy, over=over, **given)

    @cached_property
    def units(self) -> list[float]:
        """Seconds per unit of work, by type of the query, and for other types."""
        types, dear = self.config.build().plan.types, dict(self.dear)
        return [UNIT_S * dear.get(kind, 1.0) for kind in (*types, "")]

    def unshed_s(self, over: Over = "all", percentile: float | None = None) -> float:
        """Return the latency without shedding: the mean, or a percentile."""
        truth = self.truth if over == "all" else self.truth_completing
        return truth.latency_s(self.since, percentile)

    def shed(
        self,
        name: str,
        bound: float,
        *,
        over: Over = "all",
        percentile: float | None = None,
        salt: int = 0,
    ) -> Shown:
        """Return what comes out under a strategy, with a bound as a share of the latency without shedding."""
        unshed_s = self.unshed_s(over, percentile)
        bound_s = bound * unshed_s
        watch = WatchConfig(
            trigger=TriggerConfig(bound_s=bound_s), over=over, smooth=self.smooth, percentile=percentile
        )
        strategy = strategy_of(name, watch, self.learned, unshed_s=unshed_s)
        found = self.run(strategy, over, salt=salt)
        held = found.held(bound_s, self.smooth, percentile, self.since)
        if name in INPUT_BASED and held < HELD:
            found = with_fixed_share(self, name, bound_s, over, percentile, salt)
            held = found.held(bound_s, self.smooth, percentile, self.since)
        return self.shown(found, held)

    def shown(self, found: Outcome, held: float = 1.0) -> Shown:
        """Return what is shown of an outcome."""
        since, truth = self.since, self.truth
        mean = found.times[since:].mean()
        return Shown(
            recall=found.recall(truth, since),
            held=held,
            speed=float(truth.times[since:].mean() / max(mean, 1e-12)),
            discarded=float(1.0 - found.kept[since:].mean()),
            shed_runs=float(found.shed_runs),
            one_match=1.0 / max(1.0, float(truth.matches[since:].sum())),
        )


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a figure shows of one run, or the mean of several; ``one_match`` is the recall of finding a single one."""

    recall: float
    held: float
    speed: float
    discarded: float
    shed_runs: float
    one_match: float

    @classmethod
    def mean(cls, several: Sequence[Shown]) -> Shown:
        """Return the mean over seeds."""
        return cls(**{name: fmean(getattr(each, name) for each in several) for name in vars(several[0])})


@lru_cache(maxsize=8)
def _prepared(case: Case, seed: int) -> Prepared:
    table = case.stream.table(case.windows * case.window, seed)
    return Prepared(
        config=_config(case, table.schema),
        table=table,
        learned=_learned(
            replace(case, windows=0, stream=case.history_stream or case.stream, history_stream=None)
        ),
        since=2 * case.window,
        resource=case.resource,
        dear=case.dear,
    )


@lru_cache(maxsize=8)
def _learned(case: Case) -> Learned:
    table = case.stream.table(case.history_windows * case.window, HISTORY_SEED)
    estimation = EstimationConfig(clusters=case.clusters)
    return learn(_config(case, table.schema), table, estimation, resource=case.resource)


def _config(case: Case, schema: pa.Schema) -> PatternConfig:
    return PatternConfig(case.query, schema, time="ts", type="type", index="attributes", slices=case.slices)
