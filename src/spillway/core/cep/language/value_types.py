"""Determines the kind of each part of a query, and checks that the kinds fit together.

========= =======================================  ====================================================
kind      columns                                  may be
========= =======================================  ====================================================
int       whole numbers                            computed with, compared
float     fractions, decimals of up to 15 digits   computed with, compared
text      strings, dictionaries of strings         tested for ``= != IN``
bool      truth values                             a condition, or tested for ``= != IN``
time      time stamps, dates                       compared with each other, ``seconds(from, to)``
========= =======================================  ====================================================

Decimals are converted to 64-bit floating-point numbers. With more than 15 digits, two different decimals may become
the same number: conditions cannot use them.

>>> from spillway.core.cep.language.parser import parse
>>> query = parse("PATTERN SEQ(A a, B b) WHERE a.idd = b.id WITHIN 1 s")
>>> check(query, {"id": "int", "name": "text"})
Traceback (most recent call last):
    ...
spillway.core.cep.language.mistakes.QueryError: line 1, column 29: no attribute 'idd', expected one of 'id', 'name'.
  PATTERN SEQ(A a, B b) WHERE a.idd = b.id WITHIN 1 s
                              ^ Hint: did you mean 'id'?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import pyarrow as pa

from spillway.core.cep.language.mistakes import QueryError, unknown_name
from spillway.core.cep.language.rules import check_conditions, check_elements
from spillway.core.cep.language.syntax import (
    Aggregate,
    Attribute,
    Call,
    Constant,
    Expression,
    Operation,
    Query,
)

Kind = Literal["int", "float", "text", "bool", "time"]
_NUMBERS = {"int", "float"}
_ARITHMETIC = {"+", "-", "*", "/", "%", "^", "neg"}
_ORDER = {"<", "<=", ">", ">="}
_WHOLE = {"abs", "sign", "least", "greatest", "floor", "ceil", "round"}  # whole for whole numbers
_ANY = "any"  # without a schema an attribute may be anything
_CONDITION = "condition"
_EXACT_DIGITS = 15  # any two decimals of so many digits are different 64-bit floating-point numbers
_ORDERS = "texts and truth values have no order: compare them with =, != or IN, and times with times"
_TIMES = "a time is compared with a time; seconds(x, y) is the number of seconds from x to y"
_KIND_OF = {bool: "bool", str: "text", int: "int", float: "float"}
_NAMES = {
    "int": "a number",
    "float": "a number",
    "text": "a text",
    "bool": "a truth value",
    "time": "a time",
    _CONDITION: "a condition",
}


def check(query: Query, schema: Mapping[str, str] | pa.Schema) -> None:
    """Raise an error if the query names attributes that do not exist, or uses them with the wrong kind.

    ``schema`` has the kind of each attribute, or is the schema of a pyarrow Table. A query that was not read from a
    text also gets the checks of ``parse``.
    """
    check_elements(query)
    check_conditions(query)
    check_kinds(query, kinds(schema) if isinstance(schema, pa.Schema) else schema)


def kinds(schema: pa.Schema) -> dict[str, str]:
    """Return the kind of each column, or the name of its type if no condition can use it.

    >>> kinds(pa.schema([("id", pa.int32()), ("tag", pa.string()), ("tags", pa.list_(pa.string()))]))
    {'id': 'int', 'tag': 'text', 'tags': 'list<item: string>'}
    """
    return {field.name: _kind_of(field.type) for field in schema}


def _kind_of(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = {
        "int": (types.is_integer,),
        "float": (types.is_floating, _is_exact),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "bool": (types.is_boolean,),
        "time": (types.is_timestamp, types.is_date),
    }
    return next((name for name, are in tests.items() if any(is_(kind) for is_ in are)), str(kind))


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.precision <= _EXACT_DIGITS


def check_kinds(query: Query, schema: Mapping[str, str] | None) -> None:
    """Raise an error if kinds do not fit; without a schema, as far as this can be known."""
    checker = _Checker(query.text, schema)
    for condition in query.conditions:
        checker.require(condition, {_CONDITION})


class _Checker:
    def __init__(self, text: str, schema: Mapping[str, str] | None) -> None:
        self.text, self.schema = text, schema

    def require(self, part: Expression, allowed: set[str], hint: str | None = None) -> str:
        """Return the kind of a part; raise an error if it is not an allowed one."""
        kind = self.kind(part)
        if kind not in allowed and kind != _ANY:
            expected = " or ".join(dict.fromkeys(_NAMES[name] for name in sorted(allowed)))
            wrong = f"{_NAMES[kind]}, where {expected} is expected."
            raise QueryError(wrong, self.text, part.place, hint=hint)
        return kind

    def kind(self, part: Expression) -> str:
        """Return the kind of a part, checked down to its leaves."""
        match part:
            case Constant():
                return _KIND_OF[type(part.value)]
            case Attribute():
                return self.attribute(part)
            case Aggregate():
                kind = "int" if part.argument is None else self.require(part.argument, _NUMBERS)
                return "int" if kind == "int" and part.function != "avg" else "float"
            case Call():
                return self.call(part)
        return self.operation(part)

    def attribute(self, part: Attribute) -> str:
        """Return the kind of a column."""
        if self.schema is None:
            return _ANY
        if part.name not in self.schema:
            raise unknown_name("attribute", part.name, self.schema, self.text, part.place)
        kind = self.schema[part.name]
        if kind not in get_args(Kind):
            wrong, hint = f"{part.name} has the type {kind}, which conditions cannot use.", None
            if kind.startswith("decimal"):
                wrong = f"{part.name} has the type {kind}, which does not fit into a fraction of 64 bits."
                hint = f"cast it to bigint or string, or to decimal({_EXACT_DIGITS}, s)"
            elif kind == "null":
                hint = "it has no values to tell its type by: give the table a schema"
            raise QueryError(wrong, self.text, part.place, hint=hint)
        return kind

    def call(self, part: Call) -> str:
        """Return the kind of a function's value."""
        allowed = {"time"} if part.function == "seconds" else _NUMBERS
        found = {self.require(argument, allowed) for argument in part.arguments}
        return "int" if part.function in _WHOLE and found == {"int"} else "float"

    def operation(self, part: Operation) -> str:
        """Return the kind of an operation's value."""
        if part.operator in {"and", "or", "not"}:
            for operand in part.operands:
                self.require(operand, {_CONDITION})
            return _CONDITION
        if part.operator in _ARITHMETIC:
            hint = "seconds(x, y) is the time from x to y" if part.operator == "-" else None
            found = {self.require(operand, _NUMBERS, hint) for operand in part.operands}
            whole = found == {"int"} and part.operator not in {"/", "^"}
            return "int" if whole else "float"
        left, *others = part.operands
        if any(isinstance(other, Constant) and isinstance(other.value, bool) for other in others):
            self.require(left, {"bool"}, "compare it, as in a.v > 3")
        ordered = part.operator in _ORDER
        allowed = {"int", "float", "time"} if ordered else {"int", "float", "time", "text", "bool"}
        hint = _ORDERS if ordered else None
        kind = self.require(left, allowed, hint)
        for operand in others:
            said = _TIMES if "time" in {kind, self.kind(operand)} else hint
            self.require(operand, allowed if kind == _ANY else _NUMBERS if kind in _NUMBERS else {kind}, said)
        return _CONDITION
