"""Defines queries as boxes with costs, the input for a placement of drops (Section 2.1).

A query is a chain of boxes, each with a cost per tuple that reaches it and a selectivity; a box with a window is an
aggregate and returns a result per slide. A chain may end in branches.

A window is defined by time or, with ``counted``, by the number of tuples that reach its box. ``by`` names the columns
that an aggregate groups by.

>>> from spillway.core.windows import tumbling
>>> mean = Box("mean", 2.0, window=tumbling(10))
>>> load_of(Query(name="q", rate=100, boxes=(Box("parse", 1.0), mean, Box("store", 5.0)), max_gap=3))
300.5
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spillway.core.checks import require_number, require_whole
from spillway.core.windows.arrangement import Level, Window
from spillway.errors import invalid

_SECOND = 1_000_000  # in the units of durations


@dataclass(frozen=True, slots=True)
class Box:
    """An operator: work per tuple that reaches it, and tuples out per tuple in; for an aggregate, per window.

    ``by`` and ``counted`` are for aggregates: the columns to group by, and whether windows count tuples.
    """

    name: str
    cost: float
    selectivity: float = 1.0
    window: Window | None = None
    by: tuple[str, ...] = ()
    counted: bool = False

    def __post_init__(self) -> None:
        require_number(f"cost of {self.name!r}", self.cost, 0.0)
        require_number(f"selectivity of {self.name!r}", self.selectivity, 0.0)
        if not isinstance(self.by, tuple) or not all(isinstance(each, str) for each in self.by):
            raise invalid(
                f"by of {self.name!r}", self.by, "a tuple of column names", hint="('route',) for one"
            )
        if self.window is None and (self.by or self.counted):
            field, value = ("by", self.by) if self.by else ("counted", self.counted)
            raise invalid(f"{field} of {self.name!r}", value, "an aggregate, which has a window")
        if self.window is not None and self.counted and self.window.unit != 1:
            raise invalid(f"window of {self.name!r}", self.window, "sizes in tuples, which are whole numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A chain of boxes that ends in a result or in branches. A leaf has a bound on its gap; the input has a rate.

    The rate is in tuples per unit of the windows, per second where these are durations.
    """

    name: str
    boxes: tuple[Box, ...]
    max_gap: int | None = None
    branches: tuple[Query, ...] = ()
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.branches:
            if self.max_gap is not None:
                raise invalid(f"max_gap of {self.name!r}", self.max_gap, "a bound at each leaf only")
        else:
            require_whole(f"max_gap of {self.name!r}", self.max_gap, 1, 10**9)
        if self.rate is not None:
            require_number(f"rate of {self.name!r}", self.rate, 0.0)

    @property
    def input_rate(self) -> float:
        """The rate at the input; raises if it is not known."""
        if self.rate is None:
            raise invalid(f"rate of {self.name!r}", None, "the tuples per time unit that arrive at its input")
        return self.rate

    def leaves(self) -> Iterator[Query]:
        """Yield the query itself if it has no branches, else the leaves of all branches."""
        if not self.branches:
            yield self
        for branch in self.branches:
            yield from branch.leaves()

    def behind(self, start: int = 0) -> Iterator[Box]:
        """Yield all boxes from number ``start`` on, also those of the branches."""
        yield from self.boxes[start:]
        for branch in self.branches:
            yield from branch.behind()


def load_of(query: Query, rate: float | None = None) -> float:
    """Return the work of a query per time unit, without any drop."""
    at = query.input_rate if rate is None else rate
    total = 0.0
    for box in query.boxes:
        total += at * box.cost
        at = rate_after(box, at)
    return total + sum(load_of(branch, at) for branch in query.branches)


def rate_after(box: Box, rate: float) -> float:
    """Return the rate behind a box."""
    if box.window is None:
        return rate * box.selectivity
    if box.counted:
        return rate * box.selectivity / box.window.slide
    unit = box.window.unit
    slide = box.window.slide / _SECOND if isinstance(unit, str) else box.window.slide * unit
    return box.selectivity / slide


def levels_from(query: Query, start: int = 0, step: int = 1) -> tuple[Level, ...]:
    """Return the aggregates from a box on as a tree.

    Count-based windows are converted to tuples at the drop: one tuple at the box represents ``step`` of those.

    >>> from spillway.core.windows import tumbling
    >>> first, second = (Box(name, 1.0, window=tumbling(3), counted=True) for name in "ab")
    >>> levels_from(Query(name="q", boxes=(first, second), max_gap=1))
    (Level(window=tumbling(3), below=(Level(window=tumbling(9), below=()),)),)
    """
    for n, box in enumerate(query.boxes[start:], start):
        if box.window is None:
            continue
        window, then = box.window, step_after(box, step)
        if box.counted and step != 1:
            window = Window(window.size * step, window.slide * step)
        return (Level(window, levels_from(query, n + 1, then)),)
    return tuple(level for branch in query.branches for level in levels_from(branch, 0, step))


def step_after(box: Box, step: int) -> int:
    """Return how many tuples at the drop one tuple behind a box represents, where tuples are counted."""
    return step * box.window.slide if box.window is not None and box.counted else step
