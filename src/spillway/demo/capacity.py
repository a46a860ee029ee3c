"""What this machine can do: a query at saturation, without and with Spillway in the plan.

A trace that lies wholly in the past is taken in batches of a fixed size, one right after the other. The
*capacity* is rows per second over the steady batches, at a batch size that takes about ``batch_s``. It therefore
includes the fixed time of a batch, which no shedder can save.

Blocks of batches without and with Spillway take turns in one session, so that whatever else the machine does
falls on both. Their medians give the *idle throughput ratio*: what it costs to have Spillway in the plan while
nothing needs to be shed.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from spillway.core import control
from spillway.core.control import Controller
from spillway.demo.playback import Query, Recorder, source, workload
from spillway.durations import seconds
from spillway.replay import Rates
from spillway.spark import Spillway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTLED = 0.93  # three batches that take no less than this share of the three before are as fast as it gets
_JUDGED = 7  # batches that it takes to judge by
_GUESSED_FIXED_S = 0.35
_LONG_AGO = "2020-01-01T00:00:00+00:00"
_LONG = "1 hour"  # a target under which nothing is ever shed
_LIMIT_S = 180.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What was measured: seconds per batch of ``batch_rows`` rows, plain and with Spillway."""

    batch_rows: int
    plain_s: tuple[float, ...]
    spillway_s: tuple[float, ...]

    @property
    def rows_per_s(self) -> float:
        """Rows per second that the plain query sustains."""
        return self.batch_rows / median(self.plain_s)

    @property
    def idle_throughput_ratio(self) -> float:
        """Throughput with Spillway in the plan, keeping everything, as a share of the plain query's."""
        return median(self.plain_s) / median(self.spillway_s)


def measure(
    spark: SparkSession,
    folder: Path,
    *,
    batch_s: float,
    blocks: int,
    batches: int,
    warm_up_most: tuple[int, int] = (30, 20_000),
    query: Query = workload,
    guess_rows_per_s: float | None = None,
    tell: Tell = lambda _: None,
) -> Capacity:
    """Warm up, find the batch size that takes ``batch_s``, and measure in that many blocks of each kind.

    With a guess, which may come from an earlier warm-up, there is none.
    """
    at_saturation = Saturation(spark, folder, query)
    rows_per_s = guess_rows_per_s
    if rows_per_s is None:
        tell("warming up the JVM")
        rows_per_s = warm_up(at_saturation, *warm_up_most)
    batch_rows = rows_for(batch_s, rows_per_s)
    plain: list[float] = []
    with_spillway: list[float] = []
    for block in range(blocks):
        tell(f"measuring capacity, block {block + 1} of {blocks}")
        plain += at_saturation.seconds(batch_rows, batches, with_spillway=False)
        with_spillway += at_saturation.seconds(batch_rows, batches, with_spillway=True)
    return Capacity(batch_rows=batch_rows, plain_s=tuple(plain), spillway_s=tuple(with_spillway))


def warm_up(
    at_saturation: Saturation, most_batches: int, batch_rows: int, *, limit_s: float | None = None
) -> float:
    """Run both plans until their batches get no faster, and return the plain one's rate without fixed time.

    A short warm-up, of fewer batches than it takes to judge by, has only the plain one. Where the machine is slow,
    each plan gets half of ``limit_s``.
    """
    share_s = math.inf if limit_s is None else limit_s / 2
    rows_per_s = at_saturation.warm_up(
        most_batches=most_batches, batch_rows=batch_rows, with_spillway=False, limit_s=share_s
    )
    if most_batches > _JUDGED:
        at_saturation.warm_up(
            most_batches=most_batches, batch_rows=batch_rows, with_spillway=True, limit_s=share_s
        )
    return rows_per_s


def rows_for(batch_s: float, rows_per_s: float) -> int:
    """Return how many rows a batch should have that takes so long, given a rate without its fixed time."""
    return max(1_000, int(rows_per_s * max(batch_s - _GUESSED_FIXED_S, 0.2 * batch_s)))


@dataclass(frozen=True)
class Saturation:
    """A query that is given its rows in batches of a fixed size, one right after the other.

    With Spillway everything is kept, or the given share.
    """

    spark: SparkSession
    folder: Path
    query: Query
    keep_ratio: float = 1.0

    def warm_up(
        self, *, most_batches: int, batch_rows: int, with_spillway: bool, limit_s: float = math.inf
    ) -> float:
        """Run the query until its batches get no faster, and return its rows per second without fixed time.

        Each plan has code of its own that the JVM has to compile, so each has to be warmed up.
        """
        times: list[float] = []
        give_up = time.monotonic() + limit_s
        with self._run(batch_rows, most_batches, with_spillway=with_spillway) as recorder:
            for count in range(2, most_batches + 1):
                times = _seconds_per_batch(recorder, count)
                settled = median(times[-3:]) >= _SETTLED * median(times[-6:-3] or times)
                if (settled and count >= _JUDGED) or time.monotonic() > give_up:
                    break
        return batch_rows / max(median(times[-3:]) - _GUESSED_FIXED_S, 0.05)

    def seconds(self, batch_rows: int, batches: int, *, with_spillway: bool) -> list[float]:
        """Return the seconds that each batch takes; the first, which starts the query, is left out."""
        with self._run(batch_rows, batches + 1, with_spillway=with_spillway) as recorder:
            return _seconds_per_batch(recorder, batches + 1)

    @contextmanager
    def _run(self, batch_rows: int, batches: int, *, with_spillway: bool) -> Iterator[Recorder]:
        checkpoint = self.folder / uuid.uuid4().hex
        trace = Rates((float(batch_rows),), (float(batches),))
        events = source(self.spark, trace, max_rows_per_batch=batch_rows, start=_LONG_AGO)
        with ExitStack() as stack:
            shed = None
            if with_spillway:
                controller = "deadline" if self.keep_ratio == 1.0 else _fixed(self.keep_ratio)
                shed = stack.enter_context(
                    Spillway("idle", _LONG, checkpoint, controller=controller, arrival="timestamp")
                )
            yield stack.enter_context(Recorder(self.spark, self.query(events, shed), checkpoint))


def _fixed(keep_ratio: float) -> Controller:
    return control.make("fixed", target_delay_s=seconds("_LONG", _LONG), keep_ratio=keep_ratio)


def _seconds_per_batch(recorder: Recorder, batches: int) -> list[float]:
    done = recorder.wait_for(batches, _LIMIT_S)
    return [end.ended_s - start.ended_s for start, end in pairwise(done)]
