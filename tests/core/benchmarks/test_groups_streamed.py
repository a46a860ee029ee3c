"""The benchmark of the Spark path, without Spark: which rows are in which window, and what answers are worth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.groups.streamed import Rows, Scores, figure_of, metrics, score
from benchmarks.groups.windows import windows_of
from spillway.replay.recorded import DataSet, in_order


@pytest.fixture
def windows():
    """Two rows a second for five minutes, of groups 0 and 1, values 10 and 20; a minute sliding by half of it."""
    n = np.arange(600)
    table = in_order(
        pa.array(n % 2),
        pa.array(10.0 + 10.0 * (n % 2)),
        pa.array(500_000 * n, pa.timestamp("us")),
        pa.array(n),
    )
    data = DataSet(name="made", query="", window_s=60.0, slide_s=30.0, spans=(table,))
    (span,) = windows_of(data).spans
    return span


def test_rows_are_played_once_and_early_windows_are_left_out(windows) -> None:
    rows = Rows.of(windows, skipped=100)
    assert rows.table["row"].to_pylist() == sorted(set(rows.table["row"].to_pylist()))
    assert [window.start_s for window in rows.windows] == [
        window.start_s for window in windows if window.start_s >= 50
    ]
    assert np.bincount(rows.window_of).tolist() == [120] * len(rows.windows)
    batches = Rows.in_batches(windows, 200)
    assert [window.rows for window in batches.windows] == [200] * len(batches.windows)
    assert batches.row_of.tolist() == batches.table["row"].to_pylist()


def test_answers_are_scored_window_by_window(windows) -> None:
    rows = Rows.of(windows[:2], skipped=0)
    whole = {"window": 0, "group": 0, "mean": {"value": 10.0, "low": 10.0, "high": 10.0}, "rows": 60}
    near = {"window": 0, "group": 1, "mean": {"value": 19.0, "low": 18.0, "high": 20.5}, "rows": 5}
    off = {"window": 1, "group": 1, "mean": {"value": 16.0, "low": 15.0, "high": 17.0}, "rows": 5}
    errors, missing, inside, lost = score(rows, [near, off, whole])
    assert errors == pytest.approx([0.025, (1.0 + 0.2) / 2])
    assert missing == [0, 1]
    assert inside.tolist() == [True, True, False]
    assert lost.tolist() == [False, True, True]


def test_metrics_are_told_by_path_and_name() -> None:
    each = Scores(
        windows=2,
        rows_per_batch=10,
        processed=0.02,
        error=0.1,
        error_uniform=0.4,
        missing=0.5,
        missing_uniform=3.0,
        coverage=0.95,
        coverage_sampled=None,
    )
    found = {"stream": {"debs": each}, "batch": {}}
    told = metrics(found)
    assert told["stream.error.uniform_over_cod.debs"] == pytest.approx(4.0)
    assert told["stream.missing_groups.debs"] == 0.5
    assert "stream.coverage95_sampled.debs" not in told, "no group lost rows"
    assert figure_of(found).holds
