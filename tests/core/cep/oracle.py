"""Matches by definition: every combination of rows is tried, written from the docstring of syntax.py alone.

Slow on purpose: nothing is indexed, nothing is computed once and kept, and under the policies ``any`` and ``strict``
conditions are looked at only when a combination is complete. It is meant for streams of a dozen rows.

>>> from spillway.core.cep.language.syntax import Element, Place, Query
>>> here = Place(1, 1)
>>> pair = Query((Element(("A",), "a", here), Element(("B",), "b", here)), (), within_us=10)
>>> rows = [{"ts": ts, "type": kind} for ts, kind in [(0, "A"), (3, "B"), (5, "A"), (9, "B"), (15, "B")]]
>>> sorted(matches(pair, rows))
[(0, 1), (0, 3), (2, 3)]
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from spillway.core.cep.language.syntax import (
    Aggregate,
    Attribute,
    Call,
    Constant,
    Element,
    Expression,
    Operation,
    Query,
)

Row = Mapping[str, Any]
Match = tuple[int | tuple[int, ...], ...]  # for each element that is not negated its row, or rows if repeated
Picked = tuple[tuple[int, ...], ...]  # the same with places in the stream, and always tuples
Rows = dict[str, list[Row]]  # of each variable


def matches(query: Query, rows: Sequence[Row], time: str = "ts", type: str = "type") -> set[Match]:
    """Return all matches; a row is named by its number in ``rows``. Times are in microseconds."""
    numbers = [n for n, row in enumerate(rows) if row[time] is not None]
    numbers.sort(key=lambda n: (rows[n][time], n))
    stream = Stream(query, [rows[n] for n in numbers], time, type)
    picked = stream.runs() if query.policy == "next" else stream.combinations()
    found = set()
    for places in picked:
        if not stream.forbidden(places):
            named = [tuple(numbers[p] for p in part) for part in places]
            shape = zip(stream.elements, named, strict=True)
            found.add(tuple(part if element.repeated else part[0] for element, part in shape))
    return found


class Stream:
    """Rows in their order, and a query to be matched against them."""

    def __init__(self, query: Query, rows: list[Row], time: str, type: str) -> None:
        self.query, self.rows, self.time, self.type = query, rows, time, type
        self.elements = [element for element in query.elements if not element.negated]
        negated = {element.variable for element in query.elements if element.negated}
        self.positive = [c for c in query.conditions if not variables(c) & negated]

    def combinations(self) -> Iterator[Picked]:
        """All ways to give each element its rows, under the policies that look at the outcome only."""
        for places in self.choices(0, -1):
            flat = [p for part in places for p in part]
            adjacent = all(q == p + 1 for p, q in itertools.pairwise(flat))
            if not self.inside(flat[0], flat[-1]) or (self.query.policy == "strict" and not adjacent):
                continue
            if all(holds(c, self.named(places)) for c in self.positive):
                yield places

    def choices(self, k: int, after: int) -> Iterator[Picked]:
        """All ways to give the elements from the k-th on rows of their types that come after a place."""
        if k == len(self.elements):
            yield ()
            return
        element = self.elements[k]
        fitting = [p for p in range(after + 1, len(self.rows)) if self.fits(element, p)]
        most = len(fitting) if element.at_most is None else min(element.at_most, len(fitting))
        for length in range(element.at_least, most + 1):
            for part in itertools.combinations(fitting, length):
                for rest in self.choices(k + 1, part[-1]):
                    yield (part, *rest)

    def runs(self) -> Iterator[Picked]:
        """All runs of the policy ``next`` that come to an end."""
        for first in range(len(self.rows)):
            live: list[Picked] = [((first,),)] if self.can_be(((first,),)) else []
            yield from (run for run in live if self.complete(run))
            for p in range(first + 1, len(self.rows)):
                if not self.inside(first, p):
                    break
                going_on = []
                for run in live:
                    taken = [step for step in self.steps(run, p) if self.can_be(step)]
                    yield from (step for step in taken if self.complete(step))
                    going_on += taken or [run]
                live = going_on

    def steps(self, run: Picked, p: int) -> Iterator[Picked]:
        """The ways in which a run could take a row, conditions aside: one more of a sequence, or the next element."""
        element = self.elements[len(run) - 1]
        if element.repeated and (element.at_most is None or len(run[-1]) < element.at_most):
            yield (*run[:-1], (*run[-1], p))
        if len(run) < len(self.elements) and len(run[-1]) >= element.at_least:
            yield (*run, (p,))

    def can_be(self, run: Picked) -> bool:
        """Whether the last row of a run fits, and all conditions hold that can be tested by now."""
        element = self.elements[len(run) - 1]
        ended = {e.variable for e in self.elements[: len(run) - 1]}
        return self.fits(element, run[-1][-1]) and all(
            holds(c, self.named(run))
            for c in self.positive
            if variables(c) <= {*ended, element.variable} and needs_the_end_of(c) <= ended
        )

    def complete(self, run: Picked) -> bool:
        """Whether a run is a match as it is."""
        enough = len(run) == len(self.elements) and len(run[-1]) >= self.elements[-1].at_least
        return enough and all(holds(c, self.named(run)) for c in self.positive)

    def forbidden(self, places: Picked) -> bool:
        """Whether some negated element has a row that the match must not have."""
        return any(
            self.fits(element, p)
            and all(holds(c, {**self.named(places), element.variable: [self.rows[p]]}) for c in naming)
            for element, naming in self.negated()
            for p in self.watched(element, places)
        )

    def negated(self) -> Iterator[tuple[Element, list[Expression]]]:
        """The negated elements with the conditions that name them."""
        for element in self.query.elements:
            if element.negated:
                yield element, [c for c in self.query.conditions if element.variable in variables(c)]

    def watched(self, element: Element, places: Picked) -> list[int]:
        """Where a negated element looks for rows."""
        before = sum(not e.negated for e in self.query.elements[: self.query.elements.index(element)])
        first, last, end = places[0][0], places[-1][-1], len(self.rows)
        if before == 0:
            return [p for p in range(first) if self.inside(p, last)]
        if before == len(self.elements):
            return [p for p in range(last + 1, end) if self.inside(first, p)]
        return list(range(places[before - 1][-1] + 1, places[before][0]))

    def inside(self, p: int, q: int) -> bool:
        """Whether two places are within one window."""
        passed = self.rows[q][self.time] - self.rows[p][self.time]
        return bool(passed <= self.query.within_us if self.query.closed else passed < self.query.within_us)

    def fits(self, element: Element, p: int) -> bool:
        return self.rows[p][self.type] in element.types

    def named(self, places: Picked) -> Rows:
        pairs = zip(self.elements, places, strict=False)
        return {element.variable: [self.rows[p] for p in part] for element, part in pairs}


def parts(expression: Expression) -> Iterator[Expression]:
    """An expression and all that it is made of."""
    yield expression
    inner: tuple[Expression, ...] = ()
    if isinstance(expression, Operation):
        inner = expression.operands
    elif isinstance(expression, Call):
        inner = expression.arguments
    elif isinstance(expression, Aggregate) and expression.argument is not None:
        inner = (expression.argument,)
    for part in inner:
        yield from parts(part)


def variables(condition: Expression) -> set[str]:
    return {part.variable for part in parts(condition) if isinstance(part, Attribute | Aggregate)}


def needs_the_end_of(condition: Expression) -> set[str]:
    """The variables whose sequence must have ended before a condition can be tested."""
    return {
        part.variable
        for part in parts(condition)
        if isinstance(part, Aggregate) or (isinstance(part, Attribute) and part.which == "last")
    }


def indexed(expression: Expression) -> Iterator[Attribute]:
    """What stands with ``[i]`` or ``[i+1]`` outside of aggregates."""
    if isinstance(expression, Attribute) and expression.which in {"i", "i+1"}:
        yield expression
    inner = expression.operands if isinstance(expression, Operation) else ()
    inner = expression.arguments if isinstance(expression, Call) else inner
    for part in inner:
        yield from indexed(part)


def holds(condition: Expression, rows: Rows) -> bool:
    """Whether a condition is true for every i."""
    found = list(indexed(condition))
    names = sorted({attribute.variable for attribute in found})
    pairs = {attribute.variable for attribute in found if attribute.which == "i+1"}
    ranges = [range(len(rows[name]) - (name in pairs)) for name in names]
    return all(
        value(condition, rows, dict(zip(names, each, strict=True))) is True
        for each in itertools.product(*ranges)
    )


def value(expression: Expression, rows: Rows, at: Mapping[str, int]) -> Any:
    """The value of an expression, None if it is unknown; ``at`` is the i of each variable."""
    found = _value(expression, rows, at)
    return None if isinstance(found, float) and math.isnan(found) else found


def _value(expression: Expression, rows: Rows, at: Mapping[str, int]) -> Any:  # noqa: PLR0911
    match expression:
        case Constant():
            return expression.value
        case Attribute():
            i = at.get(expression.variable, 0)
            place = {"only": 0, "first": 0, "last": -1, "i": i, "i+1": i + 1}[expression.which]
            return rows[expression.variable][place][expression.name]
        case Aggregate():
            each = range(len(rows[expression.variable]))
            if expression.argument is None:
                return len(each)
            values = [value(expression.argument, rows, {**at, expression.variable: i}) for i in each]
            known = [v for v in values if v is not None]
            return AGGREGATES[expression.function](known) if known else None
        case Call():
            return computed(expression.function, [value(part, rows, at) for part in expression.arguments])
    sides = [value(part, rows, at) for part in expression.operands]
    if expression.operator in {"and", "or"}:
        decisive = expression.operator == "or"
        return decisive if decisive in sides else None if None in sides else not decisive
    return computed(expression.operator, sides)


def fitting(value: Any) -> Any:
    """A result, or None if it is a whole number that does not fit into 64 bits."""
    return None if isinstance(value, int) and not -(2**63) + 2 <= value < 2**63 else value


def summed(values: list[Any]) -> Any:
    """The sum, which is unknown from where on it was too large."""
    sums = list(itertools.accumulate(values))
    return None if None in map(fitting, sums) else sums[-1]


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": summed,
    "avg": lambda values: sum(values) / len(values),
    "min": min,
    "max": max,
}

COMPUTED: dict[str, Callable[..., Any]] = {
    "not": operator.not_,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda x, *others: x in others,
    "neg": operator.neg,
    "+": lambda x, y: fitting(x + y),
    "-": lambda x, y: fitting(x - y),
    "*": lambda x, y: fitting(x * y),
    "/": operator.truediv,
    "%": lambda x, y: math.fmod(x, y) if isinstance(x + y, float) else x - y * int(Fraction(x, y)),
    "^": lambda x, y: _too_large(math.pow, x, y),
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": lambda x: _too_large(math.exp, x),
    "log": math.log,
    "log10": math.log10,
    "floor": lambda x: x if math.isinf(x) else type(x)(math.floor(x)),
    "ceil": lambda x: x if math.isinf(x) else type(x)(math.ceil(x)),
    "round": lambda x: x if math.isinf(x) else type(x)(Decimal(x).to_integral_value(ROUND_HALF_UP)),
    "sign": lambda x: (x > 0) - (x < 0),
    "least": min,
    "greatest": max,
    "avg": lambda *values: sum(values) / len(values),
    "seconds": lambda x, y: (y - x) / 1e6,
}


def computed(name: str, values: list[Any]) -> Any:
    """An operator or a function of values; None where one of them is unknown or there is no result."""
    try:
        return None if None in values else COMPUTED[name](*values)
    except (ValueError, ZeroDivisionError):
        return None


def _too_large(function: Callable[..., float], x: float, *others: float) -> float:
    """The value of a function, or infinity where it is too large for a number."""
    try:
        return function(x, *others)
    except OverflowError:
        return -math.inf if x < 0 and math.fmod(others[0], 2) else math.inf
