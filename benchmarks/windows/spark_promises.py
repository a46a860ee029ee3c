"""The promises on real Spark: delivered windows against the exact ones, which a batch query works out.

Times go to a few Parquet files in their order, and a stream reads them file by file while a fixed share of the work
may be done. Each aggregate takes the number of its rows and the exclusive or of their hashes, so that no two contents
look the same. The exact answer comes from the same files, read at once, with Spark's own windows alone. What is
still open when the stream ends, by its watermark, is not missing. Gaps are counted on the time line, as they are
promised on Spark: a window without rows ends one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.windows.promises import Answer, Found, long_gaps
from spillway.core import control
from spillway.core.windows import Arrangement, Level
from spillway.errors import SpillwayError
from spillway.spark import Spillway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEEP = 0.4
ROWS_A_FILE = 2_500
_LIMIT_S = 120

Windowed = Callable[["DataFrame", Level, tuple[int, ...]], "DataFrame"]


def promised_on_spark(
    spark: SparkSession,
    folder: Path,
    times_us: npt.NDArray[np.int64],
    arrangement: Arrangement,
    gaps: Sequence[int],
) -> Found:
    """Run an arrangement over these times, shedding, and compare what comes out with the exact answer."""
    place = folder / uuid.uuid4().hex
    _write(place / "rows", times_us, max(2, len(times_us) // ROWS_A_FILE))
    exact = _by_leaf(
        leaves(spark.read.parquet(str(place / "rows")), arrangement, spark_windows).collect(), arrangement
    )
    fixed = control.make("fixed", target_delay_s=1.0, keep_ratio=KEEP)
    with Spillway("promises", 1.0, place / "checkpoint", controller=fixed) as shed:

        def shed_windows(df: DataFrame, _: Level, path: tuple[int, ...]) -> DataFrame:
            time = "ts" if len(path) == 1 else "window"
            return shed.windows(df, arrangement, time=time, max_gap=list(gaps), level=path)

        rows = spark.readStream.schema("ts timestamp, id bigint").option("maxFilesPerTrigger", 1)
        stream = rows.parquet(str(place / "rows")).withWatermark("ts", "0 seconds")
        delivered = _by_leaf(_run(leaves(stream, arrangement, shed_windows), place), arrangement)
    return compare(closed(exact, arrangement, int(times_us.max())), delivered, gaps)


def closed(exact: Sequence[Answer], arrangement: Arrangement, latest_us: int) -> list[Answer]:
    """Return the windows of each leaf that a watermark without delay has closed; it counts in milliseconds."""
    until = latest_us // 1000 * 1000
    return [
        {k: value for k, value in answer.items() if k * leaf.slide + leaf.size <= until}
        for leaf, answer in zip(arrangement.leaves(), exact, strict=True)
    ]


def compare(exact: Sequence[Answer], delivered: Sequence[Answer], gaps: Sequence[int]) -> Found:
    """Count violations; a gap at the end is one like any other.

    >>> compare([{0: "a", 1: "b", 2: "c", 3: "d", 4: "e"}], [{0: "a", 2: "x"}], [1])
    Found(cases=1, windows=5, delivered=2, subset_violations=1, gap_violations=1)
    """
    found = Found(cases=1)
    for answer, some, gap in zip(exact, delivered, gaps, strict=True):
        wrong = sum(answer.get(k) != value for k, value in some.items())
        missed = sum(long_gaps(part, some, gap) for part in runs(answer))
        found += Found(0, len(answer), len(some), wrong, missed)
    return found


def runs(answer: Answer) -> Iterator[Answer]:
    """Yield the parts of an answer between windows that have no rows.

    >>> list(runs({1: "a", 2: "b", 4: "c"}))
    [{1: 'a', 2: 'b'}, {4: 'c'}]
    """
    for _, part in groupby(enumerate(sorted(answer)), key=lambda each: each[1] - each[0]):
        yield {k: answer[k] for _, k in part}


def leaves(df: DataFrame, arrangement: Arrangement, windowed: Windowed) -> DataFrame:
    """Return the results of all leaves in one, with the number of the leaf."""
    found: list[DataFrame] = []

    def go(rows: DataFrame, levels: Sequence[Level], above: tuple[int, ...]) -> None:
        for place, level in enumerate(levels):
            path = (*above, place)
            totals = (
                windowed(rows, level, path)
                .groupBy("window")
                .agg(F.bit_xor(F.xxhash64("id")).alias("id"), F.count("*").alias("n"))
            )
            if level.below:
                go(totals, level.below, path)
            else:
                found.append(totals.withColumn("leaf", F.lit(len(found))))

    go(df, arrangement.levels(), ())
    start = F.unix_micros("window.start").alias("start")
    return reduce(lambda a, b: a.union(b), (each.select("leaf", start, "id", "n") for each in found))


def spark_windows(df: DataFrame, level: Level, path: tuple[int, ...]) -> DataFrame:
    """Return Spark's own windows, without any shedding."""
    time = F.col("ts") if len(path) == 1 else F.window_time("window")
    size, slide = (f"{each} microseconds" for each in (level.window.size, level.window.slide))
    return df.select(F.window(time, size, slide).alias("window"), "id")


def _run(query: DataFrame, place: Path) -> list[Any]:
    found: list[Any] = []
    running = (
        query.writeStream.foreachBatch(lambda frame, _: found.extend(frame.collect()))
        .outputMode("append")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not running.awaitTermination(_LIMIT_S):
        running.stop()
        raise SpillwayError(f"the query has not come to its end in {_LIMIT_S} s.")
    return found


def _by_leaf(rows: Sequence[Any], arrangement: Arrangement) -> list[Answer]:
    windows = arrangement.leaves()
    answers: list[Answer] = [{} for _ in windows]
    for row in rows:
        number = row["start"] // windows[row["leaf"]].slide
        if number in answers[row["leaf"]]:
            raise SpillwayError(f"window {number} was delivered twice.")
        answers[row["leaf"]][number] = (row["id"], row["n"])
    return answers


def _write(place: Path, times_us: npt.NDArray[np.int64], files: int) -> None:
    """Write rows in their order; Spark takes the oldest file first."""
    place.mkdir(parents=True)
    rows = pa.table({"ts": times_us, "id": np.arange(len(times_us))})
    rows = rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp("us", "UTC")))
    edges = np.linspace(0, len(times_us), files + 1).astype(int)
    for number, (start, end) in enumerate(pairwise(edges)):
        file = place / f"{number:03d}.parquet"
        pq.write_table(rows.slice(start, end - start), file)
        os.utime(file, (number, number))
