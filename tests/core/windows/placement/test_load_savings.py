"""The formulas of Section 3.6 against the engine's own counts."""

from __future__ import annotations

import pytest

from spillway.core.windows import Window, sliding, tumbling
from spillway.core.windows.paper.engine import Engine
from spillway.core.windows.paper.operators import Counts, Tuple
from spillway.core.windows.paper.plan import Aggregated, Change, Drop, Keep
from spillway.core.windows.placement.load_savings import (
    QueryCosts,
    WindowDrop,
    early_drops,
    load,
    load_random_drop,
    load_window_drop,
    needed_random_drop,
    needed_window_drop,
    saved_random_drop,
    saved_window_drop,
)
from spillway.errors import SpillwayError

COSTS = QueryCosts(
    rate=1.0,
    before_cost=5.0,
    before_selectivity=0.5,
    aggregate_cost=3.0,
    aggregate_selectivity=0.0,  # set by the window
    after_cost=40.0,
    window_drop_cost=0.1,
    random_drop_cost=0.2,
    fake_check_cost=0.05,
    copy_cost=0.3,
    window_check_cost=0.4,
)


def counted(window: Window, gap: int, p: float, rows: int = 12_000) -> dict[str, Counts]:
    """Figure 6: a filter that lets every other tuple pass, the aggregate, and something after it."""
    plan = (
        Drop(p, gap),
        Keep(lambda value: value % 2 == 0),
        Aggregated(window),
        Change(lambda value: value),
    )
    engine = Engine(plan)
    engine.run(Tuple(t, t // 2) for t in range(rows))
    return engine.counts


def costs(window: Window) -> QueryCosts:
    # half of the tuples reach the aggregate, and it gives a result every slide
    selectivity = 1.0 / (window.slide * COSTS.before_selectivity)
    return QueryCosts(**(vars(COSTS) | {"aggregate_selectivity": selectivity}))


CASES = [
    (tumbling(4), 3),
    (tumbling(10), 10),
    (sliding(6, 2), 5),
    (sliding(10, 4), 8),
    (sliding(10, 2), 4),  # no early drops
]


def dropped_share(seen: dict[str, Counts]) -> float:
    """What p came to: with a few hundred batches it is not yet what was asked for."""
    return seen["2"].skipped / (seen["2"].opened + seen["2"].skipped)


@pytest.mark.few
@pytest.mark.parametrize("p", [0.2, 0.6])
@pytest.mark.parametrize(("window", "gap"), CASES, ids=repr)
def test_selectivities_of_the_drop(window: Window, gap: int, p: float) -> None:
    drop = WindowDrop(size=window.size, slide=window.slide, max_gap=gap)
    every = counted(window, gap, p)
    seen, share = every["0"], dropped_share(every)
    normal, fake = seen.outputs / seen.tuples, seen.fakes / seen.tuples
    along = early_drops(drop, p, windows=seen.tuples // window.slide)
    assert normal == pytest.approx(along.normal, abs=0.01)
    assert fake == pytest.approx(along.fake, abs=0.01)
    overlap = (window.size - window.slide) / (gap * window.slide)
    assert normal == pytest.approx(drop.sel_w1(share), abs=0.01 + p * overlap)
    assert fake == pytest.approx(drop.sel_w2(share), abs=0.005 + p * overlap / window.slide)
    assert normal <= drop.sel_w1(share) + 0.02  # the formula is cautious


def test_selectivities_by_hand() -> None:
    """ω = 10, δ = 4, B = 3: a dropped batch has 18 tuples, of which 6 are in no kept window, with 1 start."""
    drop = WindowDrop(size=10, slide=4, max_gap=3)
    assert drop.sel_w1(1.0) == pytest.approx(1 - 6 / 18)
    assert drop.sel_w2(1.0) == pytest.approx(1 / 18)  # printed: 2 / 6
    assert WindowDrop(size=10, slide=2, max_gap=4).sel_w1(1.0) == 1.0
    assert WindowDrop(size=10, slide=2, max_gap=4).sel_w2(1.0) == 0.0


@pytest.mark.few
@pytest.mark.parametrize("p", [0.0, 0.3, 0.6])
@pytest.mark.parametrize(("window", "gap"), CASES, ids=repr)
def test_loads_against_the_work_that_is_done(window: Window, gap: int, p: float) -> None:
    drop = WindowDrop(size=window.size, slide=window.slide, max_gap=gap)
    rows = 12_000
    seen = counted(window, gap, p, rows)
    q = costs(window)
    work = (
        rows * q.window_drop_cost
        + rows * q.fake_check_cost
        + seen["1"].tuples * q.before_cost
        + seen["1"].fakes * q.copy_cost
        + seen["2"].checks * q.window_check_cost
        + seen["2"].tuples * q.aggregate_cost
        + seen["3"].tuples * q.after_cost
    ) / rows
    share = dropped_share(seen)
    along = early_drops(drop, p, windows=rows // window.slide)
    assert load_window_drop(q, drop, share, measured=along) == pytest.approx(work, rel=0.03)
    if window.size == window.slide:
        assert load_window_drop(q, drop, share) == pytest.approx(work, rel=0.03)


def test_loads_and_savings_add_up() -> None:
    window, p = tumbling(10), 0.4
    q, drop = costs(window), WindowDrop(size=10, slide=10, max_gap=10)
    assert load(q) == pytest.approx(5 + 0.5 * (3 + 0.2 * 40))
    assert load(q) - saved_random_drop(q, p) == pytest.approx(load_random_drop(q, p))
    assert load_random_drop(q, p) == pytest.approx(5 + 0.5 * (3 + 0.2 * (0.2 + 0.6 * 40)))
    sel_1, sel_2, w1, w2 = 0.5, 0.2, drop.sel_w1(p), drop.sel_w2(p)
    printed = (
        sel_1 * sel_2 * p * 40 + (1 - w1) * 5 + (1 - w1) * sel_1 * 3
        - 0.1 - 0.05 - w2 * 0.3 - (w1 / 10 + w2) * 0.4
    )  # fmt: skip
    assert saved_window_drop(q, drop, p) == pytest.approx(printed)


@pytest.mark.parametrize("excess", [0.1, 0.25, 0.5, 1.0])
def test_the_needed_drop_rate_just_removes_the_excess(excess: float) -> None:
    q = costs(tumbling(10))
    drop = WindowDrop(size=10, slide=10, max_gap=10)
    p = needed_window_drop(q, drop, excess=excess)
    assert p is not None
    assert (1 + excess) * load_window_drop(q, drop, p) == pytest.approx(load(q))
    random = needed_random_drop(q, excess=excess)
    assert random is None or random >= p


def test_what_no_drop_can_remove() -> None:
    q = costs(tumbling(10))
    drop = WindowDrop(size=10, slide=10, max_gap=1)
    assert needed_window_drop(q, drop, excess=0.0) == 0.0
    assert needed_window_drop(q, drop, excess=0.5) is not None
    assert needed_window_drop(q, drop, excess=2.0) is None  # would need more than half of the windows
    assert needed_random_drop(q, excess=2.0) is None


def test_figure_12_load_does_not_depend_on_the_size() -> None:
    """Delays of 5 ms before and after, a batch of 10, 25 % too fast: 0.2 for tumbling, about 0.39 for slide 1."""
    for size in (20, 50, 100):
        for slide in (size, 1):
            q = QueryCosts(
                rate=1, before_cost=5, aggregate_cost=0, aggregate_selectivity=1 / slide, after_cost=5
            )
            found = needed_window_drop(q, WindowDrop(size=size, slide=slide, max_gap=10), excess=0.25)
            assert found == pytest.approx(0.2 if slide == size else 0.4, abs=0.01)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(SpillwayError, match="before_cost"):
        QueryCosts(rate=1, before_cost=-1, aggregate_cost=0, aggregate_selectivity=1, after_cost=5)
    with pytest.raises(SpillwayError, match="slide = 4"):
        WindowDrop(size=3, slide=4, max_gap=1)
