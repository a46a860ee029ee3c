"""Defines tuples with window specifications, and the operators that pass them on: filter, map, split.

Every tuple carries a window specification (Table 1):

    -1      no restriction
     0      no window may open here
     τ      a window may open here, and tuples before τ must be preserved

A **fake tuple** has no content, only a specification for the aggregates downstream. Filters and maps pass it on
unchanged, and a filter that rejects a tuple with a specification replaces it by a fake tuple (Section 3.3).
Because a specification τ is an end, it is positive in the paper; here times may be negative, so the two other cases
are the constants :data:`ANY` and :data:`DISALLOWED` and not numbers.

At a **split** the common drop has kept the tuples that the most demanding branch needs. Each branch gets the τ of its
own rule, so that it opens exactly the windows of a kept drop window and no others. The paper leaves
τ unchanged; a branch with a small extent would then open windows that were to be dropped: complete, but not wanted.
With end stamps, branches of different depth look back to different times, and the marks of the shallower ones wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol


class _Mark:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


ANY: Final = _Mark("ANY")
DISALLOWED: Final = _Mark("DISALLOWED")

Specification = _Mark | float  # ANY, DISALLOWED or the end of the tuples that must be preserved


@dataclass(frozen=True, slots=True)
class Tuple:
    """One element of a stream; times are in units of the arrangement."""

    time: float
    value: Any = None
    group: Hashable = None
    specification: Specification = ANY
    fake: bool = False


@dataclass(slots=True)
class Counts:
    """The work of one operator: its input, its output, and its steps in between."""

    tuples: int = 0
    fakes: int = 0
    dropped: int = 0
    checks: int = 0
    opened: int = 0
    skipped: int = 0
    updates: int = 0
    outputs: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


class Operator(Protocol):
    """The interface of an operator: its action at each tuple, and at the end of the stream."""

    counts: Counts

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Process one tuple and return the output."""

    def finish(self) -> Iterable[Tuple]:
        """Return the remaining output when the stream ends."""


class Filter:
    """Passes on tuples whose value satisfies a predicate, and all specifications."""

    def __init__(self, predicate: Callable[[Any], bool]) -> None:
        self.predicate = predicate
        self.counts = Counts()

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Return the tuple, a fake one in its place, or nothing."""
        if given.fake:
            self.counts.fakes += 1
            return (given,)
        self.counts.tuples += 1
        if self.predicate(given.value):
            self.counts.outputs += 1
            return (given,)
        if given.specification is ANY:
            return ()
        return (replace(given, value=None, fake=True),)

    def finish(self) -> Iterable[Tuple]:
        """Return nothing: a filter does not hold tuples back."""
        return ()


class Map:
    """Changes the value of every tuple that has one."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.counts = Counts()

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Return the tuple with its new value, or a fake tuple unchanged."""
        if given.fake:
            self.counts.fakes += 1
            return (given,)
        self.counts.tuples += 1
        self.counts.outputs += 1
        return (replace(given, value=self.function(given.value)),)

    def finish(self) -> Iterable[Tuple]:
        """Return nothing: a map does not hold tuples back."""
        return ()


class Remark:
    """The head of a branch: gives each mark the end and the time that the branch's own rule requires."""

    def __init__(self, *, size: int, delay: int = 0) -> None:
        self.size = size
        self.delay = delay
        self.counts = Counts()
        self._waiting: dict[Hashable, deque[Tuple]] = {}

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Return the tuple with its corrected mark, after the marks that are due."""
        waiting = self._waiting.setdefault(given.group, deque())
        ready = []
        while waiting and waiting[0].time <= given.time:
            ready.append(waiting.popleft())
        if given.specification is not ANY:
            at = given.time + self.delay
            mark = given.specification if given.specification is DISALLOWED else at + self.size
            if self.delay == 0:
                return (*ready, replace(given, specification=mark))
            waiting.append(Tuple(at, group=given.group, specification=mark, fake=True))
            given = replace(given, specification=ANY)
        return ready if given.fake else (*ready, given)

    def finish(self) -> Iterable[Tuple]:
        """Return nothing: a mark that no tuple follows opens no window."""
        return ()
