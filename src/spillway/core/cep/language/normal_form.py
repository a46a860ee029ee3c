"""The normal form of conditions: a list of conditions that all have to hold, without ``not``.

``not`` is moved inwards, by De Morgan's laws and by reversing comparisons::

    not (x and y)    not x or not y          not x < y       x >= y
    not (x or y)     not x and not y         not x in {…}    x != … and x != …

This is also right for unknown values: a comparison with one is unknown, its opposite too, and ``and`` and ``or``
are each other's duals in SQL's logic as well. A truth value on its own, ``a.flag``, is ``a.flag = true``.

``[id]`` says that all rows of a match have the same id, and so do the rows that a negated element forbids. The first
element that is not negated is the anchor: ``[id]`` becomes one equation between the anchor and each other element,
and one between adjacent rows if the anchor is repeated::

    SEQ(A a, B+ b[], NEG C c)     a.id = b[i].id, a.id = c.id
    SEQ(A+ a[], B b)              a[i+1].id = a[i].id, a[first].id = b.id
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spillway.core.cep.language.mistakes import QueryError
from spillway.core.cep.language.syntax import (
    Aggregate,
    Attribute,
    Call,
    Constant,
    Element,
    Expression,
    Operation,
    Place,
    Query,
)
from spillway.core.cep.language.tree_builder import walk

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TESTS = {*_OPPOSITE, "in", "same"}
_DUAL = {"and": "or", "or": "and"}


def normal(query: Query) -> tuple[Expression, ...]:
    """Return the conditions of a query, as it was written, in normal form, each once."""
    found: dict[Expression, None] = {}
    for condition in query.conditions:
        for part in _parts(_pushed(condition, True, query.text), "and"):
            if isinstance(part, Operation) and part.operator == "same":
                equations = dict.fromkeys(_equations(part, query.elements))
                if not equations:
                    raise QueryError(
                        "there is but one row, and nothing that it could be like.", query.text, part.place
                    )
                found.update(equations)
                continue
            for inner in walk(part):
                if isinstance(inner, Operation) and inner.operator == "same":
                    raise _misplaced(query.text, inner.place)
            found[part] = None
    return tuple(found)


def _pushed(expression: Expression, wanted: bool, text: str) -> Expression:
    """Return a condition that holds where the expression has the wanted truth value."""
    place = expression.place
    match expression:
        case Operation(operator="not", operands=(inner,)):
            return _pushed(inner, not wanted, text)
        case Operation(operator="and" | "or"):
            joined = expression.operator if wanted else _DUAL[expression.operator]
            parts = (p for each in expression.operands for p in _parts(_pushed(each, wanted, text), joined))
            return Operation(joined, tuple(parts), place)
        case Operation(operator="same") if not wanted:
            raise _misplaced(text, place)
        case Operation() if expression.operator in _TESTS:
            return expression if wanted else _opposite(expression)
        case Operation() | Call() | Aggregate():
            hint = "compare it, as in a.v > 3"
            raise QueryError("a value, where a condition is expected.", text, place, hint=hint)
    return Operation("=", (expression, Constant(wanted, place)), place)


def _opposite(test: Operation) -> Expression:
    if test.operator != "in":
        return replace(test, operator=_OPPOSITE[test.operator])
    x, *constants = test.operands
    unlike = tuple(Operation("!=", (x, constant), test.place) for constant in constants)
    return unlike[0] if len(unlike) == 1 else Operation("and", unlike, test.place)


def _parts(expression: Expression, joined: str) -> tuple[Expression, ...]:
    """Return the parts that an ``and`` or an ``or`` joins, and any other expression as it is."""
    if isinstance(expression, Operation) and expression.operator == joined:
        return expression.operands
    return (expression,)


def _equations(same: Operation, elements: tuple[Element, ...]) -> Iterator[Expression]:
    place = same.place
    anchor = next(element for element in elements if not element.negated)
    for constant in same.operands:
        assert isinstance(constant, Constant)
        name = str(constant.value)
        if anchor.repeated:
            pair = (
                Attribute(anchor.variable, "i+1", name, place),
                Attribute(anchor.variable, "i", name, place),
            )
            yield Operation("=", pair, place)
        left = Attribute(anchor.variable, "first" if anchor.repeated else "only", name, place)
        for element in elements:
            if element is not anchor:
                right = Attribute(element.variable, "i" if element.repeated else "only", name, place)
                yield Operation("=", (left, right), place)


def _misplaced(text: str, place: Place) -> QueryError:
    hint = "write the equations out, such as a.id = b.id, where they may fail"
    return QueryError("[attribute] stands on its own or beside AND.", text, place, hint=hint)
