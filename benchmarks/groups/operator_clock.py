"""The window operator on the clock: rows and watermarks in, windows and how long each took out.

An operator of :mod:`spillway.core.groups` takes a stream in row by row. When a row comes that lies beyond the end of
the oldest open window, a watermark is given, and the clock runs from there until the window's answer is there: find
the window's rows, shed, and average what is left, group by group and row by row. That is the paper's latency of a
window (Section VII-C2). What is done when a row arrives is timed apart.

A pass over a stream in Python takes its time, so a pass is over the first rows only, and where these are too few for
some windows, size and slide become shorter, both by the same factor.

Several *workers* get every n-th row each. They run one after the other here, and a window has taken as long as its
slowest worker: what machines of their own would add, moving rows and joining answers, is left out.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spillway.core.groups import Buffering, OperatorConfig, draws
from spillway.core.groups.paper.window_operator import Shedder
from spillway.core.groups.paper.window_shedders import Kept
from spillway.core.windows import sliding
from spillway.replay.recorded import DataSet

SHEDDERS: tuple[Shedder, ...] = ("none", "uniform", "concept")
NAMES = {"none": "normal", "uniform": "uniform", "concept": "cod"}
BUFFERS: tuple[Buffering, ...] = ("single", "multiple")

Row = tuple[int, int, float, int]


@dataclass(frozen=True, kw_only=True)
class Played:
    """One pass over a stream: seconds of each whole window, of all arrivals and watermarks, and what was counted."""

    windows_s: tuple[float, ...]
    arrive_s: float
    watermark_s: float
    rows: int
    scanned: int
    processed: int

    @property
    def operator_s(self) -> float:
        """Seconds per row that the operator took in all, without the query."""
        return (self.arrive_s + self.watermark_s) / self.rows


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Rows as the operator takes them: time in microseconds, group, value, key."""

    rows: Sequence[Row]
    size: int
    slide: int
    by_group: bool


def feed(data: DataSet, *, rows: int, windows: int) -> Feed:
    """Return the first rows of a data set; windows that so many rows are not enough for become shorter."""
    table = data.spans[0].slice(0, rows)
    times = table["time"].cast(pa.int64()).to_pylist()
    slide, overlap = round(1e6 * data.slide_s), round(data.window_s / data.slide_s)
    slide = max(1, min(slide, (times[-1] - times[0]) // (windows + overlap)))
    columns = (
        times,
        table["group"].to_pylist(),
        table["value"].to_pylist(),
        draws(table, "row", salt=0).tolist(),
    )
    return Feed(
        rows=list(zip(*columns, strict=True)),
        size=overlap * slide,
        slide=slide,
        by_group=not data.scalar,
    )


def configured(
    given: Feed, shedder: Shedder, buffering: Buffering, keep_ratio: float, *, pilot: bool = False
) -> OperatorConfig:
    """Return the operator for a stream; as in all comparisons it knows only rows that it has processed.

    A ``pilot`` is a reservoir of rows for each open window, of which the value is read before they are shed.
    """
    return OperatorConfig(
        window=sliding(given.size, given.slide),
        keep_ratio=keep_ratio,
        shedder=shedder,
        buffering=buffering,
        by_group=given.by_group,
        pilot=pilot,
    )


def play(given: Feed, config: OperatorConfig) -> Played:
    """Take a stream in once."""
    operator = config.build()
    first = given.rows[0][0]
    due = (first // given.slide + 1) * given.slide
    windows_s: list[float] = []
    watermark_s = 0.0
    with _undisturbed():
        began = time.perf_counter()
        for at, group, value, key in given.rows:
            while at >= due:
                start = time.perf_counter()
                fired = operator.watermark(due)
                shed = time.perf_counter()
                for window in fired:
                    means(window.kept)
                answered = time.perf_counter()
                watermark_s += shed - start
                began += answered - start
                if any(window.start >= first for window in fired):
                    windows_s.append(answered - start)
                due += given.slide
            operator.arrive(at, group=group, value=value, key=key)
        arrive_s = time.perf_counter() - began
    return Played(
        windows_s=tuple(windows_s),
        arrive_s=arrive_s,
        watermark_s=watermark_s,
        rows=len(given.rows),
        scanned=operator.work.scanned,
        processed=operator.work.kept,
    )


def means(kept: Iterable[Kept]) -> dict[object, float]:
    """Return the mean of each group, row by row: the query, as an engine without columns runs it.

    >>> means([Kept(0, "a", 4.0, 1, 3.0), Kept(1, "a", 8.0, 2, 1.0), Kept(2, "b", 1.0, 3, 1.0)])
    {'a': 5.0, 'b': 1.0}
    """
    sums: dict[object, list[float]] = {}
    for row in kept:
        found = sums.get(row.group)
        if found is None:
            sums[row.group] = [row.weight, row.weight * row.value]
        else:
            found[0] += row.weight
            found[1] += row.weight * row.value
    return {group: total / weight for group, (weight, total) in sums.items()}


def by_workers(given: Feed, config: OperatorConfig, workers: int) -> Played:
    """Take a stream in with several workers, each with its share of the rows."""
    parts = [play(replace(given, rows=given.rows[n::workers]), config) for n in range(workers)]
    return Played(
        windows_s=tuple(map(max, zip(*(part.windows_s for part in parts), strict=False))),
        arrive_s=max(part.arrive_s for part in parts),
        watermark_s=max(part.watermark_s for part in parts),
        rows=len(given.rows),
        scanned=sum(part.scanned for part in parts),
        processed=sum(part.processed for part in parts),
    )


def middle(passes: Sequence[Played]) -> Played:
    """Return the medians of several passes over the same stream, window by window."""
    return replace(
        passes[0],
        windows_s=tuple(np.median([each.windows_s for each in passes], axis=0).tolist()),
        arrive_s=float(np.median([each.arrive_s for each in passes])),
        watermark_s=float(np.median([each.watermark_s for each in passes])),
    )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep the garbage collector out of what is timed."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
