"""What the access paths give back: pairs of rows with their scores, and the work that it took to find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spillway.core.join.choosing import Ranges
from spillway.core.join.predicates import Predicate
from spillway.core.join.sliding import Meetings
from spillway.core.join.store import Store
from spillway.core.join.values import Floats, Ints
from spillway.core.kernel import kernel

_LEAST = 1024


@dataclass(frozen=True)
class Matching:
    """A predicate as compiled code reads it: the rule by arriving side, and which sides have single values."""

    rules: Ints
    at_least: float
    single_sides: tuple[bool, bool]
    sees_empty: bool

    @property
    def single(self) -> bool:
        """Whether both sides have single values."""
        return all(self.single_sides)

    @property
    def possible_single(self) -> bool:
        """Whether two equal single values match: not if two items or a product above 1 are asked for."""
        return self.at_least <= 1.0


def matching_of(predicate: Predicate, single_sides: tuple[bool, bool]) -> Matching:
    """Return the compiled form of a predicate."""
    rules = np.array([predicate.rule(0), predicate.rule(1)])
    return Matching(rules, float(predicate.at_least), single_sides, predicate.sees_empty)


class Matches:
    """Matches as three columns: ``keys`` number the rows processed, ``partners`` are stored rows, and ``scores``."""

    def __init__(self, meetings: Meetings, ranges: Ranges) -> None:
        self._most = ranges.taken  # what each row can match
        room = _LEAST + 2 * len(meetings) + int(self._most.max(initial=0))
        self.found: tuple[Ints, Ints, Floats] = (
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(room),
        )
        self.written = 0
        self.lookups = self.postings = 0
        self.whole = 0, 0

    def make_room(self, row: int) -> None:
        """Make twice the room, if it might not do for one more row."""
        keys, partners, scores = self.found
        if self.written + self._most[row] <= len(keys):
            return
        room = 2 * len(keys)
        self.found = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        for new, old in zip(self.found, (keys, partners, scores), strict=True):
            new[: self.written] = old[: self.written]

    def done(self, *, lookups: int = 0, postings: int = 0, whole: tuple[int, int] = (0, 0)) -> Matches:
        """Cut off the room that was not needed, and say what it took.

        ``whole`` are the units and the comparisons of rows that met a whole window.
        """
        keys, partners, scores = self.found
        self.found = keys[: self.written], partners[: self.written], scores[: self.written]
        self.lookups, self.postings, self.whole = lookups, postings, whole
        return self

    def none(self) -> Matches:
        """Return no matches, for no work."""
        self.written = 0
        return self.done()


@kernel
def _numbered(
    keys: Any, partners: Any, side: Any, row: Any, numbers: Any, other_numbers: Any, first: int, other_first: int,
    left: Any, right: Any,
) -> None:  # fmt: skip
    for m in range(len(keys)):
        own, partner = row[keys[m]], partners[m]
        if side[keys[m]] == 0:
            left[m], right[m] = numbers[own - first], other_numbers[partner - other_first]
        else:
            left[m], right[m] = numbers[partner - first], other_numbers[own - other_first]


def numbered(stores: tuple[Store, Store], meetings: Meetings, matches: Matches) -> tuple[Ints, Ints]:
    """Return the left and the right row of each match, as the rows were numbered when they came."""
    keys, partners, _ = matches.found
    left, right = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    numbers = stores[0].numbers, stores[1].numbers, stores[0].first, stores[1].first
    _numbered(keys, partners, meetings.side, meetings.row, *numbers, left, right)
    return left, right
