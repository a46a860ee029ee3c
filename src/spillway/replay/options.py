"""The options of the ``replay`` source: what they are, how they are written as text, what is wrong with them.

Spark hands options to a data source as text. :class:`ReplayOptions` is their checked form: small and frozen,
so that it can be pickled into every task, and able to open the trace and the rows, once in each process.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from spillway.errors import SpillwayError, invalid, unknown
from spillway.replay.files import ParquetFile, arrival_times, parquet_files
from spillway.replay.rows import RowSource, open_rows
from spillway.replay.traces import Rates, Times

Trace = Rates | Times


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What is played, and how.

    ======================= ==================================================================================
    option                  meaning
    ======================= ==================================================================================
    ``rates``               the trace as the JSON form of :class:`~spillway.replay.Rates`; or:
    ``times``               the trace as a Parquet file (or a directory) of arrival times, or as a JSON list;
                            in seconds from the start, or timestamps, which count from the first of them
    ``times_column``        the column with the arrival times; not needed where there is only one
    ``rows``                the rows: a Parquet file or a directory, played in order and in a loop; or:
    ``generator``           a built-in generator or ``package.module:function``; default ``web_requests``
    ``speed``               how much faster than the trace to play: row i arrives at epoch + t_i / speed
    ``arrival``             the name of the timestamp column that is added: when the row arrived
    ``row_number``          the name of a bigint column to add: the row's number from 0; default none
    ``max_rows_per_batch``  rows that one micro-batch takes at most; default no limit
    ``partitions``          tasks over which a micro-batch is spread, each with a contiguous range of rows
    ``start``               the epoch: ``now`` (when a new query first asks for rows), or an ISO 8601 time
                            with its offset from UTC; a query with a checkpoint goes on with its own epoch
    ======================= ==================================================================================

    >>> options = ReplayOptions.parse({"times": "[0, 0.5, 2]", "speed": "10"})
    >>> options.speed, options.trace().total
    (10.0, 3)
    >>> ReplayOptions.parse({"times": "[0]", "spede": "10"})
    Traceback (most recent call last):
    spillway.errors.SpillwayError: option = 'spede' is not allowed: ... Hint: did you mean 'speed'?
    """

    rates: str | None = None
    times: str | None = None
    times_column: str | None = None
    rows: str | None = None
    generator: str | None = None
    speed: float = 1.0
    arrival: str = "timestamp"
    row_number: str | None = None
    max_rows_per_batch: int | None = None
    partitions: int = 2
    start: str = "now"

    def __post_init__(self) -> None:
        if (self.rates is None) == (self.times is None):
            raise SpillwayError(
                "rates and times: expected one of them, found "
                + ("none." if self.rates is None else "both."),
                hint="rates is a text of JSON, times the path of a Parquet file with arrival times",
            )
        if self.times_column is not None and self.times is None:
            raise invalid("times_column", self.times_column, "nothing where the trace is given as rates")
        if self.rows is not None and self.generator is not None:
            raise SpillwayError("rows and generator: expected one of them, found both.")
        if not (_is(numbers.Real, self.speed) and math.isfinite(self.speed) and self.speed > 0):
            raise invalid("speed", self.speed, "a finite number > 0")
        for name, least in (("max_rows_per_batch", 1), ("partitions", 1)):
            value = getattr(self, name)
            if value is not None and not (_is(numbers.Integral, value) and value >= least):
                raise invalid(name, value, f"a whole number >= {least}")
        for name in ("arrival", "row_number"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise invalid(name, value, "the name of a column")
        if self.row_number is not None and self.row_number.lower() == self.arrival.lower():
            raise invalid("row_number", self.row_number, "another name than that of the arrival column")
        _ = self.start_us

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Read the options as Spark hands them over."""
        known = {field.name for field in fields(cls)}
        for name in options:
            if name not in known:
                raise unknown("option", name, known)
        found: dict[str, Any] = dict(options)
        for name, convert in _NUMBERS.items():
            if name in found:
                try:
                    found[name] = convert(found[name])
                except ValueError:
                    raise invalid(name, found[name], _A_NUMBER[convert]) from None
        return cls(**found)

    def text(self) -> dict[str, str]:
        """Return the options as text, without those that are not set: the inverse of :meth:`parse`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) for name, value in values.items() if value is not None}

    @property
    def start_us(self) -> int | None:
        """The epoch in microseconds since 1970, None for ``now``."""
        if self.start == "now":
            return None
        allowed = "'now' or an ISO 8601 time such as '2026-05-01T12:00:00+00:00'"
        try:
            at = datetime.fromisoformat(self.start)
        except (TypeError, ValueError):
            raise invalid("start", self.start, allowed) from None
        if at.tzinfo is None:
            raise invalid("start", self.start, allowed, hint="add the offset from UTC, such as +00:00")
        return round(at.timestamp() * 1e6)

    def trace(self) -> Trace:
        """Return the trace; read once in each process."""
        if self.rates is not None:
            return _rates(self.rates)
        assert self.times is not None
        if self.times.lstrip().startswith("["):
            return _listed(self.times)
        return _recorded(self.times, parquet_files(self.times, "times"), self.times_column)

    def row_source(self) -> RowSource:
        """Return the source of the rows; opened once in each process."""
        source = open_rows(self.rows, self.generator)
        taken = {name.lower(): name for name in source.schema.names}
        for option in ("arrival", "row_number"):
            name = getattr(self, option)
            if name is not None and name.lower() in taken:
                raise invalid(
                    option,
                    name,
                    "a name that no column of the rows has",
                    hint=f"choose another, with the option {option!r}",
                )
        return source


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_NUMBERS: dict[str, Callable[[str], float]] = {"speed": float, "max_rows_per_batch": int, "partitions": int}
_A_NUMBER: dict[Callable[[str], float], str] = {float: "a number", int: "a whole number"}


@lru_cache(maxsize=8)
def _rates(text: str) -> Rates:
    return Rates.from_json(text)


@lru_cache(maxsize=8)
def _listed(text: str) -> Times:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SpillwayError(f"times: not a JSON list of seconds: {error}.") from error
    return Times(found)


@lru_cache(maxsize=4)
def _recorded(path: str, files: tuple[ParquetFile, ...], column: str | None) -> Times:
    return Times(arrival_times(path, files, column))
