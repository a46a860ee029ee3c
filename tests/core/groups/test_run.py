"""Windows of groups in memory: which windows and groups are answered, with what, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.groups import METADATA, OperatorConfig, Quantile, Ratio, SpreadConfig, draws, run, session
from spillway.core.windows import run as run_windows
from spillway.core.windows import sliding, tumbling
from spillway.errors import SpillwayError


def rides(rows: int = 600) -> pa.Table:
    chosen = np.random.default_rng(0)
    route = chosen.choice(["a", "b", "c"], rows, p=[0.7, 0.25, 0.05])
    fare = chosen.gamma(3.0, 4.0, rows)
    return pa.table({"ts": np.arange(rows), "route": route, "fare": fare, "hours": fare / 3 + 1})


OPTIONS: dict[str, Any] = {"by": "route", "time": "ts", "window": sliding(200, 100), "value": "fare"}


@pytest.mark.parametrize("aggregate", ["mean", "sum", "count", "min", "max"])
def test_without_shedding_it_is_what_windows_answer(aggregate: str) -> None:
    exact = run_windows(
        rides(), sliding(200, 100), time="ts", group="route", value="fare", aggregate=aggregate
    ).to_pylist()
    found = run(rides(), **OPTIONS, keep_ratio=1.0, aggregate=aggregate).to_pylist()
    expected = {(row["start"], row["end"], row["route"]): row["value"] for row in exact}
    assert {(row["start"], row["end"], row["route"]): row["value"] for row in found} == pytest.approx(
        expected
    )
    for row in found:
        assert row["low"] == row["value"] == row["high"]
        assert row["sampled"] == row["rows"]


def test_every_group_of_every_window_is_answered_within_the_budget() -> None:
    found = run(rides(), **OPTIONS, keep_ratio=0.1)
    exact = run(rides(), **OPTIONS, keep_ratio=1.0)
    for name in ("start", "end", "route", "rows"):
        assert found[name].to_pylist() == exact[name].to_pylist()
    kept = found.group_by("start").aggregate([("sampled", "sum"), ("rows", "sum")]).to_pylist()
    assert all(row["sampled_sum"] == row["rows_sum"] // 10 for row in kept)
    told = json.loads(found.schema.metadata[METADATA])
    assert told == {"windows": 7, "rows": 1200, "kept_rows": 120, "missing_groups": 0}
    assert all(row["low"] <= row["value"] <= row["high"] for row in found.to_pylist())


def test_the_same_salt_answers_the_same() -> None:
    first = run(rides(), **OPTIONS, keep_ratio=0.1, salt=4)
    assert run(rides(), **OPTIONS, keep_ratio=0.1, salt=4).equals(first)
    assert not run(rides(), **OPTIONS, keep_ratio=0.1, salt=5).equals(first)


def test_what_earlier_windows_taught_moves_rows() -> None:
    wild = np.random.default_rng(1).lognormal(0.0, 1.5, 500)
    values = np.stack([np.full(500, 5.0), wild], axis=1).ravel()
    table = pa.table({"ts": range(1000), "route": ["calm", "wild"] * 500, "fare": values})
    options = {**OPTIONS, "window": tumbling(200), "keep_ratio": 0.1}
    found = run(table, **options)["sampled"].to_pylist()
    assert found[:2] == [10, 10]
    assert all(calm <= 5 and wild >= 15 for calm, wild in zip(found[2::2], found[3::2], strict=True))
    piloted = run(table, **options, pilot=True)["sampled"].to_pylist()
    assert piloted[1] > 12
    spread = SpreadConfig().build()
    run(table, **options, spread=spread)
    again = run(table, **options, spread=spread)["sampled"].to_pylist()
    assert again[1] >= 15
    even = run(table, **options, rule="equal")["sampled"].to_pylist()
    assert even == [10] * 10


def test_timestamps_with_a_time_zone_and_durations() -> None:
    start = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)
    times = pa.array([start + timedelta(minutes=n) for n in range(120)], pa.timestamp("ms", "UTC"))
    table = rides(120).set_column(0, "ts", times)
    found = run(table, **{**OPTIONS, "window": tumbling("1 hour")}, keep_ratio=0.2)
    assert found.schema.field("start").type == pa.timestamp("us", "UTC")
    assert sorted({row["start"].hour for row in found.to_pylist()}) == [0, 1]


def test_count_windows_are_full_ones() -> None:
    found = run(rides(250), **{**OPTIONS, "time": None, "window": tumbling(100)}, keep_ratio=0.1)
    assert sorted(set(zip(found["start"].to_pylist(), found["end"].to_pylist(), strict=True))) == [
        (0, 100),
        (100, 200),
    ]


def test_sessions_end_a_gap_after_their_last_row() -> None:
    table = pa.table({"ts": [0, 3, 4, 30, 33, 100], "g": ["a", "b", "a", "a", "a", "b"], "v": range(6)})
    found = run(table, by="g", time="ts", window=session(10), keep_ratio=1.0, value="v")
    assert found.select(["start", "end", "g", "value"]).to_pylist() == [
        {"start": 0, "end": 14, "g": "a", "value": 1.0},
        {"start": 0, "end": 14, "g": "b", "value": 1.0},
        {"start": 30, "end": 43, "g": "a", "value": 3.5},
        {"start": 100, "end": 110, "g": "b", "value": 5.0},
    ]


def test_rows_without_a_time_are_left_out_and_order_does_not_matter() -> None:
    table = rides(300)
    times = [None if n % 50 == 0 else n for n in range(300)]
    table = table.set_column(0, "ts", pa.array(times, pa.int64()))
    shuffled = table.take(pa.array(np.random.default_rng(3).permutation(300)))
    found = [
        run(each, **OPTIONS, keep_ratio=0.2, rule="equal").sort_by(
            [("start", "ascending"), ("route", "ascending")]
        )
        for each in (table, shuffled)
    ]
    assert sum(found[0]["rows"].to_pylist()) == 2 * 294
    assert found[0]["value"].to_pylist() == pytest.approx(found[1]["value"].to_pylist())


def test_fractions_of_a_unit_and_broken_times() -> None:
    table = pa.table({"ts": [0.0, 0.1, 0.2, 0.3, 0.35], "g": ["a"] * 5, "v": range(5)})
    found = run(table, by="g", time="ts", window=tumbling(0.3, unit=0.1), keep_ratio=1.0, aggregate="count")
    assert found["value"].to_pylist() == [3.0, 2.0]
    assert found["start"].to_pylist() == pytest.approx([0.0, 0.3])


def test_other_aggregates() -> None:
    options = {**OPTIONS, "keep_ratio": 1.0, "window": tumbling(600)}
    fares = {route: [] for route in "abc"}  # type: ignore[var-annotated]
    for row in rides().to_pylist():
        fares[row["route"]].append(row["fare"])
    quantile = run(rides(), **options, aggregate=Quantile(0.9)).to_pylist()
    assert {row["route"]: row["value"] for row in quantile} == {
        route: sorted(each)[int(np.ceil(0.9 * len(each))) - 1] for route, each in fares.items()
    }
    for row in run(rides(), **options, aggregate=Ratio("hours")).to_pylist():
        each = np.array(fares[row["route"]])
        assert row["value"] == pytest.approx(each.sum() / (each / 3 + 1).sum())
    span = run(
        rides(), **options, aggregate=(list, lambda s, x: [*s, x], lambda s: max(s) - min(s))
    ).to_pylist()
    assert {row["route"]: row["value"] for row in span} == {
        route: max(each) - min(each) for route, each in fares.items()
    }


def test_groups_without_rows_are_told_as_missing() -> None:
    table = pa.table({"ts": range(100), "route": range(100), "fare": np.ones(100)})
    found = run(table, **{**OPTIONS, "window": tumbling(100)}, keep_ratio=0.1, exceed=False)
    missing = [row for row in found.to_pylist() if row["sampled"] == 0]
    assert len(missing) == 90
    assert all(row["value"] is row["low"] is row["high"] is None for row in missing)
    assert json.loads(found.schema.metadata[METADATA])["missing_groups"] == 90


def test_no_rows_at_all() -> None:
    found = run(rides(0), **OPTIONS, keep_ratio=0.1)
    assert (found.num_rows, found.column_names[:3]) == (0, ["start", "end", "route"])
    assert found.schema.field("start").type == pa.int64()


@pytest.mark.parametrize(("rule", "draw"), [("equal", "even"), ("variance", "even"), ("variance", "random")])
@pytest.mark.parametrize("window", [sliding(200, 100), tumbling(150), session(2)], ids=repr)
def test_the_window_operator_keeps_the_same_rows(window: Any, rule: Any, draw: Any) -> None:
    """What comes row by row through buffers and watermarks is answered as the table is."""
    table = rides().set_column(0, "ts", pa.array([n + 5 * (n // 70) for n in range(600)]))
    order = draws(table, None, salt=7).tolist()
    operator = OperatorConfig(window=window, keep_ratio=0.1, rule=rule, draw=draw, salt=7).build()
    for row, key in zip(table.to_pylist(), order, strict=True):
        operator.arrive(row["ts"], group=row["route"], value=row["fare"], key=key)
    means: dict[Any, float] = {}
    for fired in operator.finish():
        for group in fired.concept.counts:  # type: ignore[union-attr]
            kept = [row.value for row in fired.kept if row.group == group]
            means[fired.start, group] = float(np.mean(kept))
    found = run(table, **{**OPTIONS, "window": window}, keep_ratio=0.1, rule=rule, draw=draw, salt=7)
    assert {(row["start"], row["route"]): row["value"] for row in found.to_pylist()} == pytest.approx(means)


@pytest.mark.parametrize("buffering", ["single", "multiple"])
@pytest.mark.parametrize("window", [sliding(200, 70), tumbling(150)], ids=repr)
def test_the_window_operator_keeps_the_same_rows_of_count_windows(window: Any, buffering: Any) -> None:
    """The last windows are not full, and neither of the two answers them."""
    table = rides()
    config = OperatorConfig(window=window, counted=True, keep_ratio=0.1, buffering=buffering)
    operator = config.build()
    means: dict[Any, float] = {}
    for row, key in zip(table.to_pylist(), draws(table, None, salt=0).tolist(), strict=True):
        for fired in operator.arrive(group=row["route"], value=row["fare"], key=key):
            for group in fired.concept.counts:  # type: ignore[union-attr]
                kept = [each.value for each in fired.kept if each.group == group]
                means[fired.start, group] = float(np.mean(kept))
    found = run(table, **{**OPTIONS, "time": None, "window": window}, keep_ratio=0.1)
    assert {(row["start"], row["route"]): row["value"] for row in found.to_pylist()} == pytest.approx(means)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 5}, "windows such as"),
        ({"window": tumbling(5) >> tumbling(10)}, "give one level"),
        ({"window": tumbling("5 minutes")}, "expected timestamps"),
        ({"time": "t"}, "did you mean 'ts'"),
        ({"time": "route"}, "expected numbers"),
        ({"time": None, "window": session(5)}, "a size in rows"),
        ({"keep_ratio": -0.1}, "keep_ratio = -0.1"),
        ({"rule": "even"}, "rule = 'even'"),
        ({"draw": "evenly"}, "did you mean 'even'"),
        ({"aggregate": "avg"}, "aggregate = 'avg'"),
        ({"value": None}, "the name of the column"),
        ({"level": 1.0}, "level = 1.0"),
        ({"by": "routes"}, "did you mean 'route'"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said):
        run(rides(50), **{**OPTIONS, "keep_ratio": 0.1, **options})


def test_names_that_the_answer_needs_are_told() -> None:
    table = rides(50).rename_columns(["ts", "start", "fare", "hours"])
    with pytest.raises(SpillwayError, match="by has a column 'start'"):
        run(table, **{**OPTIONS, "by": "start"}, keep_ratio=0.1)
    late = rides(5).set_column(0, "ts", pa.array([0.0, float("inf"), 1.0, 2.0, 3.0]))
    with pytest.raises(SpillwayError, match="not finite"):
        run(late, **OPTIONS, keep_ratio=0.1)


def test_groups_of_which_only_zeros_were_kept_have_intervals_with_a_width() -> None:
    chosen, missed, narrow, answers = np.random.default_rng(1), 0, 0, 0
    for salt in range(30):
        flags = pa.table(
            {"ts": np.arange(2000), "route": chosen.integers(0, 5, 2000), "late": chosen.random(2000) < 0.1}
        )
        flags = flags.set_column(2, "late", flags["late"].cast(pa.int8()))
        options: dict[str, Any] = {"by": "route", "time": "ts", "window": tumbling(500), "value": "late"}
        truth = run(flags, **options, keep_ratio=1.0).to_pylist()
        found = run(flags, **options, keep_ratio=0.05, salt=salt).to_pylist()
        known = False  # until a flag was kept, nothing tells zeros from a constant
        for first in range(0, len(found), 5):
            known = known or any(row["value"] > 0.0 for row in found[first : first + 5])
            for row, exact in zip(found[first : first + 5], truth[first : first + 5], strict=True):
                answers += known
                narrow += known and row["low"] == row["high"]
                missed += known and not row["low"] <= exact["value"] <= row["high"]
    assert answers > 400
    assert narrow == 0
    assert missed < 0.1 * answers


def test_times_beyond_64_bits_with_a_sign_are_refused() -> None:
    def at(ts: int) -> pa.Table:
        return pa.table({"ts": pa.array([ts], pa.uint64()), "route": ["a"], "fare": [1.0]})

    options = {**OPTIONS, "window": tumbling(100)}
    assert run(at(2**62), **options, keep_ratio=1.0)["start"].to_pylist() == [2**62 // 100 * 100]
    with pytest.raises(SpillwayError, match="below 2\\^63"):
        run(at(2**63), **options, keep_ratio=1.0)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(SpillwayError, match="table is of type RecordBatch"):
        run(rides().to_batches()[0], **OPTIONS, keep_ratio=0.1)
