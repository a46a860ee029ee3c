"""The result of an access path: pairs of rows with their scores, and the work that it took to find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.inlined import lent
from spillway.core.join.meetings import Meetings
from spillway.core.join.predicates import Predicate
from spillway.core.join.selection.range_selection import Ranges
from spillway.core.join.window_store import Store
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
        """Whether two equal single values match: they do not if two items or a product above 1 are required."""
        return self.at_least <= 1.0


def matching_of(predicate: Predicate, single_sides: tuple[bool, bool]) -> Matching:
    """Return the compiled form of a predicate."""
    rules = np.array([predicate.rule(0), predicate.rule(1)])
    return Matching(rules, float(predicate.at_least), single_sides, predicate.sees_empty)


class Matches:
    """Matches in the order of the rows processed: row k has those from ``firsts[k]`` up to ``firsts[k + 1]``.

    ``found`` are three columns: the ``firsts``, the ``partners``, which are stored rows, and the ``scores``.
    """

    def __init__(self, meetings: Meetings, ranges: Ranges) -> None:
        self._most = ranges.taken  # the most matches that each row can have
        room = _LEAST + 2 * len(meetings) + int(self._most.max(initial=0))
        firsts = np.zeros(len(meetings) + 1, np.int64)
        self.found: tuple[Ints, Ints, Floats] = firsts, np.empty(room, np.int64), np.empty(room)
        self.written = 0
        self.lookups = self.postings = 0
        self.whole = 0, 0

    def make_room(self, row: int) -> None:
        """Double the room if it might be too small for one more row."""
        firsts, partners, scores = self.found
        if self.written + self._most[row] <= len(partners):
            return
        self.found = firsts, np.empty(2 * len(partners), np.int64), np.empty(2 * len(partners))
        self.found[1][: self.written], self.found[2][: self.written] = (
            partners[: self.written],
            scores[: self.written],
        )

    def done(self, *, lookups: int = 0, postings: int = 0, whole: tuple[int, int] = (0, 0)) -> Matches:
        """Cut off unused room, and note the work that was done.

        ``whole`` are the units and the comparisons of rows that met a whole window.
        """
        firsts, partners, scores = self.found
        firsts[-1] = self.written
        self.found = firsts, partners[: self.written], scores[: self.written]
        self.lookups, self.postings, self.whole = lookups, postings, whole
        return self

    def none(self) -> Matches:
        """Return no matches and no work."""
        self.written = 0
        return self.done()


@kernel
def _numbered(
    firsts: Any, partners: Any, side: Any, row: Any, numbers: Any, other_numbers: Any, first: int, other_first: int,
    left: Any, right: Any,
) -> None:  # fmt: skip
    numbers, other_numbers = lent(numbers), lent(other_numbers)
    for k in range(len(side)):
        for m in range(firsts[k], firsts[k + 1]):
            if side[k] == 0:
                left[m], right[m] = numbers[row[k] - first], other_numbers[partners[m] - other_first]
            else:
                left[m], right[m] = numbers[partners[m] - first], other_numbers[row[k] - other_first]


def numbered(stores: tuple[Store, Store], meetings: Meetings, matches: Matches) -> tuple[Ints, Ints]:
    """Return the left and the right row of each match, as the rows were numbered when they came."""
    firsts, partners, _ = matches.found
    left, right = np.empty(len(partners), np.int64), np.empty(len(partners), np.int64)
    numbers = stores[0].numbers, stores[1].numbers, stores[0].first, stores[1].first
    _numbered(firsts, partners, meetings.side, meetings.row, *numbers, left, right)
    return left, right
