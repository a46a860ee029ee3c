"""Recorded arrivals: where they are, how a file is read, and how it is cut into spans for experiments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import SpillwayError, invalid
from spillway.replay.traces import Times

DATA_VARIABLE = "SPILLWAY_DATA"
"""The environment variable that names the folder of recorded data."""


def data_dir(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of recorded data, or None where there is none.

    That is where ``SPILLWAY_DATA`` points, and otherwise ``../shared/data`` beside the project. A variable that
    points nowhere is an error: whoever set it meant something.
    """
    if named := environ.get(DATA_VARIABLE):
        if not Path(named).is_dir():
            raise invalid(DATA_VARIABLE, named, "a folder that exists", hint="unset it to go without data")
        return Path(named)
    beside = Path(__file__).resolve().parents[3].parent / "shared" / "data"
    return beside if beside.is_dir() else None


def arrival_files(folder: Path | None = None) -> list[Path]:
    """Return every Parquet file of recorded arrivals, in order of name; none where there is no data."""
    root = data_dir() if folder is None else folder
    return [] if root is None else sorted((root / "arrivals").glob("*.parquet"))


def load(path: Path | str) -> Times:
    """Read one file of arrivals: its column ``t``, or else its first column of floats, in seconds.

    The first arrival becomes second 0 and the times are sorted. A file that holds no such column, a time that
    is missing or no number, or fewer than two different times raises a :class:`SpillwayError` that says so.
    """
    name = Path(path).name
    try:
        schema = pq.read_schema(path)
        column = next((f.name for f in schema if f.name == "t" and _is_number(f.type)), None) or next(
            (f.name for f in schema if pa.types.is_floating(f.type)), None
        )
        if column is None:
            raise SpillwayError(
                f"{name}: no column of arrival times among {schema.names}.",
                hint="a column 't' of floats, in seconds",
            )
        found = pq.read_table(path, columns=[column]).column(0)
    except (OSError, pa.ArrowException) as error:
        raise SpillwayError(f"{name}: not a readable Parquet file: {error}.") from error
    if found.null_count:
        raise SpillwayError(f"{name}: {found.null_count} arrival times in {column!r} are missing.")
    times = np.sort(found.to_numpy().astype(np.float64))
    if not np.isfinite(times).all():
        raise SpillwayError(f"{name}: an arrival time in {column!r} is no finite number.")
    if times.size < 2 or times[0] == times[-1]:
        raise SpillwayError(f"{name}: {times.size} arrivals at fewer than two times are no trace.")
    return Times(times - times[0])


def spans(
    trace: Times, *, count: int, length_s: float, rates: tuple[float, ...], least_s: float = 60.0
) -> list[Times]:
    """Cut a recording into up to ``count`` spans of ``length_s``, each played at a mean rate of its own.

    The starts lie evenly over the recording. Each span takes the next of ``rates`` (rows a second) and as many
    rows as that rate makes of its length, and its clock is scaled to fit: bursts keep their shape relative to
    the mean, which is what a shedder sees. A recording with fewer rows than one span needs is taken whole, as
    one shorter span, if it fills ``least_s``, and refused if not; spans that would overlap by more than half are
    left out.
    """
    if count < 1 or not length_s > 0.0 or not rates or min(rates) <= 0.0:
        raise invalid("spans", (count, length_s, rates), "count >= 1, length_s above 0, rates above 0")
    if trace.total < least_s * max(rates):
        raise SpillwayError(
            f"A recording of {trace.total:,} arrivals is too short: at {max(rates):g} rows a second it should "
            f"last for at least {least_s:g} s."
        )
    found: list[Times] = []
    needs = [min(round(rate * length_s), trace.total) for rate in rates]
    fitting = max(1, int(2 * trace.total / max(needs)) - 1)
    chosen = min(count, fitting)
    for number in range(chosen):
        rows = needs[number % len(rates)]
        first = 0 if chosen == 1 else round(number * (trace.total - rows) / (chosen - 1))
        times = trace.times(first, first + rows)
        start = times[0]
        stop = trace.arrivals_s[first + rows] if first + rows < trace.total else times[-1]
        if stop <= start:
            continue
        found.append(Times(times - start, float(stop - start)).scaled(rate=rates[number % len(rates)]))
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
