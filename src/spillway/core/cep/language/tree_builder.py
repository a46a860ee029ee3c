"""Turns the parse tree of lark into the tree of syntax.py, as it was written: ``not``, ``[id]`` and chains are kept.

``pow(x, y)`` becomes ``x ^ y``, and so does ``x²``. ``sum(x, y)`` becomes ``x + y``, and ``min`` and ``max`` of
several values become ``least`` and ``greatest``. A call of an aggregate with one argument is an aggregate over the
variable that it contains as ``b[i]`` or ``b[]``, which mean the same. ``[id, kind]`` is an operation ``same`` on
two texts, which only this package knows.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from spillway.core.cep.language.functions import AGGREGATES, FUNCTIONS, POLICIES, SYNONYMS
from spillway.core.cep.language.mistakes import QueryError, unknown_name
from spillway.core.cep.language.syntax import (
    Aggregate,
    Attribute,
    Call,
    Constant,
    Element,
    Expression,
    Operation,
    Place,
    Policy,
    Query,
    Which,
)
from spillway.durations import exact_seconds
from spillway.errors import SpillwayError

_COMPARISONS = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_WHICH: dict[str, Which] = {"": "i", "i": "i", "i+1": "i+1", "last": "last", "first": "first"}
_LONGEST_US = 2**62
_LARGEST = 2**63 - 1
_LONGEST = 10**9  # rows of a sequence
_UNITS = "units are us, ms, s, min, h, days and weeks"


@v_args(meta=True)
class Builder(Transformer[Token, Any]):
    """Builds the nodes bottom up; each method has the name of a rule of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def start(self, _: Meta, parts: list[Any]) -> Query:
        """Build the query, with its condition in one piece."""
        elements = tuple(part for part in parts if isinstance(part, Element))
        where, _within, duration, inclusive, policy = parts[len(elements) + 2 :]
        return Query(
            elements,
            () if where is None else (where,),
            self._window(duration),
            policy or "any",
            inclusive is not None,
            self.text,
        )

    def where(self, _: Meta, parts: list[Any]) -> Expression:
        """Return the condition."""
        return parts[1]  # type: ignore[no-any-return]

    def under(self, _: Meta, parts: list[Token]) -> Policy:
        """Return the policy."""
        name = re.sub(r"[-\s]+", "_", parts[1].lower())
        found = next((policy for policy, long in POLICIES.items() if name == long), None)
        if found is not None:
            return found
        raise unknown_name("policy", name, POLICIES.values(), self.text, at(parts[1]))

    def negated(self, _: Meta, parts: list[Any]) -> Element:
        """Mark an element as negated."""
        step: Element = parts[1]
        if step.repeated:
            wrong = "a negated element is not repeated: no row of its type may be there, not even one."
            raise QueryError(wrong, self.text, step.place, hint=f"write NEG {step.types[0]} {step.variable}")
        return Element(step.types, step.variable, step.place, negated=True)

    def step(self, meta: Meta, parts: list[Any]) -> Element:
        """Build an element."""
        types, length, name, index = parts
        place, variable = at(meta), str(name)
        if index is not None and index[1:-1].strip():
            wrong = f"{index} is not expected in the pattern: a repeated variable stands with empty brackets."
            raise QueryError(wrong, self.text, at(index), hint=f"write {variable}[]")
        if length is None:
            if index is not None:
                hint = (
                    f"write {types[0]}+ {variable}[] for one or more rows, or {types[0]} {variable} for one"
                )
                raise QueryError(f"{variable}[] is not repeated.", self.text, at(index), hint=hint)
            return Element(types, variable, place)
        if index is None:
            wrong = f"{variable} is repeated and needs empty brackets."
            raise QueryError(wrong, self.text, at(name), hint=f"write {variable}[]")
        at_least, at_most = (1, None) if isinstance(length, Token) else length
        return Element(types, variable, place, repeated=True, at_least=at_least, at_most=at_most)

    def types(self, _: Meta, parts: list[str]) -> tuple[str, ...]:
        """Return the types of an element, each once."""
        return tuple(dict.fromkeys(parts))

    def type(self, _: Meta, parts: list[Token]) -> str:
        """Return a type's name."""
        return unquoted(parts[0])

    def exactly(self, meta: Meta, parts: list[Token]) -> tuple[int, int]:
        """Return the lengths of ``{3}``."""
        return self._lengths(meta, int(parts[0]), int(parts[0]))  # type: ignore[return-value]

    def between(self, meta: Meta, parts: list[Token | None]) -> tuple[int, int | None]:
        """Return the lengths of ``{2,5}``, ``{2,}`` and ``{,5}``."""
        least, most = parts
        return self._lengths(meta, 1 if least is None else int(least), None if most is None else int(most))

    def either(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``x OR y``."""
        return Operation("or", tuple(parts[::2]), at(meta))

    def both(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``x AND y``."""
        return Operation("and", tuple(parts[::2]), at(meta))

    def negation(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``NOT x``."""
        return Operation("not", (parts[1],), at(meta))

    def chain(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``x < y``, or for a chain ``x < y AND y < z``, in which each pair has to name a row."""
        signs = [_COMPARISONS.get(sign, str(sign)) for sign in parts[1::2]]
        pairs = list(zip(signs, pairwise(parts[::2]), strict=True))
        if len(pairs) == 1:
            return Operation(signs[0], pairs[0][1], at(meta))
        for _, pair in pairs:
            if not any(isinstance(part, Attribute | Aggregate) for side in pair for part in walk(side)):
                wrong = "these two name no row: the chain x = y = z means x = y AND y = z."
                hint = "join comparisons by AND, as in a.v = 3 AND b.v = 4"
                raise QueryError(wrong, self.text, pair[0].place, hint=hint)
        places = [at(meta), *(left.place for _, (left, _) in pairs[1:])]
        links = [Operation(sign, pair, place) for (sign, pair), place in zip(pairs, places, strict=True)]
        return Operation("and", tuple(links), at(meta))

    def member(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``x IN {1, 2}``."""
        return Operation("in", (parts[0], *parts[-1]), at(meta))

    def stranger(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``x NOT IN {1, 2}``."""
        return Operation("not", (self.member(meta, parts),), at(meta))

    def set(self, _: Meta, parts: list[Any]) -> tuple[Expression, ...]:
        """Return the constants."""
        return tuple(parts)

    def binary(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build an arithmetic operation."""
        left, sign, right = parts
        return Operation(str(sign), (left, right), at(meta))

    def superscript(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``x²``."""
        return Operation("^", (parts[0], Constant("²³".index(parts[1]) + 2, at(parts[1]))), at(meta))

    def minus(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build ``-x``; for a number the result is a number."""
        x = parts[1]
        if isinstance(x, Constant) and isinstance(x.value, int | float) and not isinstance(x.value, bool):
            return Constant(-x.value, at(meta))
        return Operation("neg", (x,), at(meta))

    def literal(self, meta: Meta, parts: list[Token]) -> Constant:
        """Build a constant."""
        (token,) = parts
        if token.type == "STRING":
            return Constant(unquoted(token), at(meta))
        if token.type == "NUMBER":
            return Constant(self._number(token), at(meta))
        return Constant(token.type == "TRUE", at(meta))

    def reference(self, meta: Meta, parts: list[Any]) -> Attribute:
        """Build an attribute; if only a variable is written, the attribute's name is empty."""
        variable, index, name = parts
        if index is None:
            return Attribute(str(variable), "only", name or "", at(meta))
        which = _WHICH.get(re.sub(r"\s", "", index[1:-1]).lower())
        if which is None:
            wrong = (
                f"{index} is not expected: rows of a repeated variable are [i], [i+1], [first] and [last]."
            )
            hint = f"compare {variable}[i+1] with {variable}[i]" if "-" in index else None
            raise QueryError(wrong, self.text, at(index), hint=hint)
        return Attribute(str(variable), which, name or "", at(meta))

    def name(self, _: Meta, parts: list[Token]) -> str:
        """Return a name."""
        return unquoted(parts[0])

    def same(self, meta: Meta, parts: list[str]) -> Expression:
        """Build ``[id]``."""
        return Operation("same", tuple(Constant(part, at(meta)) for part in parts), at(meta))

    def call(self, meta: Meta, parts: list[Any]) -> Expression:
        """Build the call of a function, or an aggregate."""
        token, *values = parts
        name, place = token.lower(), at(meta)
        if name in AGGREGATES and (len(values) == 1 or name == "count"):
            return self._aggregate(name, values, place)
        if name not in {*FUNCTIONS, *SYNONYMS}:
            raise unknown_name(
                "function", str(token), {*FUNCTIONS, *SYNONYMS, *AGGREGATES}, self.text, at(token)
            )
        takes = 2 if name == "pow" else FUNCTIONS.get(name)
        if takes != len(values) and (takes is not None or len(values) < 2):
            number = {1: "one value", 2: "two values", None: "two or more values"}[takes]
            raise QueryError(f"{name} takes {number}, here are {len(values)}.", self.text, place)
        if name == "sum":
            return functools.reduce(lambda x, y: Operation("+", (x, y), place), values)  # type: ignore[no-any-return]
        if name == "pow":
            return Operation("^", tuple(values), place)
        return Call({"min": "least", "max": "greatest"}.get(name, name), tuple(values), place)

    def _aggregate(self, name: str, values: list[Expression], place: Place) -> Expression:
        if name == "count":
            value = values[0]
            if len(values) > 1 or not isinstance(value, Attribute) or value.name or value.which != "i":
                wrong = "count counts the rows of a repeated variable and takes nothing else."
                raise QueryError(wrong, self.text, place, hint="write count(b[])")
            return Aggregate("count", value.variable, None, place)
        indexed = list(dict.fromkeys(part.variable for part in attributes(values[0]) if part.which == "i"))
        if len(indexed) != 1:
            what = " and ".join(f"{variable}[i]" for variable in indexed) or "none"
            wrong = f"{name} of one value is over the rows of one variable, such as b[i], here is {what}."
            raise QueryError(
                wrong, self.text, place, hint=f"write {name}(b[i].v), or {name}(x, y) of several values"
            )
        return Aggregate(name, indexed[0], values[0], place)

    def _lengths(self, meta: Meta, least: int, most: int | None) -> tuple[int, int | None]:
        if least < 1:
            hint = "leave the element out in a second query if it may be missing"
            raise QueryError("a repeated element has at least one row.", self.text, at(meta), hint=hint)
        if most is not None and most < least:
            wrong = f"lengths from {least} to {most} are none at all: the smaller number comes first."
            raise QueryError(wrong, self.text, at(meta))
        if max(least, most or 0) > _LONGEST:
            raise QueryError(f"a repeated element has at most {_LONGEST:,} rows.", self.text, at(meta))
        return least, most

    def _number(self, token: Token) -> int | float:
        if not token.isdigit():
            if math.isinf(float(token)):
                raise QueryError(f"{token} is too large for a number.", self.text, at(token))
            return float(token)
        if int(token) > _LARGEST:
            wrong = f"{token} is too large for a whole number of 64 bits."
            raise QueryError(wrong, self.text, at(token), hint=f"as a fraction it is {token}.0")
        return int(token)

    def _window(self, token: Token) -> int:
        try:
            us = exact_seconds("WITHIN", re.sub("[µμ]", "u", token)) * 10**6
        except SpillwayError as error:
            guess = f"{error.hint} " if error.hint else ""
            hint = f"{guess}{_UNITS}" if re.search("[1-9]", token) else "a window is longer than nothing"
            raise QueryError(f"{token} is no duration.", self.text, at(token), hint=hint) from error
        if us.denominator != 1:
            raise QueryError(
                f"a window is a whole number of microseconds, not {token}.", self.text, at(token)
            )
        if us > _LONGEST_US:
            raise QueryError(f"{token} is longer than time stamps reach.", self.text, at(token))
        return int(us)


def at(what: Meta | Token) -> Place:
    """Return where a rule or a token begins."""
    return Place(what.line or 1, what.column or 1)


def unquoted(token: Token) -> str:
    """Return the text between quotes, or a bare name as it is.

    >>> unquoted(Token("STRING", "'it''s'")), unquoted(Token("QUOTED", "`end station`"))
    ("it's", 'end station')
    """
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote) if quote in "'\"`" else str(token)


def attributes(expression: Expression) -> Iterator[Attribute]:
    """Yield all attributes of an expression, those within aggregates too."""
    for part in walk(expression):
        if isinstance(part, Attribute):
            yield part


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all its parts, from left to right."""
    yield expression
    match expression:
        case Operation(operands=inner) | Call(arguments=inner):
            for part in inner:
                yield from walk(part)
        case Aggregate(argument=argument) if argument is not None:
            yield from walk(argument)
