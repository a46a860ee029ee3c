"""How fast the machine is for this program, from moment to moment.

A capacity that was measured a minute ago says little about now if something else has begun to run. Two things change
what is left for a query, and both are read once a second beside it:

- *what others use*: core-seconds that processes other than this one and its descendants (Spark is one) have used, and
  what a hypervisor took, by the system's own books (``/proc``; elsewhere this part is not known and left out);
- *what a core does in a second of its time*: the processor time that a fixed piece of work takes, which grows when
  the clock rate falls or when cores share their parts.

    speed = (cores - cores that others use) / processor seconds of the piece

Only the ratio of two speeds means something, and only of phases in which Spark keeps the machine busy: the piece
shares its core's parts with Spark in both, then. The piece's time by the clock would not do: at saturation it mostly
waits for Spark's own tasks to make room.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

PERIOD_S = 1.0
"""Reading the books of some hundred processes and the piece of work take about 10 ms of a core."""

_PIECE = bytes(4 << 20)  # hashed in 2 to 10 ms
_STARTED, _REAPED = (
    (11, 12),
    (13, 14),
)  # user and system time of a process, and of its children that have ended
_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, interrupts of both kinds, stolen; idle and guests left out


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of the books at a moment.

    ============= ==================================================================================
    ``at_s``      seconds since 1970
    ``piece_s``   processor time of the fixed piece of work
    ``others_s``  core-seconds that others have used so far; None where the system does not say
    ============= ==================================================================================
    """

    at_s: float
    piece_s: float
    others_s: float | None


class SpeedLog:
    """Takes a reading every second on a thread of its own; a context manager."""

    def __init__(self) -> None:
        self._readings: list[Reading] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="machine-speed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def speed(self, from_s: float, until_s: float) -> float | None:
        """Return the speed between two moments, None where there are too few readings to say."""
        return speed(tuple(self._readings), from_s, until_s, os.cpu_count() or 1)

    def _read_on(self) -> None:
        while not self._over.is_set():
            self._readings.append(Reading(time.time(), _time_piece(), _others_s()))
            self._over.wait(PERIOD_S)


def speed(readings: Sequence[Reading], from_s: float, until_s: float, cores: int) -> float | None:
    """Return the speed over the readings between two moments, None where there are not two of them.

    >>> quiet = [Reading(float(second), 0.01, 0.0) for second in range(4)]
    >>> shared = [Reading(float(second), 0.01, 0.5 * second) for second in range(4)]
    >>> speed(shared, 0.0, 3.0, cores=2) / speed(quiet, 0.0, 3.0, cores=2)
    0.75
    """
    inside = [reading for reading in readings if from_s <= reading.at_s <= until_s]
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    others = 0.0
    if first.others_s is not None and last.others_s is not None:
        others = max(last.others_s - first.others_s, 0.0) / (last.at_s - first.at_s)
    left = max(cores - others, 0.01 * cores)
    return left / median(reading.piece_s for reading in inside)


def _time_piece() -> float:
    began_s = time.thread_time()
    hashlib.sha256(_PIECE).digest()
    return time.thread_time() - began_s


def _others_s() -> float | None:
    """Return the core-seconds that others have used since the machine started."""
    try:
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        whole = Path("/proc/stat").read_text(encoding="ascii").split("\n", maxsplit=1)[0].split()[1:]
    except (OSError, ValueError):
        return None
    ours = _ticks_of_family(os.getpid())
    return (sum(int(whole[place]) for place in _BUSY if place < len(whole)) - ours) * tick_s


def _ticks_of_family(root: int) -> int:
    """Return the processor time of a process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended since
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(int(fields[place]) for place in (*_STARTED, *_REAPED))
    family = {root}
    grown = True
    while grown:
        below = {pid for pid, parent in parents.items() if parent in family} - family
        family |= below
        grown = bool(below)
    return sum(ticks.get(pid, 0) for pid in family)
