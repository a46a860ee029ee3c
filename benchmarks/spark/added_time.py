"""What Spillway adds to the time of a batch, whatever the number of its rows.

A trivial query, without and with ``Spillway.tuples`` in its plan, takes small batches one right after the other. The
two take turns in one session, in blocks, so that whatever else the machine does falls on both; each block with
Spillway is compared with the plain one beside it::

    added ms per batch = median over pairs of blocks (median batch with Spillway - median plain batch)

``spark.added_ms_per_batch`` is this figure. It holds all of it: planning and code generation of the larger plan, the
control row's job, the counts, the files, and what the listener takes from the cores while the next batch runs.
Nothing but Spillway listens: batches are timed by the files of Spark's commit log, so that the plain query is plain.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from spillway.demo.playback import breathe
from spillway.errors import SpillwayError, invalid
from spillway.spark import Spillway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METRIC = "spark.added_ms_per_batch"
BATCH_ROWS = 1_000
_FIRST_BATCHES = 3  # of a block: the query starts, and its files and tables are made
_MOST_BATCHES = 90  # of a block: Spark keeps the newest 100 entries of its commit log
_WARM_UP_BLOCKS = 3
"""Pairs of blocks before it counts. Both queries get faster while the JVM compiles what runs often, the one with more
code for longer: over pairs of 85 batches the difference was 212, 132, 100, 44, 56, 59 and 40 ms."""
_LIMIT_S = 300.0  # for one block; a batch takes 0.1 to 0.4 s
_LONG = "1 hour"  # a target under which nothing is shed


def measure_added_ms(
    spark: SparkSession, folder: Path, *, blocks: int, batches: int, warm_up_blocks: int = _WARM_UP_BLOCKS
) -> float:
    """Return the milliseconds that Spillway adds to a batch of a trivial query, from that many pairs of blocks."""
    if blocks < 1:
        raise invalid("blocks", blocks, "at least 1")
    if not 1 <= batches <= _MOST_BATCHES:
        raise invalid("batches", batches, f"1 to {_MOST_BATCHES}", hint="measure more blocks instead")
    for _ in range(warm_up_blocks):
        for with_spillway in (False, True):
            _block(spark, folder, _MOST_BATCHES, with_spillway=with_spillway)
    plain: list[list[float]] = []
    spillway: list[list[float]] = []
    for number in range(blocks):
        # Every other pair the other way round: what comes second finds a warmer JVM.
        for with_spillway in (False, True) if number % 2 == 0 else (True, False):
            block = _block(spark, folder, batches, with_spillway=with_spillway)
            (spillway if with_spillway else plain).append(block)
    return added_ms(plain, spillway)


def added_ms(plain_s: Sequence[Sequence[float]], spillway_s: Sequence[Sequence[float]]) -> float:
    """Return the median difference between blocks that stand beside each other, of their medians, in milliseconds.

    >>> added_ms([[0.10, 0.11, 0.9], [0.20, 0.21, 0.22]], [[0.13, 0.13, 0.13], [0.24, 0.24, 0.24]])
    25.0
    """
    pairs = zip(plain_s, spillway_s, strict=True)
    return round(1000.0 * median(median(spillway) - median(plain) for plain, spillway in pairs), 3)


def _block(spark: SparkSession, folder: Path, batches: int, *, with_spillway: bool) -> list[float]:
    """Run a query anew for that many batches, and return the seconds from commit to commit."""
    checkpoint = folder / uuid.uuid4().hex
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).load()
    with ExitStack() as stack:
        if with_spillway:
            shed = stack.enter_context(Spillway("added", _LONG, checkpoint, arrival="timestamp"))
            source = shed.tuples(source)
        writer = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.start()
        stack.callback(query.stop)
        last = checkpoint / "commits" / str(_FIRST_BATCHES + batches - 1)
        give_up = time.monotonic() + _LIMIT_S
        while not last.exists():
            breathe(query)
            if time.monotonic() > give_up:
                raise SpillwayError(f"the query did not finish {batches} batches in {_LIMIT_S:g} s.")
        return batch_seconds(checkpoint, batches)


def batch_seconds(checkpoint: Path, batches: int) -> list[float]:
    """Return the seconds from commit to commit of that many batches, those at the start of the query left out."""
    numbers = range(_FIRST_BATCHES - 1, _FIRST_BATCHES + batches)
    commits_s = [(checkpoint / "commits" / str(number)).stat().st_mtime_ns / 1e9 for number in numbers]
    return [end - start for start, end in pairwise(commits_s)]
