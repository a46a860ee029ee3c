"""Predicates, the conditions for a match: equality, containment, overlap or inner product of one column of each side.

Every value is read as a set of items. A single value is a set of one item, and a weighted set has a number for each
item. With the set A on the left, B on the right, c = |A ∩ B| and weights a(x), b(x):

    equality        A = B           c = |A| = |B|
    subset          A ⊆ B           c = |A|
    superset        A ⊇ B           c = |B|
    overlap         c >= k          k = ``at_least``, a whole number from 1
    inner_product   s >= x          s = Σ over A ∩ B of a(x) b(x),  x = ``at_least``, a number above 0

The score of a match is s for the inner product and c for all others. Only the inner product reads weights; without
weights each item weighs 1. The empty set is a value as in mathematics: ∅ = ∅ and ∅ ⊆ B hold. Null matches nothing, as
in SQL.

Compiled code reads a predicate as one of five rules, from the point of view of the arriving row. Containment has two
rules, since the arriving row may be on either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spillway.core.checks import require_number, require_whole
from spillway.errors import invalid

Kind = Literal["equality", "subset", "superset", "overlap", "inner_product"]

# The rules: c common items, an arriving row of n items, a stored one of m.
AT_LEAST, SAME, WITHIN_STORED, WITHIN_ARRIVING, PRODUCT = range(5)
# c >= k   c = n = m   c = n         c = m            s >= x


@dataclass(frozen=True)
class Predicate:
    """A condition on one column of each side, made by :func:`overlap` and the functions beside it."""

    kind: Kind
    left: str
    right: str
    at_least: float = 0.0

    def __post_init__(self) -> None:
        for field, name in (("left", self.left), ("right", self.right)):
            if not isinstance(name, str) or not name:
                raise invalid(f"{self.kind} {field}", name, "the name of a column")

    @property
    def weighted(self) -> bool:
        """Whether the items' weights matter."""
        return self.kind == "inner_product"

    @property
    def sees_empty(self) -> bool:
        """Whether an empty set can match anything."""
        return self.kind in ("equality", "subset", "superset")

    def rule(self, arriving: int) -> int:
        """Return the rule for a row that arrives on the left (0) or on the right (1).

        >>> subset("a").rule(0) == WITHIN_STORED, subset("a").rule(1) == WITHIN_ARRIVING
        (True, True)
        """
        if self.kind in ("subset", "superset"):
            return WITHIN_STORED if (self.kind == "subset") == (arriving == 0) else WITHIN_ARRIVING
        return {"equality": SAME, "overlap": AT_LEAST, "inner_product": PRODUCT}[self.kind]


def equality(column: str, right: str | None = None) -> Predicate:
    """Match where both rows hold the same value, or the same set of items."""
    return Predicate("equality", column, column if right is None else right)


def subset(column: str, right: str | None = None) -> Predicate:
    """Match where all items of the left row are also in the right row."""
    return Predicate("subset", column, column if right is None else right)


def superset(column: str, right: str | None = None) -> Predicate:
    """Match where all items of the right row are also in the left row."""
    return Predicate("superset", column, column if right is None else right)


def overlap(column: str, right: str | None = None, *, at_least: int) -> Predicate:
    """Match where both rows have at least ``at_least`` items in common.

    >>> overlap("words", at_least=3)
    Predicate(kind='overlap', left='words', right='words', at_least=3)
    >>> overlap("words", at_least=0)
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: at_least = 0 is not allowed: expected a whole number from 1 to 1000000000.
    """
    require_whole("at_least", at_least, 1, 10**9)
    return Predicate("overlap", column, column if right is None else right, at_least)


def inner_product(column: str, right: str | None = None, *, at_least: float) -> Predicate:
    """Match where the sum of the products of the weights of common items is ``at_least`` or more."""
    require_number("at_least", at_least, 0.0, above=True)
    return Predicate("inner_product", column, column if right is None else right, at_least)
