"""Recorded arrivals: any file with a column of times is taken, any other is refused with a reason."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.errors import SpillwayError
from spillway.replay import loaders
from spillway.replay.traces import Times


def write(path, **columns):
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_every_file_with_times_is_found(tmp_path):
    write(tmp_path / "arrivals" / "b.parquet", t=[3.0, 1.0, 2.0])
    write(tmp_path / "arrivals" / "a.parquet", size=[1, 2], seen=[10.0, 12.5])
    write(tmp_path / "other" / "c.parquet", t=[0.0])
    files = loaders.arrival_files(tmp_path)
    assert [file.name for file in files] == ["a.parquet", "b.parquet"]
    assert loaders.load(files[0]) == Times([0.0, 2.5])
    assert loaders.load(files[1]) == Times([0.0, 1.0, 2.0])


def test_a_column_called_t_goes_before_other_floats_and_may_be_whole_seconds(tmp_path):
    path = write(tmp_path / "x.parquet", weight=[0.5, 0.25], t=[7, 9])
    assert loaders.load(path) == Times([0.0, 2.0])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"name": ["a", "b"]}, "no column of arrival times"),
        ({"t": ["a", "b"]}, "no column of arrival times"),
        ({"t": [1.0, None]}, "are missing"),
        ({"t": [1.0, float("inf")]}, "no finite number"),
        ({"t": [1.0, float("nan")]}, "no finite number"),
        ({"t": [1.0]}, "no trace"),
        ({"t": [1.0, 1.0]}, "no trace"),
        ({"t": pa.array([], pa.float64())}, "no trace"),
    ],
)
def test_an_unusable_file_is_named_with_the_reason(tmp_path, columns, words):
    path = write(tmp_path / "bad.parquet", **columns)
    with pytest.raises(SpillwayError, match=rf"bad\.parquet: .*{words}"):
        loaders.load(path)


def test_what_is_no_parquet_is_refused(tmp_path):
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(SpillwayError, match=r"text\.parquet: not a readable Parquet file"):
        loaders.load(tmp_path / "text.parquet")


def test_the_data_folder_is_where_the_variable_points(tmp_path):
    assert loaders.data_dir({"SPILLWAY_DATA": str(tmp_path)}) == tmp_path
    with pytest.raises(SpillwayError, match="a folder that exists"):
        loaders.data_dir({"SPILLWAY_DATA": str(tmp_path / "nowhere")})


def test_spans_lie_evenly_and_have_their_length_and_rate():
    trace = Times(np.sort(np.random.default_rng(1).uniform(0.0, 3600.0, 360_000)))
    found = loaders.spans(trace, count=4, length_s=400.0, rates=(200.0, 300.0))
    assert [span.total for span in found] == [80_000, 120_000, 80_000, 120_000]
    for span in found:
        assert span.duration_s == pytest.approx(400.0)
        assert span.count(0.0) >= 1
    assert found == loaders.spans(trace, count=4, length_s=400.0, rates=(200.0, 300.0))


def test_a_short_recording_gives_fewer_spans_and_a_tiny_one_is_taken_whole():
    trace = Times(np.arange(1000.0))
    assert len(loaders.spans(trace, count=10, length_s=40.0, rates=(10.0,))) == 4
    (whole,) = loaders.spans(trace, count=10, length_s=400.0, rates=(10.0,))
    assert (whole.total, whole.duration_s) == (1000, pytest.approx(100.0))
    with pytest.raises(SpillwayError, match="1,000 arrivals is too short"):
        loaders.spans(trace, count=10, length_s=400.0, rates=(10.0, 20.0))


def test_spans_need_something_to_cut_into():
    with pytest.raises(SpillwayError, match="count >= 1"):
        loaders.spans(Times([0.0, 1.0]), count=0, length_s=1.0, rates=(1.0,))


@pytest.mark.data
def test_the_recorded_data_sets_load():
    files = loaders.arrival_files()
    if not files:
        pytest.skip("no recorded arrivals: set SPILLWAY_DATA")
    for file in files:
        trace = loaders.load(file)
        assert trace.total > 1000
        assert loaders.spans(trace, count=2, length_s=100.0, rates=(285.0,))
