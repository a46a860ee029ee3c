"""Stores the rows of a window operator in one buffer for all windows, or one each (Section VI-A, Figures 3 and 4).

    single      a row is stored once. At a watermark the buffer is scanned for each window that is due: its rows are
                collected, and rows that no later window holds are evicted
    multiple    a row is stored in the buffer of each of its windows. At a watermark the buffer is complete

Both return the same rows of a window, one by one: the shedder reads each row as it is scanned, and needs no
second pass. ``Work`` counts the work of each design.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from spillway.core.groups.paper.open_windows import Opened, Row

Buffering = Literal["single", "multiple"]


@dataclass(slots=True)
class Work:
    """The work done so far, in rows.

    ``stored`` counts copies, ``held`` those that are held now and ``peak`` their maximum; ``scanned`` rows read
    for windows that were due, ``tallied`` rows added to a concept on arrival, ``passed`` rows read a second time
    where that was not done. ``late`` rows missed all their windows, ``partly_late`` rows some of them.
    """

    arrived: int = 0
    stored: int = 0
    held: int = 0
    peak: int = 0
    evicted: int = 0
    scanned: int = 0
    tallied: int = 0
    passed: int = 0
    late: int = 0
    partly_late: int = 0
    windows: int = 0
    kept: int = 0


class Buffers(Protocol):
    """The interface of buffers for the rows of open windows."""

    def store(self, row: Row, windows: list[Opened]) -> None:
        """Store a row for the windows that it is in."""

    def rows(self, window: Opened) -> Iterator[Row]:
        """Yield the rows of a window that is due, and evict them."""


class SingleBuffer:
    """One buffer in the order of arrival (Storm, Heron)."""

    def __init__(self, work: Work, rows: list[Row] | None = None) -> None:
        self.work = work
        self.buffer: list[Row] = list(rows or ())

    def store(self, row: Row, windows: list[Opened]) -> None:
        """Append the row."""
        if windows:
            self.buffer.append(row)
            _stored(self.work, 1)

    def rows(self, window: Opened) -> Iterator[Row]:
        """Scan the buffer, yield the window's rows, and evict rows that no later window holds."""
        before, self.buffer = self.buffer, []
        self.work.scanned += len(before)
        for row in before:
            if row[0] >= window.done:
                self.buffer.append(row)
            if window.holds(row[0]):
                yield row
        _evicted(self.work, len(before) - len(self.buffer))


class MultipleBuffers:
    """One buffer per window (Flink)."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def store(self, row: Row, windows: list[Opened]) -> None:
        """Append a copy of the row to each window's buffer."""
        for window in windows:
            window.rows.append(row)
        _stored(self.work, len(windows))

    def rows(self, window: Opened) -> Iterator[Row]:
        """Yield the rows of the window's own buffer."""
        self.work.scanned += len(window.rows)
        yield from window.rows
        _evicted(self.work, len(window.rows))


def _stored(work: Work, copies: int) -> None:
    work.stored += copies
    work.held += copies
    work.peak = max(work.peak, work.held)


def _evicted(work: Work, copies: int) -> None:
    work.evicted += copies
    work.held -= copies
