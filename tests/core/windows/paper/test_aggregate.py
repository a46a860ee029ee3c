"""The aggregate's decoding of window specifications, every row of the paper's Table 3, and what it prevents."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from spillway.core.windows import DropLog, sliding, tumbling
from spillway.core.windows.aggregate_functions import function_of
from spillway.core.windows.paper.aggregate import Aggregate, decode
from spillway.core.windows.paper.operators import ANY, DISALLOWED, Specification, Tuple
from spillway.core.windows.paper.windrop import WinDropConfig

T, SIZE = 10, 4
WITHIN, BEYOND = 12, 10  # windows may open before this; half-open, so 10 itself is beyond
TAU = 20
END = TAU - (SIZE - 1)


@pytest.mark.parametrize(
    ("starts", "spec", "open_until", "opens", "fakes", "passed", "then_open"),
    [
        (True, TAU, WITHIN, True, False, END, END),
        (True, TAU, BEYOND, True, False, END, END),
        (True, DISALLOWED, WITHIN, True, False, DISALLOWED, WITHIN),
        (True, DISALLOWED, BEYOND, False, False, None, BEYOND),
        (True, ANY, WITHIN, True, False, ANY, WITHIN),
        (True, ANY, BEYOND, False, False, None, BEYOND),
        (False, TAU, WITHIN, False, True, END, END),
        (False, TAU, BEYOND, False, True, END, END),
        (False, DISALLOWED, WITHIN, False, True, DISALLOWED, WITHIN),
        (False, DISALLOWED, BEYOND, False, True, DISALLOWED, BEYOND),
        (False, ANY, WITHIN, False, False, None, WITHIN),
        (False, ANY, BEYOND, False, False, None, BEYOND),
    ],
)
def test_every_row(
    starts: bool,
    spec: Specification,
    open_until: float,
    opens: bool,
    fakes: bool,
    passed: Specification | None,
    then_open: float,
) -> None:
    action = decode(starts=starts, specification=spec, time=T, open_until=open_until, size=SIZE)
    assert (action.opens, action.fakes, action.open_until) == (opens, fakes, then_open)
    if passed is not None:
        assert action.specification == passed


def as_printed(given: list[Tuple], size: int, slide: int) -> dict[float, list[Any]]:
    """An aggregate that reads Table 3 to the letter, with keep_until for both ends: its windows by start."""
    keep_until, windows = -math.inf, dict[float, list[Any]]()
    for each in given:
        t, spec = each.time, each.specification
        if isinstance(spec, int | float):
            keep_until = spec - (size - 1)
            opens = t % slide == 0
        else:
            opens = t % slide == 0 and t < keep_until
            keep_until = max(keep_until, t + size) if opens else keep_until
        if opens:
            windows[t] = []
        if not each.fake:
            for start, values in windows.items():
                if start <= t < start + size:
                    values.append(each.value)
    return windows


def test_the_table_as_printed_gives_a_wrong_answer_where_ours_is_right() -> None:
    """A(3, 2) beside B(3, 3): the drop has windows (7, 6) and keeps the first of them, with all that it needs.

    time        0 1 2 3 4 5 6 7 8 9 ...
    drop        [-- kept ---) . dropped           the tuples 0 to 6 are left
    A           [0 1 2) [4 5 6)                   asked for
                    [2 3 4) [6 . .)               the window at 6 belongs to the drop's next one
    """
    whole = range(13)
    config = WinDropConfig(size=7, slide=6, max_gap=3)
    drop = config.build(log=DropLog(decided={0: True, 1: False, 2: False}))
    marked = [out for t in whole for out in drop.push(Tuple(t, t))]
    assert [(out.time, out.specification) for out in marked if out.specification is not ANY] == [
        (0, 7), (6, DISALLOWED), (12, DISALLOWED),
    ]  # fmt: skip
    exact = {start: [t for t in whole if start <= t < start + 3] for start in range(0, 13, 2)}
    printed = as_printed(marked, size=3, slide=2)
    ours = {time: value for time, value, _, fake in through(listing(3, 2), *marked) if not fake}
    assert printed[6] == [6] != exact[6], "opened over what is left of it"
    assert ours == {start: exact[start] for start in (0, 2, 4)}


def through(aggregate: Aggregate, *given: Tuple) -> list[tuple[Any, ...]]:
    outs = [out for each in given for out in aggregate.push(each)] + list(aggregate.finish())
    return [(out.time, out.value, out.specification, out.fake) for out in outs]


def listing(size: int, slide: int) -> Aggregate:
    return Aggregate(sliding(size, slide), function_of("list"))


def test_a_kept_window_carries_its_specification_on() -> None:
    assert through(listing(3, 3), Tuple(0, "a", specification=5), Tuple(1, "b"), Tuple(3, "c")) == [
        (0, ["a", "b"], 3, False)
    ]


def test_a_mark_between_window_starts_goes_on_as_a_fake_tuple_and_its_tuple_still_counts() -> None:
    """Figure 4: A(3, 2) has no window at 3, but the aggregate behind it has."""
    outs = through(
        listing(3, 2),
        Tuple(0, "a", specification=5),
        Tuple(2, "b"),
        Tuple(3, "c", specification=8),
        Tuple(4, "d"),
        Tuple(5, "e"),
    )
    assert outs == [
        (0, ["a", "b"], 3, False),
        (2, ["b", "c", "d"], ANY, False),
        (3, None, 6, True),
        (4, ["d", "e"], ANY, False),
    ]


def test_results_and_fake_tuples_leave_in_order() -> None:
    marked = [Tuple(t, t, specification=t + 5 if t % 3 == 0 else ANY) for t in range(40)]
    times = [time for time, *_ in through(listing(4, 2), *marked)]
    assert all(a <= b for a, b in pairwise(times))


def test_a_window_without_tuples_hands_its_specification_on() -> None:
    given = (Tuple(0, None, specification=9, fake=True), Tuple(6, "x"))
    assert through(listing(3, 3), *given) == [(0, None, 7, True), (6, ["x"], ANY, False)]


def test_fake_tuples_have_no_part_in_results() -> None:
    given = (
        Tuple(0, "a", specification=3),
        Tuple(1, "gone", specification=DISALLOWED, fake=True),
        Tuple(2, "b"),
    )
    assert through(listing(3, 3), *given)[-1] == (1, None, DISALLOWED, True)
    assert through(listing(3, 3), *given)[0] == (0, ["a", "b"], 1, False)


def test_one_kept_window_does_not_open_those_after_it() -> None:
    """With one variable for both ends, as printed, 6 would be within because 4 opened, and 8 because 6 did."""
    aggregate = Aggregate(sliding(3, 2), function_of("list"))
    outs = through(
        aggregate, Tuple(0, 0, specification=7), *(Tuple(t, t) for t in (1, 2, 3, 4, 5)),
        Tuple(6, 6, specification=DISALLOWED),
    )  # fmt: skip
    assert [time for time, *_ in outs] == [0, 2, 4]
    assert aggregate.counts.skipped == 2  # at 6, and at -2, which holds the tuple at 0


def test_work_is_counted() -> None:
    aggregate = Aggregate(tumbling(2), function_of("count"))
    through(
        aggregate,
        Tuple(0, specification=2), Tuple(1), Tuple(2, specification=DISALLOWED, fake=True), Tuple(4, specification=6),
    )  # fmt: skip
    counts = aggregate.counts
    assert (counts.tuples, counts.fakes, counts.opened, counts.skipped) == (3, 1, 2, 1)
    assert (counts.updates, counts.outputs, counts.checks) == (3, 2, 3)


def test_without_a_drop_every_window_opens() -> None:
    aggregate = Aggregate(sliding(3, 1), function_of("count"), decodes=False)
    assert [(time, value) for time, value, *_ in through(aggregate, Tuple(0), Tuple(1))] == [
        (-2, 1), (-1, 2), (0, 2), (1, 1),
    ]  # fmt: skip


def test_each_group_has_its_own_windows() -> None:
    aggregate = Aggregate(tumbling(3), function_of("list"), decodes=False)
    given = [Tuple(0, 1, "a"), Tuple(1, 2, "b"), Tuple(2, 3, "a"), Tuple(5, 4, "b")]
    outs = [out for each in given for out in aggregate.push(each)] + list(aggregate.finish())
    assert [(out.group, out.time, out.value) for out in outs] == [
        ("a", 0, [1, 3]),  # closed by the tuple of b at 5: the stream has come so far
        ("b", 0, [2]),
        ("b", 3, [4]),
    ]


def test_counted_groups_close_by_their_own_tuples() -> None:
    aggregate = Aggregate(tumbling(2), function_of("list"), decodes=False, counted=True, complete=2)
    given = [Tuple(0, 1, "a"), Tuple(0, 2, "b"), Tuple(1, 3, "b"), Tuple(2, 4, "b"), Tuple(1, 5, "a")]
    outs = [out for each in given for out in aggregate.push(each)] + list(aggregate.finish())
    assert [(out.group, out.time, out.value) for out in outs] == [("b", 0, [2, 3]), ("a", 0, [1, 5])]
