"""The ``replay`` streaming source: plays a trace of arrivals at wall-clock pace, exactly and repeatably.

:func:`stream` is all that most programs need. Without it the source is one like any other, whose options are
texts: ``spark.dataSource.register(ReplaySource)``, then ``spark.readStream.format("replay")``. How it works
is told in :mod:`spillway.replay.reader`.
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spillway.errors import SpillwayError, invalid
from spillway.replay.options import ReplayOptions
from spillway.replay.reader import ReplayReader, columns_of
from spillway.replay.rows import Generator
from spillway.replay.traces import Rates, Times

LISTED_TIMES: Final = 100_000
"""Arrival times that :func:`stream` passes on in the text of an option; more belong into a file."""


def stream(
    spark: SparkSession,
    trace: Rates | Times | str | os.PathLike[str],
    *,
    times_column: str | None = None,
    rows: str | os.PathLike[str] | None = None,
    generator: str | Generator | None = None,
    speed: float = 1.0,
    arrival: str = "timestamp",
    row_number: str | None = None,
    max_rows_per_batch: int | None = None,
    partitions: int = 2,
    start: str | datetime = "now",
) -> DataFrame:
    """Return a streaming DataFrame that plays a trace; on Spark and on Spark Connect.

    The options are those of :class:`~spillway.replay.options.ReplayOptions`. Whatever is wrong with them is
    raised here, as a :class:`~spillway.errors.SpillwayError`. On Spark Connect paths are looked up by the
    server, which must have Spillway installed.

    :param trace: when rows arrive: rates, arrival times, or a Parquet file with arrival times
    :param generator: the name of a row generator, or a function at the top level of an importable module
    :param start: ``"now"``, an ISO 8601 time or a datetime, with its offset from UTC
    """
    rates = times = None
    if isinstance(trace, Rates):
        rates = trace.to_json()
    elif isinstance(trace, Times):
        if trace.total > LISTED_TIMES:
            raise invalid(
                "trace",
                f"Times of {trace.total} rows",
                f"at most {LISTED_TIMES} rows in memory",
                hint="write the times to a Parquet file and give its path",
            )
        times = json.dumps(trace.arrivals_s.tolist())
    elif isinstance(trace, str | os.PathLike):
        times = _absolute(trace)
    else:
        raise invalid("trace", trace, "Rates, Times or the path of a Parquet file with arrival times")
    options = ReplayOptions(
        rates=rates,
        times=times,
        times_column=times_column,
        rows=None if rows is None else _absolute(rows),
        generator=_importable(generator) if callable(generator) else generator,
        speed=speed,
        arrival=arrival,
        row_number=row_number,
        max_rows_per_batch=max_rows_per_batch,
        partitions=partitions,
        start=start.isoformat() if isinstance(start, datetime) else start,
    )
    spark.dataSource.register(ReplaySource)
    try:
        frame = spark.readStream.format(ReplaySource.name()).options(**options.text()).load()
        _ = frame.schema  # on Connect, this is when the server looks at the options
    except PySparkException as error:
        raise _plainly(error) from None
    return frame


class ReplaySource(DataSource):
    """The data source to register under the name ``replay``; :func:`stream` does so."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "replay"

    def schema(self) -> StructType:
        """Check every option, open trace and rows, and return the columns."""
        options = ReplayOptions.parse(self.options)
        if options.trace().total == 0:
            raise SpillwayError("the trace has no rows: expected at least one.")
        return from_arrow_schema(columns_of(options))

    def streamReader(self, schema: StructType) -> ReplayReader:  # noqa: N802
        """Return the reader."""
        return ReplayReader(ReplayOptions.parse(self.options), schema)


def _plainly(error: PySparkException) -> Exception:
    """Return what a Python process of Spark's ran into, where the caller can put it right."""
    text = str(error)
    if told := re.findall(r"^spillway\.errors\.\w+: (.+)$", text, flags=re.MULTILINE):
        message, _, hint = told[-1].partition(" Hint: ")
        return SpillwayError(message, hint=hint or None)
    if missing := re.findall(r"^ModuleNotFoundError: (.+)$", text, flags=re.MULTILINE):
        return SpillwayError(
            f"the Python processes that Spark starts lack a module: {missing[-1]}.",
            hint="let PYSPARK_PYTHON or spark.pyspark.python name a Python in which it is installed",
        )
    return error


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _importable(function: Generator) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<locals>")
    if not module or module == "__main__" or "<" in name:
        raise invalid(
            "generator",
            function,
            "a function at the top level of a module that Spark's Python processes can import",
        )
    return f"{module}:{name}"
