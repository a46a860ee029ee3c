"""A query as text again, in normal form: reading it gives the same query.

>>> from spillway.core.cep.language.parser import parse
>>> print(to_text(parse("pattern seq(A a, !(B b), C{2,} c[]) where [id] and not a.v in (1, 2) within 0.008s")))
PATTERN SEQ(A a, NEG B b, C{2,} c[])
WHERE a.id = b.id
  AND a.id = c[i].id
  AND a.v != 1
  AND a.v != 2
WITHIN 8 ms
"""

from __future__ import annotations

import re

from spillway.core.cep.language.functions import KEYWORDS, POLICIES
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

_TIGHTNESS = {
    **{"or": 1, "and": 2, "not": 3},
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "in"), 4),
    **{"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "neg": 7, "^": 8},
}
_ATOM = 9
_WORD = re.compile(r"[^\W\d²³][^\W²³]*")
_UNITS_US = {
    "days": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}


def to_text(query: Query) -> str:
    """Return the text of a query."""
    lines = [f"PATTERN SEQ({', '.join(map(_element, query.elements))})"]
    for number, condition in enumerate(query.conditions):
        tight = isinstance(condition, Operation) and condition.operator in {"or", "and"}
        lines.append(
            f"{'  AND' if number else 'WHERE'} {_at_least(condition, 3) if tight else expression_text(condition)}"
        )
    lines.append(f"WITHIN {_duration(query.within_us)}{' INCLUSIVE' if query.closed else ''}")
    if query.policy != "any":
        lines.append(f"UNDER {POLICIES[query.policy]}")
    return "\n".join(lines)


def expression_text(expression: Expression) -> str:
    """Return the text of a condition or a value."""
    match expression:
        case Constant():
            return _constant(expression.value)
        case Attribute():
            index = "" if expression.which == "only" else f"[{expression.which}]"
            return f"{expression.variable}{index}.{_name(expression.name)}"
        case Aggregate(argument=None):
            return f"count({expression.variable}[])"
        case Aggregate():
            assert expression.argument is not None
            return f"{expression.function}({expression_text(expression.argument)})"
        case Call():
            return f"{expression.function}({', '.join(map(expression_text, expression.arguments))})"
    return _operation(expression)


def _operation(operation: Operation) -> str:
    sign, tightness = operation.operator, _TIGHTNESS[operation.operator]
    first, *others = operation.operands
    match sign:
        case "neg":
            return f"-{_at_least(first, tightness + 1)}"  # two signs in a row would begin a comment
        case "not":
            return f"NOT {_at_least(first, tightness)}"
        case "in":
            return f"{_at_least(first, tightness + 1)} IN {{{', '.join(map(expression_text, others))}}}"
        case "^":
            return f"{_at_least(first, tightness + 1)} ^ {_at_least(others[0], tightness - 1)}"
        case "and" | "or":
            return f" {sign.upper()} ".join(_at_least(part, tightness + 1) for part in operation.operands)
    left = _at_least(first, tightness + (tightness == 4))
    return f"{left} {sign} {_at_least(others[0], tightness + 1)}"


def _at_least(part: Expression, tightness: int) -> str:
    """Return the text of a part, in parentheses unless it binds tightly enough for its place."""
    own = _TIGHTNESS[part.operator] if isinstance(part, Operation) else _ATOM
    if isinstance(part, Constant) and not isinstance(part.value, str | bool) and part.value < 0:
        own = _TIGHTNESS["neg"]
    text = expression_text(part)
    return text if own >= tightness else f"({text})"


def _element(element: Element) -> str:
    types = "|".join(_type(name) for name in element.types)
    types = f"({types})" if len(element.types) > 1 else types
    if element.negated:
        return f"NEG {types} {element.variable}"
    if not element.repeated:
        return f"{types} {element.variable}"
    least, most = element.at_least, element.at_most
    length = "+" if (least, most) == (1, None) else f"{{{least},{'' if most is None else most}}}"
    return f"{types}{length} {element.variable}[]"


def _constant(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _type(name: str) -> str:
    return name if _WORD.fullmatch(name) and name.upper() not in KEYWORDS else _constant(name)


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"`{name}`"


def _duration(us: int) -> str:
    unit = next(name for name, size in _UNITS_US.items() if us % size == 0)
    return f"{us // _UNITS_US[unit]} {unit}"
