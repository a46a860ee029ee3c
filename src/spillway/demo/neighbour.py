"""A busy neighbour: another process that uses one core, switched on and off by the clock of a trace.

The process burns processor time while it is on and sleeps while it is off. It lives at the other end of a pipe: when
the pipe closes, also because its owner was killed, it ends. A :class:`Schedule` says when it is on. With the
capacity of the quiet machine and that beside the neighbour, :func:`costs_beside` gives what a row cost at each
moment, from which the least loss of that very run follows.
"""

from __future__ import annotations

import math
import os
import random
import select
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from spillway.replay.costs import CostTrace

Spans = tuple[tuple[float, float], ...]

STEP_S = 0.1
"""How finely costs follow the neighbour: as often as a run is looked at while it goes on."""

_ON, _OFF = b"1", b"0"
_PIECE = 20_000  # a loop of half a millisecond, after which the process looks whether it should stop


@dataclass(frozen=True)
class Schedule:
    """When a neighbour is on: ``switches_s`` are the seconds of a trace at which it goes on, off, on, ...

    >>> [Schedule("lunch", (2.0, 5.0)).busy(at_s) for at_s in (-1.0, 2.0, 4.9, 5.0)]
    [False, True, True, False]
    """

    name: str
    switches_s: tuple[float, ...]

    def busy(self, at_s: float) -> bool:
        """Return whether the neighbour is on at a second of the trace, below 0 before it starts."""
        return bisect_right(self.switches_s, at_s) % 2 == 1


def throughout() -> Schedule:
    """Return a neighbour that begins before the trace and stays."""
    return Schedule("before", (float("-inf"),))


def from_second(at_s: float) -> Schedule:
    """Return a neighbour that begins at a second of the trace and stays."""
    return Schedule("middle", (at_s,))


def comes_and_goes(
    seed: int, duration_s: float, *, shortest_s: float = 2.0, longest_s: float = 8.0
) -> Schedule:
    """Return a neighbour that is off and on in turn for random times, the same ones for the same seed.

    >>> comes_and_goes(1, 20.0).switches_s == comes_and_goes(1, 20.0).switches_s
    True
    """
    draw = random.Random(seed)
    switches: list[float] = []
    at_s = draw.uniform(0.0, longest_s)
    while at_s < duration_s:
        switches.append(round(at_s, 3))
        at_s += draw.uniform(shortest_s, longest_s)
    return Schedule("comes and goes", tuple(switches))


class Neighbour:
    """The process; a context manager that leaves none behind."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._switched_s: list[float] = []

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C in a terminal is for the owner, who then ends the process.
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            assert self._process.stdout is not None
            if self._process.stdout.read(1) != _ON:
                raise SpillwayError("the process that should be a busy neighbour has ended.")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process's number."""
        assert self._process is not None
        return self._process.pid

    @property
    def busy(self) -> bool:
        """Whether it is on."""
        return len(self._switched_s) % 2 == 1

    def switch(self, busy: bool) -> None:
        """Turn the neighbour on or off, if it is not so already."""
        if busy == self.busy:
            return
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), _ON if busy else _OFF)
        except BrokenPipeError:
            raise SpillwayError("the process that should be a busy neighbour has ended.") from None
        self._switched_s.append(time.time())

    def spans(self, epoch_s: float, until_s: float) -> Spans:
        """Return when it was on, in seconds since the epoch of a trace, from there up to ``until_s``."""
        at_s = [min(max(switched - epoch_s, 0.0), until_s) for switched in self._switched_s]
        at_s += [until_s] if self.busy else []
        return tuple((start, end) for start, end in zip(at_s[::2], at_s[1::2], strict=True) if end > start)


def costs_beside(
    busy: Sequence[tuple[float, float]], *, quiet_rows_per_s: float, busy_rows_per_s: float, until_s: float
) -> CostTrace:
    """Return seconds per row over time on a machine that has one capacity while a neighbour is on, else another.

    >>> costs = costs_beside([(1.0, 2.0)], quiet_rows_per_s=10.0, busy_rows_per_s=5.0, until_s=2.5)
    >>> [round(cost, 3) for cost in (costs.costs_s[0], costs.costs_s[12], costs.costs_s[-1])]
    [0.1, 0.2, 0.1]
    """
    from spillway.replay.costs import CostTrace  # the process itself does without numpy

    costs = []
    for step in range(max(math.ceil(until_s / STEP_S), 1)):  # the last one holds from then on
        start_s, end_s = step * STEP_S, (step + 1) * STEP_S
        beside_s = sum(max(min(end_s, last) - max(start_s, first), 0.0) for first, last in busy)
        share = min(beside_s / STEP_S, 1.0)
        costs.append(1.0 / (share * busy_rows_per_s + (1.0 - share) * quiet_rows_per_s))
    return CostTrace(costs, STEP_S)


def _burn() -> None:
    """Burn processor time whenever the last thing said on standard input was to do so, until it closes."""
    os.write(1, _ON)
    busy = False
    while True:
        if select.select([0], [], [], 0.0 if busy else None)[0]:
            said = os.read(0, 64)
            if not said:
                return
            busy = said.endswith(_ON)
        elif busy:
            sum(range(_PIECE))


if __name__ == "__main__":
    _burn()
