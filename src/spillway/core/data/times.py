"""Times of a table's rows in whole microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Bools, Ints
from spillway.core.data.tables import array_of, filled, is_present
from spillway.errors import SpillwayError

MICROSECONDS = 1_000_000


def rows_in_time(table: pa.Table, name: str) -> Ints:
    """Return the numbers of the rows that have a time, ordered by that time."""
    times, timed = times_of(table, name)
    rows = np.flatnonzero(timed)
    return rows[np.argsort(times[rows], kind="stable")]


def times_of(table: pa.Table, name: str) -> tuple[Ints, Bools]:
    """Return times in whole microseconds, and for each row whether it has one. Numbers are seconds.

    Nanoseconds are rounded down, as Spark does; fractions of a second are rounded to the nearest.
    """
    column = array_of(table, "time", name)
    kind = column.type
    valid = is_present(column)
    if pa.types.is_timestamp(kind):
        raw = filled(column.cast(pa.int64()), 0)
        if kind.unit == "ns":
            return raw // 1000, valid
        return _scaled(raw, {"s": MICROSECONDS, "ms": 1000, "us": 1}[kind.unit], name), valid
    if pa.types.is_integer(kind):
        return _scaled(filled(column, 0), MICROSECONDS, name), valid
    if not pa.types.is_floating(kind):
        raise SpillwayError(
            f"time = {name!r} has type {kind}: expected a timestamp or a number of seconds.",
            hint="cast the column to a timestamp",
        )
    seconds = filled(column.cast(pa.float64()), 0.0)
    if not np.isfinite(seconds).all() or np.abs(seconds).max(initial=0.0) > 2**62 / MICROSECONDS:
        raise SpillwayError(
            f"time = {name!r} holds a value that is not finite or too large.", hint="filter such rows out"
        )
    return np.rint(seconds * MICROSECONDS).astype(np.int64), valid


def _scaled(raw: Any, factor: int, name: str) -> Ints:
    most = 2**62 // factor
    if raw.max(initial=0) > most or raw.min(initial=0) < -most:
        raise SpillwayError(
            f"time = {name!r} holds a value too large for whole microseconds.", hint="numbers are seconds"
        )
    return np.asarray(raw, dtype=np.int64) * factor
