"""The aggregate that decodes window specifications (Section 3.3, Table 3).

For a window of size ω that would start at t, and a tuple with specification spec at t:

    starts?  spec     t < open_until?     what is done
    yes      τ        either              open; open_until = τ - (ω - 1); the result carries τ - (ω - 1)
    yes      0 or -1  yes                 open; the result carries spec
    yes      0 or -1  no                  skip
    no       τ        either              open_until = τ - (ω - 1); a fake tuple carries τ - (ω - 1) on
    no       0        either              a fake tuple carries 0 on
    no       -1       either              nothing

and ``keep_until``, up to where tuples are needed by the windows that are open, becomes max(keep_until, t + ω)
wherever a window opens.

**Where we deviate.** The paper has one variable, keep_until, for both ends. Its rows "yes, 0 or -1, within" raise
it to t + ω, and then the next sliding window, at t + δ < t + ω, is within too, and so is the next one: once a window
opens, all that follow do, also those that were to be dropped and whose tuples are gone. With A(3, 2) beside
B(3, 3) and a window kept at 0 (τ = 7), the window at 4 would raise keep_until to 7, and A would open the dropped
window at 6 over a part of its tuples: a wrong answer. So there are two variables: ``open_until`` says up to where
windows may open and is set by τ alone; ``keep_until`` says which tuples are needed.

**Order.** A result goes out when its window closes, with the start of its window as its time (or its last unit, with
end stamps). A fake tuple waits for the results of the windows that opened before it, so that what goes out is in
order. A window without tuples gives no result; if it carries a specification, a fake tuple takes that on.

**Any function** is given as (init, incr, final): a state when a window opens, updated by each tuple, turned
into the result when it closes.

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
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from spillway.core.windows.arrangement import Window
from spillway.core.windows.functions import AggregateFunction
from spillway.core.windows.operators import ANY, DISALLOWED, Counts, Specification, Tuple
from spillway.core.windows.reach import Stamp
from spillway.core.windows.wcf import windows_of


@dataclass(frozen=True, slots=True)
class Action:
    """What an aggregate does at a tuple: open a window, pass a fake tuple on, and how far its two ends go."""

    opens: bool
    fakes: bool
    specification: Specification
    open_until: float
    keep_until: float


def decode(
    *,
    starts: bool,
    specification: Specification,
    time: float,
    open_until: float,
    keep_until: float,
    size: int,
) -> Action:
    """Return the row of Table 3 that applies.

    >>> decode(starts=True, specification=7, time=0, open_until=0, keep_until=0, size=3)
    Action(opens=True, fakes=False, specification=5, open_until=5, keep_until=3)
    """
    t, omega = time, size
    if specification is not ANY and specification is not DISALLOWED:
        tau = specification
        assert isinstance(tau, int | float)
        end = tau - (omega - 1)
        return Action(starts, not starts, end, end, max(keep_until, t + omega) if starts else keep_until)
    if starts and t < open_until:
        return Action(True, False, specification, open_until, max(keep_until, t + omega))
    fakes = not starts and specification is DISALLOWED
    return Action(False, fakes, specification, open_until, keep_until)


@dataclass(slots=True)
class _Open:
    """A window that is open, or a fake tuple that waits for its turn (without an end)."""

    start: float
    end: float | None
    specification: Specification
    state: Any = None
    tuples: int = 0


@dataclass(slots=True)
class _Group:
    next: int | None = None  # the first window start that has not been handled
    open_until: float = -math.inf
    keep_until: float = -math.inf
    queue: deque[_Open] = field(default_factory=deque)


class Aggregate:
    """Aggregate(F, ω, δ) over an ordered stream, with windows of its own for each group.

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

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Close what ends by this tuple's time, open what may start, and take the tuple in."""
        t, delta = given.time, self.window.slide
        state = self._groups.setdefault(given.group, _Group())
        out = self._close(state, given.group, lambda window: window.end is None or window.end <= t)
        holding = windows_of(t, size=self.window.size, slide=delta)
        first = max(holding.start, 0) if self.counted else holding.start
        starts = False
        for k in range(first if state.next is None else max(first, state.next), holding.stop):
            starts = k * delta == t
            self._decode(state, True, given.specification if starts else ANY, k * delta)
        state.next = holding.stop
        if given.specification is not ANY and not starts:
            self._decode(state, False, given.specification, t)
            out += self._close(state, given.group, lambda window: window.end is None)
        if given.fake:
            self.counts.fakes += 1
            return out
        self.counts.tuples += 1
        for window in state.queue:
            if window.end is not None:
                window.state = self.function.incr(window.state, given.value)
                window.tuples += 1
                self.counts.updates += 1
        return out

    def finish(self) -> Iterable[Tuple]:
        """Close all windows that are open."""
        return [
            out for group, state in self._groups.items() for out in self._close(state, group, lambda _: True)
        ]

    def _decode(self, state: _Group, starts: bool, spec: Specification, t: float) -> None:
        self.counts.checks += 1
        action = decode(
            starts=starts,
            specification=spec,
            time=t,
            open_until=state.open_until if self.decodes else math.inf,
            keep_until=state.keep_until,
            size=self.window.size,
        )
        state.open_until, state.keep_until = action.open_until, action.keep_until
        if action.opens:
            self.counts.opened += 1
            end = t + self.window.size
            state.queue.append(_Open(t, end, action.specification, self.function.init()))
        elif action.fakes:
            state.queue.append(_Open(t, None, action.specification))
        else:
            self.counts.skipped += starts

    def _close(self, state: _Group, group: Hashable, closes: Callable[[_Open], bool]) -> list[Tuple]:
        """Take from the front of the queue what may go out."""
        out = []
        while state.queue and closes(state.queue[0]):
            window = state.queue.popleft()
            spec = window.specification
            if isinstance(spec, int | float):
                spec += self._shift
            at = window.start + self._shift
            if window.end is not None and window.tuples >= self.complete:
                self.counts.outputs += 1
                out.append(Tuple(at, self.function.final(window.state), group, spec))
            elif spec is not ANY:
                out.append(Tuple(at, None, group, spec, fake=True))
        return out
