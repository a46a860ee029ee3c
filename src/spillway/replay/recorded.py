"""Recorded streams with groups: the data folder's files as tables for experiments with windowed aggregates.

Every stream is a :class:`DataSet`: spans of rows with the columns

========= ===================================================================================================
``group`` what the query groups by; 0 in all rows where it has no groups
``value`` what it averages, a float
``time``  the row's time, a timestamp in microseconds; rows are in order of it
``row``   the row's number in its file: a key, since rows may be alike in everything else
========= ===================================================================================================

A file belongs to a data set if it has the columns that the data set is made from, whatever its name and folder.
Each file is a span of its own: two files are never joined, so there is no window over the gap between them. Rows
without a group, a time or a finite value are left out.

================== ============================================================== ============= ==================
name               query                                                          window, slide made from
================== ============================================================== ============= ==================
``google_class``   mean cpu_request of submitted tasks per scheduling class       60, 30 min    task events
``google_user``    the same per user                                              60, 30 min    task events
``flights``        mean of distance plus delay per route                          a week        flights
``flights_delay``  mean absolute delay per route                                  a week        flights
``taxi``           mean fare per pickup zone                                      24, 12 h      green taxi trips
``taxi_route``     mean fare per pickup and drop-off zone                         24, 12 h      green taxi trips
``packets``        mean frame size, without groups                                45, 15 s      packet arrivals
================== ============================================================== ============= ==================

Task events at time 0 are the trace's first snapshot, not submissions. A taxi trip happens when it ends, which is the
order of the recording. Frames whose size was not recorded are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spillway.errors import SpillwayError, unknown
from spillway.replay.loaders import data_dir

HOUR_S = 3_600
DAY_S = 24 * HOUR_S

Columns = tuple[Any, Any, Any]
"""Group, value and time of some rows, as arrays of pyarrow."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A stream and the windowed query over it; see the module's text for the columns of ``spans``."""

    name: str
    query: str
    window_s: float
    slide_s: float
    spans: tuple[pa.Table, ...] = field(repr=False)
    scalar: bool = False

    @property
    def rows(self) -> int:
        """Rows in all spans."""
        return sum(span.num_rows for span in self.spans)


@dataclass(frozen=True, kw_only=True)
class Source:
    """How a data set is made: the columns a file has to have, the rows that count, and what becomes of them."""

    query: str
    window_s: float
    slide_s: float
    columns: tuple[str, ...]
    select: Callable[[pa.Table], Columns]
    where: Any = None
    scalar: bool = False


def recorded(name: str, folder: Path | None = None) -> DataSet:
    """Return a data set by its name; raises where there is no file for it or where one cannot be used."""
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    source, root = SOURCES[name], data_dir() if folder is None else folder
    files = [] if root is None else [path for path in sorted(root.rglob("*.parquet")) if _fits(path, source)]
    if not files:
        where = "there is no data folder" if root is None else "no Parquet file in the data folder has them"
        raise SpillwayError(
            f"{name} is made from the columns {', '.join(source.columns)}: {where}.",
            hint="set SPILLWAY_DATA to the folder of recorded data",
        )
    return DataSet(
        name=name,
        query=source.query,
        window_s=source.window_s,
        slide_s=source.slide_s,
        scalar=source.scalar,
        spans=tuple(_span(path, source) for path in files),
    )


def in_order(group: Any, value: Any, time: Any, row: Any) -> pa.Table:
    """Return a span: rows without a group, a time or a finite value left out, the others in order of time."""
    table = pa.table({"group": group, "value": value, "time": time, "row": row})
    table = table.filter(pc.is_finite(table["value"])).drop_null()
    times = table["time"].cast(pa.int64()).to_numpy()
    if (np.diff(times) < 0).any():
        table = table.take(np.argsort(times, kind="stable"))
    return table.combine_chunks()


def _fits(path: Path, source: Source) -> bool:
    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowException):
        return False  # what is no Parquet file is nobody's data set
    return set(source.columns) <= set(names)


def _span(path: Path, source: Source) -> pa.Table:
    try:
        table = pq.read_table(path, columns=list(source.columns))
        table = table.append_column("row", pa.array(np.arange(table.num_rows)))
        if source.where is not None:
            table = table.filter(source.where)
        group, value, time = source.select(table)
        return in_order(group, pc.cast(value, pa.float64()), _micros(time), table["row"])
    except (OSError, pa.ArrowException) as error:
        raise SpillwayError(f"{path.name}: cannot be read: {error}.") from error


def _micros(time: Any) -> Any:
    """Return times as timestamps in microseconds; floats are seconds, whole numbers are microseconds."""
    if pa.types.is_timestamp(time.type):
        return pc.cast(time, pa.timestamp("us"), safe=False)
    if pa.types.is_floating(time.type):
        time = pc.cast(pc.round(pc.multiply(time, 1e6)), pa.int64())
    return pc.cast(pc.cast(time, pa.int64()), pa.timestamp("us"))


def _joined(table: pa.Table, first: str, second: str) -> Any:
    names = [pc.cast(table[name], pa.string()) for name in (first, second)]
    return pc.binary_join_element_wise(*names, "-")


def _of_tasks(group: str) -> Callable[[pa.Table], Columns]:
    def select(table: pa.Table) -> Columns:
        by = table[group]
        kind = by.type.value_type if pa.types.is_dictionary(by.type) else by.type
        return pc.cast(by, kind), table["cpu_request"], table["time_us"]

    return select


def _flights(value: Callable[[pa.Table], Any]) -> Callable[[pa.Table], Columns]:
    return lambda table: (_joined(table, "origin", "destination"), value(table), table["date"])


def _taxi(group: Callable[[pa.Table], Any]) -> Callable[[pa.Table], Columns]:
    return lambda table: (group(table), table["fare_amount"], table["lpep_dropoff_datetime"])


def _packets(table: pa.Table) -> Columns:
    return pa.array(np.zeros(table.num_rows, dtype=np.int64)), table["frame_bytes"], table["t"]


_TASKS = ("time_us", "event_type", "user", "scheduling_class", "cpu_request")
_FLIGHTS = ("date", "delay", "distance", "origin", "destination")
_SUBMITTED = (pc.field("event_type") == 0) & (pc.field("time_us") > 0)
_TAXI = ("lpep_dropoff_datetime", "pulocationid", "dolocationid", "fare_amount")

SOURCES: Mapping[str, Source] = {
    "google_class": Source(
        query="mean cpu_request of submitted tasks per scheduling class, 60 min sliding by 30",
        window_s=HOUR_S,
        slide_s=HOUR_S // 2,
        columns=_TASKS,
        where=_SUBMITTED,
        select=_of_tasks("scheduling_class"),
    ),
    "google_user": Source(
        query="mean cpu_request of submitted tasks per user, 60 min sliding by 30",
        window_s=HOUR_S,
        slide_s=HOUR_S // 2,
        columns=_TASKS,
        where=_SUBMITTED,
        select=_of_tasks("user"),
    ),
    "flights": Source(
        query="mean of distance plus delay per route, weekly",
        window_s=7 * DAY_S,
        slide_s=7 * DAY_S,
        columns=_FLIGHTS,
        select=_flights(lambda table: pc.add(table["distance"], table["delay"])),
    ),
    "flights_delay": Source(
        query="mean absolute delay per route, weekly",
        window_s=7 * DAY_S,
        slide_s=7 * DAY_S,
        columns=_FLIGHTS,
        select=_flights(lambda table: pc.abs(table["delay"])),
    ),
    "taxi": Source(
        query="mean fare per pickup zone, 24 h sliding by 12",
        window_s=DAY_S,
        slide_s=DAY_S // 2,
        columns=_TAXI,
        select=_taxi(lambda table: table["pulocationid"]),
    ),
    "taxi_route": Source(
        query="mean fare per pickup and drop-off zone, 24 h sliding by 12",
        window_s=DAY_S,
        slide_s=DAY_S // 2,
        columns=_TAXI,
        select=_taxi(lambda table: _joined(table, "pulocationid", "dolocationid")),
    ),
    "packets": Source(
        query="mean frame size, 45 s sliding by 15",
        window_s=45,
        slide_s=15,
        columns=("t", "frame_bytes"),
        select=_packets,
        scalar=True,
    ),
}
"""The data sets by name; see the module's table."""
