"""Errors, missing groups and coverage of the Spark path: ``Spillway.groups`` and ``est.mean`` together.

A data set is played through a real query in micro-batches of a quarter of a window, 2 % of the rows to be kept, with
rates learned from the batches before and no waiting for reports. The windows are then answered by ``est.mean`` from
the rows that came out. Uniform is ``Spillway.tuples`` at the share that *cod* has kept in all. The windows that begin
while nothing is known yet are left out.

*Within foreachBatch* (``batch``) is the same with the second pass: a micro-batch has as many rows as a window, and is
what is answered.

================================================ =================================================================
metric                                           meaning
================================================ =================================================================
``stream.error.uniform_over_cod.NAME``           uniform's mean relative error over that of ``Spillway.groups``
``stream.missing_groups.NAME``                   groups of a window without a row, mean
``stream.coverage95.NAME``                       share of the intervals that contain the truth, of groups with rows
``stream.coverage95_sampled.NAME``               the same of groups that lost rows
``stream.processed.NAME``                        share of the rows that was kept, of 0.02
``batch.….NAME``                                 all of these within ``foreachBatch``
================================================ =================================================================
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.groups.errors import ratio, relative_errors
from benchmarks.groups.windows import Limits, Stream, Window, windows_of
from benchmarks.results import Figure
from spillway import estimate as est
from spillway.core import control
from spillway.core.arrays import Floats, Ints
from spillway.demo.local_session import session
from spillway.replay import Rates, stream
from spillway.replay.recorded import DataSet
from spillway.spark import Spillway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEEP_RATIO = 0.02
NAMES = ("google_class", "google_user", "flights", "debs")
_BATCHES_A_WINDOW = 4
_UNKNOWN = 3  # batches in which reports of the first may not have come
_LIMITS = Limits(rows=600_000, windows=24)
_LONG_AGO = "2020-01-01T00:00:00+00:00"
_PATIENCE_S = 600
_LEVEL = 0.95
Tell = Callable[[str], None]
Shed = Callable[[Spillway, "DataFrame", int], "DataFrame"]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What was found of one data set on one path, over windows and groups."""

    windows: int
    rows_per_batch: int
    processed: float
    error: float
    error_uniform: float
    missing: float
    missing_uniform: float
    coverage: float
    coverage_sampled: float | None

    @property
    def uniform_over_cod(self) -> float:
        """How many times uniform's error is that of the shed groups."""
        return ratio(self.error_uniform, self.error)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a span in order, and the windows that are answered: number of window and row, for each pair."""

    table: pa.Table
    windows: tuple[Window, ...]
    window_of: Ints
    row_of: Ints

    @classmethod
    def of(cls, windows: tuple[Window, ...], *, skipped: int) -> Rows:
        """Put the rows of windows together; windows that begin before so many rows are not answered."""
        together = pa.concat_tables([window.table for window in windows])
        _, first = np.unique(together["row"].to_numpy(), return_index=True)
        table = together.take(np.sort(first)).sort_by([("time", "ascending"), ("row", "ascending")])
        row = table["row"].to_numpy()
        begin = table["time"].cast(pa.int64()).to_numpy()[min(skipped, len(row) - 1)]
        answered = tuple(window for window in windows if 1e6 * window.start_s >= begin)
        return cls(
            table,
            answered,
            np.concatenate([np.full(window.rows, n) for n, window in enumerate(answered)]),
            np.concatenate([window.table["row"].to_numpy() for window in answered]),
        )

    @classmethod
    def in_batches(cls, windows: tuple[Window, ...], rows: int) -> Rows:
        """Return the same rows with their batches for windows."""
        table = cls.of(windows, skipped=0).table
        batches = tuple(
            Window(start_s=float(first), table=table.slice(first, rows))
            for first in range(0, table.num_rows - rows + 1, rows)
        )
        row = table["row"].to_numpy()[: rows * len(batches)]
        return cls(table.slice(0, len(row)), batches, np.arange(len(row)) // rows, row)


@dataclass(frozen=True)
class Player:
    """Plays rows through queries of one session."""

    spark: SparkSession
    folder: Path

    def kept(self, rows: Rows, per_batch: int, share: float, shed: Shed, *, within: bool = False) -> pa.Table:
        """Return the rows that come out, with their weights; ``within``: shed where ``foreachBatch`` is."""
        name = uuid.uuid4().hex
        checkpoint, path = self.folder / name, self.folder / f"{name}.parquet"
        pq.write_table(rows.table, path)
        events = stream(
            self.spark,
            Rates((float(rows.table.num_rows),), (1.0,)),
            rows=path,
            start=_LONG_AGO,
            max_rows_per_batch=per_batch,
        )
        parts: list[pa.Table] = []
        fixed = control.make("fixed", target_delay_s=3600.0, keep_ratio=share)
        with Spillway("stream", "1 hour", checkpoint, controller=fixed) as spillway:

            def take(batch: DataFrame, number: int) -> None:
                found = shed(spillway, batch, number) if within else batch
                parts.append(found.select("row", "group", "value", "weight").toArrow())

            query = (
                (events if within else shed(spillway, events, 0))
                .writeStream.foreachBatch(take)
                .option("checkpointLocation", str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination(_PATIENCE_S)
        path.unlink()
        return pa.concat_tables(parts)

    def answers(self, rows: Rows, kept: pa.Table) -> list[dict[str, Any]]:
        """Return the mean of each window and group by ``est``, with its interval and number of rows."""
        at = np.searchsorted(np.sort(kept["row"].to_numpy()), rows.row_of)
        ordered = kept.sort_by("row")
        at = np.minimum(at, max(kept.num_rows - 1, 0))
        hit = ordered["row"].to_numpy()[at] == rows.row_of
        pairs = ordered.take(at[hit]).append_column("window", pa.array(rows.window_of[hit]))
        frame = self.spark.createDataFrame(pairs)
        found = frame.groupBy("window", "group").agg(
            est.mean("value", level=_LEVEL).alias("mean"), F.count(F.lit(1)).alias("rows")
        )
        told: list[dict[str, Any]] = found.toArrow().to_pylist()
        return told


def score(rows: Rows, answers: list[dict[str, Any]]) -> tuple[list[float], list[int], Floats, Floats]:
    """Return the error and the missing groups of each window, and of each answer whether it holds and lost rows."""
    errors, missing, inside, lost = [], [], [], []
    by_window: dict[int, list[dict[str, Any]]] = {n: [] for n in range(len(rows.windows))}
    for answer in answers:
        by_window[answer["window"]].append(answer)
    for n, window in enumerate(rows.windows):
        at = window.places(np.array([answer["group"] for answer in by_window[n]], dtype=np.int64))
        value, low, high = (
            window.scattered(
                at, np.array([answer["mean"][name] for answer in by_window[n]], dtype=np.float64)
            )
            for name in ("value", "low", "high")
        )
        sampled = window.scattered(
            at, np.array([answer["rows"] for answer in by_window[n]], dtype=np.float64)
        )
        errors.append(float(relative_errors(window.truth, value).mean()))
        missing.append(int(np.isnan(value).sum()))
        slack = 1e-9 * np.abs(window.truth)
        there = ~np.isnan(value)
        inside.append(((low - slack <= window.truth) & (window.truth <= high + slack))[there])
        lost.append((sampled < window.sizes)[there])
    return errors, missing, np.concatenate(inside), np.concatenate(lost)


def scores(player: Player, rows: Rows, per_batch: int, shed: Shed, *, within: bool) -> Scores:
    """Shed groups, and then as many rows uniformly; compare."""
    kept = player.kept(rows, per_batch, KEEP_RATIO, shed, within=within)
    share = kept.num_rows / rows.table.num_rows
    uniform = player.kept(rows, per_batch, share, lambda spillway, df, _: spillway.tuples(df, key="row"))
    errors, missing, inside, lost = score(rows, player.answers(rows, kept))
    errors_uniform, missing_uniform, _, _ = score(rows, player.answers(rows, uniform))
    return Scores(
        windows=len(rows.windows),
        rows_per_batch=per_batch,
        processed=share,
        error=float(np.mean(errors)),
        error_uniform=float(np.mean(errors_uniform)),
        missing=float(np.mean(missing)),
        missing_uniform=float(np.mean(missing_uniform)),
        coverage=float(np.mean(inside)),
        coverage_sampled=float(np.mean(inside[lost])) if lost.any() else None,
    )


def measure(
    data: dict[str, DataSet], tell: Tell, names: tuple[str, ...] = NAMES
) -> dict[str, dict[str, Scores]]:
    """Start Spark and measure both paths on the data sets that are there."""
    found: dict[str, dict[str, Scores]] = {"stream": {}, "batch": {}}
    with session("spillway groups") as (spark, folder):
        player = Player(spark, folder)
        for name in (name for name in names if name in data):
            windows = _span(windows_of(data[name], _LIMITS))
            size = int(np.mean([window.rows for window in windows]))
            per_batch = -(-size // _BATCHES_A_WINDOW)
            tell(f"{name}: stream")
            rows = Rows.of(windows, skipped=_UNKNOWN * per_batch)
            on_stream = _groups(time="time", window=f"{data[name].window_s:g} seconds")
            found["stream"][name] = scores(player, rows, per_batch, on_stream, within=False)
            tell(f"{name}: within foreachBatch")
            batches = Rows.in_batches(windows, size)
            found["batch"][name] = scores(player, batches, size, _groups_within, within=True)
    return found


def _span(stream: Stream) -> tuple[Window, ...]:
    return max(stream.spans, key=len)


def _groups(**options: Any) -> Shed:
    return lambda spillway, df, _: spillway.groups(df, by="group", value="value", key="row", **options)


def _groups_within(spillway: Spillway, df: DataFrame, number: int) -> DataFrame:
    return spillway.groups(df, by="group", value="value", key="row", batch=number)


def metrics(found: dict[str, dict[str, Scores]]) -> dict[str, float]:
    """Return the metrics of the module's table."""
    told: dict[str, float] = {}
    for path, sets in found.items():
        for name, each in sets.items():
            told[f"{path}.error.uniform_over_cod.{name}"] = each.uniform_over_cod
            told[f"{path}.missing_groups.{name}"] = each.missing
            told[f"{path}.coverage95.{name}"] = each.coverage
            if each.coverage_sampled is not None:
                told[f"{path}.coverage95_sampled.{name}"] = each.coverage_sampled
            told[f"{path}.processed.{name}"] = each.processed
    return told


def figure_of(found: dict[str, dict[str, Scores]]) -> Figure:
    """Return the numbers beside the paper's."""
    told = "; ".join(
        f"{path}: "
        + ", ".join(
            f"{name} {each.uniform_over_cod:.1f} ({each.missing:.1f} missing)" for name, each in sets.items()
        )
        for path, sets in found.items()
    )
    better = all(each.uniform_over_cod > 1.0 for sets in found.values() for each in sets.values())
    return Figure(
        title="On Spark: uniform's error over that of groups, 98 % shed, and groups missing in a window",
        paper="More than ten times more accurate, no group missing (Figure 9); whole windows are shed at once.",
        ours=f"{told}.",
        holds=better,
        numbers={path: {name: asdict(each) for name, each in sets.items()} for path, sets in found.items()},
    )
