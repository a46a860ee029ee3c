"""Defines plans: the steps between the input and the results, as values.

A plan is a sequence of steps. Each step reads the output of the one before; a :class:`Split`, which can only be the
last, passes it to several plans:

    (Keep(lambda v: v > 5), Aggregated(sliding(4, 1), "max"), Split((left_steps, right_steps)))

``plan_of`` makes the plan of an arrangement, and ``with_drop`` puts a :class:`Drop` before its n-th step. The windows
of the drop follow from the aggregates behind it, and so does its bound on the gap.

**Count-based windows.** A window of the n-th level counts results of the level before. In tuples of the
input, its size and slide are the given ones times the slides of all levels before it (:func:`in_rows`). After
this conversion they are like windows by time, the time being a tuple's number (:func:`numbered`).

>>> from spillway.core.windows import sliding, tumbling
>>> plan_of(sliding(3, 2) >> tumbling(3), ["sum", "list"])
(Aggregated(window=sliding(3, 2), function='sum', complete=1),
 Aggregated(window=tumbling(3), function='list', complete=1))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillway.core.windows.aggregate_functions import Function
from spillway.core.windows.arrangement import Arrangement, Level, Window, sliding, tumbling
from spillway.core.windows.decisions import DropLog
from spillway.core.windows.paper.operators import Tuple
from spillway.errors import SpillwayError, invalid


@dataclass(frozen=True, slots=True)
class Keep:
    """A filter."""

    predicate: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """A map."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate; a window with fewer than ``complete`` tuples gives no result."""

    window: Window
    function: Function = "count"
    complete: int = 1


@dataclass(frozen=True, slots=True)
class Drop:
    """A WinDrop; ``max_gap`` is in results of each leaf behind it.

    ``decided`` holds decisions made elsewhere by window number, with ``own_coins`` for each group. All other windows
    are dropped, and ``max_gap`` is not used.
    """

    drop_probability: float
    max_gap: int | Sequence[int]
    salt: int = 0
    own_coins: bool = False
    decided: Mapping[Any, Any] | None = None

    def log(self) -> DropLog | Callable[[Hashable], DropLog] | None:
        """Return the decisions that were made elsewhere, None if there are none."""
        if self.decided is None:
            return None
        if not self.own_coins:
            return DropLog(decided=self.decided)
        of = self.decided
        return lambda group: DropLog(decided=of.get(group, {}))


@dataclass(frozen=True, slots=True)
class Split:
    """A fan-out into several plans."""

    branches: tuple[Plan, ...]


Step = Keep | Change | Aggregated | Drop | Split
Plan = tuple[Step, ...]


def plan_of(
    arrangement: Arrangement, functions: Function | list[Function] = "count", *, counted: bool = False
) -> Plan:
    """Return the plan of an arrangement; functions are one for all levels, or a list with one per level.

    ``counted`` says that windows are count-based and in rows of the input: only full ones give a result.
    """
    depth = max(map(len, arrangement.paths()))
    if isinstance(functions, list) and len(functions) != depth:
        raise invalid(
            "aggregate", functions, f"one function for all levels, or a list of {depth}, one a level"
        )
    levels = functions if isinstance(functions, list) else [functions] * depth
    return _plan(arrangement.levels(), levels, 1 if counted else None)


def with_drop(plan: Plan, drop: Drop, before: int = 0) -> Plan:
    """Return the plan with a drop before one of its steps."""
    if not 0 <= before < len(plan):
        raise invalid("before", before, f"a step from 0 to {len(plan) - 1}")
    return (*plan[:before], drop, *plan[before:])


def with_drops(plan: Plan, gaps: Sequence[int], make: Callable[[Plan, range], Drop], first: int = 0) -> Plan:
    """Return the plan with drops at the earliest points that the bounds of its leaves allow.

    This is before the plan; or, where one window of the common drop is more than a leaf may miss, in each branch
    behind the split. ``make`` returns the drop before a part of the plan, given that part and the numbers of its
    leaves.

    >>> plan = plan_of(tumbling(2) | tumbling(3))
    >>> with_drops(plan, [3, 2], lambda *_: Drop(0.5, (3, 2))) == with_drop(plan, Drop(0.5, (3, 2)))
    True
    >>> (split,) = with_drops(plan, [1, 1], lambda *_: Drop(0.5, 1))
    >>> [branch[0] == Drop(0.5, 1) for branch in split.branches]
    [True, True]
    """
    arrangement = arrangement_of(plan)
    if arrangement is None:
        return plan
    leaves = range(first, first + len(arrangement.paths()))
    split = plan[-1]
    if arrangement.drop_gap([gaps[leaf] for leaf in leaves]) >= 1 or not isinstance(split, Split):
        return with_drop(plan, make(plan, leaves))
    branches = []
    for branch in split.branches:
        branches.append(with_drops(branch, gaps, make, first))
        first += len([path for level in levels_of(branch) for path in level.paths()])
    return (*plan[:-1], Split(tuple(branches)))


def in_rows(arrangement: Arrangement) -> Arrangement:
    """Return count-based windows in tuples of the input: the slides of all levels before are multiplied.

    >>> in_rows(sliding(4, 2) >> tumbling(3)), in_rows((tumbling(2) | tumbling(5)) >> sliding(3, 1))
    (sliding(4, 2) >> tumbling(6), tumbling(2) >> sliding(6, 2) | tumbling(5) >> sliding(15, 5))
    """
    if arrangement.unit != 1:
        raise SpillwayError(
            f"{arrangement!r} is not in whole numbers: count-based windows are sizes in rows.",
            hint="name a time column, or write tumbling(100)",
        )
    return _beside([_in_rows(level, 1) for level in arrangement.levels()])


def levels_of(plan: Plan) -> tuple[Level, ...]:
    """Return the tree of the aggregates in a plan."""
    for at, step in enumerate(plan):
        if isinstance(step, Split):
            return tuple(level for branch in step.branches for level in levels_of(branch))
        if isinstance(step, Aggregated):
            return (Level(step.window, levels_of(plan[at + 1 :])),)
    return ()


def arrangement_of(plan: Plan) -> Arrangement | None:
    """Return the aggregates of a plan as an arrangement, None if it has none."""
    levels = levels_of(plan)
    return _beside([_whole(level) for level in levels]) if levels else None


def numbered(stream: Iterable[tuple[Hashable, Any]]) -> Iterator[Tuple]:
    """Use each tuple's number within its group as its time, for count-based windows."""
    seen: dict[Hashable, int] = {}
    for group, value in stream:
        at = seen.get(group, 0)
        seen[group] = at + 1
        yield Tuple(at, value, group)


def drop_gap(arrangement: Arrangement, max_gap: int | Sequence[int]) -> int:
    """Return the bound on the gap in windows of the drop, or raise if not even one of them may be dropped.

    >>> drop_gap(tumbling(2) | tumbling(3), [3, 1])
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: max_gap = 1 is not allowed: expected at least 2 for tumbling(3), ...
    """
    gap = arrangement.drop_gap(max_gap)
    if gap >= 1:
        return gap
    _, slide = arrangement.drop_units()
    pairs = zip(arrangement.leaves(), arrangement.gaps(max_gap), strict=True)
    leaf, found = min(pairs, key=lambda pair: pair[1] * pair[0].slide)
    raise invalid(
        "max_gap",
        found,
        f"at least {slide // leaf.slide} for {leaf!r}, which has as many windows in one window of the drop",
        hint="allow a longer gap, or drop in each branch by itself",
    )


def _plan(levels: Sequence[Level], functions: Sequence[Function], step: int | None) -> Plan:
    if not levels:
        return ()
    if len(levels) > 1:
        return (Split(tuple(_plan([level], functions, step) for level in levels)),)
    (level,) = levels
    window = level.window
    complete = 1 if step is None else window.size // step
    rest = _plan(level.below, functions[1:], None if step is None else window.slide)
    return (Aggregated(window, functions[0], complete), *rest)


def _in_rows(level: Level, step: int) -> Arrangement:
    size, slide = level.window.size * step, level.window.slide * step
    window = tumbling(size) if size == slide else sliding(size, slide)
    return window >> _beside([_in_rows(child, slide) for child in level.below]) if level.below else window


def _whole(level: Level) -> Arrangement:
    """Return a level and all levels below it as an arrangement."""
    return level.window >> _beside([_whole(child) for child in level.below]) if level.below else level.window


def _beside(parts: Sequence[Arrangement]) -> Arrangement:
    found = parts[0]
    for part in parts[1:]:
        found = found | part
    return found
