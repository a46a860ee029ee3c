"""Pattern matching in memory under a latency bound: finds the matches for which there is enough time.

Time is virtual: an event takes as long as its work, in units, times ``unit_s`` (see shedding.simulation). So the
result is the same on every machine, and ``bound_s`` says how much work an event may take on average:

    bound_s = units per event · unit_s

If the right number of units is not known, ``bound_ratio`` sets the bound as a share of the latency of an event in the
training rows, without shedding.

**What is found.** Without negation and under the policy ``any`` the result is a subset of all matches. Otherwise a
discarded row may let an invented match through, one that is not among all matches. ``invented`` says where this is
possible, and so does the metadata of the table of matches.

**A full state.** More partial matches than ``most_runs`` at once are an error, as without shedding: the bound is on
time, and runs that were shed to save memory would be shed without notice. While learning from the training rows some
runs may be shed to save memory.

**Training rows.** Strategies that distinguish runs learn first, from a stretch of the stream of at least one and a
half windows, better three: the table ``history``. Random strategies (``random_input``, ``random_state``) do not need
it, unless the bound is a ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

import pyarrow as pa

from spillway.core.arrays import Ints
from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.estimation import EstimationConfig
from spillway.core.cep.estimation.model import LEAST_WINDOWS, learn, windows_in
from spillway.core.cep.language.syntax import Query
from spillway.core.cep.plan.plan import IndexBy
from spillway.core.cep.shedding.cost_model import Resource
from spillway.core.cep.shedding.enforcer import Enforcer, Strategy
from spillway.core.cep.shedding.hybrid import Selection
from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.cep.shedding.load_monitor import Over, WatchConfig
from spillway.core.cep.shedding.monotonicity import may_invent
from spillway.core.cep.shedding.simulation import StrategyName, simulate, strategy_of
from spillway.core.cep.shedding.trigger import TriggerConfig
from spillway.core.checks import require_number, require_whole
from spillway.core.data.tables import table_of
from spillway.core.data.times import rows_in_time, times_of
from spillway.errors import SpillwayError, invalid, unknown

INVENTED = b"spillway.invented"  # key in the metadata of a table of matches
_DROP_NO_ROWS = ("none", "state", "random_state", "selective_state")
_SPARE_NEGATED = ("hybrid", "input")
_BY_CHANCE = ("none", "random_input", "random_state")


@dataclass(frozen=True, kw_only=True, eq=False)
class Shed:
    """How a pattern operator sheds, and which bound it keeps.

    - ``strategy``: ``hybrid``, its halves ``state`` and ``input``, or one of the baselines: ``random_input``,
      ``selective_input``, ``random_state``, ``selective_state``. ``none`` sheds nothing.
    - ``bound_s``: the largest latency of an event, in seconds of virtual time; or ``bound_ratio``, the bound as a
      share of the latency in the training rows. On Spark neither is given: there the controller says how much work
      there is time for.
    - ``history``: the table of training rows, with the same columns.
    - ``over``: which latency is bounded: that of ``all`` events, where a discarded event takes no time, or that of
      ``completing`` events, which can complete a match and were not discarded: the latency of matches, as in the
      paper.
    - ``smooth_events``: over how many events the latency is measured; ``percentile``: which percentile of these
      latencies is bounded, None for the mean.
    - ``check_events``: how many events pass between two checks; None for a twentieth of those in a window, between 5
      and 100.
    - ``delay_events``: how many events have to pass before runs are shed again.
    - ``select``: how the shedding set is chosen: ``split`` (of the last group only a part), ``exact``, ``greedy``.
    - ``resource``: Ω, what it costs to examine a run: ``none`` (all the same), ``conditions``, ``length``.
    - ``clusters``: how many kinds of runs are distinguished in each state; None leaves it to the gap statistic.
    - ``slices``: the number of time slices of a window; the worth of a run may differ from slice to slice.
    - ``index``: which equalities are used to look up runs: ``all``, including computed ones, ``attributes`` as in the
      paper, ``none``. The more of them, the less work is wasted, and the less is left to choose from.
    - ``unit_s``: seconds per unit of work.
    - ``salt``: the seed of the random choices of events and runs.
    """

    strategy: StrategyName = "hybrid"
    bound_s: float | None = None
    bound_ratio: float | None = None
    history: pa.Table | None = None
    over: Over = "all"
    smooth_events: int = 1000
    percentile: float | None = None
    check_events: int | None = None
    delay_events: int = 0
    select: Selection = "split"
    resource: Resource = "none"
    clusters: int | None = 10
    slices: int = 4
    index: IndexBy = "all"
    unit_s: float = 1e-6
    salt: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in get_args(StrategyName):
            raise unknown("strategy", self.strategy, get_args(StrategyName))
        self._check_bound()
        if self.history is not None and not isinstance(self.history, pa.Table):
            raise invalid("history", type(self.history).__name__, "a pyarrow Table")
        require_whole("smooth_events", self.smooth_events, 1, 10**7)
        if self.percentile is not None:
            require_number("percentile", self.percentile, 0.0, 100.0)
            if 0.0 < self.percentile < 1.0:
                hint = f"the percentile of that share is {100 * self.percentile:g}"
                raise invalid("percentile", self.percentile, "0, or a number from 1 to 100", hint=hint)
        if self.check_events is not None:
            require_whole("check_events", self.check_events, 1, 10**9)
        require_whole("delay_events", self.delay_events, 0, 10**9)
        for field, of in (("select", Selection), ("resource", Resource), ("over", Over), ("index", IndexBy)):
            choices = get_args(of)
            if getattr(self, field) not in choices:
                raise unknown(field, getattr(self, field), choices)
        EstimationConfig(clusters=self.clusters)
        require_whole("slices", self.slices, 1, 1024)
        require_number("unit_s", self.unit_s, 0.0, above=True)
        require_whole("salt", self.salt, -(2**63), 2**63 - 1)

    def _check_bound(self) -> None:
        given = [name for name in ("bound_s", "bound_ratio") if getattr(self, name) is not None]
        if len(given) == 2:
            raise invalid("bound_ratio", self.bound_ratio, "None where bound_s is given: there is one bound")
        for name in given:
            require_number(name, getattr(self, name), 0.0, above=True)
        if self.bound_ratio is not None and self.history is None:
            raise invalid(
                "history", None, "a table where bound_ratio is given: it is a share of what that took"
            )

    def require_bound(self) -> None:
        """Raise an error if shedding in memory lacks a bound, or training rows for a strategy that learns."""
        if self.strategy != "none" and self.bound_s is None and self.bound_ratio is None:
            hint = "bound_ratio=0.5 is half of what an event took in the history"
            raise invalid("bound_s", None, "the seconds that an event may take on average", hint=hint)
        if self.history is None and self.strategy not in _BY_CHANCE:
            hint = "give a stretch of the stream of three windows, or shed by chance: 'random_state'"
            raise invalid("history", None, f"a table that {self.strategy!r} can learn from", hint=hint)

    def build(self, learned: Learned, unshed_s: float | None) -> Strategy | None:
        """Return the strategy with what was learned, or None where nothing is shed.

        ``unshed_s`` is the latency without shedding: the mean or the percentile, over the events that ``over`` names.
        """
        if self.strategy == "none":
            return None
        bound_s = self.bound_s if self.bound_ratio is None else self.bound_ratio * (unshed_s or self.unit_s)
        trigger = TriggerConfig(bound_s=bound_s, delay_events=self.delay_events)  # type: ignore[arg-type]
        watch = WatchConfig(
            trigger=trigger, over=self.over, smooth=self.smooth_events, percentile=self.percentile
        )
        return strategy_of(self.strategy, watch, learned, select=self.select, unshed_s=unshed_s)


def shed_of(given: object) -> Shed | None:
    """Return the given Shed or None; anything else is an error."""
    if given is None or isinstance(given, Shed):
        return given
    hint = (
        "Shed(strategy='random_state', bound_s=20e-6), or with a history Shed(bound_ratio=0.5, history=table)"
    )
    raise invalid("shedding", given, "None or a Shed, which says how and to which bound", hint=hint)


def invented(query: Query, strategy: str | None = None) -> str | None:
    """Return in words why shedding may invent matches, or None if it cannot.

    ``strategy`` is the one that sheds. Without it any row may be dropped, as when a budget is spent.

    >>> from spillway.core.cep import parse
    >>> tidy = parse("PATTERN SEQ(A a, NEG B b, C c) WITHIN 5 s")
    >>> invented(tidy, "random_input")
    'where rows are shed matches may be invented: a row of b that is dropped no longer forbids a match'
    >>> invented(tidy, "hybrid"), invented(tidy, "random_state")
    (None, None)
    """
    why = may_invent(query)
    if why is None or strategy in _DROP_NO_ROWS or (strategy in _SPARE_NEGATED and query.policy == "any"):
        return None
    return f"where rows are shed matches may be invented: {why}"


def give_up(patterns: Patterns) -> None:
    """Raise the error that there are more partial matches than ``most_runs``."""
    raise SpillwayError(
        f"there are more than {patterns.config.most_runs} partial matches at once.",
        hint="a shorter WITHIN, a bound such as B{1,5}, a condition, shedding=Shed(...) with a bound that is tight "
        "enough, or a larger most_runs",
    )


def _not_crowded(enforcer: Enforcer) -> None:
    if enforcer.patterns.work.crowded_out:
        give_up(enforcer.patterns)


def shed_matches(config: PatternConfig, table: pa.Table, shed: Shed) -> pa.Table:
    """Return the matches that are found under a bound, with the numbers of their rows in the table."""
    shed.require_bound()
    config = replace(config, slices=shed.slices, index=shed.index)
    patterns = config.build()
    learned, unshed_s = _learned(patterns, shed)
    rows = rows_in_time(table, config.time)
    why = invented(config.tree, shed.strategy)
    schema = patterns.schema if why is None else patterns.schema.with_metadata({INVENTED: why})
    if not len(rows):
        return schema.empty_table()
    ordered = table.take(pa.array(rows))
    outcome = simulate(
        config,
        ordered,
        learned,
        shed.build(learned, unshed_s),
        over=shed.over,
        check_events=shed.check_events or _twentieth(config, ordered),
        unit_s=shed.unit_s,
        resource=shed.resource,
        salt=shed.salt,
        keep_matches=True,
        each=_not_crowded,
    )
    found = patterns.schema.empty_table() if outcome.found is None else outcome.found
    columns = [
        pa.chunked_array([_at(rows, c) for c in column.chunks], column.type) for column in found.columns
    ]
    return pa.table(columns, schema=schema)


def _twentieth(config: PatternConfig, table: pa.Table) -> int:
    """Return a twentieth of the number of events in a window, but at least 5 and at most 100."""
    windows = windows_in(config, times_of(table, config.time)[0])
    return int(min(100.0, max(5.0, table.num_rows / max(windows, 1e-9) / 20)))


def _learned(patterns: Patterns, shed: Shed) -> tuple[Learned, float | None]:
    """Return what is learned from the training rows, and the latency there; or that nothing is known."""
    plan, config = patterns.plan, patterns.config
    if shed.history is None:
        nothing = Learned.nothing(
            len(plan.elements), len(plan.types), config.slices, last_repeats=plan.elements[-1].repeated
        )
        return nothing, None
    history = table_of("history", shed.history)
    try:
        past = replace(config, schema=history.schema)
    except SpillwayError as error:
        raise SpillwayError(f"history: {error}") from error
    kinds = (dict(plan.attributes), dict(past.build().plan.attributes))
    for name, kind in kinds[0].items():
        if kinds[1][name] != kind:
            raise invalid(
                "history", name, f"a column of the kind {kind!r} as in the table, not {kinds[1][name]!r}"
            )
    rows = history.take(pa.array(rows_in_time(history, config.time)))
    windows = windows_in(config, times_of(rows, config.time)[0])
    if windows < LEAST_WINDOWS:
        allowed = f"rows of {LEAST_WINDOWS:g} windows or more, better three"
        raise invalid("history", f"a table over {windows:.2g} windows", allowed)
    learned = learn(past, rows, EstimationConfig(clusters=shed.clusters), resource=shed.resource)
    everything = simulate(past, rows, learned, None, over=shed.over, unit_s=shed.unit_s)
    return learned, everything.latency_s(rows.num_rows // 2, shed.percentile) or None


def _at(rows: Ints, places: pa.Array) -> pa.Array:
    """Return the rows at the given positions, or lists of rows for lists of positions."""
    if isinstance(places, pa.ListArray):
        return pa.ListArray.from_arrays(places.offsets, _at(rows, places.values))
    return pa.array(rows[places.to_numpy()])
