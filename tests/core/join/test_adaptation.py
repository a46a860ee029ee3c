"""Rate, direction, utility, correlation: the formulas against their definitions, and what is learned from streams."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.join import JoinConfig, RateConfig, Shedding, Utility, overlap
from spillway.core.join.correlation import Correlation
from spillway.core.join.direction import directed
from spillway.core.join.random_drop import keep_ratio
from spillway.core.join.rate import fraction_for
from spillway.core.join.utility import Worth, filled
from spillway.errors import SpillwayError
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
    return draw(shares), demand, worth, density, order, count


@given(case=knapsacks())
def test_the_heap_fills_the_budget_as_well_as_sorting_all_items(case: tuple[Any, ...]) -> None:
    r, demand, worth, density, order, count = case
    found = filled(*case)
    assert (found >= 0).all()
    assert (found <= 1 + 1e-9).all()
    assert (found * demand).sum() == pytest.approx(r * demand.sum())

    def ratio(i: int, j: int, z: int) -> float:
        o = density[i, : count[i]]
        return float(worth[i, z] * (o[j] / o.mean() if o.mean() > 0 else 1.0))

    def value(fraction: Any) -> float:
        """What fractions are worth, each taking the basic windows of its window in their order."""
        total = 0.0
        for i, z in np.ndindex(*demand.shape):
            n = int(count[i])
            for rank in range(n):
                part = min(1.0, max(0.0, fraction[i, z] * n - rank))
                total += part * demand[i, z] / n * ratio(i, order[i, rank], z)
        return total

    items = [
        (ratio(i, j, z), demand[i, z] / count[i])
        for i, z in np.ndindex(*demand.shape)
        for j in range(count[i])
    ]
    left, best = r * demand.sum(), 0.0
    for v, volume in sorted(items, reverse=True):
        taken = min(left, volume)
        best += v * taken
        left -= taken
    assert value(found) == pytest.approx(best)


def test_no_grid_of_fractions_is_worth_more() -> None:
    """Brute force, without using that the items are independent."""
    demand, worth = np.array([[4.0, 2.0], [3.0, 3.0]]), np.array([[1.0, 3.0], [2.0, 0.5]])
    density = np.array([[0.1, 0.4], [0.3, 0.1]])
    order, count = np.array([[1, 0], [0, 1]]), np.array([2, 2])
    found = filled(0.5, demand, worth, density, order, count)

    def value(fraction: Any) -> float:
        total = 0.0
        for i, z in np.ndindex(2, 2):
            relative = density[i] / density[i].mean()
            first = min(0.5, fraction[i, z])
            total += (
                demand[i, z]
                * worth[i, z]
                * (first * relative[order[i, 0]] + (fraction[i, z] - first) * relative[order[i, 1]])
            )
        return total

    grid = np.linspace(0, 1, 11)
    best = max(
        value(f)
        for f in (np.array(each).reshape(2, 2) for each in product(grid, repeat=4))
        if (f * demand).sum() <= 6.0 + 1e-9
    )
    assert value(found) >= best - 1e-9


def test_utilities_are_learned_and_lean_on_no_influence_before() -> None:
    worth = Worth(Utility("kind", {"a": 4.0, "b": 1.0}), memory=0.5, most=2)
    density, mean = np.array([[0.05, 0.15], [0.2, 0.2]]), np.array([0.1, 0.2])
    worth.seen[:, :2] += 1
    assert worth.estimate(density, mean)[:, :2] == pytest.approx(np.array([[0.4, 0.25], [0.8, 0.5]]))
    # type b met only the better basic window of window 0, and matched twice as often as others there, with b's
    worth.compared[0, 1, 1] += 1_000_000
    worth.matched[0, 1] += 300_000
    worth.gained[0, 1] += 300_000 * worth.table[1, 1]
    assert worth.estimate(density, mean)[0, 1] == pytest.approx(0.1 * 2 * 1, rel=0.01)
    assert worth.estimate(density, mean)[0, 0] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": ""}, "type = ''"),
        ({"values": {}}, "values"),
        ({"values": {"a": -1.0}}, r"values\['a'\] = -1"),
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
    assert join.selection.fractions[:, 0].tolist() == [pytest.approx(0.4, abs=0.02), 0.0]


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
