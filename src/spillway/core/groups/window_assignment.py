"""Assigns rows to windows by time, by count, or by session.

    tumbling, sliding    [kδ, kδ + ω) for whole k, as in :mod:`spillway.core.windows`
    by count             the same with row numbers from 0 as times; a window is delivered when it is full
    session              rows that follow each other by less than the gap γ; the window ends γ after its last row

Sessions belong to the whole stream, not to one group: the groups within a session are its strata.

>>> from spillway.core.windows import sliding
>>> [(k, first, last) for k, _, _, first, last in cuts(np.array([0, 3, 4, 11]), sliding(6, 3))]
[(-1, 0, 1), (0, 0, 3), (1, 1, 3), (2, 3, 4), (3, 3, 4)]
>>> [(start, end, first, last) for _, start, end, first, last in cuts(np.array([0, 3, 4, 11]), session(5))]
[(0, 9, 0, 3), (11, 16, 3, 4)]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.windows import Window
from spillway.core.windows.lengths import MICROSECONDS, Unit, units_of
from spillway.errors import SpillwayError, invalid, unknown

Times = npt.NDArray[Any]
Cut = tuple[int, float, float, int, int]


@dataclass(frozen=True, slots=True)
class Session:
    """Windows of rows that follow each other by less than ``gap``, in whole units. Made by :func:`session`."""

    gap: int
    unit: Unit = 1

    @property
    def timed(self) -> bool:
        """Whether the gap is a duration, so that rows have timestamps."""
        return self.unit == MICROSECONDS


def session(gap: float | str, *, unit: float = 1) -> Session:
    """Return session windows with the given gap: a number, or a duration such as ``"5 minutes"``.

    >>> session("5 minutes")
    Session(gap=300000000, unit='us')
    """
    return Session(*units_of("gap", gap, unit))


def require_window(window: Any, *, counted: bool) -> Window | Session:
    """Return a window definition, or raise."""
    if not isinstance(window, Window | Session):
        allowed = "windows such as tumbling(5), sliding('1 hour', '5 minutes') or session('10 minutes')"
        hint = (
            "give one level: groups are sampled before the first aggregate"
            if hasattr(window, "levels")
            else None
        )
        raise invalid("window", window, allowed, hint=hint)
    if counted and (isinstance(window, Session) or window.timed or window.unit != 1):
        raise invalid("window", window, "a size in rows, as time is None", hint="name a time column")
    return window


def cuts(times: Times, window: Window | Session, *, full: bool = False) -> Iterator[Cut]:
    """Yield each window that has rows: its number, start, end, first row and the row after its last.

    Sessions don't overlap, so their number is always 0.

    ``times`` is sorted and in units of the window; ``full`` leaves out windows that reach beyond the
    first or the last row.
    """
    if not len(times):
        return
    if isinstance(window, Session):
        breaks = np.flatnonzero(np.diff(times) >= window.gap) + 1
        edges = [0, *breaks.tolist(), len(times)]
        for first, last in pairwise(edges):
            yield 0, times[first].item(), times[last - 1].item() + window.gap, first, last
        return
    size, slide = window.size, window.slide
    numbers = _numbers(times, size, slide)
    firsts = np.searchsorted(times, numbers * slide, side="left")
    lasts = np.searchsorted(times, numbers * slide + size, side="left")
    for k, first, last in zip(numbers.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        start = k * slide
        if last > first and not (full and (start < 0 or start + size > len(times))):
            yield k, start, start + size, first, last


def _numbers(times: Times, size: int, slide: int) -> npt.NDArray[np.int64]:
    """Return the numbers of all windows that can have rows; a gap in the data costs nothing."""
    newest = np.unique(np.floor_divide(times, slide).astype(np.int64))
    reach = -(-size // slide)
    found = np.unique(newest[:, None] - np.arange(reach)[None, :])
    return np.asarray(found, dtype=np.int64)


def times_of(table: pa.Table, name: str, window: Window | Session) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Return a time column in units of the window, and a mask of the rows that have a time."""
    if name not in table.column_names:
        raise unknown("time", name, table.column_names)
    kind = table.schema.field(name).type
    column = table[name]
    valid = np.asarray(column.is_valid().to_numpy(), dtype=np.bool_)
    if window.timed:
        if not pa.types.is_timestamp(kind):
            raise SpillwayError(
                f"time = {name!r} has type {kind}, and {window!r} is in durations: expected timestamps.",
                hint="cast the column to a timestamp, or give sizes as numbers",
            )
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return pc.fill_null(micros, 0).to_numpy(), valid
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        hint = "give sizes as durations such as '5 minutes'" if pa.types.is_timestamp(kind) else None
        raise SpillwayError(
            f"time = {name!r} has type {kind}, and {window!r} is in numbers: expected numbers.", hint=hint
        )
    numbers = pc.fill_null(column, 0).to_numpy()
    if pa.types.is_unsigned_integer(kind):
        if len(numbers) and int(numbers.max()) >= 2**63:
            raise SpillwayError(
                f"time = {name!r} holds {int(numbers.max())}: expected numbers below 2^63.",
                hint="subtract an origin, or cast the column to float64",
            )
        numbers = numbers.astype(np.int64)
    if pa.types.is_floating(kind) and not np.isfinite(numbers).all():
        raise SpillwayError(f"time = {name!r} holds a value that is not finite.", hint="filter such rows out")
    unit = window.unit
    assert not isinstance(unit, str)
    return (numbers if unit == 1 else _in_units(numbers, unit)), valid


def _in_units(numbers: Times, unit: float) -> Times:
    """Divide times by the unit; 0.3 in units of 0.1 is 3, not a little less."""
    units = numbers / unit
    near = np.round(units)
    return np.where(np.abs(units - near) <= 1e-9 * np.maximum(1.0, np.abs(units)), near, units)
