"""Tracks which windows are open, which of them a row falls into, and which are due at a watermark.

A watermark τ promises that all rows up to τ have arrived: windows that end at or before it are closed, once, in the
order of their ends. A row that is too late for some of its windows is *partly late* and is added to the
others; a row that is too late for all is *late*. The caller counts both.

A session is open until its end, the last row's time plus the gap. A row that touches an open session extends it,
however old the row is, and a row that touches two sessions merges them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spillway.core.groups.paper.reservoir import Reservoir, ReservoirConfig
from spillway.core.groups.window_assignment import Session
from spillway.core.windows import Window

Row = tuple[float, Hashable, float, int]  # time, group, value, key


@dataclass(slots=True)
class Opened:
    """An open window: its bounds, its concept so far, and with multiple buffers its rows.

    Rows before ``done`` are in no later window: in a session these are all rows, else those before the next start.
    """

    number: int
    start: float
    end: float
    done: float
    sample: Reservoir | None
    frequencies: dict[Hashable, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def holds(self, time: float) -> bool:
        """Return whether a row of this time is in the window."""
        return self.start <= time < self.end

    def count(self, row: Row) -> None:
        """Add a row to the concept: to its group's frequency, and to the sample if one is kept."""
        group, frequencies = row[1], self.frequencies
        frequencies[group] = frequencies.get(group, 0) + 1
        if self.sample is not None:
            self.sample.add(row[3], (group, row[2]))

    def joined(self, other: Opened) -> Opened:
        """Return the merge of two sessions."""
        frequencies = dict(self.frequencies)
        for group, count in other.frequencies.items():
            frequencies[group] = frequencies.get(group, 0) + count
        return Opened(
            self.number,
            min(self.start, other.start),
            max(self.end, other.end),
            max(self.done, other.done),
            None if self.sample is None or other.sample is None else self.sample.merged(other.sample),
            frequencies,
            [*self.rows, *other.rows],
        )


class OpenWindows:
    """The open windows of a stream: windows by time, or sessions."""

    def __init__(
        self, window: Window | Session, sample: ReservoirConfig | None, *, counted: bool = False
    ) -> None:
        self.window = window
        self.watermark = -math.inf
        self._sample = sample
        self._counted = counted
        self._open: dict[float, Opened] = {}  # by number, sessions by start

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Opened]:
        return iter(sorted(self._open.values(), key=lambda window: (window.end, window.start)))

    def of(self, time: float) -> tuple[list[Opened], int]:
        """Return the windows that a row falls into, opened if necessary, and how many it is too late for."""
        if isinstance(self.window, Session):
            return self._session(time, self.window.gap)
        size, slide = self.window.size, self.window.slide
        newest = math.floor(time / slide)
        oldest = math.floor((time - size) / slide) + 1
        numbers = range(max(oldest, 0) if self._counted else oldest, newest + 1)
        found = [
            self._window(k, k * slide, k * slide + size) for k in numbers if k * slide + size > self.watermark
        ]
        return found, len(numbers) - len(found)

    def due(self, watermark: float) -> list[Opened]:
        """Close the windows that end at or before a watermark, and return them in the order of their ends."""
        self.watermark = max(self.watermark, watermark)
        due = [window for window in self if window.end <= self.watermark]
        self._open = {at: window for at, window in self._open.items() if window.end > self.watermark}
        return due

    def add(self, window: Opened) -> None:
        """Put back a window that was open when a snapshot was made."""
        self._open[window.start if isinstance(self.window, Session) else window.number] = window

    def new(self, number: int, start: float, end: float, sample: Any = None) -> Opened:
        """Return a window without rows, or with the sample of a snapshot."""
        done = end if isinstance(self.window, Session) else start + self.window.slide
        return Opened(number, start, end, done, None if self._sample is None else self._sample.build(sample))

    def _window(self, k: int, start: float, end: float) -> Opened:
        if k not in self._open:
            self._open[k] = self.new(k, start, end)
        return self._open[k]

    def _session(self, time: float, gap: int) -> tuple[list[Opened], int]:
        touched = [at for at, window in self._open.items() if time < window.end and window.start < time + gap]
        if not touched and time + gap <= self.watermark:
            return [], 1
        session = self.new(0, time, time + gap)
        for at in touched:
            session = self._open.pop(at).joined(session)
        self._open[session.start] = session
        return [session], 0
