"""Runs a plan over an in-memory stream, with a WinDrop at the input or at an inner arc: a small reference engine.

Every tuple goes through :mod:`~spillway.core.windows.paper.windrop`, filters, maps and
aggregates (:mod:`~spillway.core.windows.paper.aggregate`) one by one, with the marks of the paper, and every
operator counts its work. The analysis, the placement and the implementation on Spark are checked against this engine.

All aggregates behind a drop must have the same groups and the same kind of window, by time or by count
(Section 3.5): here a plan has one of each. A filter before or between count-based aggregates would change what they
count, and is refused behind a drop.

>>> from spillway.core.windows import sliding
>>> from spillway.core.windows.paper.plan import Drop, plan_of, with_drop
>>> plan = plan_of(sliding(3, 2) >> sliding(3, 3), ["sum", "list"])
>>> engine = Engine(with_drop(plan, Drop(drop_probability=0.0, max_gap=1)))
>>> (results,) = engine.run(Tuple(t, 1) for t in range(1, 10))
>>> [(result.time, result.value) for result in results]
[(0, [2, 3]), (3, [3]), (6, [3, 2])]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from spillway.core.windows.aggregate_functions import function_of
from spillway.core.windows.arrangement import Level
from spillway.core.windows.paper.aggregate import Aggregate
from spillway.core.windows.paper.operators import Counts, Filter, Map, Operator, Remark, Tuple
from spillway.core.windows.paper.plan import (
    Aggregated,
    Change,
    Drop,
    Keep,
    Plan,
    Split,
    Step,
    arrangement_of,
    drop_gap,
    levels_of,
)
from spillway.core.windows.paper.windrop import WinDropConfig
from spillway.core.windows.reach import Stamp, reach_of
from spillway.errors import SpillwayError, invalid


class Engine:
    """Runs one plan once; ``counts`` holds the work of each operator by its place in the plan."""

    def __init__(self, plan: Plan, *, stamp: Stamp = "start", counted: bool = False) -> None:
        if counted and stamp != "start":
            raise invalid("stamp", stamp, "'start' where windows count tuples: results are numbered from 0")
        self._stamp: Stamp = stamp
        self._counted = counted
        self._names: dict[str, Operator] = {}
        self._sinks: list[list[Tuple]] = []
        self._heads = self._build(plan, "", None)

    @property
    def counts(self) -> dict[str, Counts]:
        """The work of each operator; the name is its place, such as ``"2"``, or ``"2.1.0"`` behind a split."""
        return {name: operator.counts for name, operator in self._names.items()}

    def run(self, stream: Iterable[Tuple]) -> list[list[Tuple]]:
        """Return the results of each leaf, from left to right, in the order of their windows for each group.

        The stream has to be sorted by time over all groups; where windows count tuples, within each group.
        """
        at = -math.inf
        for each in stream:
            if each.time < at and not self._counted:
                raise SpillwayError(
                    f"time {each.time!r} comes after {at!r}.", hint="sort the stream by its time"
                )
            at = each.time
            for head in self._heads:
                head.push(each)
        for head in self._heads:
            head.finish()
        return self._sinks

    def _build(self, plan: Plan, place: str, drop: _Behind | None) -> list[_Node]:
        """Return the nodes of a plan that read its input stream."""
        head: list[_Node] = []
        last: _Node | None = None
        for at, step in enumerate(plan):
            name = f"{place}{at}"
            if isinstance(step, Split):
                if at != len(plan) - 1:
                    raise invalid("plan", f"a step after the split at {name}", "a split as the last step")
                for n, branch in enumerate(step.branches):
                    below = self._branch(branch, f"{name}.{n}.", drop, levels_of((step,)))
                    (head if last is None else last.below).extend(below)
                return head
            if isinstance(step, Drop):
                if drop is not None:
                    raise invalid("plan", f"a second drop at {name}", "one drop on each path")
                drop = _Behind.of(plan[at + 1 :], step, self._stamp)
            node = _Node(self._operator(step, drop))
            self._names[name] = node.operator
            (head if last is None else last.below).append(node)
            last = node
        sink = _Sink()
        self._sinks.append(sink.results)
        (head if last is None else last.below).append(sink)
        return head

    def _branch(
        self, plan: Plan, place: str, drop: _Behind | None, together: tuple[Level, ...]
    ) -> list[_Node]:
        nodes = self._build(plan, place, drop)
        if drop is None:
            return nodes
        levels = levels_of(plan)
        if not levels:
            raise SpillwayError(
                f"the branch at {place} has no aggregate: a drop before it drops its tuples too."
            )
        own, common = (reach_of(part, drop.slide, self._stamp) for part in (levels, together))
        return [_Node(Remark(size=own.size, delay=common.before - own.before), nodes)]

    def _operator(self, step: Step, drop: _Behind | None) -> Operator:
        if isinstance(step, Keep):
            if self._counted and drop is not None:
                raise SpillwayError(
                    "a filter between a drop and a count-based aggregate changes what it counts.",
                    hint="put the drop behind the filter, or use windows by time",
                )
            return Filter(step.predicate)
        if isinstance(step, Change):
            return Map(step.function)
        if isinstance(step, Aggregated):
            return Aggregate(
                step.window,
                function_of(step.function),
                decodes=drop is not None,
                stamp=self._stamp,
                counted=self._counted,
                complete=step.complete,
            )
        assert isinstance(step, Drop)
        assert drop is not None
        config = WinDropConfig(
            size=drop.size,
            slide=drop.slide,
            before=drop.before,
            max_gap=drop.max_gap,
            salt=step.salt,
            own_coins=step.own_coins,
            counted=self._counted,
        )
        return config.build(step.drop_probability, step.log())


@dataclass(frozen=True, slots=True)
class _Behind:
    """The windows of a drop, derived from the aggregates behind it."""

    size: int
    slide: int
    before: int
    max_gap: int

    @classmethod
    def of(cls, plan: Plan, step: Drop, stamp: Stamp) -> _Behind:
        arrangement = arrangement_of(plan)
        if arrangement is None:
            raise SpillwayError(
                "a drop with no aggregate behind it has no windows.", hint="put it further up"
            )
        _, slide = arrangement.drop_units()
        found = reach_of(arrangement.levels(), slide, stamp)
        gap = drop_gap(arrangement, step.max_gap) if step.decided is None else 1
        return cls(found.size, slide, found.before, gap)


class _Node:
    """An operator and the nodes that read its output."""

    def __init__(self, operator: Operator, below: list[_Node] | None = None) -> None:
        self.operator = operator
        self.below: list[_Node] = [] if below is None else below

    def push(self, given: Tuple) -> None:
        self._hand_on(self.operator.push(given))

    def finish(self) -> None:
        self._hand_on(self.operator.finish())
        for node in self.below:
            node.finish()

    def _hand_on(self, outs: Iterable[Tuple]) -> None:
        for out in outs:
            for node in self.below:
                node.push(out)


class _Sink(_Node):
    """The end of a path: stores results and discards fake tuples."""

    def __init__(self) -> None:
        self.results: list[Tuple] = []

    def push(self, given: Tuple) -> None:
        if not given.fake:
            self.results.append(given)

    def finish(self) -> None:
        pass
