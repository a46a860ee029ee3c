"""Rate, direction, utility, correlation: the formulas against their definitions, and what is learned from streams."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.join.scenario import Setting, streams
from spillway.core.join import JoinConfig, RateConfig, Shedding, Utility, overlap
from spillway.core.join.selection.direction import directed
from spillway.core.join.selection.knapsack import filled
from spillway.core.join.selection.random_drop import keep_ratio
from spillway.core.join.selection.rate import fraction_for
from spillway.core.join.selection.time_correlation import Correlation
from spillway.core.join.selection.utility import Worth
from spillway.errors import SpillwayError
from spillway.replay.traces import Rates
from tests.core.join.streams import two_streams

shares = st.floats(0, 1)
demands = st.floats(1, 1e6)


@given(budget=st.floats(0, 2e6), demand=demands, sample=shares)
def test_the_fraction_spends_the_budget(budget: float, demand: float, sample: float) -> None:
    r = fraction_for(budget, demand, sample)
    assert 0 <= r <= 1
    assert demand * (sample * r + (1 - sample * r) * r) == pytest.approx(
        min(budget, demand), rel=1e-6, abs=1e-6
    )


def test_rate_adaptation_follows_the_paper() -> None:
    rate = RateConfig(boost=1.2).build()
    assert rate.step(fetched_rows=50, arrived_rows=100) == 0.5
    assert rate.step(fetched_rows=100, arrived_rows=100) == pytest.approx(0.6)
    assert rate.step(fetched_rows=0, arrived_rows=0) == pytest.approx(0.72)
    again = RateConfig().build(rate.snapshot())
    assert again.step(fetched_rows=9, arrived_rows=10) == rate.step(fetched_rows=9, arrived_rows=10)
    for _ in range(200):
        rate.step(fetched_rows=0, arrived_rows=1)
    assert 0 < rate.state.fraction <= 1e-6, "it can still rise"
    for _ in range(200):
        rate.step(fetched_rows=1, arrived_rows=1)
    assert rate.state.fraction == 1.0


@pytest.mark.parametrize("field", ["boost", "period_s", "least"])
def test_rate_parameters_are_checked(field: str) -> None:
    with pytest.raises(SpillwayError, match=field):
        RateConfig(**{field: 0.0})


@given(r=shares, demand=st.tuples(demands, demands), density=st.tuples(shares, shares))
def test_directions_keep_the_total_and_prefer_the_better(
    r: float, demand: tuple[float, float], density: tuple[float, float]
) -> None:
    fractions = directed(r, demand=demand, density=density)
    assert sum(f * d for f, d in zip(fractions, demand, strict=True)) == pytest.approx(r * sum(demand))
    best = 0 if density[0] >= density[1] else 1
    assert min(fractions) >= 0
    assert max(fractions) <= 1
    assert fractions[1 - best] == pytest.approx(0, abs=1e-9) or fractions[best] == pytest.approx(1)


@given(budget=st.floats(0, 1e6), old=st.floats(0, 1e6), new=st.floats(0, 1e6))
def test_the_share_of_rows_kept_spends_the_budget(budget: float, old: float, new: float) -> None:
    q = keep_ratio(budget, old=old, new=new)
    assert 0 <= q <= 1
    assert q * old + q * q * new == pytest.approx(min(budget, old + new), rel=1e-6, abs=1e-6)


@st.composite
def knapsacks(draw: st.DrawFn) -> tuple[Any, ...]:
    count = np.array(draw(st.tuples(st.integers(1, 4), st.integers(1, 4))))
    types, n = draw(st.integers(1, 3)), int(count.max())
    numbers = st.integers(0, 9).map(float)
    matrix = lambda rows, columns: np.array(  # noqa: E731
        draw(st.lists(numbers, min_size=rows * columns, max_size=rows * columns))
    ).reshape(rows, columns)
    demand, worth, density = matrix(2, types), matrix(2, types), matrix(2, n)
    for i in (0, 1):
        density[i, count[i] :] = 0.0
    order = np.tile(np.arange(n), (2, 1))
    for i in (0, 1):
        order[i, : count[i]] = np.argsort(-density[i, : count[i]], kind="stable")
    volume = 1.0 + matrix(2, n)
    for i in (0, 1):
        volume[i, count[i] :] = 0.0
    volume /= volume.sum(axis=1, keepdims=True)
    return draw(shares), demand, worth, density, volume, order, count


def values(case: tuple[Any, ...], slices: int = 240) -> Any:
    """Return v of each window and type in slices of the window, best first."""
    _, demand, worth, density, volume, order, count = case
    at = (np.arange(slices) + 0.5) / slices
    v = np.empty((*demand.shape, slices))
    for i, z in np.ndindex(*demand.shape):
        ranked = order[i, : count[i]]
        o, p = density[i, ranked], volume[i, ranked]
        middles = np.cumsum(p) - p / 2
        top = o[0] + (o[0] - o[1]) / 2 if len(o) > 1 else o[0]
        v[i, z] = worth[i, z] * np.interp(at, [0.0, *middles], [top, *o])
    return v


def value_of(case: tuple[Any, ...], fraction: Any) -> float:
    v, demand = values(case), case[1]
    slices = v.shape[-1]
    parts = np.clip(fraction[..., None] * slices - np.arange(slices), 0.0, 1.0)
    return float((parts * v * demand[..., None] / slices).sum())


@given(case=knapsacks())
def test_the_budget_is_filled_as_well_as_by_sorting_small_items(case: tuple[Any, ...]) -> None:
    r, demand, *_ = case
    found = filled(*case)
    assert (found >= 0).all()
    assert (found <= 1 + 1e-9).all()
    assert (found * demand).sum() == pytest.approx(r * demand.sum())
    v = values(case)
    volumes = np.broadcast_to(demand[..., None] / v.shape[-1], v.shape).ravel()
    best, left = 0.0, r * demand.sum()
    for k in np.argsort(-v.ravel()):
        taken = min(left, volumes[k])
        best += v.ravel()[k] * taken
        left -= taken
    assert value_of(case, found) == pytest.approx(best, rel=1e-3)


def test_no_grid_of_fractions_is_worth_more() -> None:
    """Brute force, without using that the items are independent."""
    demand, worth = np.array([[4.0, 2.0], [3.0, 3.0]]), np.array([[1.0, 3.0], [2.0, 0.5]])
    density = np.array([[0.1, 0.4], [0.3, 0.1]])
    volume, order = np.array([[0.5, 0.5], [0.7, 0.3]]), np.array([[1, 0], [0, 1]])
    case = 0.5, demand, worth, density, volume, order, np.array([2, 2])
    grid = np.linspace(0, 1, 9)
    best = max(
        value_of(case, f)
        for f in (np.array(each).reshape(2, 2) for each in product(grid, repeat=4))
        if 5.5 <= (f * demand).sum() <= 6.0 + 1e-9
    )
    assert value_of(case, filled(*case)) >= best - 1e-3


@given(r=shares, demand=st.tuples(demands, demands, demands), worth=shares, n=st.integers(1, 5))
def test_types_that_are_worth_the_same_get_the_same(r: float, demand: Any, worth: float, n: int) -> None:
    both, order, count = np.array([demand, demand]), np.tile(np.arange(n), (2, 1)), np.array([n, n])
    volume = np.full((2, n), 1.0 / n)
    for density in (np.zeros((2, n)), np.full((2, n), 0.3), np.tile(np.arange(n, 0, -1) / n, (2, 1))):
        found = filled(r, both, np.full((2, 3), worth), density, volume, order, count)
        assert found == pytest.approx(np.full((2, 3), r), abs=1e-6)


def test_utilities_are_learned_and_lean_on_no_influence_before() -> None:
    worth = Worth(Utility("kind", {"a": 4.0, "b": 1.0}), memory=0.5, most=2)
    density = np.array([[0.05, 0.15], [0.2, 0.2]])
    worth.seen[:, :2] += 1
    assert worth.estimate(density)[:, :2] == pytest.approx(np.array([[4.0, 2.5], [4.0, 2.5]]))
    # type b met only the better basic window of window 0, and matched twice as often as others there, with b's
    worth.compared[0, 1, 1] += 1_000_000
    worth.matched[0, 1] += 300_000
    worth.gained[0, 1] += 300_000 * worth.table[1, 1]
    assert worth.estimate(density)[0, 1] == pytest.approx(2 * 1, rel=0.02)
    assert worth.estimate(density)[0, 0] == pytest.approx(4.0)
    # 3 % more matches than others had, 10,000 of them, may be chance: they come in clusters
    worth.compared[1, 1, 0] += 50_000
    worth.matched[1, 1] += 10_300
    worth.gained[1, 1] += 10_300 * 2.5
    assert worth.estimate(density)[1, 1] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": ""}, "type = ''"),
        ({"values": {}}, "values"),
        ({"values": {"a": -1.0}}, r"values\['a'\] = -1"),
        ({"values": {"a": 1.0, 2: 1.0}}, "all strings or all whole numbers"),
        ({"values": {1.5: 1.0}}, "all strings or all whole numbers"),
        ({"values": {True: 1.0}}, "all strings or all whole numbers"),
        ({"values": {None: 1.0, "a": 2.0}}, "all strings or all whole numbers"),
        ({"values": {2**70: 1.0}}, "values, type = 1180591620717411303424"),
        ({"function": "sum"}, "function = 'sum'"),
        ({"otherwise": -2.0}, "otherwise"),
    ],
)
def test_utilities_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpillwayError, match=message):
        Utility(**({"type": "kind", "values": {"a": 1.0}} | change))


def test_counts_become_an_order_and_fade() -> None:
    learned = Correlation(np.array([3, 2]), memory=0.5)
    compared = np.array([[100, 100, 0], [100, 0, 0]])
    learned.compared += compared
    learned.matched += np.array([[1, 2, 0], [1, 0, 0]])
    learned.step()
    assert learned.order.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert learned.density[0].tolist() == [0.01, 0.02, 0.015], "what was never compared counts as average"
    assert learned.newer.tolist() == [[False, False, True], [True, True, True]]
    assert learned.mean.tolist() == [pytest.approx(0.015), 0.01]
    learned.compared += 10 * compared
    learned.matched[0, 0] += 60
    learned.step()
    assert learned.order[0].tolist()[0] == 0


@pytest.mark.parametrize(("memory", "periods"), [(0.5, 3), (0.0, 4), (0.8, 10**9)])
def test_counts_fade_with_every_period_that_passes(memory: float, periods: int) -> None:
    one_by_one, at_once = Correlation(np.array([3, 3]), memory), Correlation(np.array([3, 3]), memory)
    utility = Utility("kind", {"a": 1.0})
    worths = Worth(utility, memory, 3), Worth(utility, memory, 3)
    for learned, worth, steps in ((one_by_one, worths[0], min(periods, 5)), (at_once, worths[1], 1)):
        learned.compared += 1000.0
        learned.matched += np.array([[10.0, 30.0, 20.0], [5.0, 5.0, 0.0]])
        worth.matched += 50.0
        for _ in range(steps):
            learned.step(periods // steps)
            worth.step(periods // steps)
    assert at_once.order[0].tolist() == [1, 2, 0], "what was learned last stays until there is more"
    assert at_once.density[0].tolist() == [0.01, 0.03, 0.02]
    assert at_once._old_compared == pytest.approx(one_by_one._old_compared)
    assert at_once._old_compared == pytest.approx(np.full((2, 3), 1000.0 * memory ** (periods - 1)))
    assert worths[0].matched == pytest.approx(worths[1].matched)


def test_a_long_pause_makes_what_was_learned_weigh_little() -> None:
    left, right = two_streams(rate=60, seconds=20, lag_s=3.5, seed=1)
    shedding, compared = Shedding(basic_window_s=1, period_s=2, memory=0.5), []
    for pause_s in (2.0, 200.0):
        join = JoinConfig(on=overlap("v", at_least=3), within_s=10, time="ts", shedding=shedding).build()
        join.process(left, right, fraction=0.2)
        later = left.slice(0, 1).set_column(0, "ts", pa.array([20.0 + pause_s]))
        join.process(later, None, fraction=0.2)
        compared.append(join.selection.correlation._old_compared.sum())
        assert join.selection.correlation.order[0, 0] == 3
    assert compared[1] == pytest.approx(compared[0] * 0.5 ** (198 / 2), rel=1e-6)


@pytest.mark.parametrize("slide", ["step", "smooth"])
def test_comparisons_and_matches_are_counted_by_basic_window_and_type(slide: Any) -> None:
    left, right = two_streams(rate=40, seconds=20, lag_s=3.5, seed=2, kinds="abb")
    utility = Utility("kind", {"a": 4.0, "b": 1.0})
    shedding = Shedding(basic_window_s=1, period_s=1e6, slide=slide, utility=utility)
    config = JoinConfig(on=overlap("v", at_least=3), within_s=(6, 9), time="ts", shedding=shedding)
    ticks = iter(range(10**6))
    join = config.build(clock=lambda: float(next(ticks)))
    pairs = join.process(left, right, fraction=0.3)
    matched, by_type, gained = np.zeros((2, 10)), np.zeros((2, 3)), np.zeros((2, 3))
    for row, partner in zip(pairs["left_row"].to_pylist(), pairs["right_row"].to_pylist(), strict=True):
        at, other = round(left["ts"][row].as_py() * 1e6), round(right["ts"][partner].as_py() * 1e6)
        kinds = left["kind"][row].as_py(), right["kind"][partner].as_py()
        i = 0 if other >= at else 1  # the window in which the earlier one was met
        age = max(at, other) // 10**6 - min(at, other) // 10**6
        if slide == "smooth":
            age = max(0, -(-abs(at - other) // 10**6) - 1)
        matched[i, age] += 1
        by_type[i, "ab".index(kinds[1 - i])] += 1
        gained[i, "ab".index(kinds[1 - i])] += 4.0 if "a" in kinds else 1.0
    learned, worth = join.selection.correlation, join.selection.worth
    assert worth is not None
    assert matched.sum() > 100
    assert (learned.matched == matched[:, : learned.matched.shape[1]]).all()
    assert (worth.matched == by_type).all()
    assert worth.gained == pytest.approx(gained)
    assert learned.compared.sum() == worth.compared.sum() == join.work.comparisons
    assert (learned.compared == worth.compared.sum(axis=1)).all()
    kinds_seen = [[side["kind"].to_pylist().count(kind) for kind in "abc"] for side in (left, right)]
    assert worth.seen.tolist() == kinds_seen
    assert join.work.adapting_s == 2.0, "choosing and learning, one tick each"


@pytest.mark.parametrize("slide", ["step", "smooth"])
@pytest.mark.parametrize("lag_s", [3.5, 7.5])
def test_a_known_shift_is_found(slide: Any, lag_s: float) -> None:
    """Right rows repeat what left rows had lag_s before: right rows match in the left window, at that age."""
    left, right = two_streams(rate=60, seconds=40, lag_s=lag_s, seed=5)
    shedding = Shedding(basic_window_s=1, period_s=2, slide=slide)
    join = JoinConfig(on=overlap("v", at_least=3), within_s=10, time="ts", shedding=shedding).build()
    join.process(left, right, fraction=0.2)
    learned = join.selection.correlation
    assert learned.order[0, 0] in ((int(lag_s), int(lag_s) + 1) if slide == "step" else (int(lag_s),))
    assert learned.mean[0] > 3 * learned.mean[1]
    assert join.selection.fractions[:, 0].tolist() == pytest.approx([0.4, 0.0], abs=0.04)


def test_a_shift_that_moves_is_found_again() -> None:
    one, other = two_streams(rate=60, seconds=30, lag_s=3.5, seed=1), two_streams(30, 60, 8.5, seed=2)
    later = [table.set_column(0, "ts", [[t + 30 for t in table["ts"].to_pylist()]]) for table in other]
    shedding = Shedding(basic_window_s=1, period_s=2)
    join = JoinConfig(on=overlap("v", at_least=3), within_s=10, time="ts", shedding=shedding).build()
    join.process(*one, fraction=0.2)
    assert join.selection.correlation.order[0, 0] == 3
    join.process(*later, fraction=0.2)
    assert join.selection.correlation.order[0, 0] == 8


@pytest.mark.parametrize("lag_s", [4.5, -4.5])
def test_each_adaptation_adds_to_the_output(lag_s: float) -> None:
    left, right = two_streams(rate=60, seconds=40, lag_s=lag_s, seed=3)
    found = {}
    for name in ("random", "newest", "timecorr", "selective"):
        config = JoinConfig(on=overlap("v", at_least=3), within_s=10, time="ts", shedding=name)
        found[name] = sum(config.build().process(left, right, fraction=0.05).num_rows for _ in range(1))
    assert found["timecorr"] > 2 * max(found["newest"], found["random"])
    assert found["selective"] > 1.3 * found["timecorr"]


@lru_cache(maxsize=2)
def paper_streams(shift: float) -> tuple[Setting, Any, Any]:
    """The streams of the paper, thinner; right rows repeat what left rows have ``shift`` of a cycle later."""
    setting = Setting(rate=200.0, shift=shift)
    return setting, *streams(setting, Rates((setting.rate,), (60.0,)), 0)


def paper_output(shift: float, shedding: str | Shedding, share: float) -> int:
    setting, left, right = paper_streams(shift)
    return setting.config(shedding).build().process(left, right, share * 60 * setting.demand_per_s).num_rows


@pytest.mark.parametrize("share", [0.04, 0.15])
@pytest.mark.parametrize(("shift", "one_way"), [(0.0, False), (0.5, False), (5 / 8, True)])
def test_direction_loses_nothing_where_rows_match_in_both(shift: float, one_way: bool, share: float) -> None:
    """Shifts by none or by half of the cycle make rows of both sides find as many, 5/8 is the paper's setting."""
    found = {
        name: paper_output(shift, shedding, share)
        for name, shedding in (
            ("timecorr", Shedding(direction=False, basic_window_s=1)),
            ("selective", Shedding(basic_window_s=1)),
            ("algorithm 4", Shedding(basic_window_s=1, direct_by="window")),
        )
    }
    if one_way:
        assert found["selective"] > 1.15 * found["timecorr"]
        assert found["selective"] > 0.98 * found["algorithm 4"]
    else:
        assert found["selective"] > 0.98 * found["timecorr"]
        assert found["selective"] > 1.1 * found["algorithm 4"]


@pytest.mark.parametrize("basic_window_s", [1.0, 0.5])
def test_utilities_that_are_all_the_same_change_nothing(basic_window_s: float) -> None:
    setting, *tables = paper_streams(5 / 8)
    rng = np.random.default_rng(4)
    left, right = (
        table.append_column("kind", pa.array(rng.choice(3, table.num_rows, p=[0.6, 0.3, 0.1])))
        for table in tables
    )
    found = []
    for utility in (None, Utility("kind", {0: 2.0, 1: 2.0, 2: 2.0})):
        shedding = Shedding(basic_window_s=basic_window_s, utility=utility)
        join = setting.config(shedding).build()
        found.append(join.process(left, right, 0.037 * 60 * setting.demand_per_s).num_rows)
    assert found[1] == pytest.approx(found[0], rel=0.02)


@pytest.mark.parametrize("function", ["max", "mean"])
def test_utility_beats_the_same_without(function: Any) -> None:
    left, right = two_streams(rate=60, seconds=40, lag_s=4.5, seed=3, kinds="abbbbbbb")
    utility, gained = Utility("kind", {"a": 10.0, "b": 1.0}, function), {}
    table = utility.of()
    for given_utility in (None, utility):
        shedding = Shedding(basic_window_s=1, utility=given_utility)
        config = JoinConfig(on=overlap("v", at_least=3), within_s=10, time="ts", shedding=shedding)
        pairs = config.build().process(left, right, fraction=0.03)
        kinds = [
            np.array([0 if kind == "a" else 1 for kind in side["kind"].to_pylist()])[pairs[i].to_numpy()]
            for i, side in enumerate((left, right))
        ]
        gained[given_utility is None] = table[kinds[0], kinds[1]].sum()
    assert gained[False] > 1.1 * gained[True]
