"""The replay source's options and offsets, driven by a clock of our own; no JVM."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StructType

from spillway.errors import SpillwayError
from spillway.replay import Rates, ReplayOptions, ReplayReader, ReplaySource, Times, stream
from spillway.replay.reader import Range
from spillway.replay.source import _plainly

EPOCH = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    """Seconds after the epoch; moves only when told to."""

    after_s: float = 0.0

    def __call__(self) -> float:
        return EPOCH.timestamp() + self.after_s


def reader(clock: Clock | None = None, **options: str) -> ReplayReader:
    """Ten rows a second for ten seconds and a hundred in the next one, unless other times are given."""
    if "times" not in options:
        options = {"rates": Rates((10.0, 100.0), (10.0, 1.0)).to_json(), **options}
    source = ReplaySource(CaseInsensitiveDict(options))
    return ReplayReader(ReplayOptions.parse(options), source.schema(), clock=clock or Clock())


def rows_of(reader: ReplayReader, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
    parts = reader.partitions(start, end)
    return pa.Table.from_batches([batch for part in parts for batch in reader.read(part)]).combine_chunks()


def after(offset: dict[str, Any], rows: int) -> dict[str, Any]:
    return {**offset, "rows": rows}


class TestPace:
    def test_rows_arrive_as_the_trace_says_and_no_more_when_it_has_ended(self) -> None:
        clock = Clock()
        replay = reader(clock)
        start = replay.initialOffset()
        counts = []
        for clock.after_s in (0.0, 0.05, 0.1, 5.0, 10.0, 10.5, 11.0, 12.0, 1e6):
            counts.append(replay.latestOffset(start, ReadAllAvailable())["rows"])
        assert counts == [0, 0, 1, 50, 100, 150, 200, 200, 200]

    def test_speed_divides_the_times(self) -> None:
        clock = Clock()
        replay = reader(clock, speed="4")
        start = replay.initialOffset()
        clock.after_s = 2.5
        end = replay.latestOffset(start, ReadAllAvailable())
        assert end["rows"] == 100
        arrivals = rows_of(replay, start, end).column("timestamp").to_pylist()
        assert arrivals == [EPOCH + timedelta(seconds=(i + 1) / 40) for i in range(100)]

    @settings(max_examples=60, deadline=None)
    @given(
        times=st.lists(st.floats(0.0, 1000.0), min_size=1, max_size=30),
        speed=st.floats(0.01, 100.0),
        at_s=st.floats(0.0, 2000.0),
    )
    def test_a_row_is_there_exactly_when_its_arrival_time_has_come(
        self, times: list[float], speed: float, at_s: float
    ) -> None:
        """Up to the microsecond to which Spark's timestamps and the offsets are rounded."""
        clock = Clock()
        replay = reader(clock, times=json.dumps(sorted(times)), speed=repr(speed))
        start = replay.initialOffset()
        clock.after_s = 1e6
        everything = replay.latestOffset(start, ReadAllAvailable())
        arrivals = rows_of(replay, start, everything).column("timestamp").cast(pa.int64()).to_numpy()
        clock.after_s = at_s
        rows = replay.latestOffset(start, ReadAllAvailable())["rows"]
        now_us = int(clock() * 1e6)
        assert np.all(arrivals[:rows] <= now_us + 1)
        assert np.all(arrivals[rows:] >= now_us - 1)

    def test_the_epoch_is_fixed_by_the_first_question_and_then_by_the_offsets(self) -> None:
        clock = Clock(after_s=100.0)
        replay = reader(clock)
        start = replay.initialOffset()
        clock.after_s = 105.0
        assert replay.initialOffset() == start
        end = replay.latestOffset(start, ReadAllAvailable())
        assert end == after(start, 50)
        restarted = reader(Clock(after_s=109.0))
        assert restarted.latestOffset(end, ReadAllAvailable()) == after(start, 90)
        # Replayed from an initial offset that the new process made up, the first batch keeps its own epoch.
        again = reader(Clock(after_s=300.0))
        assert rows_of(again, again.initialOffset(), end).equals(rows_of(replay, start, end))
        assert again.reportLatestOffset() == after(start, 200)

    def test_a_start_in_the_past_or_future(self) -> None:
        clock = Clock(after_s=7.0)
        past = reader(clock, start="2026-05-01T14:00:00+02:00")
        assert past.latestOffset(past.initialOffset(), ReadAllAvailable())["rows"] == 70
        future = reader(clock, start="2026-05-01T12:00:08Z", times="[0]")
        start = future.initialOffset()
        assert future.latestOffset(start, ReadAllAvailable()) == start
        clock.after_s = 8.0
        assert future.latestOffset(start, ReadAllAvailable()) == after(start, 1)

    def test_a_clock_that_is_set_back_takes_nothing_away(self) -> None:
        clock = Clock()
        replay = reader(clock)
        start = replay.initialOffset()
        clock.after_s = 5.0
        end = replay.latestOffset(start, ReadAllAvailable())
        clock.after_s = -3600.0
        assert replay.latestOffset(end, ReadAllAvailable()) == end
        clock.after_s = 5.1
        assert replay.latestOffset(end, ReadAllAvailable()) == after(start, 51)


class TestAdmission:
    def test_the_option_is_the_default_limit_and_the_limit_given_is_obeyed(self) -> None:
        clock = Clock()
        replay = reader(clock, max_rows_per_batch="30")
        assert replay.getDefaultReadLimit() == ReadMaxRows(30)
        assert reader().getDefaultReadLimit() == ReadAllAvailable()
        start = replay.initialOffset()
        clock.after_s = 10.0
        assert replay.latestOffset(start, ReadMaxRows(30))["rows"] == 30
        assert replay.latestOffset(after(start, 90), ReadMaxRows(30))["rows"] == 100
        assert replay.latestOffset(start, ReadAllAvailable())["rows"] == 100
        assert replay.latestOffset(start, ReadMinRows(101)) == start
        assert replay.latestOffset(start, ReadMinRows(100))["rows"] == 100
        with pytest.raises(SpillwayError, match="limit"):
            replay.latestOffset(start, ReadMaxBytes(5))

    def test_available_now_ends_at_the_present(self) -> None:
        clock = Clock()
        replay = reader(clock)
        assert isinstance(replay, SupportsTriggerAvailableNow)
        start = replay.initialOffset()
        clock.after_s = 3.0
        replay.prepareForTriggerAvailableNow()
        clock.after_s = 9.0
        middle = replay.latestOffset(start, ReadMaxRows(20))
        end = replay.latestOffset(middle, ReadMaxRows(20))
        assert (middle["rows"], end["rows"]) == (20, 30)
        assert replay.latestOffset(end, ReadMaxRows(20)) == end
        assert replay.reportLatestOffset() == after(start, 90)

    def test_the_latest_offset_is_reported_once_the_epoch_is_known(self) -> None:
        clock = Clock()
        replay = reader(clock)
        assert replay.reportLatestOffset() is None
        start = replay.initialOffset()
        clock.after_s = 1.0
        assert replay.reportLatestOffset() == after(start, 10)


class TestRows:
    @settings(max_examples=40, deadline=None)
    @given(
        first=st.integers(0, 200), count=st.integers(0, 200), parts=st.integers(1, 9), other=st.integers(1, 9)
    )
    def test_ranges_are_contiguous_even_and_the_same_rows_however_cut(
        self, first: int, count: int, parts: int, other: int
    ) -> None:
        first, last = min(first, 200), min(first + count, 200)
        replay = reader(partitions=str(parts), row_number="n")
        start, end = (after(replay.initialOffset(), rows) for rows in (first, last))
        ranges = replay.partitions(start, end)
        assert [row for part in ranges for row in range(part.first, part.last)] == list(range(first, last))
        assert len(ranges) == min(parts, last - first)
        if not ranges:
            return
        sizes = [part.last - part.first for part in ranges]
        assert max(sizes) - min(sizes) <= 1
        rows = rows_of(replay, start, end)
        assert rows.column("n").to_pylist() == list(range(first, last))
        assert rows.equals(rows_of(reader(partitions=str(other), row_number="n"), start, end))

    def test_columns_are_arrival_number_and_those_of_the_rows(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"word": ["a", "b", "c"]}), tmp_path / "rows.parquet")
        replay = reader(rows=str(tmp_path), arrival="at", row_number="n")
        start = replay.initialOffset()
        rows = rows_of(replay, start, after(start, 5))
        assert rows.column_names == ["at", "n", "word"]
        assert rows.column("word").to_pylist() == ["a", "b", "c", "a", "b"]
        assert rows.column("at").to_pylist()[4] == EPOCH + timedelta(seconds=0.5)

    def test_what_is_pickled_into_each_task_is_small(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"t": np.arange(100_000.0)}), tmp_path / "times.parquet")
        replay = reader(times=str(tmp_path / "times.parquet"))
        text = pickle.dumps(ReplayReader(replay._options, ReplaySource(replay._options.text()).schema()))
        assert len(text) < 4_000
        copy = pickle.loads(text)
        part = Range(5, 8, 0)
        assert list(copy.read(part)) == list(replay.read(part))

    def test_a_schema_that_is_not_that_of_the_rows_is_refused(self) -> None:
        source = ReplaySource(CaseInsensitiveDict({"times": "[0]"}))
        with pytest.raises(SpillwayError, match="schema"):
            source.streamReader(StructType().add("id", LongType()))


class TestCheckpoint:
    def test_another_trace_speed_or_other_rows_are_refused(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"word": ["a"]}), tmp_path / "rows.parquet")
        offset = reader().initialOffset()
        for changed in (
            reader(rates='{"rates": [10], "spans_s": [10]}'),
            reader(times="[1]"),
            reader(speed="2"),
            reader(rows=str(tmp_path)),
        ):
            with pytest.raises(SpillwayError, match="another trace, other rows or another speed"):
                changed.latestOffset(offset, ReadAllAvailable())
            with pytest.raises(SpillwayError, match="new checkpoint"):
                changed.partitions(offset, offset)

    def test_limits_partitions_and_start_may_change(self) -> None:
        offset = after(reader().initialOffset(), 4)
        other = reader(max_rows_per_batch="1", partitions="7", start="2020-01-01T00:00:00Z", speed="1.0")
        assert other.latestOffset(offset, ReadMaxRows(1)) == offset

    def test_an_offset_of_another_source_is_refused(self) -> None:
        with pytest.raises(SpillwayError, match="no offset of a replay"):
            reader().latestOffset({"topic": {"0": 5}}, ReadAllAvailable())


RATES = Rates((10.0,), (10.0,)).to_json()


class TestOptions:
    def test_text_and_back(self) -> None:
        options = ReplayOptions(
            rates=RATES, speed=2.5, max_rows_per_batch=10, start="2026-05-01T12:00:00+00:00"
        )
        assert ReplayOptions.parse(options.text()) == options
        assert all(isinstance(value, str) for value in options.text().values())

    @pytest.mark.parametrize(
        ("options", "field", "message"),
        [
            ({"rates": RATES, "maxrows": "5"}, "option", "'max_rows_per_batch'"),
            ({"rates": RATES, "spede": "5"}, "option", "did you mean 'speed'"),
            ({}, "rates and times", "found none"),
            ({"rates": RATES, "times": "[1]"}, "rates and times", "found both"),
            (
                {"rates": RATES, "times_column": "t"},
                "times_column",
                "nothing where the trace is given as rates",
            ),
            ({"rates": RATES, "rows": "a", "generator": "b"}, "rows and generator", "found both"),
            ({"rates": RATES, "speed": "fast"}, "speed", "a number"),
            ({"rates": RATES, "speed": "0"}, "speed", "> 0"),
            ({"rates": RATES, "speed": "-1"}, "speed", "> 0"),
            ({"rates": RATES, "speed": "inf"}, "speed", "finite"),
            ({"rates": RATES, "speed": "nan"}, "speed", "finite"),
            ({"rates": RATES, "max_rows_per_batch": "0"}, "max_rows_per_batch", ">= 1"),
            ({"rates": RATES, "max_rows_per_batch": "1e3"}, "max_rows_per_batch", "a whole number"),
            ({"rates": RATES, "partitions": "0"}, "partitions", ">= 1"),
            ({"rates": RATES, "arrival": " "}, "arrival", "the name of a column"),
            ({"rates": RATES, "row_number": ""}, "row_number", "the name of a column"),
            ({"rates": RATES, "row_number": "Timestamp"}, "row_number", "another name"),
            ({"rates": RATES, "start": "soon"}, "start", "ISO 8601"),
            ({"rates": RATES, "start": "2026-05-01T12:00:00"}, "start", "offset from UTC"),
            ({"rates": RATES, "arrival": "Payload"}, "arrival", "no column of the rows has"),
            ({"rates": RATES, "row_number": "id"}, "row_number", "no column of the rows has"),
            ({"rates": RATES, "generator": "web_reqests"}, "generator", "did you mean 'web_requests'"),
            ({"rates": RATES, "rows": "/no/such/rows"}, "rows", "nothing at this path"),
            ({"rates": "{}"}, "Rates", "rates"),
            ({"rates": '{"rates": [-1], "spans_s": [1]}'}, "rates", ">= 0"),
            ({"times": "/no/such/times"}, "times", "nothing at this path"),
            ({"times": "[1, 2"}, "times", "JSON"),
            ({"times": "[]"}, "trace", "at least one"),
            ({"times": "[2, 1]"}, "arrivals_s", "in order"),
            ({"times": "[-1, 1]"}, "arrivals_s", ">= 0"),
            ({"times": "[NaN]"}, "arrivals_s", "finite"),
            ({"times": '["soon"]'}, "arrivals_s", "numbers"),
        ],
    )
    def test_whatever_is_wrong_is_told_when_the_stream_is_defined(
        self, options: dict[str, str], field: str, message: str
    ) -> None:
        with pytest.raises(SpillwayError) as error:
            ReplaySource(CaseInsensitiveDict(options)).schema()
        assert field in str(error.value)
        assert message in str(error.value)

    def test_times_from_a_file_are_checked_too(self, tmp_path: Path) -> None:
        path = tmp_path / "times.parquet"
        pq.write_table(pa.table({"t": [0.0, 2.0, 1.0], "u": [0.0, 1.0, float("nan")]}), path)
        for column, message in (("t", "in order"), ("u", "finite"), ("v", "'t', 'u'")):
            with pytest.raises(SpillwayError, match=message):
                ReplayOptions(times=str(path), times_column=column).trace()

    def test_values_of_the_wrong_type_are_refused_in_python(self) -> None:
        for name, value in (
            ("speed", "2"),
            ("partitions", 2.0),
            ("max_rows_per_batch", True),
            ("start", 5),
            ("arrival", 5),
        ):
            with pytest.raises(SpillwayError, match=name):
                ReplayOptions(rates=RATES, **{name: value})  # type: ignore[arg-type]
        assert ReplayOptions(rates=RATES, max_rows_per_batch=np.int64(3)).text()["max_rows_per_batch"] == "3"


class TestStream:
    """What is wrong is told before Spark is asked: these calls have no session at all."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"trace": 5}, "trace = 5"),
            ({"trace": Times(np.arange(200_000.0))}, "Parquet file"),
            ({"trace": Rates((1.0,), (1.0,)), "speed": 0}, "speed"),
            ({"trace": Rates((1.0,), (1.0,)), "generator": lambda *_: None}, "top level"),
            ({"trace": Rates((1.0,), (1.0,)), "start": datetime(2026, 5, 1)}, "offset from UTC"),
        ],
    )
    def test_bad_arguments(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(SpillwayError, match=message):
            stream(None, **arguments)  # type: ignore[arg-type]

    def test_what_sparks_python_ran_into_is_told_plainly(self) -> None:
        """Spark wraps it into a traceback; seen on Connect and without."""
        wrapped = AnalysisException(
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
            "OSError: gone\n\nThe above exception was the direct cause:\n"
            "spillway.errors.SpillwayError: rows = 'a' is not allowed. Hint: look again\n SQLSTATE: 38000"
        )
        told = _plainly(wrapped)
        assert isinstance(told, SpillwayError)
        assert (str(told), told.hint) == ("rows = 'a' is not allowed. Hint: look again", "look again")
        elsewhere = AnalysisException("Traceback:\nModuleNotFoundError: No module named 'spillway'\n")
        assert "PYSPARK_PYTHON" in str(_plainly(elsewhere))
        other = AnalysisException("something else")
        assert _plainly(other) is other
