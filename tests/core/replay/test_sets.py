"""The join paper's streams: popularity, its movement, sizes, arrivals; and news as two streams."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.errors import SpillwayError
from spillway.replay.news import news
from spillway.replay.sets import SetStream, arrivals
from spillway.replay.traces import Rates

TRACE = Rates((2_000.0,), (10.0,))


def test_sets_are_sorted_distinct_and_of_the_right_size():
    table = SetStream(cycle_s=40.0).table(TRACE, seed=3)
    sets = table["items"].to_pylist()
    assert all(each == sorted(set(each)) and each[0] >= 1 and each[-1] <= 100 for each in sets)
    sizes = np.array([len(each) for each in sets])
    assert sizes.mean() == pytest.approx(5.0, abs=0.05)
    assert sizes.std() == pytest.approx(1.04, abs=0.05), "a deviation of 1, rounded"
    assert (np.diff(table["time"].to_numpy()) >= 0).all()


@pytest.mark.parametrize("skew", [0.6, 1.0])
def test_items_are_drawn_one_after_the_other_by_a_zipf_law(skew):
    """The first item has the law itself; the later ones that of what is left, as drawn by waiting times."""
    rng = np.random.default_rng(1)
    ranks, sizes = SetStream(cycle_s=1.0, skew=skew).draw(rng, 40_000)
    law = np.arange(1, 101) ** -skew
    first = np.bincount(ranks[:, 0], minlength=100) / len(ranks)
    assert first[:5] == pytest.approx(law[:5] / law.sum(), rel=0.1)
    waits = np.argsort(rng.standard_exponential((40_000, 100)) / law, axis=1)
    fourth = np.bincount(ranks[sizes > 3, 3], minlength=100) / (sizes > 3).sum()
    expected = np.bincount(waits[:, 3], minlength=100) / len(waits)
    assert fourth[:5] == pytest.approx(expected[:5], rel=0.12)


def test_sets_of_all_items_are_drawn_too():
    ranks, sizes = SetStream(cycle_s=1.0, items=4, mean=4.0, skew=3.0).draw(np.random.default_rng(0), 500)
    for row, size in zip(ranks, sizes, strict=True):
        assert len(set(row[:size])) == size


def test_the_popular_item_moves_on_and_comes_back():
    """At a quarter of the cycle the leader is item 26; a shift of a quarter takes it there later."""
    own, late = SetStream(cycle_s=40.0), SetStream(cycle_s=40.0, shift_s=10.0)
    at = np.array([0.0, 10.0, 39.99, 40.0])
    assert own.leader(at).tolist() == [0, 25, 99, 0]
    assert late.leader(at).tolist() == [75, 0, 74, 75]
    values = SetStream(cycle_s=40.0, items=5000, mean=1.0, sd=0.0, skew=1.5).table(TRACE, seed=1)
    counts = np.bincount(values["items"].to_numpy()[:400])
    assert pa.types.is_integer(values["items"].type)
    assert counts.argmax() <= 30, "in the first fifth of a second the leader is among the first items"


def test_arrivals_follow_the_trace_and_are_not_in_step():
    trace = Rates((100.0, 500.0, 0.0), (10.0, 2.0, 5.0))
    one, other = (arrivals(trace, np.random.default_rng(seed)) for seed in (1, 2))
    assert [int(((one >= low) & (one < high)).sum()) for low, high in ((0, 10), (10, 12), (12, 17))] == [
        1000,
        1000,
        0,
    ]
    assert len(one) == len(other)
    assert not (one == other).any()


def test_the_same_seed_gives_the_same_rows():
    stream = SetStream(cycle_s=4.0)
    assert stream.table(TRACE, seed=5).equals(stream.table(TRACE, seed=5))
    assert not stream.table(TRACE, seed=5).equals(stream.table(TRACE, seed=6))


@pytest.mark.parametrize(
    "wrong", [{"cycle_s": 0.0}, {"skew": -1.0}, {"items": 0}, {"mean": 0.5}, {"sd": -1.0}]
)
def test_a_wrong_stream_is_refused(wrong):
    with pytest.raises(SpillwayError, match=next(iter(wrong))):
        SetStream(**{"cycle_s": 1.0, **wrong})


def test_news_are_two_streams_in_order(tmp_path):
    at = [datetime(1987, 3, day) for day in (3, 1, 2, 4)]
    columns = {
        "ts": pa.array([*at, None], pa.timestamp("ms")),
        "service": ["F Y", "RM", "F", "C T", "F"],
        "keywords": [["oil"], ["rain"], ["gold"], None, ["tin"]],
        "weights": [[1.0], [0.5], [0.25], [1.0], [1.0]],
    }
    pq.write_table(pa.table(columns), tmp_path / "stories.parquet")
    left, right = news(tmp_path)
    assert left["words"].to_pylist() == [["gold"], ["oil"]]
    assert right["words"].to_pylist() == [["rain"]]
    assert left["time"].type == pa.timestamp("us")
    with pytest.raises(SpillwayError, match="no Parquet file in the data folder has them"):
        news(tmp_path / "nothing")
