"""Tuples with window specifications, and the operators that let them through: filter, map, split.

Every tuple carries a window specification (Table 1):

    -1      no matter
     0      no window may open here
     τ      a window may open here, and what comes before τ must be preserved

A **fake tuple** has no content, only a specification for the aggregates downstream. Filters and maps hand it on
untouched, and a filter that refuses a tuple which carries a specification turns it into a fake one (Section 3.3).
Because a specification τ is an end, it is positive in the paper; here times may be negative, so the two other cases
are the constants :data:`ANY` and :data:`DISALLOWED` and not numbers.

At a **split** the common drop has kept what the most demanding branch needs. Each branch gets the τ that its own
rule asks for, so that a branch opens exactly the windows of a kept drop window and none beyond. The paper leaves
τ as it is; a branch with a small extent would then open windows that were to be dropped, complete but uncalled for.
With end stamps branches of different depth look back differently far, and the marks of the shallower ones wait.
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

Specification = _Mark | float  # ANY, DISALLOWED or the end of what must be preserved


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
    """The work of one operator: what came in and went out, and what was done in between."""

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
    """What an operator does with each tuple, and at the end of the stream."""

    counts: Counts

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Take in one tuple and return what goes on."""

    def finish(self) -> Iterable[Tuple]:
        """Return what is left when the stream ends."""


class Filter:
    """Lets tuples pass whose value satisfies a predicate, and whatever carries a specification."""

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
        """Return nothing: a filter holds nothing back."""
        return ()


class Map:
    """Changes the value of every tuple that has one."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.counts = Counts()

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Return the tuple with its new value, or a fake tuple as it is."""
        if given.fake:
            self.counts.fakes += 1
            return (given,)
        self.counts.tuples += 1
        self.counts.outputs += 1
        return (replace(given, value=self.function(given.value)),)

    def finish(self) -> Iterable[Tuple]:
        """Return nothing: a map holds nothing back."""
        return ()


class Remark:
    """The head of a branch: gives each mark the end, and the time, that the branch's own rule asks for."""

    def __init__(self, *, size: int, delay: int = 0) -> None:
        self.size = size
        self.delay = delay
        self.counts = Counts()
        self._waiting: dict[Hashable, deque[Tuple]] = {}

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Return the tuple with its mark put right, after the marks whose time has come."""
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
