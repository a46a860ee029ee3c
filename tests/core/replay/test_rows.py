"""Rows by number: from Parquet files in a loop and from generators, against slow oracles; no JVM."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.errors import SpillwayError
from spillway.replay import GeneratedRows, ParquetRows, web_requests
from spillway.replay import rows as rows_module
from spillway.replay.files import arrival_times, parquet_files
from spillway.replay.rows import BATCH_ROWS, RowSource, open_rows


def write(path: Path, columns: dict[str, object] | pa.Table, **options: object) -> str:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)
    return str(path)


def numbers(source: RowSource, first: int, last: int) -> list[object]:
    return [value for batch in source.read(first, last) for value in batch.column(0).to_pylist()]


# Row generators for the tests below, found by name

CALLS = iter(range(10**6))


def squares(first: int, rows: int) -> pa.Table:
    return pa.table({"n": [number * number for number in range(first, first + rows)]})


def moody(_first: int, rows: int) -> pa.Table:
    return pa.table({"n": [next(CALLS) for _ in range(rows)]})


def restarting(_first: int, rows: int) -> pa.Table:
    return pa.table({"n": list(range(rows))})


def short(first: int, rows: int) -> pa.Table:
    return pa.table({"n": list(range(first, first + min(rows, 2)))})


def listing(_first: int, rows: int) -> list[int]:
    return [0] * rows


def failing(_first: int, _rows: int) -> pa.Table:
    raise RuntimeError("no rows today")


NOT_A_FUNCTION = 5


class TestParquetRows:
    @settings(max_examples=40, deadline=None)
    @given(
        files=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=4),
        segment_rows=st.sampled_from([1, 10, 1 << 16]),
        batch_rows=st.sampled_from([1, 7, 32, 1 << 14]),
        ranges=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 120)), min_size=1, max_size=6),
    )
    def test_row_i_is_row_i_mod_n_of_the_files_in_order(
        self,
        files: list[tuple[int, int]],
        segment_rows: int,
        batch_rows: int,
        ranges: list[tuple[int, int]],
    ) -> None:
        """Whatever the files, their row groups, the size of the batches and the cache."""
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.setattr(rows_module, "SEGMENT_ROWS", segment_rows)
            patch.setattr(rows_module, "BATCH_ROWS", batch_rows)
            patch.setattr(rows_module, "CACHE_BYTES", 200)
            everything: list[int] = []
            for name, (count, group) in enumerate(files):
                mine = list(range(len(everything), len(everything) + count))
                write(
                    Path(folder, f"{name}.parquet"),
                    pa.table({"n": pa.array(mine, pa.int64())}),
                    row_group_size=group,
                )
                everything += mine
            if not everything:
                with pytest.raises(SpillwayError, match="at least one row"):
                    ParquetRows(folder)
                return
            source = ParquetRows(folder)
            for first, count in ranges:
                batches = list(source.read(first, first + count))
                assert all(0 < batch.num_rows <= batch_rows for batch in batches)
                found = [value for batch in batches for value in batch.column(0).to_pylist()]
                assert found == [everything[i % len(everything)] for i in range(first, first + count)]

    def test_a_few_rows_still_make_large_batches(self, tmp_path: Path) -> None:
        source = ParquetRows(write(tmp_path / "a.parquet", {"n": [1, 2, 3]}))
        sizes = [batch.num_rows for batch in source.read(0, 100_000)]
        assert sum(sizes) == 100_000
        assert len(sizes) <= 14

    def test_batches_are_slices_not_copies(self, tmp_path: Path) -> None:
        source = ParquetRows(write(tmp_path / "a.parquet", {"n": list(range(40_000))}))
        (one,) = source.read(100, 200)
        (two,) = source.read(150, 250)
        assert one.column(0).buffers()[1].address == two.column(0).buffers()[1].address

    def test_the_cache_is_bounded_and_keeps_what_was_used_last(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rows_module, "SEGMENT_ROWS", 100)
        monkeypatch.setattr(rows_module, "CACHE_BYTES", 2_000)
        path = write(tmp_path / "a.parquet", {"n": list(range(20_000))}, row_group_size=100)
        source = ParquetRows(path)
        assert numbers(source, 0, 20_000) == list(range(20_000))
        assert list(source._cache) == [198, 199]

    def test_hidden_and_other_files_are_left_out(self, tmp_path: Path) -> None:
        write(tmp_path / "part-1.parquet", {"n": [1]})
        write(tmp_path / "part-0.parquet", {"n": [0]})
        write(tmp_path / "_temporary.parquet", {"n": [7]})
        write(tmp_path / ".part-2.parquet", {"n": [8]})
        (tmp_path / "_SUCCESS").touch()
        assert numbers(ParquetRows(str(tmp_path)), 0, 3) == [0, 1, 0]

    def test_a_uri_works_like_a_path(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.parquet", {"n": [5]})
        assert numbers(ParquetRows(f"file://{path}"), 0, 1) == [5]

    def test_types_become_those_that_spark_reads(self, tmp_path: Path) -> None:
        noon = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
        table = pa.table(
            {
                "u8": pa.array([200], pa.uint8()),
                "u64": pa.array([2**64 - 1], pa.uint64()),
                "half": pa.array([0.5], pa.float16()),
                "utc": pa.array([noon], pa.timestamp("ns", "UTC")),
                "wall": pa.array([noon.replace(tzinfo=None)], pa.timestamp("ms")),
                "word": pa.array(["a"]).dictionary_encode(),
                "large": pa.array(["b"], pa.large_string()),
                "list": pa.array([[1, None]], pa.list_(pa.int32())),
                "pair": pa.array([{"x": 1.5, "y": None}]),
            }
        )
        source = ParquetRows(write(tmp_path / "a.parquet", table))
        (batch,) = source.read(0, 1)
        assert batch.schema == source.schema
        assert [str(kind) for kind in source.schema.types[:7]] == [
            *(
                "int16",
                "decimal128(20, 0)",
                "float",
                "timestamp[us, tz=UTC]",
                "timestamp[us]",
                "string",
                "string",
            )
        ]
        (row,) = batch.to_pylist()
        assert row["u8"] == 200
        assert row["u64"] == decimal.Decimal(2**64 - 1)
        assert row["utc"] == noon
        assert row["list"] == [1, None]
        assert row["pair"] == {"x": 1.5, "y": None}

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda folder: str(folder / "none.parquet"), "there is nothing at this path"),
            (str, r"a directory with \*.parquet files"),
            (lambda folder: write(folder / "a.parquet", {"n": pa.array([], pa.int64())}), "at least one row"),
            (
                lambda folder: str((folder / "b.parquet").write_text("no") and folder),
                "b.parquet cannot be read",
            ),
            (lambda folder: write(folder / "a.parquet", {"d": [1], "D": [2]}), "distinct names"),
            (lambda _: "nowhere://bucket/rows", "a URI that pyarrow can open"),
        ],
    )
    def test_bad_input_is_told_at_once(self, tmp_path: Path, make: object, message: str) -> None:
        with pytest.raises(SpillwayError, match=message) as error:
            open_rows(make(tmp_path), None)  # type: ignore[operator]
        assert "rows" in str(error.value)

    def test_files_that_differ_and_types_without_a_counterpart_are_refused(self, tmp_path: Path) -> None:
        write(tmp_path / "a.parquet", {"n": [1]})
        write(tmp_path / "b.parquet", {"m": [1]})
        with pytest.raises(SpillwayError, match=r"b\.parquet and a\.parquet differ"):
            ParquetRows(str(tmp_path))
        odd = pa.table({"odd": pa.array([[1]], pa.list_(pa.uint32()))})
        with pytest.raises(SpillwayError, match="column 'odd'"):
            ParquetRows(write(tmp_path / "c.parquet", odd))

    def test_a_source_is_opened_once_and_again_when_the_file_changes(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.parquet", {"n": [1]})
        first = open_rows(path, None)
        assert open_rows(path, None) is first
        write(tmp_path / "a.parquet", {"n": [1, 2]})
        os.utime(path, ns=(1, 1))
        second = open_rows(path, None)
        assert numbers(second, 0, 2) == [1, 2]
        assert second.identity != first.identity

    def test_identity_does_not_depend_on_the_place(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        (tmp_path / "y").mkdir()
        here, there = (ParquetRows(write(tmp_path / name / "a.parquet", {"n": [1]})) for name in "xy")
        assert here.identity == there.identity


class TestGeneratedRows:
    @settings(max_examples=30, deadline=None)
    @given(first=st.integers(0, 3 * BATCH_ROWS), count=st.integers(0, 2 * BATCH_ROWS))
    def test_rows_are_those_of_the_function(self, first: int, count: int) -> None:
        found = numbers(GeneratedRows(f"{__name__}:squares"), first, first + count)
        assert found == [number**2 for number in range(first, first + count)]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("web_request", "did you mean 'web_requests'"),
            ("no.such.module:rows", "No module named"),
            (f"{__name__}:missing", "has no attribute 'missing'"),
            (f"{__name__}:NOT_A_FUNCTION", "a function"),
            (f"{__name__}:moody", "a pure function of the row numbers"),
            (f"{__name__}:restarting", "a pure function of the row numbers"),
            (f"{__name__}:listing", "found a list"),
            (f"{__name__}:failing", "no rows today"),
        ],
    )
    def test_bad_generators_are_told_at_once(self, name: str, message: str) -> None:
        with pytest.raises(SpillwayError, match=message) as error:
            open_rows(None, name)
        assert "generator" in str(error.value)

    def test_a_generator_that_stops_short_is_told_when_it_does(self) -> None:
        source = GeneratedRows(f"{__name__}:short")
        with pytest.raises(SpillwayError, match="made 2 rows instead of 3"):
            list(source.read(0, 3))


class TestWebRequests:
    @settings(max_examples=30, deadline=None)
    @given(first=st.integers(0, 1 << 40), cut=st.integers(0, 40_000), count=st.integers(0, 40_000))
    def test_a_range_is_the_same_however_it_is_cut(self, first: int, cut: int, count: int) -> None:
        whole = web_requests(first, count)
        parts = [
            web_requests(first, min(cut, count)),
            web_requests(first + min(cut, count), max(count - cut, 0)),
        ]
        assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())
        assert whole.column("id").to_pylist() == list(range(first, first + count))

    def test_rows_never_change(self) -> None:
        """Were they to change, checkpoints made before would be replayed with other rows."""
        (row,) = web_requests(123_456, 1).to_pylist()
        assert row == {
            "id": 123_456,
            "payload": '{"agent":"Mozilla/5.0 (Android 14; Mobile) Chrome/126.0",'
            '"url":"/metrics?q=pan&page=11","ip":"10.104.31.6","session":"6d0338afe95c4091","latency_ms":10.9,'
            '"status":304,"country":"FR","lat":46.7824,"lon":2.4269,"priority":1,"bytes":31837}',
            "route": "/metrics",
            "user": 100_321,
            "priority": 1,
            "vip": False,
        }

    def test_payloads_are_json_of_the_promised_size_and_agree_with_the_columns(self) -> None:
        rows = web_requests(0, 1 << 16)
        payloads = rows.column("payload").to_pylist()
        assert len(set(payloads)) == 1 << 16
        assert all(200 <= len(payload) <= 256 for payload in payloads)
        for payload, route, priority in zip(
            payloads[::97],
            rows.column("route").to_pylist()[::97],
            rows.column("priority").to_pylist()[::97],
            strict=True,
        ):
            event = json.loads(payload)
            assert event["url"].partition("?")[0] == route
            assert event["priority"] == priority
            assert -90 <= event["lat"] <= 90
            assert 2 <= event["latency_ms"] < 1000

    def test_shares_are_skewed_as_promised(self) -> None:
        rows = web_requests(0, 1 << 16).to_pandas()
        shares = rows.priority.value_counts(normalize=True)
        assert list(shares.index) == [1, 2, 3, 4, 5]
        assert 0.64 < shares[1] < 0.7
        assert 0.04 < shares[5] < 0.07
        assert 0.015 < rows.vip.mean() < 0.025
        assert 0.18 < (rows.route == "/").mean() < 0.22


class TestArrivalTimes:
    def times(self, path: str, column: str | None = None) -> list[float]:
        return arrival_times(path, parquet_files(path, "times"), column).tolist()

    def test_numbers_are_seconds_and_timestamps_count_from_the_first(self, tmp_path: Path) -> None:
        at = [datetime.datetime(2026, 5, 1, 12, 0, second, tzinfo=datetime.UTC) for second in (1, 2, 4)]
        path = write(
            tmp_path / "a.parquet",
            {
                "f": [0.5, 1.0, 2.0],
                "i": [1, 2, 3],
                "at": pa.array(at),
                "s": ["a", "b", "c"],
                "n": [1.0, None, 2.0],
            },
        )
        assert self.times(path, "f") == [0.5, 1.0, 2.0]
        assert self.times(path, "i") == [1.0, 2.0, 3.0]
        assert self.times(path, "at") == [0.0, 1.0, 3.0]
        for column, message in (
            ("s", "it has the type string"),
            ("n", "no nulls, found 1"),
            ("g", "one of"),
            (None, "'f'"),
        ):
            with pytest.raises(SpillwayError, match=message) as error:
                self.times(path, column)
            assert "times_column" in str(error.value)

    def test_a_directory_is_one_trace_and_a_single_column_needs_no_name(self, tmp_path: Path) -> None:
        write(tmp_path / "a.parquet", {"t": [0.0, 1.0]})
        write(tmp_path / "b.parquet", {"t": [2.0]})
        assert self.times(str(tmp_path)) == [0.0, 1.0, 2.0]
