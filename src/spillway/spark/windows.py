"""Sheds whole windows on Spark: drops rows that no allowed window needs, and lets only allowed windows open.

The plan that is added, all of it native::

    rows -> cross join with the control row -> observe -> filter: some allowed window needs the row
         -> F.window -> filter: the window is allowed -> the user's groupBy("window", ...)

The control row carries, for the granules and the windows that are open now, how many allowed windows contain a
granule and which windows are allowed (core/windows/needs.py). Rows outside of these ranges are kept: either they are
late, and Spark drops them, or they are later than all windows that have been decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spillway.core.windows import Arrangement, Level, Window
from spillway.core.windows.needs import (
    Kept,
    allowed,
    granule_of,
    inner_of,
    open_windows,
    shares_left,
    span_of,
    together_of,
)
from spillway.errors import SpillwayError, invalid, unknown
from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import BatchDecision
from spillway.loop.kinds.windows import MOST_GRANULES, WindowSpec
from spillway.spark.columns import require_stream, resolve
from spillway.spark.control_row import PREFIX, ControlRow, check_executors, control_frame, told_before
from spillway.spark.tuples import WEIGHT_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK = "spillway.window"
_WATERMARK = "spark.watermarkDelayMs"
_LARGEST_INT = 2**31 - 1
_LONGEST_US = 10_000 * 366 * 86_400 * 10**6  # from the first to the last moment that a timestamp should have
WINDOWS = (
    f"{PREFIX}first_granule bigint not null, {PREFIX}open array<int> not null, {PREFIX}first_window bigint not null, "
    f"{PREFIX}allowed array<boolean> not null, {PREFIX}share double not null, {PREFIX}note string"
)


@dataclass(frozen=True)
class WindowRow(ControlRow):
    """The control row of one aggregate of an arrangement."""

    level: Level
    granule: int
    spec: WindowSpec
    enforce: bool
    schema: ClassVar[str] = WINDOWS

    def decision_for(self, batch: int, query: str | None) -> tuple[BatchDecision | None, str]:
        """Return the batch's decision; if that fails, the last one, as a dropped window must not open again."""
        found, note = super().decision_for(batch, query)
        if found is None and batch > 0:
            found = told_before(Folder(Path(self.folder)), batch)
        return found, note

    def row(self, decision: BatchDecision | None, note: str) -> dict[str, Any]:
        """Return the ranges that are decided, converted to the windows of this aggregate."""
        told = None if decision is None else decision.windows_of(self.stage)
        share = 1.0 if decision is None or self.enforce else decision.keep_ratio
        if told is None or "0" not in told.kept:
            return self._values(0, [], 0, [], share, note)
        spec, g, window = self.spec, self.granule, self.level.window
        kept = Kept(spec.slide_us, told.first, told.kept)
        since = told.first * spec.slide_us - spec.span_us
        until = (told.first + len(told.kept)) * spec.slide_us + spec.span_us
        granule, number = since // g, since // window.slide
        counts = open_windows(self.level, granule, until // g + 1 - granule, g, kept)
        which = allowed(self.level, number, until // window.slide + 1 - number, g, kept)
        return self._values(granule, counts.tolist(), number, which.tolist(), share, note)

    def _values(
        self, granule: int, counts: list[int], number: int, which: list[bool], share: float, note: str
    ) -> dict[str, Any]:
        return {
            f"{PREFIX}first_granule": granule,
            f"{PREFIX}open": counts,
            f"{PREFIX}first_window": number,
            f"{PREFIX}allowed": which,
            f"{PREFIX}share": share,
            f"{PREFIX}note": note or None,
        }


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """The arguments of ``Spillway.windows``, checked against a DataFrame."""

    df: DataFrame
    arrangement: Arrangement
    level: Level
    path: tuple[int, ...]
    time: Column
    source: str
    spec: WindowSpec
    arrival: Column | None

    @classmethod
    def check(
        cls,
        df: DataFrame,
        arrangement: Arrangement,
        *,
        time: str,
        max_gap: Any,
        level: int | tuple[int, ...],
        arrival: str | None,
    ) -> WindowPlan:
        """Check the arguments when the call is made; raise for those that cannot work."""
        require_stream(df, "spillway.core.windows.run")
        if not isinstance(arrangement, Arrangement):
            raise invalid(
                "arrangement", arrangement, "windows such as tumbling('5 minutes') >> tumbling('1 hour')"
            )
        if not arrangement.timed:
            raise invalid(
                "arrangement", arrangement, "sizes as durations", hint="write '5 minutes' instead of a number"
            )
        if shed := [name for name in df.columns if df.schema[name].metadata.get(WEIGHT_MARK)]:
            raise SpillwayError(
                f"rows of df have been shed before (its weights are in {shed[0]!r}), so no window would be exact.",
                hint="shed either rows or windows",
            )
        granule, span = granule_of(arrangement), span_of(arrangement)
        if span > _LONGEST_US:
            raise invalid("arrangement", arrangement, "windows of 10,000 years or less")
        gap = arrangement.drop_gap(max_gap)
        if gap < 1:
            _, slide = arrangement.drop_window()
            raise invalid(
                "max_gap",
                max_gap,
                f"at least {slide / 1e6:g} s worth of windows for each of {arrangement!r}",
                hint="branches are dropped together, all that start within the common multiple of their slides; "
                "raise max_gap, or give each branch an arrangement of its own",
            )
        path = _path(level)
        if not isinstance(time, str):
            raise invalid("time", time, "the name of a column")
        time = _as_spark_reads_it(df, time)
        if time != "window" and _as_spark_reads_it(df, "window") in df.columns:
            raise invalid("df", "window", "no column of that name: windows() adds it", hint="rename yours")
        chosen = _find(arrangement, path)
        column, delay_ms = _time(df, time, arrangement, path)
        if (delay_ms * 1000 + 3 * span) // granule > MOST_GRANULES:
            raise SpillwayError(
                f"{arrangement!r} has steps of {granule} µs, too fine for windows and a watermark delay that are "
                f"open for {(delay_ms * 1000 + span) / 1e6:g} s.",
                hint="choose sizes and slides with a larger common divisor, or a shorter watermark delay",
            )
        spec = WindowSpec(
            granule_us=granule,
            slide_us=arrangement.drop_units()[1],
            inner_us=inner_of(arrangement),
            span_us=span,
            delay_ms=delay_ms,
            max_gap=gap,
            together=together_of(arrangement, gap),
            shares_left=shares_left(arrangement, chosen, gap),
        )
        moment = (T.TimestampType, T.TimestampNTZType)
        measured = arrival if len(path) == 1 else None
        return cls(
            df=df,
            arrangement=arrangement,
            level=chosen,
            path=path,
            time=column,
            source=time,
            spec=spec,
            arrival=None if measured is None else resolve(df, "arrival", measured, moment, "timestamp"),
        )

    def row(self, folder: str, checkpoint: str | None, stage: int, *, enforce: bool) -> WindowRow:
        """Return the reader of the control row."""
        return WindowRow(
            folder,
            checkpoint,
            stage,
            level=self.level,
            granule=self.spec.granule_us,
            spec=self.spec,
            enforce=enforce,
        )

    def build(self, control: WindowRow, observation: str | None) -> DataFrame:
        """Return the DataFrame with the shedding stage and the column ``window`` in it.

        The plan is the same with mode="observe". Then no new window is dropped, but a window that was dropped before
        a restart stays dropped.
        """
        frame = control_frame(self.df.sparkSession, control)
        check_executors(frame)
        window = self.level.window
        df = self.df.crossJoin(F.broadcast(frame))
        micros = F.unix_micros(self.time)
        all_of_them = _windows_of(micros, window)
        granule = _floor(micros, control.granule) - F.col(f"{PREFIX}first_granule")
        opened = F.coalesce(_look_up(f"{PREFIX}open", granule), all_of_them)
        df = df.select("*", opened.alias(f"{PREFIX}opened"), self.time.alias(f"{PREFIX}time"))
        overlapping = window.size > window.slide
        df = df.drop(f"{PREFIX}open", *[] if overlapping else [f"{PREFIX}allowed"])  # before rows are copied
        if observation is not None:
            df = df.observe(observation, *self._metrics())
        df = df.where(F.col(f"{PREFIX}opened") > 0)
        if "window" in df.columns:
            df = df.drop("window")
        length, step = f"{window.size} microseconds", f"{window.slide} microseconds"
        # not withColumn: on Spark Connect a column that it adds has no watermark
        df = df.select("*", F.window(f"{PREFIX}time", length, step).alias("window"))
        if overlapping:  # else a row has one window, and is here only if that one is allowed
            number = _floor(F.unix_micros("window.start"), window.slide) - F.col(f"{PREFIX}first_window")
            df = df.where(F.coalesce(_look_up(f"{PREFIX}allowed", number), F.lit(True)))
        df = df.drop(*[name for name in df.columns if name.startswith(PREFIX)])
        kept = dict(df.schema["window"].metadata)
        return df.withMetadata("window", {**kept, MARK: _key(self.arrangement, self.path)})

    def _metrics(self) -> list[Column]:
        """Return the metrics. A row counts as kept by the share of its windows that are kept."""
        opened, window = F.col(f"{PREFIX}opened"), self.level.window
        part = (
            opened if window.size == window.slide else opened / _windows_of(F.unix_micros(self.time), window)
        )
        metrics = [
            F.count(F.lit(1)).alias("arrived"),
            F.sum(part * F.col(f"{PREFIX}share")).alias("kept"),
            F.count_if(opened > 0).alias("passed"),
            F.max(F.unix_micros(f"{PREFIX}time")).alias("latest_us"),
            F.max(f"{PREFIX}note").alias("note"),
        ]
        if self.arrival is not None:
            at = F.when(opened > 0, self.arrival.cast("timestamp").cast("double"))
            metrics += [
                F.min(at).alias("first_arrival"),
                F.avg(at).alias("mean_arrival"),
                F.count_if(self.arrival.isNull()).alias("arrival_missing"),
            ]
        return metrics


def _path(level: Any) -> tuple[int, ...]:
    path = (level,) if isinstance(level, int) else level
    if not isinstance(path, tuple) or not path:
        raise invalid("level", level, "0, 1, ... or a tuple of positions such as (0, 0)")
    return path


def _find(arrangement: Arrangement, path: tuple[int, ...]) -> Level:
    """Return the aggregate at a position of the tree: (0,) reads the input, (0, 1) is the second below it."""
    levels, found = arrangement.levels(), None
    for place in path:
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(levels):
            raise invalid(
                "level",
                path,
                f"a position in {arrangement!r}",
                hint="0 is the first aggregate that reads the input, (0, 0) the first that reads what it gives",
            )
        found, levels = levels[place], levels[place].below
    if found is None:
        raise invalid("level", path, "0 or a tuple of positions")
    return found


def _as_spark_reads_it(df: DataFrame, name: str) -> str:
    """Return the column that Spark finds by this name, even in another case, unless Spark is case-sensitive."""
    alike = [column for column in df.columns if column.lower() == name.lower()]
    if name in alike or len(alike) != 1 or df.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return name
    return alike[0]


def _time(df: DataFrame, time: str, arrangement: Arrangement, path: tuple[int, ...]) -> tuple[Column, int]:
    """Return the time of a row, and the delay of the watermark in milliseconds."""
    if time not in df.columns:
        raise unknown("time", time, df.columns)
    field = df.schema[time]
    delay = field.metadata.get(_WATERMARK)
    if len(path) > 1:
        if field.metadata.get(MARK) != _key(arrangement, path[:-1]):
            raise SpillwayError(
                f"time = {time!r} is not the window column of {arrangement!r} at level {path[:-1]}.",
                hint="group what windows() gave for that level by 'window', and pass the aggregate on",
            )
        return F.window_time(F.col(f"`{time}`")), int(delay or 0)
    if field.metadata.get(MARK):
        raise SpillwayError(
            f"time = {time!r} holds windows of {arrangement!r} already.",
            hint="for the aggregate that reads them give its level, such as level=(0, 0)",
        )
    column = resolve(df, "time", time, (T.TimestampType,), "timestamp")
    if delay is None:
        raise SpillwayError(
            f"time = {time!r} has no watermark, so windows would never close.",
            hint=f'call df.withWatermark("{time}", "10 minutes") first, with the delay your rows may have',
        )
    return column, int(delay)


def _key(arrangement: Arrangement, path: tuple[int, ...]) -> str:
    """Return a key that identifies windows, independent of how their lengths are written."""

    def tree(levels: tuple[Level, ...]) -> list[Any]:
        return [[level.window.size, level.window.slide, *tree(level.below)] for level in levels]

    return f"{tree(arrangement.levels())} at {path}"


def _windows_of(micros: Column, window: Window) -> Column:
    """Return how many windows contain a time."""
    if window.size % window.slide == 0:
        return F.lit(window.size // window.slide)
    return (_floor(micros, window.slide) - _floor(micros - window.size, window.slide)).cast("int")


def _floor(micros: Column, step: int) -> Column:
    """Return ⌊micros / step⌋ as a whole number, also for times before 1970."""
    return F.call_function("div", micros - F.pmod(micros, F.lit(step)), F.lit(step))


def _look_up(array: str, index: Column) -> Column:
    """Return the element of that index, null outside of the array.

    An index outside the range of int is moved to the nearest int, which is outside of the array, too. ``try_cast``
    would work as well, but throws and catches an exception for every such row, 4 µs each.
    """
    nearest = F.least(F.greatest(index, F.lit(-1)), F.lit(_LARGEST_INT))
    return F.get(array, nearest.cast("int"))
