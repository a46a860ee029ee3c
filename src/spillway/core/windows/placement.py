"""Where a drop saves most, how much has to be dropped there, and which queries cannot be kept at all (Section 3.5).

A query is a chain of boxes, each with a cost per tuple that reaches it and a selectivity; a box with a window is an
aggregate and gives a result per slide. A chain may end in branches. A drop can stand before any box that has an
aggregate behind it. Its windows (ω, δ) and its bound B follow from the aggregates behind it; its own probability p is
limited to B / (B + 1).

**What a drop saves.** At each arc behind it only what a kept window needs is left. With ω' the part of the stream
that the aggregates behind an arc need for one window of the drop,

    missing at the arc = p max(0, (B + 1)δ - ω') / ((B - 1)δ + ω'),      behind the last aggregate p

and a box saves rate · cost · missing (:mod:`~spillway.core.windows.analysis`). From this follow the paper's rules:

- the further up a drop, the more boxes are behind it, but ω' grows with every aggregate that it passes, and if
  B < ⌊ω'/δ⌋ nothing is dropped early: then it saves as much right before its first aggregate;
- before a split the slide is the least common multiple and B shrinks: where not even one window of the drop may
  be missing, the drop must stand behind the split, one in each branch.

**How much.** All queries get the same p, each as far as its bound allows, each at the place that saves most. The
least p that brings the load down to the capacity is looked for (savings grow with p).

**Admission.** If the largest p is not enough, no bound can be met. The costliest query (the one whose end frees most)
is shut, and the rest is placed anew.

=========  ================================================================================
symbol     meaning
=========  ================================================================================
ω, δ       size and slide of the drop's windows;  ω': what is needed further down
p, B       ``drop_probability``, ``max_gap`` in windows of the drop
=========  ================================================================================

>>> from spillway.core.windows import tumbling
>>> query = Query(
...     name="extremes",
...     rate=100,
...     boxes=(Box("parse", 1.0), Box("range", 1.0, window=tumbling(10)), Box("count", 1.0, window=tumbling(100))),
...     max_gap=10,
... )
>>> print(place([query], capacity=160).reason)
extremes: drop 0.204 of the windows before 'parse' (size 109, slide 100, max_gap 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spillway.core.control.checks import require_number, require_whole
from spillway.core.windows.analysis import WindowDrop
from spillway.core.windows.arrangement import Level, Window
from spillway.core.windows.reach import reach_of
from spillway.errors import invalid

_SECOND = 1_000_000  # in the units of durations


@dataclass(frozen=True, slots=True)
class Box:
    """An operator: work per tuple that reaches it, and tuples out per tuple in; for an aggregate, per window."""

    name: str
    cost: float
    selectivity: float = 1.0
    window: Window | None = None

    def __post_init__(self) -> None:
        require_number(f"cost of {self.name!r}", self.cost, 0.0)
        require_number(f"selectivity of {self.name!r}", self.selectivity, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Boxes in a row that end in a result or in branches. A leaf has a bound on its gap; the input has a rate.

    The rate is in tuples per unit of the windows, per second where these are durations.
    """

    name: str
    boxes: tuple[Box, ...]
    max_gap: int | None = None
    branches: tuple[Query, ...] = ()
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.branches:
            if self.max_gap is not None:
                raise invalid(f"max_gap of {self.name!r}", self.max_gap, "a bound at each leaf only")
        else:
            require_whole(f"max_gap of {self.name!r}", self.max_gap, 1, 10**9)
        if self.rate is not None:
            require_number(f"rate of {self.name!r}", self.rate, 0.0)

    def leaves(self) -> Iterator[Query]:
        """Yield the ends of all branches."""
        if not self.branches:
            yield self
        for branch in self.branches:
            yield from branch.leaves()


@dataclass(frozen=True, slots=True)
class Place:
    """A drop: before which box of which query or branch, with which windows, and what it is expected to save."""

    query: str
    before: str
    size: int
    slide: int
    max_gap: int
    drop_probability: float
    saves: float

    def __str__(self) -> str:
        return (
            f"{self.query}: drop {self.drop_probability:.3f} of the windows before {self.before!r} "
            f"(size {self.size}, slide {self.slide}, max_gap {self.max_gap})"
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """The drops to insert, the queries that were shut, and why, in words."""

    places: tuple[Place, ...]
    shut: tuple[str, ...]
    load: float
    expected_load: float
    capacity: float
    notes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """What is done and why, one sentence for each thing."""
        if not self.places and not self.shut:
            return f"The load {self.load:.6g} is within the capacity {self.capacity:.6g}: nothing is dropped."
        return " ".join(f"{text}." for text in (*map(str, self.places), *self.notes))


def load_of(query: Query, rate: float | None = None) -> float:
    """Return the work of a query per time unit, without any drop."""
    at = _rate(query) if rate is None else rate
    total = 0.0
    for box in query.boxes:
        total += at * box.cost
        at = _after(box, at)
    return total + sum(load_of(branch, at) for branch in query.branches)


def place(queries: Sequence[Query], *, capacity: float, drop_cost: float = 0.0) -> Placement:
    """Return where to drop how much, so that the load is within the capacity.

    ``drop_cost`` is the work of a drop per tuple that reaches it.
    """
    require_number("capacity", capacity, 0.0)
    require_number("drop_cost", drop_cost, 0.0)
    names = [leaf.name for query in queries for leaf in query.leaves()]
    if len(set(names)) != len(names):
        raise invalid("queries", names, "a name of its own for each leaf")
    before = sum(map(load_of, queries))
    running, shut, notes = list(queries), [], []
    while True:
        total = sum(map(load_of, running))
        p = _least(running, total - capacity, drop_cost)
        if p is not None:
            break
        name, freed = _costliest(running)
        running = [rest for query in running if (rest := _without(query, name)) is not None]
        shut.append(name)
        notes.append(
            f"{name}: shut, because with every drop at the limit of its max_gap the load stays above the "
            f"capacity {capacity:.6g}, and it costs most (frees {freed:.6g})"
        )
    found = [_best(query, _rate(query), p, drop_cost) for query in running] if p > 0.0 else []
    places = tuple(each for _, some, _ in found for each in some)
    notes += [note for _, _, some in found for note in some]
    after = total - sum(saved for saved, _, _ in found)
    return Placement(places, tuple(shut), before, after, capacity, tuple(notes))


def _least(queries: Sequence[Query], excess: float, drop_cost: float) -> float | None:
    """Return the least p that saves the excess, None if not even p = 1 does."""

    def saved(p: float) -> float:
        return sum(_best(query, _rate(query), p, drop_cost)[0] for query in queries)

    slack = 1e-9 * max(1.0, abs(excess))
    if excess <= slack:
        return 0.0
    if saved(1.0) < excess - slack:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if saved(middle) >= excess - slack else (middle, high)
    return high


_Found = tuple[float, tuple[Place, ...], tuple[str, ...]]


def _best(query: Query, rate: float, p: float, drop_cost: float) -> _Found:
    """Return the most that drops with this p save, before a box here or in the branches; and why it is not more."""
    best: _Found = (0.0, (), ())
    at = rate
    refused: list[str] = []
    passed = False  # an aggregate: everything from there on sees smaller windows
    for n, box in enumerate(query.boxes):
        levels = _levels(query, n)
        if not levels:
            break
        drop, why = _windows(query, levels)
        if drop is None:
            refused.append(f"{query.name}: no drop before {box.name!r}, {why}")
        else:
            limited = min(p, drop.most)
            saved = _saved(query, n, at, drop, limited) - at * drop_cost
            where = Place(query.name, box.name, drop.size, drop.slide, drop.max_gap, limited, saved)
            # On a tie the later one: further up it would only mark and hand on.
            if saved > 0.0 and (saved > best[0] * (1.0 + 1e-9) or (not passed and saved >= best[0])):
                useless = _useless(query, n, drop)
                best = saved, (where,), (useless,) if useless else ()
        passed = passed or box.window is not None
        at = _after(box, at)
    parts = [_best(branch, at, p, drop_cost) for branch in query.branches]
    apart = sum(saved for saved, _, _ in parts)
    if apart > best[0] * (1.0 + 1e-9):
        best = (
            apart,
            tuple(each for _, places, _ in parts for each in places),
            tuple(note for _, _, some in parts for note in some),
        )
    return best[0], best[1], (*refused, *best[2])


def _windows(query: Query, levels: tuple[Level, ...]) -> tuple[WindowDrop | None, str]:
    """Return the windows of a drop before levels, or why there can be none."""
    paths = [path for level in levels for path in level.paths()]
    leaves = tuple(query.leaves())
    if len(paths) != len(leaves):
        return None, "because a branch without windows behind it would lose tuples too"
    slides = [path[-1].slide for path in paths]
    slide = math.lcm(*slides)
    found = reach_of(levels, slide)
    worst: tuple[int, str] | None = None
    for own, leaf in zip(slides, leaves, strict=True):
        assert leaf.max_gap is not None
        gap = leaf.max_gap * own // slide
        if worst is None or gap < worst[0]:
            worst = (
                gap,
                f"because it takes {slide // own} windows of {leaf.name!r} at once, and max_gap is {leaf.max_gap}",
            )
    assert worst is not None
    if worst[0] < 1:
        return None, worst[1]
    return WindowDrop(size=found.size, slide=slide, max_gap=worst[0]), ""


def _saved(query: Query, start: int, rate: float, drop: WindowDrop, p: float) -> float:
    """Return what the boxes from ``start`` on save."""
    total, at = 0.0, rate
    for n, box in enumerate(query.boxes[start:], start):
        total += at * box.cost * _missing(_levels(query, n), drop, p)
        at = _after(box, at)
    return total + sum(_saved(branch, 0, at, drop, p) for branch in query.branches)


def _missing(levels: tuple[Level, ...], drop: WindowDrop, p: float) -> float:
    if not levels:
        return p
    return p * replace(drop, size=reach_of(levels, drop.slide).size).early_share


def _useless(query: Query, start: int, drop: WindowDrop) -> str | None:
    """Return why a drop is not put further up, if early drops are what is missing."""
    if start == 0 or drop.max_gap >= drop.size // drop.slide:
        return None
    box = query.boxes[start]
    return (
        f"{query.name}: further up than {box.name!r} nothing more is saved, because max_gap {drop.max_gap} is "
        f"below size/slide = {drop.size}/{drop.slide} and no tuple can be dropped early"
    )


def _levels(query: Query, start: int = 0) -> tuple[Level, ...]:
    """Return the aggregates from a box on as a tree."""
    for n, box in enumerate(query.boxes[start:], start):
        if box.window is not None:
            return (Level(box.window, _levels(query, n + 1)),)
    return tuple(level for branch in query.branches for level in _levels(branch))


def _rate(query: Query) -> float:
    if query.rate is None:
        raise invalid(f"rate of {query.name!r}", None, "the tuples per time unit that arrive at its input")
    return query.rate


def _after(box: Box, rate: float) -> float:
    """Return the rate behind a box."""
    if box.window is None:
        return rate * box.selectivity
    unit = box.window.unit
    slide = box.window.slide / _SECOND if isinstance(unit, str) else box.window.slide * unit
    return box.selectivity / slide


def _costliest(queries: Sequence[Query]) -> tuple[str, float]:
    """Return the leaf whose end frees most, and how much."""
    best = ("", -1.0)
    for query in queries:
        for leaf in query.leaves():
            rest = _without(query, leaf.name)
            freed = load_of(query) - (0.0 if rest is None else load_of(rest))
            best = max(best, (leaf.name, freed), key=lambda pair: pair[1])
    return best


def _without(query: Query, name: str) -> Query | None:
    """Return a query without one of its leaves, None if nothing is left."""
    if not query.branches:
        return None if query.name == name else query
    left = tuple(rest for branch in query.branches if (rest := _without(branch, name)) is not None)
    return replace(query, branches=left) if left else None
