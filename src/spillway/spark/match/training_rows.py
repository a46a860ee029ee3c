"""Learns the values of partial matches before the stream begins, from earlier rows of the stream (training rows).

The training rows are the argument ``history=``: a pyarrow Table or a DataFrame that is not a stream, some windows
long. They are sorted by time and matched once, here on the driver, because this is one pass over rows in order. The
slow part is to find the classes, which is done separately for each state: with a DataFrame each state is a Spark
task.

At most the newest ``MOST_ROWS`` rows are read, and of these as many as take ``MOST_UNITS`` units of work, but at
least one and a half windows: a run whose window has not passed gives no information.

The learned values are stored in the checkpoint (shared_model.py), and a later start does not learn again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spillway.core.arrays import Ints
from spillway.core.cep.config import PatternConfig
from spillway.core.cep.estimation.model import LEAST_WINDOWS, Each, windows_in
from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.data.tables import require_name, table_of
from spillway.core.data.times import rows_in_time, times_of
from spillway.errors import SpillwayError, invalid
from spillway.spark.columns import quoted, require_column
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import learned_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS, MOST_UNITS = 100_000, 10_000_000


def require_history(config: PatternConfig, history: Any) -> None:
    """Refuse an argument that cannot be training rows, without reading it."""
    needed = config.build().columns
    if isinstance(history, DataFrame):
        if history.isStreaming:
            raise invalid("history", "a stream", "a DataFrame of rows that are there, with the columns of df")
        _require_columns(needed, history.columns)
    elif isinstance(history, pa.Table):
        _require_columns(needed, history.column_names)
    else:
        allowed = "a pyarrow Table or a Spark DataFrame of earlier rows, with the columns of df"
        frame = hasattr(history, "columns") and hasattr(history, "index")
        hint = "pa.Table.from_pandas(...) makes a table" if frame else None
        raise invalid("history", type(history).__name__, allowed, hint=hint)


def learned_before(config: PatternConfig, history: Any, spec: SheddingSpec) -> Learned:
    """Return the values learned from training rows; refuse rows that are not enough, with the reason."""
    require_history(config, history)
    each: Each = map
    needed = config.build().columns
    if isinstance(history, DataFrame):
        each = on_spark(history.sparkSession)
        table = _collected(config, history, needed)
    else:
        table = table_of("history", history.select(needed))
    ordered = _ordered(config, table)
    times, _ = times_of(ordered, config.time)
    windows = windows_in(config, times)
    if windows < LEAST_WINDOWS:
        allowed = f"rows of {LEAST_WINDOWS:g} windows or more, better three"
        raise invalid("history", f"{table.num_rows} rows over {windows:.2g} windows", allowed)
    try:
        return learned_from(config, _affordable(config, ordered, times), spec, each)
    except SpillwayError as error:
        if "history" in str(error):
            raise
        raise SpillwayError(f"history: {error}") from error
    except ValueError as error:
        raise SpillwayError(
            f"history: its {ordered.num_rows} rows cannot be learned from: {error}.",
            hint="leave out rows with such values, or leave out history= to learn from the stream",
        ) from error


def on_spark(spark: SparkSession) -> Each:
    """Return a function like ``map`` that handles all states in parallel, each in a separate Spark task."""

    def each(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        calls = [cloudpickle.dumps((function, item)) for item in items]  # type: ignore[no-untyped-call]
        numbered = pa.table({"n": pa.array(range(len(calls)), pa.int32()), "call": calls})
        frame = spark.createDataFrame(numbered).repartitionByRange(max(1, len(calls)), "n")
        done = frame.mapInArrow(_called, "n int, result binary").toArrow().to_pydict()
        results = dict(zip(done["n"], done["result"], strict=True))
        return (cloudpickle.loads(results[n]) for n in range(len(calls)))

    return each


def _called(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the pickled calls of a task, and return their pickled results."""
    for batch in batches:
        calls = map(cloudpickle.loads, batch.column("call").to_pylist())
        results = [cloudpickle.dumps(function(item)) for function, item in calls]  # type: ignore[no-untyped-call]
        yield pa.RecordBatch.from_arrays([batch.column("n"), pa.array(results)], ["n", "result"])


def _collected(config: PatternConfig, history: DataFrame, needed: list[str]) -> pa.Table:
    newest = history.where(quoted(config.time).isNotNull()).orderBy(F.desc(quoted(config.time)))
    return newest.limit(MOST_ROWS).select(*map(quoted, needed)).toArrow()


def _require_columns(needed: list[str], names: list[str]) -> None:
    for name in needed:
        require_column("history, column", name, names)
        require_name(names, "history, column", name)


def _ordered(config: PatternConfig, table: pa.Table) -> pa.Table:
    """Return the newest rows, sorted by time, with the types of the stream."""
    columns = {name: _as_in_the_stream(config, table, name) for name in table.column_names}
    table = pa.table(columns)
    return table.take(pa.array(rows_in_time(table, config.time)[-MOST_ROWS:]))


def _as_in_the_stream(config: PatternConfig, table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column with its type in the stream; refuse a number or a text in place of a time."""
    column, kind = table[name], config.schema.field(name).type
    wrong = invalid(
        "history", name, f"a column of type {kind} as in df, not {column.type}", hint="cast the column"
    )
    if pa.types.is_timestamp(kind) != pa.types.is_timestamp(column.type):
        raise wrong
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise wrong from error


def _affordable(config: PatternConfig, table: pa.Table, times: Ints) -> pa.Table:
    """Return as many rows as ``MOST_UNITS`` units of work allow, but at least the rows of a stretch."""
    patterns = config.build()
    patterns.process(table, MOST_UNITS)
    fits = patterns.work.rows - patterns.work.dropped_rows
    least_us = int(times[0]) + int(LEAST_WINDOWS * config.tree.within_us)
    return table.slice(0, max(fits, int(np.searchsorted(times, least_us, side="right")) + 1))
