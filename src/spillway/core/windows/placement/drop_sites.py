"""Finds where drops may be placed in a query, and computes what each would save (Section 3.5).

A drop can be placed before any box that has an aggregate behind it. Its windows (ω, δ) and its bound B follow from
the aggregates behind it; its own probability p is limited to B / (B + 1).

**What a drop saves.** At each arc behind it only the tuples that a kept window needs are left. With ω' the part of
the stream that the aggregates behind an arc need for one window of the drop,

    missing at the arc = p max(0, (B + 1)δ - ω') / ((B - 1)δ + ω'),      behind the last aggregate p

and a box saves rate · cost · missing (:mod:`~spillway.core.windows.placement.load_savings`), in proportion to p.
The paper's rules follow from this:

- the further up a drop is, the more boxes are behind it, but ω' grows with every aggregate in between, and if
  B < ⌊ω'/δ⌋ nothing is dropped early: then a drop saves as much right before its first aggregate;
- before a split the slide is the least common multiple and B shrinks: where not even one window of the drop may
  be missing, drops must be placed behind the split, one in each branch;
- all aggregates behind a drop must be of one kind: windows by time or by count, in the same unit, of the same groups.
  A mark says that *this* window of *this* group may open, and an aggregate with other windows or groups cannot read
  it. Where the kind changes, in a pipeline or between branches, the drop must be placed behind the change;
- a box that removes or adds tuples before a count-based aggregate changes what the aggregate counts, so a drop cannot
  be placed before that box: the same tuples would fall into other windows.

A reason against a drop before one box also applies before all boxes further up.

=========  ================================================================================
symbol     meaning
=========  ================================================================================
ω, δ       size and slide of the drop's windows;  ω': the size needed further down
p, B       ``drop_probability``, ``max_gap`` in windows of the drop
=========  ================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from spillway.core.windows.arrangement import Level
from spillway.core.windows.placement.boxes import Box, Query, levels_from, rate_after, step_after
from spillway.core.windows.placement.load_savings import WindowDrop
from spillway.core.windows.reach import reach_of

_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A possible drop before a box: what it saves per unit of p, what it costs, how many leaves it affects."""

    query: str
    before: str
    drop: WindowDrop
    saves: float
    costs: float
    leaves: int
    note: str | None = None

    @property
    def most(self) -> float:
        """The largest p that the drop's bound allows."""
        return self.drop.most


@dataclass(frozen=True, slots=True)
class Site:
    """A query or a branch: its possible drops, of which at most one is taken, unless its branches have drops."""

    options: tuple[Option, ...]
    branches: tuple[Site, ...]
    refused: str | None  # why no drop can be further up

    def all(self) -> Iterator[Option]:
        """Yield the drops of this site and of all its branches."""
        yield from self.options
        for branch in self.branches:
            yield from branch.all()

    def notes(self, chosen: Container[Option]) -> Iterator[str]:
        """Yield the texts that explain the chosen drops of this site and its branches."""
        if self.refused and any(option in chosen for option in self.all()):
            yield self.refused
        yield from (option.note for option in self.options if option.note and option in chosen)
        for branch in self.branches:
            yield from branch.notes(chosen)


def site_of(query: Query, rate: float, drop_cost: float) -> Site:
    """Return the possible drops of a query; ``drop_cost`` is the work of a drop per tuple that reaches it."""
    found: list[Option] = []
    refused = None
    first = next((n for n, box in enumerate(query.boxes) if box.window is not None), len(query.boxes))
    at = rate
    for n, box in enumerate(query.boxes):
        if not levels_from(query, n):
            break
        drop, why = _windows(query, n)
        if drop is None:
            refused = f"{query.name}: no drop before {box.name!r}, {why}"
        else:
            saves, leaves = _saved(query, n, at, drop), len(tuple(query.leaves()))
            option = Option(
                query.name, box.name, drop, saves, at * drop_cost, leaves, _useless(query, n, drop)
            )
            # Of equal drops the last before the first aggregate: further up it would only mark tuples.
            found.insert(0 if n <= first else len(found), option)
        at = rate_after(box, at)
    branches = tuple(site_of(branch, at, drop_cost) for branch in query.branches)
    return Site(_worth(found), branches, refused)


def _worth(options: list[Option]) -> tuple[Option, ...]:
    """Return the drops that save something, without those that another or an earlier equal one replaces."""
    kept: list[Option] = []
    for one in options:
        if one.saves * one.most > one.costs and not any(_no_worse(other, one) for other in kept):
            kept = [*(other for other in kept if not _no_worse(one, other)), one]
    return tuple(kept)


def _no_worse(one: Option, other: Option) -> bool:
    return one.saves >= other.saves * (1.0 - _CLOSE) and one.costs <= other.costs * (1.0 + _CLOSE)


def _windows(query: Query, start: int) -> tuple[WindowDrop | None, str]:
    """Return the windows of a drop before a box, or the reason why there can be none."""
    mixed = _mixed(query, start)
    if mixed:
        return None, f"because {mixed}"
    levels = levels_from(query, start)
    paths = [path for level in levels for path in level.paths()]
    leaves = tuple(query.leaves())
    if len(paths) != len(leaves):
        return None, "because a branch without windows behind it would lose tuples too"
    slides = [path[-1].slide for path in paths]
    slide = math.lcm(*slides)
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
    return WindowDrop(size=reach_of(levels, slide).size, slide=slide, max_gap=worst[0]), ""


def _mixed(query: Query, start: int) -> str | None:
    """Return how the aggregates behind a point differ, or which box disturbs one that counts; None if neither."""
    aggregates = [box for box in query.behind(start) if box.window is not None]
    one = aggregates[0]
    assert one.window is not None
    for other in aggregates[1:]:
        assert other.window is not None
        if other.counted != one.counted:
            count, timed = (one, other) if one.counted else (other, one)
            return f"the windows of {count.name!r} count tuples and those of {timed.name!r} go by time"
        if other.window.unit != one.window.unit:
            return f"{one.name!r} and {other.name!r} measure their windows in different units"
        if set(other.by) != set(one.by):
            return f"{one.name!r} groups {_by(one)} and {other.name!r} groups {_by(other)}"
    return _miscounted(query, start)


def _miscounted(query: Query, start: int) -> str | None:
    changing: Box | None = None
    for box in query.boxes[start:]:
        if changing is not None and box.counted:
            return f"{changing.name!r} changes how many tuples there are, and {box.name!r} counts them"
        changing = box if box.window is None and box.selectivity != 1.0 else changing
    for branch in query.branches:
        counting = next((box for box in branch.behind() if box.counted), None)
        if changing is not None and counting is not None:
            return f"{changing.name!r} changes how many tuples there are, and {counting.name!r} counts them"
        found = _miscounted(branch, 0)
        if found:
            return found
    return None


def _by(box: Box) -> str:
    return "by " + ", ".join(map(repr, box.by)) if box.by else "by nothing"


def _saved(query: Query, start: int, rate: float, drop: WindowDrop, step: int = 1) -> float:
    """Return the work that is saved per unit of p at the boxes from ``start`` on."""
    total, at = 0.0, rate
    for n, box in enumerate(query.boxes[start:], start):
        total += at * box.cost * _missing(levels_from(query, n, step), drop)
        at, step = rate_after(box, at), step_after(box, step)
    return total + sum(_saved(branch, 0, at, drop, step) for branch in query.branches)


def _missing(levels: tuple[Level, ...], drop: WindowDrop) -> float:
    return replace(drop, size=reach_of(levels, drop.slide).size).early_share if levels else 1.0


def _useless(query: Query, start: int, drop: WindowDrop) -> str | None:
    """Return why a drop is not placed further up, if the reason is that no early drops are possible."""
    if start == 0 or drop.max_gap >= drop.size // drop.slide:
        return None
    box = query.boxes[start]
    return (
        f"{query.name}: further up than {box.name!r} nothing more is saved, because max_gap {drop.max_gap} is "
        f"below size/slide = {drop.size}/{drop.slide} and no tuple can be dropped early"
    )
