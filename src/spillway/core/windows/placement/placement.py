"""Places drops: where to drop, how much at each place, and which queries cannot run at all (Section 3.5).

Queries are boxes with costs (:mod:`~spillway.core.windows.placement.boxes`). For each query the possible places of
drops and their savings are computed (:mod:`~spillway.core.windows.placement.drop_sites`). Some of these drops are
taken, each with its own p, so that the load fits into the capacity and the fewest results are lost
(:mod:`~spillway.core.windows.placement.least_loss`): a query that saves much work per lost result loses results
first, up to the limit of its bound, and others may lose none.

**Admission.** If all drops at their limits are not enough, no bound can be met. The costliest query (the one whose
removal frees most work) is shut, and the others are placed again.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spillway.core.checks import require_number
from spillway.core.windows.placement.boxes import Box, Query, load_of
from spillway.core.windows.placement.drop_sites import site_of
from spillway.core.windows.placement.least_loss import Shares, least_loss
from spillway.errors import invalid

__all__ = ["Box", "Place", "Placement", "Query", "load_of", "place"]


_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Place:
    """A placed drop: its query or branch, the box after it, its windows, and what it is expected to save."""

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
        """What is done and why, one sentence for each item."""
        if not self.places and not self.shut:
            return f"The load {self.load:.6g} is within the capacity {self.capacity:.6g}: nothing is dropped."
        return " ".join(f"{text}." for text in (*map(str, self.places), *self.notes))


def place(queries: Sequence[Query], *, capacity: float, drop_cost: float = 0.0) -> Placement:
    """Return where to drop and how much, so that the load is within the capacity and the fewest results are lost.

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
        sites = [site_of(query, query.input_rate, drop_cost) for query in running]
        excess = total - capacity
        found: Shares | None = {} if excess <= _SLACK * max(1.0, total) else least_loss(sites, excess)
        if found is not None:
            break
        name, freed = _costliest(running)
        running = [rest for query in running if (rest := _without(query, name)) is not None]
        shut.append(name)
        notes.append(
            f"{name}: shut, because with every drop at the limit of its max_gap the load stays above the "
            f"capacity {capacity:.6g}, and it costs most (frees {freed:.6g})"
        )
    places = [
        Place(
            option.query,
            option.before,
            option.drop.size,
            option.drop.slide,
            option.drop.max_gap,
            p,
            p * option.saves - option.costs,
        )
        for site in sites
        for option in site.all()
        if (p := found.get(option, 0.0)) > 0.0
    ]
    notes += [note for site in sites for note in site.notes(found)]
    after = total - sum(each.saves for each in places)
    return Placement(tuple(places), tuple(shut), before, after, capacity, tuple(notes))


def _costliest(queries: Sequence[Query]) -> tuple[str, float]:
    """Return the leaf whose removal frees most work, and how much."""
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
