"""Recorded and made-up streams with groups: any file with the right columns is taken, as a span of its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.errors import SpillwayError
from spillway.replay.recorded import SOURCES, recorded
from spillway.replay.rides import rides

MICROS = pa.timestamp("us")


def write(path, **columns):
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.table(columns), path)


def rows(data):
    return [
        [tuple(row.values()) for row in span.select(["group", "value", "row"]).to_pylist()]
        for span in data.spans
    ]


def test_submissions_are_taken_and_the_first_snapshot_is_not(tmp_path):
    write(
        tmp_path / "trace" / "tasks.parquet",
        time_us=pa.array([0, 5_000_000, 7_000_000, 6_000_000, 8_000_000], pa.uint64()),
        event_type=pa.array([0, 0, 1, 0, 0], pa.int8()),
        user=pa.array(["a", "a", "b", "b", "a"]).dictionary_encode(),
        scheduling_class=pa.array([0, 1, 2, 3, 1], pa.int8()),
        cpu_request=[0.1, 0.2, 0.3, 0.4, None],
    )
    assert rows(recorded("google_user", tmp_path)) == [[("a", 0.2, 1), ("b", 0.4, 3)]]
    by_class = recorded("google_class", tmp_path)
    assert rows(by_class) == [[(1, 0.2, 1), (3, 0.4, 3)]]
    assert (by_class.window_s, by_class.slide_s, by_class.rows) == (3600, 1800, 2)
    assert by_class.spans[0]["time"].cast(pa.int64()).to_pylist() == [5_000_000, 6_000_000]


def test_flights_and_taxis_are_put_in_order_of_time(tmp_path):
    write(
        tmp_path / "flights.parquet",
        date=pa.array([2_000_000, 1_000_000], MICROS),
        delay=[-5, 10],
        distance=[100, 200],
        origin=pa.array(["LAS", "ATL"], pa.large_string()),
        destination=pa.array(["PHL", "SAV"], pa.large_string()),
    )
    write(
        tmp_path / "taxi" / "green.parquet",
        lpep_dropoff_datetime=pa.array([2_000_000, 1_000_000, None], MICROS),
        pulocationid=[74, 75, 76],
        dolocationid=[41, 42, 43],
        fare_amount=[12.5, float("nan"), 3.0],
    )
    assert rows(recorded("flights", tmp_path)) == [[("ATL-SAV", 210.0, 1), ("LAS-PHL", 95.0, 0)]]
    assert rows(recorded("flights_delay", tmp_path)) == [[("ATL-SAV", 10.0, 1), ("LAS-PHL", 5.0, 0)]]
    assert rows(recorded("taxi", tmp_path)) == [[(74, 12.5, 0)]]
    assert rows(recorded("taxi_route", tmp_path)) == [[("74-41", 12.5, 0)]]


def test_every_file_is_a_span_of_its_own_and_frames_without_a_size_are_left_out(tmp_path):
    write(tmp_path / "a.parquet", t=[0.5, 1.25, 2.0], frame_bytes=pa.array([64, 1518, None], pa.int32()))
    write(tmp_path / "b.parquet", t=[0.25], frame_bytes=pa.array([100], pa.int32()))
    write(tmp_path / "c.parquet", t=[0.0])
    (tmp_path / "d.parquet").write_text("no Parquet")
    packets = recorded("packets", tmp_path)
    assert packets.scalar
    assert rows(packets) == [[(0, 64.0, 0), (0, 1518.0, 1)], [(0, 100.0, 0)]]
    assert packets.spans[0]["time"].cast(pa.int64()).to_pylist() == [500_000, 1_250_000]


def test_what_is_absent_or_unknown_is_told(tmp_path):
    with pytest.raises(SpillwayError, match=r"flights is made from the columns date, .*no Parquet file"):
        recorded("flights", tmp_path)
    with pytest.raises(SpillwayError, match="did you mean 'flights'"):
        recorded("flight", tmp_path)
    write(
        tmp_path / "bad.parquet",
        date=["x"],
        delay=["y"],
        distance=["z"],
        origin=["o"],
        destination=["d"],
    )
    with pytest.raises(SpillwayError, match=r"bad\.parquet: cannot be read"):
        recorded("flights", tmp_path)


def test_made_up_rides_have_the_shape_that_their_text_says():
    made = rides(duration_s=1_800, seed=3)
    (table,) = made.spans
    counts = np.unique(table["group"].to_numpy(), return_counts=True)[1]
    assert 90_000 < made.rows < 120_000
    assert 1_000 < counts.size < 2_000
    assert 0.4 < (counts == 1).mean() < 0.6
    assert counts.max() < 0.3 * made.rows
    fares = np.log(table["value"].to_numpy())
    first = np.flatnonzero(table["group"].to_numpy() == np.bincount(table["group"].to_numpy()).argmax())
    assert 0.17 < fares[first].std() < 0.21
    assert table.equals(rides(duration_s=1_800, seed=3).spans[0])
    assert not table.equals(rides(duration_s=1_800, seed=4).spans[0])
    with pytest.raises(SpillwayError, match="duration_s"):
        rides(duration_s=0.0)


@pytest.mark.parametrize("name", SOURCES)
def test_the_recorded_data_sets_load(name, data_dir):
    try:
        data = recorded(name, data_dir)
    except SpillwayError as error:
        pytest.skip(str(error))
    for span in data.spans:
        times = span["time"].cast(pa.int64()).to_numpy()
        assert (np.diff(times) >= 0).all()
        assert times[-1] - times[0] > 1e6 * data.window_s
