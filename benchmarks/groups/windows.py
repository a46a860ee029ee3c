"""The windows of a data set, each with its exact answer.

Windows are [k slide, k slide + size) for whole numbers k, as on Spark. Only those count that lie within the recording
from beginning to end, and that have at least 50 rows: of fewer, 98 % cannot be shed. A short run takes windows that
follow each other from the middle of each span, and all rows of each.

Groups are numbered over a span, so that a group has the same number in all of its windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Floats, Ints
from spillway.errors import SpillwayError
from spillway.replay.recorded import DataSet

LEAST_ROWS = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class Window:
    """The rows of one window. ``table`` has the columns of the data set, with groups as numbers."""

    start_s: float
    table: pa.Table = field(repr=False)

    @property
    def rows(self) -> int:
        """Rows that arrived."""
        return int(self.table.num_rows)

    @cached_property
    def groups(self) -> Ints:
        """The numbers of the window's groups, in order."""
        return np.unique(self._numbers)

    @cached_property
    def sizes(self) -> Ints:
        """Rows of each group."""
        return np.bincount(self.places(self._numbers), minlength=len(self.groups))

    @cached_property
    def truth(self) -> Floats:
        """The mean of each group's values."""
        return self.means(self.table)

    def places(self, numbers: Ints) -> Ints:
        """Return where groups stand among the window's groups."""
        return np.searchsorted(self.groups, numbers)

    def means(self, table: pa.Table, weight: Floats | None = None) -> Floats:
        """Return the mean of each group over some of the window's rows, NaN where a group has none of them."""
        at, values = self.places(table["group"].to_numpy()), table["value"].to_numpy()
        w = np.ones(len(at)) if weight is None else weight
        size = len(self.groups)
        with np.errstate(invalid="ignore"):
            return np.bincount(at, w * values, size) / np.bincount(at, w, size)

    def scattered(self, at: Ints, numbers: Floats, nothing: float = np.nan) -> Floats:
        """Return numbers of some of the groups as numbers of all."""
        found = np.full(len(self.groups), nothing)
        found[at] = numbers
        return found

    @cached_property
    def _numbers(self) -> Ints:
        return np.asarray(self.table["group"].to_numpy())


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many windows are taken: up to so many rows, and so many windows, in all.

    But a few of each span in any case, and enough that their groups make so many answers to compare.
    """

    rows: int = 2**62
    windows: int = 2**62
    least_windows: int = 5
    least_answers: int = 150

    def middle(self, rows: Ints, *, groups: int, spans: int) -> slice:
        """Return which windows of a span to take, from its middle, given the rows of each and the groups of all.

        >>> few = Limits(rows=1_500, windows=20, least_windows=4)
        >>> [few.middle(np.full(30, size), groups=100, spans=1) for size in (100, 10, 1_000)]
        [slice(7, 22, None), slice(5, 25, None), slice(13, 17, None)]
        >>> few.middle(np.full(30, 1_000), groups=6, spans=1)
        slice(2, 27, None)
        """
        fitting = min(self.rows // max(1, int(rows.mean())), self.windows) // spans
        count = min(len(rows), max(fitting, self.least_windows, self.least_answers // (groups * spans)))
        first = (len(rows) - count) // 2
        return slice(first, first + count)


@dataclass(frozen=True, eq=False, kw_only=True)
class Stream:
    """A data set cut into windows: one list of them for each span."""

    data: DataSet
    spans: tuple[tuple[Window, ...], ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.data.name

    @property
    def windows(self) -> list[Window]:
        """The windows of all spans."""
        return [window for span in self.spans for window in span]


def windows_of(data: DataSet, limits: Limits | None = None) -> Stream:
    """Cut a data set into windows, few enough for the limits; raises where there are none."""
    found = tuple(_span(table, data, limits or Limits()) for table in data.spans)
    spans = tuple(span for span in found if span)
    if not spans:
        raise SpillwayError(
            f"{data.name}: no whole window of {data.window_s:g} s with at least {LEAST_ROWS} rows."
        )
    return Stream(data=data, spans=spans)


def starts(first: int, last: int, size: int, slide: int) -> Ints:
    """Return where windows begin that lie between the first and the last time.

    >>> starts(first=7, last=41, size=20, slide=10).tolist()
    [10, 20]
    """
    return np.arange(-(-first // slide) * slide, last - size + 1, slide, dtype=np.int64)


def _span(table: pa.Table, data: DataSet, limits: Limits) -> tuple[Window, ...]:
    times = table["time"].cast(pa.int64()).to_numpy()
    if not times.size:
        return ()
    size, slide = round(1e6 * data.window_s), round(1e6 * data.slide_s)
    begins = starts(int(times[0]), int(times[-1]), size, slide)
    froms, tos = np.searchsorted(times, begins), np.searchsorted(times, begins + size)
    full = np.flatnonzero(tos - froms >= LEAST_ROWS)
    if not full.size:
        return ()
    groups = pc.count_distinct(table["group"]).as_py()
    full = full[limits.middle((tos - froms)[full], groups=groups, spans=len(data.spans))]
    used = table.slice(froms[full[0]], tos[full[-1]] - froms[full[0]])
    used = used.set_column(used.column_names.index("group"), "group", numbered(used["group"]))
    return tuple(
        Window(start_s=begins[k] / 1e6, table=used.slice(froms[k] - froms[full[0]], tos[k] - froms[k]))
        for k in full
    )


def numbered(groups: pa.ChunkedArray) -> pa.Array:
    """Return each row's group as a whole number, in the order in which groups appear."""
    encoded = pc.dictionary_encode(groups.combine_chunks(), null_encoding="encode")
    return encoded.indices.cast(pa.int64())
