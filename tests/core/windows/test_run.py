"""The engine and ``run`` on tables: the paper's figures by hand, inner arcs, groups, counts, timestamps, errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
import pytest

from spillway.core.windows import reach, run, sliding, tumbling
from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.operators import Tuple
from spillway.core.windows.paper.plan import Aggregated, Change, Drop, Keep, Plan, Split, plan_of, with_drop
from spillway.errors import SpillwayError


def table(times: Any, **columns: Any) -> pa.Table:
    return pa.table({"ts": times, **columns})


def test_figure_4_a_pipeline() -> None:
    """A(3, 2) >> A(3, 3) on times 0 to 11.

    time     0 1 2 3 4 5 6 7 8 9 10 11
    A1       [0 1 2) [4 5 6) [8 9 10)
                 [2 3 4) [6 7 8) [10 11)
    A2       [0, 3): windows 0 and 2        [3, 6): window 4        [6, 9): windows 6 and 8
    """
    answer = run(
        table(range(12), v=range(12)), sliding(3, 2) >> sliding(3, 3), time="ts", aggregate=["list", "list"]
    ).to_pydict()
    assert answer["start"] == [-3, 0, 3, 6, 9]
    assert answer["end"] == [0, 3, 6, 9, 12]
    assert answer["value"][1:4] == [[[0, 1, 2], [2, 3, 4]], [[4, 5, 6]], [[6, 7, 8], [8, 9, 10]]]


def test_figure_4_with_one_window_kept_reads_only_what_it_needs() -> None:
    plan = with_drop(
        plan_of(sliding(3, 2) >> sliding(3, 3), ["list", "list"]), Drop(0.5, 1, decided={1: True})
    )
    engine = Engine(plan)
    ((result,),) = engine.run(Tuple(t, t) for t in range(30))
    assert (result.time, result.value) == (3, [[4, 5, 6]])
    assert engine.counts["0"].outputs == 5  # [3, 8), and not the other 25
    assert engine.counts["1"].opened == 1
    assert engine.counts["1"].updates == 3


def test_figure_5_a_fan_out() -> None:
    query = sliding(3, 2) | sliding(3, 3)
    answer = run(
        table(range(24), v=range(24)), query, time="ts", aggregate="sum", max_gap=6, decided={1: True}
    )
    assert answer.to_pydict() == {
        "branch": [0, 0, 0, 1, 1],
        "start": [6, 8, 10, 6, 9],
        "end": [9, 11, 13, 9, 12],
        "value": [6 + 7 + 8, 8 + 9 + 10, 10 + 11 + 12, 6 + 7 + 8, 9 + 10 + 11],
    }


@pytest.mark.parametrize(
    "query",
    [
        sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3)),
        (sliding(4, 1) >> sliding(3, 2)) | (sliding(4, 1) >> sliding(3, 3)),
    ],
    ids=repr,
)
def test_a_composite_either_way_round(query: Any) -> None:
    rows = table(range(60), v=range(60))
    exact = run(rows, query, time="ts", aggregate="list").to_pylist()
    shed = run(rows, query, time="ts", aggregate="list", drop_probability=0.6, max_gap=6, salt=1).to_pylist()
    assert 0 < len(shed) < len(exact)
    assert all(row in exact for row in shed)


def test_a_bound_below_one_common_window_moves_the_drop_behind_the_split() -> None:
    query = sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3))
    rows = table(range(3000))
    exact, shed = (
        run(rows, query, time="ts", aggregate=["count", "sum"], drop_probability=p, max_gap=1).to_pylist()
        for p in (0, 0.4)
    )
    assert all(row in exact for row in shed)
    for branch, slide in ((0, 2), (1, 3)):
        starts = [row["start"] for row in shed if row["branch"] == branch]
        assert len(starts) / (3000 / slide) == pytest.approx(0.6, abs=0.05)
        assert 0 < max(b - a for a, b in pairwise(starts)) <= 2 * slide


def test_a_branch_opens_no_window_that_was_dropped() -> None:
    """The long window keeps what the short one could use, but a decision is one for all branches."""
    answer = run(
        table(range(40)), sliding(10, 2) | tumbling(2), time="ts", max_gap=9, decided={3: True}
    ).to_pydict()
    assert answer["start"] == [6, 6]
    assert answer["value"] == [10, 2]


def test_filters_and_maps_between_aggregates() -> None:
    """Figure 1: how often in 100 do high and low in 10 differ by more than 5."""
    plan: Plan = (
        Change(lambda value: value * 1.0),
        Aggregated(tumbling(10), lambda values: max(values) - min(values)),
        Keep(lambda spread: spread > 5),
        Aggregated(tumbling(100), "count"),
    )
    stream = [Tuple(t, (t * 7919) % (4 if t // 10 % 3 else 13)) for t in range(5000)]
    (exact,) = Engine(plan).run(stream)
    for before in range(len(plan)):
        engine = Engine(with_drop(plan, Drop(0.6, 4, salt=before), before))
        (shed,) = engine.run(stream)
        expected = {result.time: result.value for result in exact}
        assert 0 < len(shed) < len(exact)
        assert all(expected[result.time] == result.value for result in shed)
        assert engine.counts[str(before)].dropped > 0


def test_the_further_up_the_drop_the_less_work() -> None:
    plan = plan_of(tumbling(10) >> tumbling(100))
    stream = [Tuple(t) for t in range(10_000)]
    work = []
    for before in (0, 1):
        engine = Engine(with_drop(plan, Drop(0.5, 3), before))
        engine.run(stream)
        work.append(sum(counts.updates for counts in engine.counts.values()))
    assert work[0] < 0.7 * work[1]


def test_a_drop_in_one_branch_leaves_the_other_whole() -> None:
    plan: Plan = (Split(((Drop(0.5, 1), Aggregated(tumbling(2))), (Aggregated(tumbling(3)),))),)
    left, right = Engine(plan).run(Tuple(t) for t in range(300))
    assert len(left) < 120
    assert len(right) == 100


def test_each_group_has_its_own_windows() -> None:
    rows = table(range(40), sym=["a", "b"] * 20, v=[1, 10] * 20)
    answer = run(rows, tumbling(4), time="ts", aggregate="sum", group="sym").to_pylist()
    assert answer[:2] == [
        {"sym": "a", "start": 0, "end": 4, "value": 2},
        {"sym": "b", "start": 0, "end": 4, "value": 20},
    ]
    shed = run(
        rows, tumbling(4), time="ts", aggregate="sum", group="sym", drop_probability=0.5, max_gap=2, salt=3
    ).to_pylist()
    assert 0 < len(shed) < 20
    assert all(row in answer for row in shed)
    for start in {row["start"] for row in shed}:  # a window is there for all groups or for none
        assert [row["sym"] for row in shed if row["start"] == start] == ["a", "b"]


def test_a_drop_behind_an_aggregate_of_groups_that_come_and_go() -> None:
    """The first result of a, for the window at 0, is due before those of b, although a comes back only at 100."""
    plan: Plan = (Aggregated(tumbling(2), "list"), Drop(0.5, 2), Aggregated(tumbling(4), "list"))
    times = [(0, "a"), *((t, "b") for t in range(50, 100)), (100, "a")]
    stream = [Tuple(t, t, group) for t, group in times]
    (found,) = Engine(plan).run(stream)
    starts = {(group, t // 4 * 4) for t, group in times}
    exact = {
        (g, s): [
            inner for u in (s, s + 2) if (inner := [t for t, group in times if group == g and u <= t < u + 2])
        ]
        for g, s in starts
    }
    assert 0 < len(found) < len(exact)
    assert all(result.value == exact[result.group, int(result.time)] for result in found)
    assert [result.time for result in found] == sorted(result.time for result in found)


def test_groups_may_have_coins_of_their_own() -> None:
    """Then the bound holds for each group, also for one that is seldom there, and windows are not for all."""
    rows = [(t, g) for t in range(400) for g in "abc" if g != "c" or t % 8 < 2]
    columns = table([t for t, _ in rows], sym=[g for _, g in rows])

    def gaps(own_coins: bool) -> dict[str, int]:
        found = run(
            columns, tumbling(2), time="ts", group="sym", drop_probability=0.6, max_gap=2, own_coins=own_coins
        )
        kept = {(row["sym"], row["start"]) for row in found.to_pylist()}
        exact = {(g, t // 2 * 2) for t, g in rows}
        assert kept < exact
        if not own_coins:
            assert {s for g, s in kept if g == "a"} == {s for g, s in kept if g == "b"}
        else:
            assert {s for g, s in kept if g == "a"} != {s for g, s in kept if g == "b"}
        runs = {}
        for g in "abc":
            missing = [(g, s) not in kept for s in sorted(s for of, s in exact if of == g)]
            runs[g] = max((len(list(run)) for gone, run in groupby(missing) if gone), default=0)
        return runs

    own, shared = gaps(True), gaps(False)
    assert own == {"a": 2, "b": 2, "c": 2}
    assert (shared["a"], shared["b"]) == (2, 2)
    assert shared["c"] > 2, "counted over all groups together"


def test_counted_groups_may_have_coins_of_their_own() -> None:
    rows = pa.table({"v": range(600), "g": [n % 2 for n in range(600)]})
    found = run(
        rows, tumbling(2), time=None, value="v", group="g", drop_probability=0.5, max_gap=2, own_coins=True
    ).to_pylist()
    kept = [{row["start"] for row in found if row["g"] == g} for g in (0, 1)]
    assert kept[0] != kept[1]
    for starts in kept:
        assert len(starts) == pytest.approx(75, abs=20)
        assert max(b - a for a, b in pairwise(sorted(starts))) <= 3 * 2


def test_not_a_number_is_one_group_and_groups_keep_their_type() -> None:
    group = pa.array([float("nan"), 1.0, float("nan"), None], pa.float32())
    answer = run(table([0, 0, 1, 1], g=group), tumbling(2), time="ts", group="g")
    assert answer.schema.field("g").type == pa.float32()
    assert sorted(answer["value"].to_pylist()) == [1, 1, 2]
    empty = run(
        table(pa.array([], pa.int64()), g=pa.array([], pa.string())), tumbling(2), time="ts", group="g"
    )
    assert empty.schema.field("g").type == pa.string()


def test_decisions_that_are_replayed_need_no_bound() -> None:
    query = tumbling(2) | tumbling(3)
    answer = run(table(range(18)), query, time="ts", decided={1: True}).to_pydict()
    assert answer["start"] == [6, 8, 10, 6, 9]
    assert run(table(range(18)), query, time="ts", decided={}).num_rows == 0


def test_windows_by_count() -> None:
    rows = pa.table({"v": range(11)})
    assert run(rows, sliding(4, 2), time=None, aggregate="list").to_pydict() == {
        "start": [0, 2, 4, 6],
        "end": [4, 6, 8, 10],
        "value": [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]],
    }
    pipeline = run(rows, sliding(4, 2) >> tumbling(2), time=None, aggregate=["sum", "list"]).to_pydict()
    assert pipeline["value"] == [[6, 14], [22, 30]]  # two results of the first level each
    assert pipeline["start"] == [0, 4]


def test_windows_by_count_are_dropped_whole() -> None:
    rows = pa.table({"v": range(500), "g": [n % 3 for n in range(500)]})
    query = sliding(4, 2) >> tumbling(2)
    exact = run(rows, query, time=None, value="v", group="g", aggregate=["sum", "list"]).to_pylist()
    shed = run(
        rows,
        query,
        time=None,
        value="v",
        group="g",
        aggregate=["sum", "list"],
        drop_probability=0.5,
        max_gap=2,
    ).to_pylist()
    assert 0 < len(shed) < len(exact)
    assert all(row in exact for row in shed)


def test_a_filter_would_change_what_a_count_based_window_counts() -> None:
    plan: Plan = (Drop(0.5, 1), Keep(bool), Aggregated(tumbling(2)))
    with pytest.raises(SpillwayError, match="put the drop behind the filter"):
        Engine(plan, counted=True)


START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)  # an hour before the clocks change in Europe


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("tz", [None, "UTC", "Europe/Berlin"])
def test_timestamps(unit: str, tz: str | None) -> None:
    stamps = [START + timedelta(seconds=20 * n) for n in range(400)]
    column = pa.array(
        [each.replace(tzinfo=None) for each in stamps] if tz is None else stamps, pa.timestamp(unit, tz)
    )
    query = tumbling("5 minutes") >> tumbling("1 hour")
    answer = run(table(column), query, time="ts", aggregate=["count", "sum"])
    assert answer.schema.field("start").type == pa.timestamp("us", tz)
    assert answer["value"].to_pylist() == [90, 180, 130]
    starts = answer["start"].cast(pa.int64()).to_pylist()
    assert all(start % 3_600_000_000 == 0 for start in starts)
    assert [b - a for a, b in zip(starts, answer["end"].cast(pa.int64()).to_pylist(), strict=True)] == [
        3_600_000_000
    ] * 3


@pytest.mark.parametrize(
    ("nanoseconds", "start"), [(-1, -10), (-10_000, -10), (-10_001, -20), (9_999, 0), (10_000, 10)]
)
def test_nanoseconds_are_rounded_down(nanoseconds: int, start: int) -> None:
    answer = run(table(pa.array([nanoseconds], pa.timestamp("ns"))), tumbling("10 us"), time="ts")
    assert answer["start"].cast(pa.int64()).to_pylist() == [start]


def test_stamps_of_spark() -> None:
    """With end stamps the window [4, 7) has time 6 and is in [6, 9); with start stamps it is in [3, 6)."""
    rows = table(range(12), v=range(12))
    query = sliding(3, 2) >> sliding(3, 3)
    ends = run(rows, query, time="ts", aggregate="list", stamp="end").to_pylist()
    assert {"start": 6, "end": 9, "value": [[4, 5, 6], [6, 7, 8]]} in ends
    assert reach(query, "end").size == reach(query).size == 5


def test_units_other_than_one() -> None:
    rows = table([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    answer = run(rows, tumbling(0.3, unit=0.1), time="ts").to_pydict()
    assert answer["start"] == pytest.approx([0.0, 0.3, 0.6])
    assert answer["value"] == [3, 3, 1]


def test_rows_may_come_in_any_order_and_without_a_time() -> None:
    answer = run(table([5, None, 0, 4, 1], v=[50, 99, 0, 40, 10]), tumbling(3), time="ts", aggregate="list")
    assert answer["value"].to_pylist() == [[0, 10], [40, 50]]


def test_an_empty_table_has_no_windows() -> None:
    answer = run(table(pa.array([], pa.int64())), tumbling(3), time="ts", drop_probability=0.5)
    assert answer.num_rows == 0
    assert answer.column_names == ["start", "end", "value"]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("count", [2, 1]),
        ("sum", [3, None]),
        ("mean", [3.0, None]),
        ("min", [3, None]),
        ("max", [3, None]),
        ("first", [None, None]),
        ("last", [3, None]),
        ((lambda: 0, lambda n, v: n + (v is None), str), ["1", "1"]),
        (len, [2, 1]),
    ],
)
def test_aggregates(aggregate: Any, expected: list[Any]) -> None:
    rows = table([0, 1, 2], v=pa.array([None, 3, None], pa.int64()))
    assert run(rows, tumbling(2), time="ts", aggregate=aggregate)["value"].to_pylist() == expected


def test_functions_of_several_columns_get_rows() -> None:
    rows = table([0, 1], price=[3, 4], size=[10, 20])
    answer = run(
        rows, tumbling(2), time="ts", aggregate=lambda rows: sum(row["price"] * row["size"] for row in rows)
    )
    assert answer["value"].to_pylist() == [110]


NUMBERS = table([0, 1], a=[1, 2], b=[3, 4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run(NUMBERS, 5, time="ts"), "arrangement = 5"),  # type: ignore[arg-type]
        (lambda: run(NUMBERS, tumbling(2), time="tss"), "did you mean 'ts'"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", value="c"), "value = 'c'"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", aggregate="sum"), "the table has \\['a', 'b'\\]"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", aggregate="smu", value="a"), "did you mean 'sum'"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", aggregate=3), "aggregate = 3"),  # type: ignore[arg-type]
        (lambda: run(NUMBERS, tumbling(2), time="ts", aggregate=["sum", "sum"], value="a"), "a list of 1"),
        (lambda: run(NUMBERS, tumbling("2 s"), time="ts"), "expected timestamps"),
        (lambda: run(NUMBERS, tumbling("2 s"), time=None), "count-based windows are sizes in rows"),
        (
            lambda: run(table(pa.array([0], pa.timestamp("us"))), tumbling(2), time="ts"),
            "give sizes as durations",
        ),
        (lambda: run(table([float("inf")]), tumbling(2), time="ts"), "not finite"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", drop_probability=2), "drop_probability = 2"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", max_gap=0), "max_gap = 0"),
        (lambda: run(NUMBERS, tumbling(2), time="ts", stamp="middle"), "stamp = 'middle'"),  # type: ignore[arg-type]
        (lambda: run(NUMBERS, tumbling(2), time="ts", own_coins=True), "own_coins = True"),
        (
            lambda: run(NUMBERS, tumbling(2), time="ts", group="a", own_coins=True, decided={}),
            "beside decided=",
        ),
        (
            lambda: run(NUMBERS.rename_columns(["ts", "start", "v"]), tumbling(2), time="ts", group="start"),
            "group = 'start'.*rename yours",
        ),
        (lambda: run(table([0], g=[[1]]), tumbling(2), time="ts", group="g"), "has type list<"),
        (
            lambda: run(
                NUMBERS,
                tumbling(1) | tumbling(1) >> tumbling(2),
                time="ts",
                value="a",
                aggregate=["sum", "list"],
            ),
            "no type in common .*tumbling\\(1\\): int64, tumbling\\(2\\): list<",
        ),
        (
            lambda: run(
                table([0], v=pa.array([2**64 - 1], pa.uint64())), tumbling(2), time="ts", aggregate="sum"
            ),
            "'value' cannot be made of its values",
        ),
        (
            lambda: run(table([0]), tumbling(2), time="ts", aggregate=lambda _: object()),
            "let the function give one",
        ),
        (
            lambda: run(table(pa.array([2**64 - 1], pa.uint64())), tumbling(2), time="ts"),
            "a window has its start at",
        ),
        (
            lambda: Engine((Drop(0.1, 1), Split(((Aggregated(tumbling(2)),), (Aggregated(tumbling(3)),))))),
            "at least 3 for",
        ),
        (
            lambda: Engine((Aggregated(tumbling(2)),)).run([Tuple(5, group="a"), Tuple(4, group="b")]),
            "time 4 comes",
        ),
        (lambda: Engine((Aggregated(tumbling(2)),), stamp="end", counted=True), "stamp = 'end'"),
        (lambda: run(NUMBERS, tumbling(2), time=None, stamp="ends"), "did you mean 'end'"),  # type: ignore[arg-type]
        (lambda: Engine((Drop(0.1, 1),)), "no aggregate behind it"),
        (lambda: Engine((Drop(0.1, 1), Drop(0.1, 1), Aggregated(tumbling(2)))), "a second drop"),
        (lambda: Engine((Split(()), Aggregated(tumbling(2)))), "a split as the last step"),
        (lambda: with_drop((), Drop(0.1, 1)), "before = 0"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, message: str) -> None:
    with pytest.raises(SpillwayError, match=message):
        call()


def test_large_times_in_units_stay_in_their_windows() -> None:
    rows = pa.table({"ts": [1.7e9 + 0.3, 1.7e9 + 0.6], "v": [1, 2]})
    found = run(rows, tumbling(0.5, unit=0.5), time="ts", value="v", aggregate="sum")
    assert found["start"].to_pylist() == [1.7e9, 1.7e9 + 0.5]
    far = 2**60 + 3
    rows = pa.table({"ts": [far + 1, far], "v": [2, 1]})
    answer = run(rows, tumbling(4, unit=2), time="ts", value="v", aggregate="list").to_pydict()
    assert answer == {"start": [2**60, 2**60 + 4], "end": [2**60 + 4, 2**60 + 8], "value": [[1], [2]]}
    rows = pa.table({"ts": [5_000_000_003], "v": [1]})
    assert run(rows, tumbling(2, unit=2), time="ts", value="v", aggregate="sum")["start"].to_pylist() == [
        5_000_000_002
    ]
