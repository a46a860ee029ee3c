"""WinDrop: marks, early drops by the window count function, silences, groups, and count-based windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.windows import DropLog
from spillway.core.windows.paper.operators import ANY, DISALLOWED, Filter, Map, Remark, Tuple
from spillway.core.windows.paper.windrop import WinDrop, WinDropConfig
from spillway.core.windows.window_count import may_drop, window_count, windows_of
from spillway.errors import SpillwayError


def dropping(size: int, slide: int, kept: set[int], **options: bool) -> WinDrop:
    config = WinDropConfig(size=size, slide=slide, max_gap=1, **options)
    return config.build(log=DropLog(decided=dict.fromkeys(kept, True)))


def through(drop: WinDrop, *times: float) -> list[tuple[object, ...]]:
    return [(out.time, out.specification, out.fake) for t in times for out in drop.push(Tuple(t, "x"))]


def test_starts_are_marked_and_tuples_of_no_kept_window_go() -> None:
    """Figure 4: the drop before A(3, 2) >> A(3, 3) has windows (5, 3); window 0 and window 3 are kept.

    time     0 1 2 3 4 5 6 7 8 9
    window 0 [---------)               kept
    window 1       [---------)
    window 2             [---------)
    window 3                   [---    kept
    """
    assert through(dropping(5, 3, {0, 3}), *range(10)) == [
        (0, 5, False),
        (1, ANY, False),
        (2, ANY, False),
        (3, DISALLOWED, False),
        (4, ANY, False),
        (6, DISALLOWED, True),
        (9, 14, False),
    ]


def test_figure_5_common_starts_of_a_fan_out() -> None:
    assert through(dropping(7, 6, {1}), *range(0, 14, 2)) == [
        (0, DISALLOWED, True),
        (6, 13, False),
        (8, ANY, False),
        (10, ANY, False),
        (12, DISALLOWED, False),
    ]


def test_a_start_without_a_tuple_is_marked_by_a_fake_one() -> None:
    """The tuple at 7.5 is the first one of windows 1 and 2, which have different fates."""
    assert through(dropping(5, 3, {1, 3}), 7.5, 9.5) == [
        (3, 8, True),
        (7.5, ANY, False),
        (9, 14, True),
        (9.5, ANY, False),
    ]


def test_windows_of_a_silence_need_no_marks() -> None:
    assert through(dropping(2, 2, {500, 500_000}), 1_000, 1_000_001) == [
        (1_000, 1_002, False),
        (1_000_000, 1_000_002, True),
        (1_000_001, ANY, False),
    ]


@given(
    st.integers(1, 5).flatmap(lambda slide: st.tuples(st.just(slide), st.integers(slide, slide + 9))),
    st.integers(0, 60),
)
def test_the_window_count_function(window: tuple[int, int], time: int) -> None:
    slide, size = window
    by_definition = [k for k in range(-30, 61) if k * slide <= time < k * slide + size]
    assert list(windows_of(time, size=size, slide=slide)) == by_definition
    assert window_count(time, size=size, slide=slide) == len([k for k in by_definition if k >= 0])
    assert window_count(time + 7, size=size, slide=slide, first=7) == window_count(
        time, size=size, slide=slide
    )


@given(st.integers(1, 4), st.integers(0, 6), st.sets(st.integers(-5, 20)))
def test_the_early_drop_rule(slide: int, extent: int, kept: set[int]) -> None:
    drop = dropping(slide + extent, slide, kept)
    passed = {time for time, _, fake in through(drop, *range(40)) if not fake}
    assert passed == {t for t in range(40) if not may_drop(t, kept, size=slide + extent, slide=slide)}
    assert drop.counts.tuples == drop.counts.outputs + drop.counts.dropped == 40


def test_groups_share_decisions_unless_they_have_coins_of_their_own() -> None:
    stream = [Tuple(t, group=g) for t in range(200) for g in "ab" if g == "a" or t > 50]

    def kept(own_coins: bool) -> dict[str, list[float]]:
        config = WinDropConfig(size=1, slide=1, max_gap=2, own_coins=own_coins)
        drop = config.build(0.5)
        outs = [out for each in stream for out in drop.push(each) if not out.fake]
        return {g: [out.time for out in outs if out.group == g and out.time > 50] for g in "ab"}

    assert kept(own_coins=False)["a"] == kept(own_coins=False)["b"]
    assert kept(own_coins=True)["a"] != kept(own_coins=True)["b"]


def test_counted_windows_start_at_zero() -> None:
    assert through(dropping(4, 1, set(range(-9, 9)), counted=True), 0, 1) == [(0, 4, False), (1, 5, False)]


def test_a_stream_out_of_order_is_refused() -> None:
    with pytest.raises(SpillwayError, match="sort the stream by its time"):
        through(dropping(3, 3, set()), 5, 4)


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"slide": 0}, {"slide": 4}, {"max_gap": 0}, {"before": -1}, {"salt": 1.5}]
)
def test_what_makes_no_sense_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(SpillwayError):
        WinDropConfig(**({"size": 3, "slide": 3, "max_gap": 1} | options))


def test_filters_and_maps_let_marks_pass() -> None:
    large, double = Filter(lambda value: value > 5), Map(lambda value: 2 * value)
    assert list(large.push(Tuple(0, 9, specification=7))) == [Tuple(0, 9, specification=7)]
    assert list(large.push(Tuple(1, 1))) == []
    assert list(large.push(Tuple(2, 1, specification=7))) == [Tuple(2, None, specification=7, fake=True)]
    fake = Tuple(3, None, specification=DISALLOWED, fake=True)
    assert list(large.push(fake)) == list(double.push(fake)) == [fake]
    assert list(double.push(Tuple(4, 3, specification=8))) == [Tuple(4, 6, specification=8)]
    assert (large.counts.tuples, large.counts.fakes, large.counts.outputs) == (3, 1, 1)


def test_a_branch_gets_the_end_that_its_own_rule_asks_for() -> None:
    branch = Remark(size=6)
    assert list(branch.push(Tuple(0, "x", specification=7))) == [Tuple(0, "x", specification=6)]
    later = Remark(size=6, delay=2)
    outs = [out for each in (Tuple(0, "x", specification=7), Tuple(3, "y")) for out in later.push(each)]
    assert outs == [Tuple(0, "x"), Tuple(2, None, specification=8, fake=True), Tuple(3, "y")]
