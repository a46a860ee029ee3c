"""The groups suite: errors and ratios as worked out by hand, absent data told, the JSON in small."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spillway.bench.groups.errors import ratio, relative_errors, share_for
from spillway.bench.groups.windows import Limits, windows_of
from spillway.errors import SpillwayError
from spillway.replay.recorded import DataSet, in_order


def stream(times_s, groups, values, *, window_s=60.0, slide_s=30.0, name="made", **options):
    micros = pa.array([round(1e6 * t) for t in times_s], pa.timestamp("us"))
    table = in_order(pa.array(groups), pa.array(values, pa.float64()), micros, pa.array(range(len(groups))))
    return DataSet(name=name, query="", window_s=window_s, slide_s=slide_s, spans=(table,), **options)


def test_windows_are_whole_and_have_their_exact_answers():
    """Rows every second from 10 to 249: windows begin at 30, 60, ... and end by 240."""
    times = range(10, 250)
    data = stream(times, ["ab"[t % 2] for t in times], [float(t) for t in times])
    found = windows_of(data).windows
    assert [window.start_s for window in found] == [30, 60, 90, 120, 150, 180]
    first = found[0]
    assert first.rows == 60
    assert first.sizes.tolist() == [30, 30]
    assert first.truth.tolist() == [np.mean(range(30, 90, 2)), np.mean(range(31, 90, 2))]
    assert found[1].groups.tolist() == first.groups.tolist() == [0, 1]
    some = first.table.slice(0, 3)  # times 30, 31, 32
    assert first.means(some, np.array([1.0, 1.0, 3.0])).tolist() == [31.5, 31.0]
    assert np.isnan(first.means(some.slice(0, 1))).tolist() == [False, True]
    short = windows_of(data, Limits(rows=120, least_windows=2, least_answers=1)).windows
    assert [window.start_s for window in short] == [90, 120]
    assert short[0].table["row"].to_pylist() == list(range(80, 140))


def test_a_stream_without_a_whole_window_is_refused():
    with pytest.raises(SpillwayError, match="made: no whole window of 60 s with at least 50 rows"):
        windows_of(stream(range(49), [0] * 49, [1.0] * 49))
    with pytest.raises(SpillwayError, match="no whole window"):
        windows_of(stream(range(0, 490, 10), [0] * 49, [1.0] * 49))


def test_errors_are_relative_bounded_and_count_what_is_missing():
    truth = np.array([10.0, -10.0, 10.0, 10.0, 0.0, 0.0])
    estimate = np.array([9.0, -12.0, np.nan, 50.0, 0.0, 0.1])
    assert relative_errors(truth, estimate).tolist() == pytest.approx([0.1, 0.2, 1.0, 1.0, 0.0, 1.0])


def test_the_share_for_an_error_lies_between_what_was_measured():
    shares, errors = np.array([0.02, 0.1, 0.5]), np.array([0.9, 0.8, 0.4])
    assert share_for(0.95, shares, errors) == 0.02
    assert share_for(0.6, shares, errors) == pytest.approx(0.3)
    assert share_for(0.2, shares, errors) == pytest.approx(0.75)
    assert share_for(0.0, shares, errors) == 1.0
    assert share_for(0.5, shares, np.array([0.9, 0.4, 0.5])) == pytest.approx(0.084), "noise is smoothed"


def test_ratios_of_errors_have_a_floor():
    assert (ratio(0.3, 0.1), ratio(0.0, 0.0)) == (pytest.approx(3.0), 1.0)
