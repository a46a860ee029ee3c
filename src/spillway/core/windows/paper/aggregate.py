"""Implements the aggregate that decodes window specifications (Section 3.3, Table 3).

For a window of size ω that would start at t, and a tuple with specification spec at t:

    starts?  spec     t < open_until?     action
    yes      τ        either              open; open_until = τ - (ω - 1); the result carries τ - (ω - 1)
    yes      0 or -1  yes                 open; the result carries spec
    yes      0 or -1  no                  skip
    no       τ        either              open_until = τ - (ω - 1); a fake tuple passes τ - (ω - 1) on
    no       0        either              a fake tuple passes 0 on
    no       -1       either              nothing

**Where we deviate.** The paper has one variable, keep_until, for two ends: until when windows may open, and until
when tuples are needed. Its rows "yes, 0 or -1, within" raise it to t + ω, and then the next sliding window, at
t + δ < t + ω, is within too, and so is the next one: once a window opens, all later ones open, also those that were
to be dropped and whose tuples are gone. With A(3, 2) beside B(3, 3) and a window kept at 0 (τ = 7), the window at 4
would raise keep_until to 7, and A would open the dropped window at 6 over a part of its tuples: a wrong answer.
Here ``open_until`` is only the first end, and only a τ sets it. The second needs no variable: the drop itself drops
all tuples that no kept window holds, and the open windows define which tuples they hold.

**Order.** A result is emitted when time reaches the end of its window, with the start of its window as its time (or
its last unit, with end stamps). Time is that of the stream, which is ordered: a tuple of one group closes the
windows of all groups, so that results are emitted in order across groups. A fake tuple waits for the results of the
windows that opened before it. A window without tuples gives no result; if it carries a specification, a fake tuple
passes that on. Where tuples are counted, each group has its own time, and only its own tuples close its windows.

**Any function** can be given as (init, incr, final): a state when a window opens, updated by each tuple, converted
to the result when it closes.

=============  ==========================================================
symbol         meaning
=============  ==========================================================
ω, δ           ``size``, ``slide`` of the aggregate's windows, whole units
τ, 0, -1       specification: an end, ``DISALLOWED``, ``ANY``
=============  ==========================================================
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from spillway.core.windows.aggregate_functions import AggregateFunction
from spillway.core.windows.arrangement import Window
from spillway.core.windows.paper.operators import ANY, DISALLOWED, Counts, Specification, Tuple
from spillway.core.windows.reach import Stamp
from spillway.core.windows.window_count import windows_of


@dataclass(frozen=True, slots=True)
class Action:
    """The action at a tuple: open a window, pass a fake tuple on, and until when windows may open."""

    opens: bool
    fakes: bool
    specification: Specification
    open_until: float


def decode(
    *, starts: bool, specification: Specification, time: float, open_until: float, size: int
) -> Action:
    """Return the row of Table 3 that applies.

    >>> decode(starts=True, specification=7, time=0, open_until=0, size=3)
    Action(opens=True, fakes=False, specification=5, open_until=5)
    """
    if isinstance(specification, int | float):
        end = specification - (size - 1)
        return Action(starts, not starts, end, end)
    if starts and time < open_until:
        return Action(True, False, specification, open_until)
    return Action(False, not starts and specification is DISALLOWED, specification, open_until)


@dataclass(slots=True)
class _Open:
    """An open window, or a fake tuple that waits for its turn (without an end)."""

    start: float
    end: float | None
    specification: Specification
    group: Hashable
    state: Any = None
    tuples: int = 0


@dataclass(slots=True)
class _Group:
    next: int | None = None  # the first window start that has not been handled
    open_until: float = -math.inf
    windows: deque[_Open] = field(default_factory=deque)  # the open ones


class _Line:
    """Open windows and waiting fake tuples, in the order of output: by start, then by arrival."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Open]] = []
        self._came = 0

    def add(self, window: _Open) -> None:
        self._came += 1
        heappush(self._heap, (window.start, self._came, window))

    def until(self, t: float) -> Iterable[_Open]:
        """Remove and yield the windows that have ended by a time, and the fake tuples that waited for them."""
        while self._heap and (self._heap[0][2].end is None or self._heap[0][2].end <= t):
            yield heappop(self._heap)[2]


class Aggregate:
    """Aggregate(F, ω, δ) over an ordered stream, with separate windows for each group.

    ``decodes`` is False where no drop stands before it: then every window opens. A window with fewer than
    ``complete`` tuples gives no result. With ``counted`` no window starts before 0.
    """

    def __init__(
        self,
        window: Window,
        function: AggregateFunction,
        *,
        decodes: bool = True,
        stamp: Stamp = "start",
        counted: bool = False,
        complete: int = 1,
    ) -> None:
        self.window = window
        self.function = function
        self.decodes = decodes
        self.counted = counted
        self.complete = complete
        self.counts = Counts()
        self._shift = window.size - 1 if stamp == "end" else 0
        self._groups: dict[Hashable, _Group] = {}
        self._lines: dict[Hashable, _Line] = {}

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Close the windows that end by this tuple's time, open those that may start, and add the tuple."""
        t, delta = given.time, self.window.slide
        state = self._groups.setdefault(given.group, _Group())
        line = self._lines.setdefault(given.group if self.counted else None, _Line())
        out = self._close(line, t)
        holding = windows_of(t, size=self.window.size, slide=delta)
        first = max(holding.start, 0) if self.counted else holding.start
        starts = False
        for k in range(first if state.next is None else max(first, state.next), holding.stop):
            starts = k * delta == t
            self._decode(state, line, given, True, given.specification if starts else ANY, k * delta)
        state.next = holding.stop
        if given.specification is not ANY and not starts:
            self._decode(state, line, given, False, given.specification, t)
            out += self._close(line, t)
        if given.fake:
            self.counts.fakes += 1
            return out
        self.counts.tuples += 1
        for window in state.windows:
            window.state = self.function.incr(window.state, given.value)
            window.tuples += 1
        self.counts.updates += len(state.windows)
        return out

    def finish(self) -> Iterable[Tuple]:
        """Close all open windows."""
        return [out for line in self._lines.values() for out in self._close(line, math.inf)]

    def _decode(
        self, state: _Group, line: _Line, given: Tuple, starts: bool, spec: Specification, t: float
    ) -> None:
        self.counts.checks += 1
        open_until = state.open_until if self.decodes else math.inf
        action = decode(
            starts=starts, specification=spec, time=t, open_until=open_until, size=self.window.size
        )
        state.open_until = action.open_until
        if action.opens:
            self.counts.opened += 1
            end = t + self.window.size
            window = _Open(t, end, action.specification, given.group, self.function.init())
            state.windows.append(window)
            line.add(window)
        elif action.fakes:
            line.add(_Open(t, None, action.specification, given.group))
        else:
            self.counts.skipped += starts

    def _close(self, line: _Line, t: float) -> list[Tuple]:
        """Remove from the front of the line what may be emitted at a time, and return it."""
        out = []
        for window in line.until(t):
            spec = window.specification
            if isinstance(spec, int | float):
                spec += self._shift
            at = window.start + self._shift
            if window.end is not None:
                self._groups[window.group].windows.popleft()
            if window.tuples >= self.complete:
                self.counts.outputs += 1
                out.append(Tuple(at, self.function.final(window.state), window.group, spec))
            elif spec is not ANY:
                out.append(Tuple(at, None, window.group, spec, fake=True))
        return out
