"""Where the drop goes, how much it drops, and who is shut: by hand, and against the engine's counts."""

from __future__ import annotations

from typing import Any

import pytest

from spillway.core.windows import sliding, tumbling
from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.operators import Tuple
from spillway.core.windows.paper.plan import Aggregated, Change, Drop, Plan
from spillway.core.windows.placement import Box, Query, load_of, place
from spillway.errors import SpillwayError

NESTED = Query(
    name="nested",
    rate=1,
    boxes=(
        Box("first delay", 5),
        Box("inner", 0, window=tumbling(10)),
        Box("second delay", 50),
        Box("outer", 0, window=tumbling(100)),
        Box("third delay", 500),
    ),
    max_gap=10,
)


def test_nothing_is_dropped_within_capacity() -> None:
    found = place([NESTED], capacity=15)
    assert load_of(NESTED) == pytest.approx(15)
    assert (found.places, found.shut) == ((), ())
    assert found.reason == "The load 15 is within the capacity 15: nothing is dropped."


def test_the_input_saves_most_in_a_pipeline() -> None:
    """Figure 7: three equally dear parts; the drop goes before the first, with windows (109, 100)."""
    (where,) = place([NESTED], capacity=12).places
    assert (where.before, where.size, where.slide, where.max_gap) == ("first delay", 109, 100, 10)
    assert where.drop_probability == pytest.approx(3 / (5 * 991 / 1009 + 5 + 5), rel=1e-6)


def test_the_engine_confirms_what_is_expected() -> None:
    """Three equally dear parts again, with windows so small that there are thousands of batches."""
    query = Query(
        name="small",
        rate=1,
        boxes=(
            Box("x", 5),
            Box("A", 0, window=tumbling(2)),
            Box("y", 10),
            Box("B", 0, window=tumbling(6)),
            Box("z", 30),
        ),
        max_gap=3,
    )
    found = place([query], capacity=10)
    (where,) = found.places
    assert where.before == "x"
    rows = 40_000
    same = Change(lambda value: value)
    plan: Plan = (same, Aggregated(tumbling(2)), same, Aggregated(tumbling(6)), same)
    loads = []
    for before in (0, 2):
        engine = Engine((*plan[:before], Drop(where.drop_probability, 3, salt=3), *plan[before:]))
        engine.run(Tuple(t) for t in range(rows))
        work = [counts.tuples for name, counts in engine.counts.items() if name != str(before)]
        loads.append(sum(n * cost for n, cost in zip(work, (5, 0, 10, 0, 30), strict=True)) / rows)
    assert loads[0] == pytest.approx(found.expected_load, rel=0.03)
    assert loads[1] > 11


def test_further_up_is_useless_where_nothing_can_be_dropped_early() -> None:
    query = Query(
        name="q",
        rate=1,
        boxes=(Box("parse", 1), Box("enrich", 1), Box("average", 1, window=sliding(100, 1)), Box("store", 7)),
        max_gap=10,
    )
    found = place([query], capacity=9)
    (where,) = found.places
    assert where.before == "average"
    assert where.drop_probability == pytest.approx(1 / 7, rel=1e-6)
    assert "further up than 'average' nothing more is saved, because max_gap 10 is below" in found.reason


def test_a_drop_that_costs_something_moves_to_where_fewer_tuples_pass() -> None:
    query = Query(
        name="q",
        rate=10,
        boxes=(Box("filter", 0.01, 0.1), Box("sum", 1, window=tumbling(10)), Box("store", 100)),
        max_gap=10,
    )
    assert place([query], capacity=8).places[0].before == "filter"
    assert place([query], capacity=8, drop_cost=0.1).places[0].before == "sum"


SHARED = Query(
    name="shared",
    rate=1,
    boxes=(Box("parse", 10),),
    branches=(
        Query(name="left", boxes=(Box("A", 1, window=sliding(3, 2)), Box("a", 2)), max_gap=6),
        Query(name="right", boxes=(Box("B", 1, window=sliding(3, 3)), Box("b", 2)), max_gap=4),
    ),
)


def test_one_drop_before_the_split_if_the_bounds_allow_it() -> None:
    (where,) = place([SHARED], capacity=11).places
    assert (where.query, where.before) == ("shared", "parse")
    assert (where.size, where.slide, where.max_gap) == (7, 6, 2)


def test_a_drop_in_each_branch_if_they_do_not() -> None:
    strict = Query(
        name="shared",
        rate=1,
        boxes=SHARED.boxes,
        branches=(
            Query(name="left", boxes=SHARED.branches[0].boxes, max_gap=2),
            SHARED.branches[1],
        ),
    )
    found = place([strict], capacity=12)
    assert [(where.query, where.before) for where in found.places] == [("left", "A"), ("right", "B")]
    # right saves 1 + 2/3 per window, up to 4/5 of them; left 3/5 of the tuples before A and all of the 2/2 behind
    left, right = (where.drop_probability for where in found.places)
    assert right == pytest.approx(4 / 5)
    assert left == pytest.approx((13 + 2 / 3 - 12 - 4 / 5 * 5 / 3) / 1.6)
    assert "it takes 3 windows of 'left' at once, and max_gap is 2" in found.reason
    assert found.expected_load == pytest.approx(12)
    assert [where.query for where in place([strict], capacity=13).places] == ["right"], "it alone is enough"


def test_the_costliest_query_is_shut_when_no_probability_will_do() -> None:
    cheap = Query(name="cheap", rate=1, boxes=(Box("sum", 1, window=tumbling(2)),), max_gap=1)
    dear = Query(name="dear", rate=1, boxes=(Box("sum", 9, window=tumbling(2)),), max_gap=1)
    found = place([cheap, dear], capacity=4)  # at the limit of both, half of 10 is left
    assert found.shut == ("dear",)
    assert found.places == ()
    assert found.expected_load == pytest.approx(1)
    assert (
        "dear: shut, because with every drop at the limit of its max_gap the load stays above" in found.reason
    )
    assert place([cheap, dear], capacity=5).shut == ()
    assert place([cheap, dear], capacity=0).shut == ("dear", "cheap")


def test_a_branch_can_be_shut_by_itself() -> None:
    found = place([SHARED], capacity=4)
    assert found.shut == ("left",)  # 1 + 2/2 against 1 + 2/3
    assert [where.query for where in found.places] == ["shared"]


def test_each_query_drops_as_far_as_its_own_bound_allows() -> None:
    patient = Query(name="patient", rate=1, boxes=(Box("sum", 5, window=tumbling(2)),), max_gap=9)
    strict = Query(name="strict", rate=1, boxes=(Box("sum", 5, window=tumbling(2)),), max_gap=1)
    found = place([patient, strict], capacity=4)
    assert [round(where.drop_probability, 3) for where in found.places] == [0.7, 0.5]


def test_durations_have_rates_per_second() -> None:
    query = Query(
        name="q",
        rate=1000,
        boxes=(Box("mean", 0.001, window=tumbling("10 seconds")), Box("out", 5)),
        max_gap=3,
    )
    assert load_of(query) == pytest.approx(1 + 0.5)


def test_branches_without_windows_forbid_a_drop_before_the_split() -> None:
    plain = Query(name="raw", boxes=(), max_gap=1)
    raw = Query(name="q", rate=1, boxes=(Box("parse", 1),), branches=(SHARED.branches[0], plain))
    found = place([raw], capacity=2.5)
    assert [where.query for where in found.places] == ["left"]
    assert "a branch without windows behind it would lose tuples too" in found.reason


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box("x", -1), "cost of 'x' = -1"),
        (lambda: Box("x", 1, by=("a",)), "by of 'x' = .*an aggregate"),
        (lambda: Box("x", 1, counted=True), "counted of 'x' = True"),
        (lambda: Box("x", 1, window=tumbling(2), by="route"), "a tuple of column names"),  # type: ignore[arg-type]
        (lambda: Box("x", 1, window=tumbling("2 s"), counted=True), "sizes in tuples"),
        (lambda: Query(name="q", boxes=()), "max_gap of 'q' = None"),
        (lambda: Query(name="q", boxes=(), max_gap=1, branches=(NESTED,)), "at each leaf only"),
        (lambda: place([NESTED, NESTED], capacity=1), "a name of its own"),
        (lambda: place([NESTED], capacity=-1), "capacity = -1"),
        (lambda: place([Query(name="q", boxes=(), max_gap=1)], capacity=1), "rate of 'q'"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(SpillwayError, match=message):
        make()  # type: ignore[operator]


def test_those_who_save_most_per_result_lose_results_first() -> None:
    """dear saves 9 per result, up to 1/2 of them, and cheap 1: only what dear cannot save is left for cheap."""
    cheap = Query(name="cheap", rate=1, boxes=(Box("sum", 1, window=tumbling(2)),), max_gap=3)
    dear = Query(name="dear", rate=1, boxes=(Box("sum", 9, window=tumbling(2)),), max_gap=1)
    assert [(w.query, w.drop_probability) for w in place([cheap, dear], capacity=7).places] == [
        ("dear", pytest.approx(3 / 9))
    ]
    assert [(w.query, w.drop_probability) for w in place([cheap, dear], capacity=5).places] == [
        ("cheap", pytest.approx(0.5)),
        ("dear", 0.5),
    ]


def test_a_branch_alone_where_that_loses_less_than_both() -> None:
    """Before the split 3 are saved for two results; in the left branch alone 2.5 for one."""
    left = Query(name="left", boxes=(Box("A", 2.5, window=tumbling(2)),), max_gap=4)
    right = Query(name="right", boxes=(Box("B", 0.25, window=tumbling(2)),), max_gap=4)
    query = Query(name="q", rate=1, boxes=(Box("parse", 0.25),), branches=(left, right))
    assert [(w.query, w.drop_probability) for w in place([query], capacity=2).places] == [
        ("left", pytest.approx(0.4))
    ]
    assert [w.query for w in place([query], capacity=0.75).places] == ["q"], "left alone cannot save 2.25"


def pipeline(*boxes: Box) -> Query:
    return Query(name="q", rate=1, boxes=boxes, max_gap=10)


@pytest.mark.parametrize(
    ("inner", "outer", "why"),
    [
        (
            {"by": ("route", "driver")},
            {"by": ("route",)},
            "'in' groups by 'route', 'driver' and 'out' groups by 'route'",
        ),
        ({"by": ("route",)}, {}, "'in' groups by 'route' and 'out' groups by nothing"),
        ({"counted": True}, {}, "the windows of 'in' count tuples and those of 'out' go by time"),
        ({}, {"counted": True}, "the windows of 'out' count tuples and those of 'in' go by time"),
    ],
)
def test_a_drop_stands_where_all_aggregates_behind_it_are_of_one_kind(
    inner: Any, outer: Any, why: str
) -> None:
    """Section 3.5: not before the inner aggregate, although all the work is there."""
    query = pipeline(
        Box("parse", 5),
        Box("in", 5, window=tumbling(2), **inner),
        Box("map", 1),
        Box("out", 5, window=tumbling(4), **outer),
    )
    found = place([query], capacity=load_of(query) - 1)
    assert [where.before for where in found.places] == ["map"]
    assert f"q: no drop before 'in', because {why}" in found.reason
    alike = pipeline(
        Box("parse", 5), Box("in", 5, window=tumbling(2)), Box("map", 1), Box("out", 5, window=tumbling(4))
    )
    assert place([alike], capacity=10).places[0].before == "parse"


def test_branches_of_different_kinds_get_drops_of_their_own() -> None:
    left = Query(name="left", boxes=(Box("A", 1, window=tumbling(2), by=("x", "y")),), max_gap=4)
    right = Query(name="right", boxes=(Box("B", 1, window=tumbling(2), by=("y",)),), max_gap=4)
    same = Query(name="right", boxes=(Box("B", 1, window=tumbling(2), by=("y", "x")),), max_gap=4)
    apart, shared = (
        place([Query(name="q", rate=1, boxes=(Box("parse", 5),), branches=(left, other))], capacity=load)
        for other, load in ((right, 5.5), (same, 5.5))
    )
    assert [where.query for where in apart.places] == ["left", "right"]
    assert "q: no drop before 'parse', because 'A' groups by 'x', 'y' and 'B' groups by 'y'" in apart.reason
    assert [where.query for where in shared.places] == ["q"], "the order of the columns does not matter"


def test_windows_that_count_are_measured_in_tuples_of_the_drop() -> None:
    """tumbling(2) >> tumbling(3) by count is a window of 2 under one of 6; the engine confirms what is expected."""
    query = Query(
        name="q",
        rate=1,
        boxes=(
            Box("x", 5),
            Box("A", 0, window=tumbling(2), counted=True),
            Box("y", 10),
            Box("B", 0, window=tumbling(3), counted=True),
            Box("z", 30),
        ),
        max_gap=3,
    )
    assert load_of(query) == pytest.approx(5 + 10 / 2 + 30 / 6)
    found = place([query], capacity=10)
    (where,) = found.places
    assert (where.before, where.size, where.slide) == ("x", 7, 6)
    same = Change(lambda value: value)
    windows = (Aggregated(tumbling(2), complete=2), Aggregated(tumbling(6), complete=3))
    plan: Plan = (Drop(where.drop_probability, 3, salt=3), same, windows[0], same, windows[1], same)
    engine = Engine(plan, counted=True)
    engine.run(Tuple(t) for t in range(40_000))
    work = sum(engine.counts[name].tuples * cost for name, cost in (("1", 5), ("3", 10), ("5", 30)))
    assert work / 40_000 == pytest.approx(found.expected_load, rel=0.03)


@pytest.mark.parametrize(
    "boxes",
    [
        (Box("parse", 5), Box("filter", 1, 0.5), Box("count", 5, window=tumbling(2), counted=True)),
        (Box("filter", 1, 0.5), Box("map", 1), Box("count", 5, window=tumbling(2), counted=True)),
    ],
)
def test_a_filter_before_a_window_that_counts_stays_before_the_drop(boxes: tuple[Box, ...]) -> None:
    found = place([pipeline(*boxes)], capacity=load_of(pipeline(*boxes)) - 1)
    (where,) = found.places
    assert where.before in ("count", "map")
    assert "'filter' changes how many tuples there are, and 'count' counts them" in found.reason


def test_many_queries_are_placed_too() -> None:
    """2^40 sets of drops that each cost something are not all tried."""
    queries = [
        Query(name=f"q{n}", rate=1, boxes=(Box("sum", n, window=tumbling(2)),), max_gap=1)
        for n in range(1, 41)
    ]
    found = place(queries, capacity=sum(range(1, 41)) - 50, drop_cost=0.01)
    assert found.expected_load == pytest.approx(770)
    assert [where.query for where in found.places] == ["q38", "q39", "q40"]  # 20, 19.5 and what is left
    assert [round(where.drop_probability, 3) for where in found.places] == [round(10.53 / 38, 3), 0.5, 0.5]
