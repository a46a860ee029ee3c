"""Checks a query independently of any rows: its variables, how they are indexed, what is negated."""

from __future__ import annotations

from collections.abc import Iterator

from spillway.core.cep.language.mistakes import QueryError, unknown_name
from spillway.core.cep.language.syntax import (
    Aggregate,
    Attribute,
    Call,
    Element,
    Expression,
    Operation,
    Query,
)
from spillway.core.cep.language.tree_builder import attributes, walk

_ROWS = "{0}[i] for every row, {0}[first], {0}[last], or an aggregate such as avg({0}[i].v)"


def check_elements(query: Query) -> None:
    """Raise an error if variables clash or no element is left to be matched."""
    seen: dict[str, Element] = {}
    for element in query.elements:
        name = element.variable
        if name in seen:
            hint = f"every element has a variable of its own, such as {name}{len(seen) + 1}"
            wrong = f"variable {name!r} stands twice in the pattern."
            raise QueryError(wrong, query.text, element.place, hint=hint)
        seen[name] = element
    if all(element.negated for element in query.elements):
        wrong = "all elements are negated: a match needs at least one row."
        raise QueryError(wrong, query.text, query.elements[0].place)


def check_types(query: Query, kind: str) -> None:
    """Raise an error if the type column, which is of the given kind, cannot have one of the pattern's types."""
    for element in query.elements:
        for name in element.types:
            if kind == "int" and not _is_whole(name):
                wrong = f"no row is of the type {name!r}, for the types are whole numbers."
                hint = "write its numbers: SEQ('1' a, '2' b)"
            elif kind == "bool" and name not in {"true", "false"}:
                wrong = f"no row is of the type {name!r}, for the types are truth values."
                hint = "write its values: SEQ('true' a, 'false' b)"
            else:
                continue
            raise QueryError(wrong, query.text, element.place, hint=hint)


def _is_whole(name: str) -> bool:
    try:
        return str(int(name)) == name
    except ValueError:
        return False


def check_conditions(query: Query) -> None:
    """Raise an error if a condition names rows in a way that is not defined."""
    elements = {element.variable: element for element in query.elements}
    for condition in query.conditions:
        for part in walk(condition):
            if isinstance(part, Attribute):
                _check_attribute(query, elements, part)
            elif isinstance(part, Aggregate):
                _check_aggregate(query, elements, part)
        _check_condition(query, elements, condition)


def _check_attribute(query: Query, elements: dict[str, Element], part: Attribute) -> None:
    name, text, place = part.variable, query.text, part.place
    if name not in elements and not part.name and part.which == "only":
        hint = f"write {name!r} for a text, or a.{name} for an attribute"
        if name.upper() == "NULL":
            hint = "a comparison with an unknown value never holds, so there is none with NULL"
        raise QueryError(f"{name} is no variable of the pattern.", text, place, hint=hint)
    if name not in elements:
        raise unknown_name("variable", name, elements, text, place)
    if not part.name:
        raise QueryError(f"{name} is a row: which attribute of it?", text, place, hint=f"write {name}.v")
    repeated = elements[name].repeated
    if repeated and part.which == "only":
        hint = _ROWS.format(name)
        raise QueryError(f"{name} is repeated: which of its rows?", text, place, hint=hint)
    if not repeated and part.which != "only":
        kind = "negated" if elements[name].negated else "not repeated"
        wrong = f"{name} is {kind} and stands for one row."
        raise QueryError(wrong, text, place, hint=f"write {name}.{part.name}")


def _check_aggregate(query: Query, elements: dict[str, Element], part: Aggregate) -> None:
    name, text = part.variable, query.text
    if name not in elements:
        raise unknown_name("variable", name, elements, text, part.place)
    if not elements[name].repeated:
        kind = "negated" if elements[name].negated else "not repeated"
        wrong = f"{part.function} is over the rows of a repeated variable, and {name} is {kind}."
        raise QueryError(wrong, text, part.place)
    for inner in walk(part.argument) if part.argument is not None else ():
        if isinstance(inner, Aggregate):
            raise QueryError("an aggregate within an aggregate.", text, inner.place)
        if isinstance(inner, Attribute) and (
            inner.which == "i+1" or (inner.variable == name and inner.which != "i")
        ):
            wrong = f"within {part.function} a repeated variable stands as {name}[i] only."
            raise QueryError(wrong, text, inner.place)
        if isinstance(inner, Attribute) and inner.variable in elements:
            _check_aggregated(query, elements, part, inner)


def _check_aggregated(query: Query, elements: dict[str, Element], part: Aggregate, inner: Attribute) -> None:
    """Raise an error if an aggregate names a row that comes after its own: sums are updated as rows are taken."""
    name, order = part.variable, list(elements)
    other = elements[inner.variable]
    later = order.index(inner.variable) > order.index(name)
    if other.negated or later:
        why = "is negated and has no row" if other.negated else f"comes after {name}"
        wrong = f"{part.function} over the rows of {name} cannot use {inner.variable}, which {why}."
        row = inner.variable if inner.which == "only" else f"{inner.variable}[{inner.which}]"
        hint = f"take it out of the aggregate, as in {row}.{inner.name} * sum({name}[i].v)"
        raise QueryError(wrong, query.text, inner.place, hint=hint)


def _check_condition(query: Query, elements: dict[str, Element], condition: Expression) -> None:
    text, place = query.text, condition.place
    named = {part.variable for part in walk(condition) if isinstance(part, Attribute | Aggregate)}
    if not named:
        hint = "compare an attribute, such as a.v = 3"
        raise QueryError("this condition names no row.", text, place, hint=hint)
    negated = sorted(name for name in named if elements[name].negated)
    if len(negated) > 1:
        wrong = (
            f"this condition names two negated elements, {negated[0]} and {negated[1]}: neither has a row."
        )
        hint = "compare each of them with an element that is not negated"
        raise QueryError(wrong, text, place, hint=hint)
    indexed = [part for part in outside(condition) if part.which in {"i", "i+1"}]
    names = list(dict.fromkeys(part.variable for part in indexed))
    if len(names) > 1:
        wrong = f"this condition runs over the rows of {names[0]} and of {names[1]} at once."
        hint = f"take {names[0]}[first], {names[0]}[last] or an aggregate over {names[0]}"
        raise QueryError(wrong, text, indexed[-1].place, hint=hint)
    for part in indexed:
        others = [
            p for p in attributes(condition) if p.variable == part.variable and p.which in {"i", "first"}
        ]
        if part.which == "i+1" and not others:
            wrong = f"{part.variable}[i+1] stands without {part.variable}[i] or {part.variable}[first]."
            hint = f"{part.variable}[i] stands for every row"
            raise QueryError(wrong, text, part.place, hint=hint)


def outside(expression: Expression) -> Iterator[Attribute]:
    """Yield the attributes of an expression that are not within an aggregate."""
    match expression:
        case Attribute():
            yield expression
        case Operation(operands=inner) | Call(arguments=inner):
            for part in inner:
                yield from outside(part)
