"""Placement of window drops against brute force: every set of places, and every p on a grid.

The model below is written from the paper's rules and reads nothing of the code but the queries themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.windows import sliding, tumbling
from spillway.core.windows.placement import Box, Query, least_loss, load_of, place

GRID = 6


@dataclass(frozen=True)
class Stand:
    """A drop that may stand before a box: what it saves at p = 1, its cost, the leaves it hits, its largest p."""

    name: tuple[str, str]
    saves: float
    cost: float
    leaves: int
    most: float


def aggregates(query: Query, start: int = 0) -> Iterator[Box]:
    yield from (box for box in query.boxes[start:] if box.window is not None)
    for branch in query.branches:
        yield from aggregates(branch)


def ends(query: Query, start: int, last: Box | None = None) -> Iterator[tuple[Box | None, int]]:
    """The last aggregate on the way to each leaf, and the leaf's bound."""
    for box in query.boxes[start:]:
        last = box if box.window is not None else last
    if not query.branches:
        assert query.max_gap is not None
        yield last, query.max_gap
    for branch in query.branches:
        yield from ends(branch, 0, last)


def needed(query: Query, start: int, slide: int) -> int:
    """How much of the stream before a box one window of the drop needs; 0 behind the last aggregate."""
    for n, box in enumerate(query.boxes[start:], start):
        if box.window is not None:
            below = needed(query, n + 1, slide)
            own = box.window.size - 1
            return below + own if below else slide - box.window.slide + box.window.size
    return max((needed(branch, 0, slide) for branch in query.branches), default=0)


def after(box: Box, rate: float) -> float:
    return rate * box.selectivity if box.window is None else box.selectivity / box.window.slide


def saved(query: Query, start: int, rate: float, slide: int, gap: int) -> float:
    total = 0.0
    for n, box in enumerate(query.boxes[start:], start):
        size = needed(query, n, slide)
        missing = max(0.0, ((gap + 1) * slide - size) / ((gap - 1) * slide + size)) if size else 1.0
        total += rate * box.cost * missing
        rate = after(box, rate)
    return total + sum(saved(branch, 0, rate, slide, gap) for branch in query.branches)


def sets(query: Query, rate: float, drop_cost: float) -> list[tuple[Stand, ...]]:
    """Every set of drops that may stand in a query together."""
    found: list[tuple[Stand, ...]] = [()]
    for n, box in enumerate(query.boxes):
        reached = list(ends(query, n))
        alike = len({frozenset(each.by) for each in aggregates(query, n)}) == 1
        if alike and all(last is not None for last, _ in reached):
            slides = [
                last.window.slide for last, _ in reached if last is not None and last.window is not None
            ]
            slide = math.lcm(*slides)
            gap = min(own * bound // slide for own, (_, bound) in zip(slides, reached, strict=True))
            if gap >= 1:
                saves = saved(query, n, rate, slide, gap)
                stand = Stand((query.name, box.name), saves, rate * drop_cost, len(slides), gap / (gap + 1))
                found.append((stand,))
        rate = after(box, rate)
    branches = [sets(branch, rate, drop_cost) for branch in query.branches]
    return found + [sum(parts, ()) for parts in product(*branches) if any(parts)]


def least(queries: list[Query], excess: float, drop_cost: float) -> float | None:
    """The least loss over all sets of places and a grid of p."""
    best = None
    for parts in product(*(sets(query, query.rate or 0.0, drop_cost) for query in queries)):
        stands = sum(parts, ())
        if sum(s.saves * s.most - s.cost for s in stands) < excess - 1e-6:
            continue
        for grid in product(range(GRID + 1), repeat=len(stands)):
            ps = [s.most * at / GRID for s, at in zip(stands, grid, strict=True)]
            if sum(p * s.saves - s.cost for s, p in zip(stands, ps, strict=True)) >= excess - 1e-6:
                loss = sum(p * s.leaves for s, p in zip(stands, ps, strict=True))
                best = loss if best is None else min(best, loss)
    return best


def most(queries: list[Query], drop_cost: float) -> float:
    """What can be saved at all."""
    parts = [sets(query, query.rate or 0.0, drop_cost) for query in queries]
    return sum(max(sum(s.saves * s.most - s.cost for s in some) for some in each) for each in parts)


def box(name: str, *, aggregate: bool) -> st.SearchStrategy[Box]:
    costs = st.integers(0, 6).map(float)
    if not aggregate:
        return st.builds(Box, st.just(name), costs, st.sampled_from([1.0, 0.5]))
    slides = st.sampled_from([1, 2, 3, 4, 6])
    windows = st.builds(
        lambda slide, more: sliding(slide + more, slide) if more else tumbling(slide),
        slides,
        st.integers(0, 3),
    )
    by = st.sampled_from([(), (), ("g",)])
    return st.builds(Box, st.just(name), costs, st.sampled_from([1.0, 3.0]), windows, by)


@st.composite
def chains(draw: st.DrawFn, name: str, depth: int) -> Query:
    kinds = draw(st.lists(st.booleans(), min_size=1 - (depth > 0), max_size=2))
    if depth == 0:
        kinds.append(True)
    boxes = tuple(draw(box(f"{name}{n}", aggregate=kind)) for n, kind in enumerate(kinds))
    rate = float(draw(st.integers(1, 4))) if len(name) == 1 else None
    if depth == 0:
        return Query(name=name, boxes=boxes, max_gap=draw(st.integers(1, 12)), rate=rate)
    branches = tuple(draw(chains(f"{name}{letter}", 0)) for letter in "xy")
    return Query(name=name, boxes=boxes, branches=branches, rate=rate)


plans = st.one_of(
    st.tuples(chains("a", 1)),
    st.tuples(chains("a", 0), chains("b", 0)),
    st.tuples(chains("a", 0), chains("b", 1)),
).map(list)


@pytest.mark.parametrize("tried", [least_loss.MOST_TRIED, 0], ids=["all", "priced"])
@given(queries=plans, part=st.floats(0.05, 1.1), drop_cost=st.sampled_from([0.0, 0.0, 0.2]))
def test_no_other_drops_lose_less(tried: int, queries: list[Query], part: float, drop_cost: float) -> None:
    """``part`` is how much of what can be saved has to be."""
    load = sum(map(load_of, queries))
    capacity = max(0.0, load - part * most(queries, drop_cost))
    limit, least_loss.MOST_TRIED = least_loss.MOST_TRIED, tried
    try:
        found = place(queries, capacity=capacity, drop_cost=drop_cost)
    finally:
        least_loss.MOST_TRIED = limit
    best = least(queries, load - capacity, drop_cost)
    if found.shut:
        assert best is None
        return
    known = {
        stand.name: stand
        for query in queries
        for some in sets(query, query.rate or 0.0, drop_cost)
        for stand in some
    }
    left, loss = load, 0.0
    for where in found.places:
        stand = known[where.query, where.before]
        assert 0.0 < where.drop_probability <= stand.most + 1e-9
        left -= where.drop_probability * stand.saves - stand.cost
        loss += where.drop_probability * stand.leaves
    assert left <= capacity + 1e-6 * max(1.0, load)
    assert left == pytest.approx(found.expected_load)
    if best is not None and tried:
        assert loss <= best + 1e-6
