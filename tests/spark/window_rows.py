"""Orders with an event time, as a stream of files, and brute force over their windows.

The files are the same for all clocks, and no Python has to run to read them: a query starts in half the time.
"""

from __future__ import annotations

import datetime
import functools
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway.core.windows import Window
from tests.spark.orders import PAST, orders

Clock = Callable[[Any], Any]  # the event time of an order in µs; takes and gives numbers or columns
SECOND = 1_000_000
NOW = int(PAST.timestamp()) * SECOND
ROWS, PER_BATCH, PER_FILE = 4_800, 960, 240
SCHEMA = "id bigint, tier int, vip boolean, score double, customer string"


def micros(*when: int) -> int:
    return int(datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()) * SECOND


def in_order(order: Any) -> Any:
    """48 seconds of orders, 10 ms apart."""
    return order * 10_000 + NOW


def steady(order: Any) -> Any:
    """The same, out of order by up to 1.5 s."""
    return in_order(order) - order * 7_919 % 1_500 * 1_000


def write(folder: Path, first: int, last: int) -> None:
    """Write some orders in files of equal size; Spark takes the oldest file first."""
    for number in range(first // PER_FILE, last // PER_FILE):
        file = folder / f"{number:03d}.parquet"
        pq.write_table(orders(number * PER_FILE, PER_FILE), file)
        os.utime(file, (number, number))


@functools.cache
def files() -> tempfile.TemporaryDirectory[str]:
    """Return a folder with all orders, for as long as the tests run."""
    folder = tempfile.TemporaryDirectory(prefix="orders-")
    write(Path(folder.name), 0, ROWS)
    return folder


def live(
    spark: SparkSession,
    clock: Clock = steady,
    *,
    delay: str = "2 seconds",
    per_batch: int = PER_BATCH,
    folder: Path | None = None,
) -> DataFrame:
    """Return the orders as a stream."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch // PER_FILE)
    return (
        rows.parquet(files().name if folder is None else str(folder))
        .withColumn("ts", F.timestamp_micros(clock(F.col("id"))))
        .withWatermark("ts", delay)
    )


def brute(
    window: Window, clock: Clock = steady, *, until: int | None = None, of: Iterable[int] = range(ROWS)
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return sum and number of the orders in each window that has closed by the time ``until``."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for order in of:
        at = clock(order)
        last = at // window.slide * window.slide
        for begin in range(last, at - window.size, -window.slide):
            found[begin].append(order)
    return {
        (begin, begin + window.size): (sum(ids), len(ids))
        for begin, ids in found.items()
        if until is None or begin + window.size <= until
    }


def latest(clock: Clock = steady) -> int:
    return max(clock(order) for order in range(ROWS))
