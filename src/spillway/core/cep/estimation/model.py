"""Learns all that shedding needs from training rows: classes of runs and of events, and their gains and costs.

A stretch of the stream is processed once without shedding and recorded. It should be three windows or longer: only
runs whose window ended within the stretch are used. The result can be given to a strategy, on this or another
machine.

**Few matches.** That a class brought no match is significant only if many were found in all. With fewer than 300, one
more match is added, divided among all units of work: a class that brought none is then worth little instead of
nothing. So it is shed only when it is needed, and not before all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.cep.config import PatternConfig
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.estimation.pair_counts import Shape, paired
from spillway.core.cep.estimation.run_classes import Classes, EstimationConfig, Recorded, estimate_recorded
from spillway.core.cep.estimation.run_records import History, history_of
from spillway.core.cep.language.syntax import Attribute, Operation, Query
from spillway.core.cep.language.tree_builder import walk
from spillway.core.cep.plan.plan import Plan
from spillway.core.cep.plan.terms import Ref, refs
from spillway.core.cep.shedding.cost_model import FEW_MATCHES, Omega, Resource, conditions_of, resource_costs
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.enforcer import type_numbers
from spillway.core.cep.shedding.input_filter import InputFilter
from spillway.core.cep.shedding.learned_model import Learned
from spillway.errors import SpillwayError

LEAST_WINDOWS = 1.5
"""A shorter stretch is not used for learning: hardly any of its runs had their whole window."""
Each = Callable[[Callable[[Recorded], Classes], Iterable[Recorded]], Iterable[Classes]]


def windows_in(config: PatternConfig, times: Ints) -> float:
    """Return how many windows long a stretch is, from its times in order."""
    return float(times[-1] - times[0]) / config.tree.within_us if len(times) else 0.0


def learn(
    config: PatternConfig,
    table: pa.Table,
    estimation: EstimationConfig | None = None,
    each: Each = map,
    resource: Resource | Sequence[float] = "none",
) -> Learned:
    """Process a stretch without shedding, and learn from it.

    ``each`` applies a function to the states, one by one or in parallel on other machines: function and arguments can
    be pickled, and results are in the order of the arguments. ``resource`` is Ω, as for ``simulate``.
    """
    settings = estimation or EstimationConfig()
    patterns = replace(config, tracked=True, classes=1).build()
    patterns.record()
    matched = patterns.process(table)
    record, features = patterns.recorded()
    plan = patterns.plan
    if not len(record["serial"]):
        begins = " or ".join(plan.elements[0].types)
        raise SpillwayError(
            f"the history has no rows with which the pattern begins: of type {begins}, as its conditions ask.",
            hint="give a longer stretch, and look at how its types are written",
        )
    omega = resource_costs(resource, conditions_of(plan))
    by_length = isinstance(omega, str)
    kappa = _work_per_slice(patterns, record, omega)
    history = history_of(
        record,
        features,
        within_us=patterns.query.within_us,
        slices=config.slices,
        work_per_slice=_work_per_slice(patterns, record, None) if by_length else kappa,
        last_repeats=plan.elements[-1].repeated,
        by_length=by_length,
    )
    states = [_of_state(plan, history, state, settings) for state in range(len(plan.elements))]
    found = list(each(estimate_recorded, states))
    return _together(patterns, table, matched.num_rows, record, history, found, kappa, settings)


def _of_state(plan: Plan, history: History, state: int, settings: EstimationConfig) -> Recorded:
    refs = plan.features(state)
    features, gain, cost = history.of(state)
    compared = [n for n, ref in enumerate(refs) if ref.which == "computed"]
    keys = _keys(plan.query)
    names = [n for n, ref in enumerate(refs) if ref.name in keys]
    return Recorded(features[:, : len(refs)], gain, cost, settings, compared, names)


def _keys(query: Query) -> set[str]:
    """Return the attributes that are compared with the same attribute of another row, such as identifiers."""
    found = set()
    for condition in query.conditions:
        for part in walk(condition):
            if isinstance(part, Operation) and part.operator in ("=", "!="):
                names = [each.name for each in part.operands if isinstance(each, Attribute)]
                found |= set(names[:1]) if len(names) == 2 and names[0] == names[1] else set()
    return found


def _work_per_slice(patterns: Patterns, record: dict[str, Ints], omega: Omega | None) -> Floats:
    """Return κ: examinations of the runs of a state, times Ω, over the time they were alive, in slices."""
    _, own, _ = patterns.counted(reset=False, omega=omega)
    within, end = patterns.query.within_us, record["at_us"].max()
    stayed = np.minimum(record["first_us"] + within, end) - record["at_us"]
    slices = np.bincount(record["state"], stayed / within * own.shape[2], len(own))
    kappa: Floats = own.sum(axis=(1, 2)) / np.maximum(slices, 1e-9)
    return kappa


def _together(
    patterns: Patterns,
    table: pa.Table,
    matched: int,
    record: dict[str, Ints],
    history: History,
    found: list[Classes],
    kappa: Floats,
    settings: EstimationConfig,
) -> Learned:
    states, slices = len(found), patterns.config.slices
    most = max(len(classes.gain) for classes in found)
    gain, own, cost = (np.zeros((states, most, slices)) for _ in range(3))
    for state, classes in enumerate(found):
        n = len(classes.gain)
        gain[state, :n], cost[state, :n], own[state, :n] = classes.gain, classes.cost, kappa[state]
    plan = patterns.plan
    trees = tuple(classes.tree for classes in found)
    kinds = type_numbers(table[patterns.config.type], plan.types)
    attributes = patterns.attributes(table)
    sieve = InputFilter(plan, trees, Tree.single())
    at = sieve.classes(kinds, attributes) >= 0
    work, matches = patterns.work.per_row.astype(np.float64), patterns.work.matches_per_row.astype(np.float64)
    features = [attributes[name][at] for name in sieve.completing]
    x = np.stack(features, axis=1) if features else np.empty((int(at.sum()), 0))
    mean = replace(settings, percentile=None)
    late = np.arange(int(at.sum())) >= int(at.sum()) // 2  # by then the window is full
    compared = [n for n, name in enumerate(sieve.completing) if name in _compared(plan)]
    names = [n for n, name in enumerate(sieve.completing) if name in _keys(plan.query)]
    events = estimate_recorded(
        Recorded(x[late], matches[at][late, None], work[at][late, None], mean, compared, names)
    )
    tree = _beyond(plan, history, events.tree, x, sieve.completing, settings.most_clusters)
    of_rows = np.full(len(kinds), -1, np.int64)
    of_rows[at] = tree.classify(x)
    rate = np.bincount(of_rows[at], minlength=tree.classes) / max(1, len(kinds))
    unseen = np.zeros(tree.classes - events.tree.classes)
    half = len(kinds) // 2
    last_runs = plan.last if plan.elements[-1].repeated else plan.last - 1
    completes = np.arange(states) >= max(0, last_runs)
    single = plan.last > 0 and not any(element.repeated for element in plan.elements[-2:])
    shape = Shape(tree.classes if single else 0, slices, patterns.query.within_us)
    pairs = paired(record, history, trees, of_rows, float(kappa[max(0, plan.last - 1)]), shape)
    event_matches = np.append(events.gain[:, 0], unseen)
    if matched < FEW_MATCHES:
        per_work = 1.0 / max(1.0, float(work.sum()))
        gain = gain + per_work * cost
        event_matches = event_matches + per_work * np.append(events.cost[:, 0], unseen)
        pairs["pair_matches"] = pairs["pair_matches"] + per_work * pairs["pair_examined"]
    return Learned(
        trees=trees,
        last=tree,
        gain=gain,
        own=own,
        cost=cost,
        completes=completes,
        event_rate=rate,
        event_work=np.append(events.cost[:, 0], unseen),
        event_matches=event_matches,
        per_event=np.array([work[half:].mean(), matches[half:].mean()]),
        selectivity=_selectivity(plan, kinds, matched),
        **pairs,
    )


def _compared(plan: Plan) -> dict[str, Ref]:
    """Return the attributes of the last element's events that are compared with something computed from a run."""
    terms = [list(refs(test.term)) for step in plan.steps if step.target == plan.last for test in step.tests]
    terms += [[*refs(key.run), *refs(key.row)] for index in plan.indexes for key in index.keys]
    found = {}
    for names in terms:
        computed = [ref for ref in names if ref.which == "computed"]
        own = [ref for ref in names if ref.source == "event"]
        if len(computed) == 1 and len(own) == 1:
            found[own[0].name] = computed[0]
    return found


def _beyond(plan: Plan, history: History, tree: Tree, x: Floats, names: list[str], most: int) -> Tree:
    """Add classes for events that did not occur in the training rows, but that runs wait for.

    Such events would complete matches if they arrived: with a.V + b.V = c.V and c.V at most 10 so far, runs with
    larger sums wait in vain. If the stream changes, these classes become relevant.
    """
    state = max(0, plan.last - 1)
    features = [(ref.which, ref.name) for ref in plan.features(state)]
    for n, name in enumerate(names):
        computed = _compared(plan).get(name)
        if computed is None or ("computed", computed.name) not in features or not len(x):
            continue
        waiting = history.of(state)[0][:, features.index(("computed", computed.name))]
        above = np.unique(waiting[waiting > x[:, n].max()])
        if len(above):
            above = above[np.unique(np.linspace(0, len(above) - 1, most).astype(np.int64))]
            edges = np.concatenate([[x[:, n].max()], above])
            return tree.beyond(n, ((edges[:-1] + edges[1:]) / 2).tolist())
    return tree


def _selectivity(plan: Plan, kinds: Ints, matches: int) -> tuple[float, ...]:
    """Return matches per event by type; a type that several elements can take counts for each of them.

    Negated types are in no match, but each of their events may forbid some: they count as the most selective types.
    """
    count = np.bincount(kinds, minlength=len(plan.types) + 1)
    used = [sum(name in element.types for element in plan.elements) for name in plan.types]
    found = [float(matches * n / max(1, count[k])) for k, n in enumerate(used)]
    return (*(value if used[k] else max(found) for k, value in enumerate(found)), 0.0)
