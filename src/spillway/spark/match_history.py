"""What partial matches are worth, learned before the stream begins, from rows of its past.

``history=`` is a pyarrow Table or a DataFrame that is no stream, some windows long. It is put in the order of time
and matched once, here on the driver, for that is one pass over rows in order. What takes long is to find the classes,
of each state by itself: with a DataFrame every state is a task of its own.

At most the newest ``MOST_ROWS`` rows are read, and of these as many as take ``MOST_UNITS`` units of work, but one and
a half windows at least: a run whose window has not passed tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.estimation.learn import Each
from spillway.core.cep.shedding.learned import Learned
from spillway.core.join.values import times_of
from spillway.errors import invalid, unknown
from spillway.spark.join_columns import quoted
from spillway.spark.match_learning import LEAST_WINDOWS, learned_from, windows_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS, MOST_UNITS = 100_000, 10_000_000


def learned_before(config: PatternConfig, history: Any) -> Learned:
    """Return what the past tells; refuse what tells nothing."""
    each: Each = map
    if isinstance(history, DataFrame):
        each = on_spark(history.sparkSession)
        table = _collected(config, history)
    elif isinstance(history, pa.Table):
        _require_columns(config, history.column_names)
        table = history.select(_needed(config))
    else:
        allowed = "a pyarrow Table or a DataFrame of earlier rows, with the columns of df"
        raise invalid("history", history, allowed)
    stretch = _affordable(config, _ordered(config, table))
    learned = None if stretch is None else learned_from(config, stretch, each)
    if learned is None:
        allowed = f"rows with which the pattern begins, of {LEAST_WINDOWS:g} windows or more"
        raise invalid("history", f"{table.num_rows} rows", allowed)
    return learned


def on_spark(spark: SparkSession) -> Each:
    """Return a way to do all states at once, each in a task of its own."""

    def each(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        calls = [cloudpickle.dumps((function, item)) for item in items]  # type: ignore[no-untyped-call]
        numbered = pa.table({"n": pa.array(range(len(calls)), pa.int32()), "call": calls})
        frame = spark.createDataFrame(numbered).repartitionByRange(max(1, len(calls)), "n")
        done = frame.mapInArrow(_called, "n int, result binary").toArrow().to_pydict()
        results = dict(zip(done["n"], done["result"], strict=True))
        return (cloudpickle.loads(results[n]) for n in range(len(calls)))

    return each


def _called(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do what is asked for, in a task."""
    for batch in batches:
        calls = map(cloudpickle.loads, batch.column("call").to_pylist())
        results = [cloudpickle.dumps(function(item)) for function, item in calls]  # type: ignore[no-untyped-call]
        yield pa.RecordBatch.from_arrays([batch.column("n"), pa.array(results)], ["n", "result"])


def _collected(config: PatternConfig, history: DataFrame) -> pa.Table:
    if history.isStreaming:
        raise invalid("history", "a stream", "a DataFrame of rows that are there, with the columns of df")
    _require_columns(config, history.columns)
    newest = history.where(quoted(config.time).isNotNull()).orderBy(F.desc(quoted(config.time)))
    return newest.limit(MOST_ROWS).select(*map(quoted, _needed(config))).toArrow()


def _needed(config: PatternConfig) -> list[str]:
    named = (name for name, _ in config.build().plan.attributes)
    return list(dict.fromkeys((config.time, config.type, *named)))


def _require_columns(config: PatternConfig, names: list[str]) -> None:
    for name in _needed(config):
        if name not in names:
            raise unknown("history, column", name, names)


def _ordered(config: PatternConfig, table: pa.Table) -> pa.Table:
    """Return the newest rows in the order of time, with the types of the stream."""
    try:
        table = table.cast(pa.schema([config.schema.field(name) for name in table.column_names]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise invalid("history", str(error), "columns of the same types as in df") from error
    times, timed = times_of(table, config.time)
    rows = np.flatnonzero(timed)
    rows = rows[np.argsort(times[rows], kind="stable")]
    return table.take(pa.array(rows[-MOST_ROWS:]))


def _affordable(config: PatternConfig, table: pa.Table) -> pa.Table | None:
    """Return as many rows as do not take too long to learn from, None if these are no stretch."""
    times, _ = times_of(table, config.time)
    if windows_in(config, times) < LEAST_WINDOWS:
        return None
    patterns = config.build()
    patterns.process(table, MOST_UNITS)
    fits = patterns.work.rows - patterns.work.dropped_rows
    least_us = int(times[0]) + int(LEAST_WINDOWS * config.tree.within_us)
    return table.slice(0, max(fits, int(np.searchsorted(times, least_us, side="right")) + 1))
