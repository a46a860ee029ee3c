"""The syntax tree of a pattern query, between the language and the engine, and the meaning of a query.

**Meaning.** The rows of a stream are ordered by time, and by their position where times are equal. A match gives
each plain variable one row and each repeated variable (Kleene closure) a sequence of rows, such that

- the rows of a match are in the order of the pattern, each later in the stream than the one before,
- each row has one of the types of its element, and a sequence has ``at_least`` to ``at_most`` rows,
- every condition holds, and
- the time from the first row to the last is less than the window (``t_last - t_first < within``), or at most the
  window where the query is ``closed``.

A negated element between two others forbids rows: there must be no row of its type between the rows of its neighbours
for which the conditions that name it hold. Before the first element it forbids such rows within the window before the
match's last row. After the last element it forbids them within the window from the match's first row, so that the
match is known only when that window has passed. Its neighbours are the nearest elements that are not negated; of
several negated elements side by side each forbids rows independently. Negation selects among the matches of the other
elements: which rows a run may skip does not depend on it.

**Conditions.** ``b[i]`` in a condition says that it holds for every row of ``b``, ``b[i+1]`` that it holds for every
two adjacent rows (so it always holds for a single row). This "for every" applies to the whole condition, including
any ``or`` in it; a negated element forbids a row for which the condition holds with every row of ``b``. Outside of
aggregates a condition may name ``[i]`` or ``[i+1]`` of one variable only.

**Unknown values.** Null is unknown, and so are NaN and what cannot be computed: a division by zero, the root of a
negative number, the logarithm of one that is not positive. What is computed from an unknown value is unknown, but
an aggregate skips unknown values, and is itself unknown if there are no others. A comparison with an unknown
value is unknown, and ``and or not`` treat that as in SQL. A condition holds only if it is true. A row of unknown
type fits no element; a row of unknown time is not in the stream.

**Numbers.** ``+ - *`` of whole numbers are whole, ``/`` and ``^`` never are (``7 / 2`` is 3.5), and ``%`` has the
sign of its left side, as in SQL. ``round`` rounds halves away from zero.

**When a condition is tested.** A condition is tested as soon as the rows that it names are known. One with ``b[i]``
is tested for each row of ``b`` when it is taken, one with ``b[i]`` and ``b[i+1]`` for each two adjacent rows, one
with ``b[last]`` or with an aggregate over ``b`` when the sequence ends: where the next element's first row is
taken, or at the end of the match.

**Which rows a match may skip** (the policy), in terms of a run, which is a partial match:

============== ==================================================================================================
any            any rows: all combinations are matches. A run continues both with and without a row that fits
next           rows that do not fit: the next row that some step of the run can take must be taken; where it can be
               taken in two ways (one more of a sequence, or the next element), both are followed. A step can take
               a row if its type fits and all conditions hold that are then tested
strict         none: the rows of a match are adjacent in the stream
============== ==================================================================================================

Where a run ends in a sequence, each of its lengths that the pattern allows is a match of its own.

**Normal form.** What the parser builds is simpler than what may be written. ``conditions`` has no ``and`` at its top
and no ``not`` at all: ``not`` is moved to the comparisons (``not a.v < 3`` is ``a.v >= 3``, which is the same for
unknown values too). ``1 < a.v < 5`` becomes two comparisons, ``[id]`` becomes equations, ``a.flag`` is
``a.flag = true``, ``pow`` is ``^``, and ``min`` and ``max`` of several values are ``least`` and ``greatest``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Policy = Literal["any", "next", "strict"]
Which = Literal["only", "i", "i+1", "last", "first"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is in the query's text, counted from 1. Nodes that differ only in their place are equal."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text or a truth value."""

    value: int | float | str | bool
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """``a.v`` (only), ``b[i].v``, ``b[i+1].v``, ``b[last].v`` or ``b[first].v``."""

    variable: str
    which: Which
    name: str
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with its operands.

    ``+ - * / % ^`` and ``neg`` on numbers; ``= != < <= > >=`` and ``in`` (one operand, then the constants) on values;
    ``and or not`` on truth values.
    """

    operator: str
    operands: tuple[Expression, ...]
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values.

    ``abs sqrt exp log log10 floor ceil round sign`` of one number, ``least greatest avg`` of two or more, and
    ``seconds(x, y)`` from the time x to the time y, with fractions.
    """

    function: str
    arguments: tuple[Expression, ...]
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``avg``, ``sum``, ``min``, ``max`` of an expression over all rows of a repeated variable, or its ``count``.

    In ``argument`` the variable is written ``b[i]``; it may also name earlier elements. It is None for a count.
    """

    function: str
    variable: str
    argument: Expression | None
    place: Place = field(compare=False)


Expression = Constant | Attribute | Operation | Call | Aggregate


@dataclass(frozen=True, slots=True)
class Element:
    """One step of the pattern: ``A a``, ``(A|B) x``, ``B+ b[]``, ``B{2,5} b[]`` or ``NEG B b``."""

    types: tuple[str, ...]
    variable: str
    place: Place = field(compare=False)
    repeated: bool = False
    at_least: int = 1
    at_most: int | None = 1
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A pattern, its conditions (all of them have to hold) and its window."""

    elements: tuple[Element, ...]
    conditions: tuple[Expression, ...]
    within_us: int
    policy: Policy = "any"
    closed: bool = False
    text: str = field(default="", compare=False)
