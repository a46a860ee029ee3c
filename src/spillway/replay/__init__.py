"""Traces of arrivals, and the Spark source that plays them at wall-clock pace."""

from spillway.replay.options import ReplayOptions
from spillway.replay.reader import ReplayReader
from spillway.replay.rows import GENERATORS, GeneratedRows, ParquetRows, RowSource
from spillway.replay.source import ReplaySource, stream
from spillway.replay.traces import Arrivals, Rates, Times
from spillway.replay.web import web_requests

__all__ = [
    "GENERATORS",
    "Arrivals",
    "GeneratedRows",
    "ParquetRows",
    "Rates",
    "ReplayOptions",
    "ReplayReader",
    "ReplaySource",
    "RowSource",
    "Times",
    "stream",
    "web_requests",
]
