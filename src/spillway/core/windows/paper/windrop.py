"""Implements WinDrop(ω, δ, p, B): marks where windows may open downstream, and drops tuples outside kept windows.

The stream is divided into windows [kδ - b, kδ - b + ω) that match the aggregates downstream (``drop_window``),
and :mod:`~spillway.core.windows.decisions` decides which are kept. The tuple at the start of a window is marked

    kept       τ = start + ω                dropped       0 (disallowed)                 Section 3.1

and a tuple is dropped early if all of its windows are dropped (Section 3.4). A tuple that would be dropped but
carries a 0 is passed on as a fake tuple. b is 0 with the paper's stamps, see :mod:`~spillway.core.windows.reach`.

**Where we deviate.** In the paper the first tuple of a window carries its mark. If a stream has gaps, one tuple
can be the first of several windows, some kept and some dropped, which one mark cannot express. Here a window's start
is a point in time: if no tuple has this time, a fake tuple with that time carries the τ. (No fake tuple is made for
a 0: without a mark a window does not open either.)

**Groups.** Each group has its own windows and marks. By default all groups share the decisions, so that a window
is delivered for all groups or for none, as on Spark; with ``own_coins`` each group has its own random draws, as in
the paper (:func:`own_salt`).

**Fast path.** Between two starts or ends of windows all tuples are treated alike, so that most of them cost one
comparison.

**Count-based windows.** Time is then the number of a tuple in its group, and no window starts before 0.

=======  =============================================================
symbol   meaning
=======  =============================================================
ω, δ     ``size``, ``slide`` of the drop's windows, whole units
p, B     ``drop_probability``, ``max_gap`` in windows of the drop
b        ``before``: how far a window begins before kδ
=======  =============================================================

>>> drop = WinDropConfig(size=3, slide=3, max_gap=1, salt=2).build(drop_probability=0.5)
>>> for out in (out for t in range(7) for out in drop.push(Tuple(t))):
...     out.time, out.specification, out.fake
(0, 3, False)
(1, ANY, False)
(2, ANY, False)
(3, DISALLOWED, True)
(6, 9, False)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from spillway.core.checks import require_number, require_whole
from spillway.core.random import mix
from spillway.core.windows.decisions import DropConfig, DropLog
from spillway.core.windows.paper.operators import ANY, DISALLOWED, Counts, Specification, Tuple
from spillway.core.windows.window_count import windows_of
from spillway.errors import SpillwayError, invalid


@dataclass(frozen=True, kw_only=True)
class WinDropConfig:
    """The windows of the drop, the bound on the gap in such windows, and the salt of the random draws."""

    size: int
    slide: int
    max_gap: int
    salt: int = 0
    before: int = 0
    own_coins: bool = False
    counted: bool = False

    def __post_init__(self) -> None:
        require_whole("size", self.size, 1, 2**62)
        require_whole("slide", self.slide, 1, 2**62)
        require_whole("before", self.before, 0, 2**62)
        if self.slide > self.size:
            raise invalid("slide", self.slide, f"at most size = {self.size}")
        DropConfig(max_gap=self.max_gap, salt=self.salt)

    def build(self, drop_probability: float = 0.0, log: Log | None = None) -> WinDrop:
        """Return a new operator."""
        return WinDrop(self, drop_probability, log)


Log = DropLog | Callable[[Hashable], DropLog]


def own_salt(salt: int, group: Hashable) -> int:
    """Return the salt of a group that has its own random draws.

    >>> own_salt(7, "a") == own_salt(7, "a") != own_salt(7, "b")
    True
    """
    return mix(salt, *repr(group).encode())


@dataclass(slots=True)
class _Clock:
    at: float = -math.inf


@dataclass(slots=True)
class _Group:
    log: DropLog
    clock: _Clock  # shared by all groups; one per group where tuples are counted
    next: int | None = None  # the first window whose start is yet to be marked
    kept: int | None = None  # the last window that is kept
    passes: bool = False
    same_until: float = -math.inf  # until this time tuples pass, or do not, like the last one


class WinDrop:
    """The operator over an ordered stream; ``drop_probability`` may be changed at any time.

    ``log`` holds decisions made elsewhere, such as those of a query on Spark: one log for all groups, or one for
    each.
    """

    def __init__(self, config: WinDropConfig, drop_probability: float, log: Log | None = None) -> None:
        require_number("drop_probability", drop_probability, 0.0, 1.0)
        self.config = config
        self.drop_probability = drop_probability
        self.counts = Counts()
        self._log = log or (self._own if config.own_coins else self._decided_here(config.salt))
        self._groups: dict[Hashable, _Group] = {}
        self._clock = _Clock()

    def push(self, given: Tuple) -> Iterable[Tuple]:
        """Return the marks that are due, and the tuple unless it is dropped."""
        self.counts.tuples += 1
        state = self._groups.get(given.group)
        if state is None or not state.clock.at <= given.time < state.same_until:
            return self._push(self._state(given), given)
        state.clock.at = given.time
        if state.passes:
            self.counts.outputs += 1
            return (given,)
        self.counts.dropped += 1
        return ()

    def finish(self) -> Iterable[Tuple]:
        """Return nothing: the drop does not hold tuples back."""
        return ()

    def _push(self, state: _Group, given: Tuple) -> Iterable[Tuple]:
        size, slide, b = self.config.size, self.config.slide, self.config.before
        holding = windows_of(given.time, size=size, slide=slide, before=b)
        out: list[Tuple] = []
        mark: Specification = ANY
        for k in self._due(state, holding):
            start = k * slide - b
            kept = state.log.kept(k, self.drop_probability)
            state.kept = k if kept else state.kept
            if start == given.time:
                mark = start + size if kept else DISALLOWED
            elif kept:
                out.append(Tuple(start, group=given.group, specification=start + size, fake=True))
        state.passes = state.kept is not None and state.kept in holding
        state.same_until = holding.stop * slide - b
        if state.kept is not None and state.passes:
            state.same_until = min(state.same_until, state.kept * slide - b + size)
            self.counts.outputs += 1
            out.append(replace(given, specification=mark))
        else:
            self.counts.dropped += 1
            if mark is not ANY:
                out.append(replace(given, value=None, specification=mark, fake=True))
        self.counts.fakes += sum(each.fake for each in out)
        return out

    def _state(self, given: Tuple) -> _Group:
        state = self._groups.get(given.group)
        if state is None:
            log = self._log if isinstance(self._log, DropLog) else self._log(given.group)
            state = _Group(log, _Clock() if self.config.counted else self._clock)
            self._groups[given.group] = state
        if given.time < state.clock.at:
            raise SpillwayError(
                f"time {given.time!r} comes after {state.clock.at!r}.", hint="sort the stream by its time"
            )
        state.clock.at = given.time
        return state

    def _due(self, state: _Group, holding: range) -> range:
        """Return the windows that hold a tuple and have not been marked yet."""
        first = max(holding.start, 0) if self.config.counted else holding.start
        due = range(first if state.next is None else max(first, state.next), holding.stop)
        if due:
            state.next = due.stop
            self.counts.checks += len(due)
        return due

    def _own(self, group: Hashable) -> DropLog:
        return self._decided_here(own_salt(self.config.salt, group))

    def _decided_here(self, salt: int) -> DropLog:
        return DropLog(DropConfig(max_gap=self.config.max_gap, salt=salt).build())
