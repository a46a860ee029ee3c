"""Decides where the names in a condition get their values, and when all of these values are known.

It reads the query's expressions into terms, finds the stage of each term (see ``plan``), and replaces attributes by
leaves of the run, values of the row, or values along a chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spillway.core.cep.language.syntax import (
    Aggregate,
    Attribute,
    Call,
    Constant,
    Expression,
    Operation,
    Query,
)
from spillway.core.cep.plan.terms import WHOLE, Apply, Fixed, Kind, Ref, Term, refs, substitute, words
from spillway.errors import SpillwayError, unknown

StageKind = Literal["enter", "each", "pair", "end"]
_ORDER: tuple[StageKind, ...] = ("enter", "each", "pair", "end")
_STAGES: dict[str, StageKind] = {"only": "enter", "first": "enter", "i": "each", "i+1": "pair"}
_TRUTH = ("=", "!=", "<", "<=", ">", ">=", "in", "and", "or", "not")


@dataclass(frozen=True)
class Stage:
    """The state in which a condition can be tested, and at which of its rows."""

    state: int
    kind: StageKind


class Placing:
    """Places the names of one query. ``codes`` are the codes of the texts in it."""

    def __init__(self, query: Query, kinds: Mapping[str, Kind], codes: Mapping[str, int]) -> None:
        self._kinds, self._codes = kinds, codes
        positive = [element for element in query.elements if not element.negated]
        self.position = {element.variable: k for k, element in enumerate(positive)}
        self.named: list[Ref] = []  # every attribute that the query names, with its variable
        self.aggregates: dict[Ref, Term] = {}  # leaf -> what is summed, placed as for its own row
        self.terms: dict[Ref, Term] = {}  # computed leaf -> what it is computed from
        self.chained: dict[str, list[Ref]] = {}  # variable -> the attributes that its chain has to hold

    def read(self, expression: Expression) -> Term:
        """Return an expression as a term whose names are not placed yet."""
        match expression:
            case Constant(value=str(value)):
                return Fixed(self._codes[value], "text")
            case Constant(value=int() | float() as value):
                return Fixed(value, "float" if isinstance(value, float) else "int")
            case Attribute(variable, which, name):
                if name not in self._kinds:
                    raise unknown("attribute", name, self._kinds)
                ref = Ref("variable", variable, which, name, self._kinds[name])
                self._name(ref)
                return ref
            case Aggregate(function, variable, argument):
                return self._aggregate(function, variable, argument)
            case Operation(operator, operands) | Call(operator, operands):
                return _apply(operator, tuple(self.read(operand) for operand in operands))
        raise AssertionError(expression)

    def _name(self, ref: Ref) -> None:
        plain = replace(ref, which="")
        if plain not in self.named:
            self.named.append(plain)

    def _aggregate(self, function: str, variable: str, argument: Expression | None) -> Term:
        if argument is None:
            return Ref("variable", variable, "count", "", "int")
        term, at = self.read(argument), self.position[variable]
        placed = self.place(term, Stage(at, "each"), None, enter=True)
        names = ("sum", "known") if function == "avg" else (function,)
        leaves = []
        for name in names:
            kind: Kind = "int" if name == "known" else "float" if function == "avg" else term.kind
            leaf = Ref("leaf", variable, name, words(term), kind)
            self.aggregates[leaf] = placed
            leaves.append(replace(leaf, source="variable"))
        return leaves[0] if len(leaves) == 1 else Apply("/", tuple(leaves), "float")

    def stage(self, term: Term, but: str = "") -> Stage:
        """Return the stage at which all names of a term are known; ``but`` names the negated variable."""
        found = []
        for ref in refs(term):
            if ref.variable != but:
                found.append((self.position[ref.variable], _ORDER.index(_STAGES.get(ref.which, "end"))))
        state, kind = max(found, default=(0, 0))
        if but and kind:
            kind = len(_ORDER) - 1
        return Stage(state, _ORDER[kind])

    def walked(self, term: Term, stage: Stage) -> tuple[str | None, bool]:
        """Return the variable whose chain a test has to walk (or None), and whether the test is about pairs."""
        found = [
            ref
            for ref in refs(term)
            if ref.which in ("i", "i+1")
            and ref.variable in self.position
            and (self.position[ref.variable] < stage.state or stage.kind == "end")
        ]
        names = {ref.variable for ref in found}
        if len(names) > 1:
            raise SpillwayError(
                f"{words(term)}: a condition can be about all rows of one variable, not of two.",
                hint="write two conditions, or use [last]",
            )
        for ref in found:
            column = replace(ref, source="node", which="")
            columns = self.chained.setdefault(ref.variable, [])
            if column not in columns:
                columns.append(column)
        return (names.pop() if names else None), any(ref.which == "i+1" for ref in found)

    def place(
        self, term: Term, stage: Stage, walk: str | None, enter: bool, banned: str | None = None
    ) -> Term:
        """Replace each name by its source; ``enter`` says that the row is the first of its element."""
        pair = any(ref.which == "i+1" for ref in refs(term))

        def source(ref: Ref) -> Ref:
            if ref.variable == banned:
                return Ref("negated", "", "", ref.name, ref.kind)
            if ref.variable == walk and ref.which in ("i", "i+1"):
                return Ref("after" if ref.which == "i+1" else "node", ref.variable, "", ref.name, ref.kind)
            here = self.position[ref.variable] == stage.state and stage.kind != "end"
            if here and ref.which == "i" and pair:
                return replace(ref, source="old", which="last")
            if here and (ref.which in ("only", "i", "i+1") or (ref.which == "first" and enter)):
                return Ref("event", "", "", ref.name, ref.kind)
            return replace(ref, source="leaf")

        return substitute(term, source)

    def place_row(self, term: Term) -> Term:
        """Place a condition that is about a single row."""
        return substitute(term, lambda ref: Ref("event", "", "", ref.name, ref.kind))

    def as_leaves(self, term: Term) -> Term:
        """Return the run's side of an equality as leaves of the run once it has been made."""
        return substitute(term, lambda ref: replace(ref, source="leaf"))

    def last_of(self, term: Term) -> Term:
        """Return what a condition on all rows of a variable implies for the last of them."""
        return substitute(
            term,
            lambda ref: replace(ref, source="leaf", which="last") if ref.source == "node" else ref,
        )

    def at(self, leaf: Ref) -> int:
        """Return the last state whose rows change a leaf."""
        if leaf.which == "computed":
            return max(self.at(ref) for ref in refs(self.terms[leaf]))
        return self.position[leaf.variable]

    def hoist(self, term: Term, state: int) -> Term:
        """Replace what can be computed before the row arrives by a computed leaf."""
        if not isinstance(term, Apply):
            return term
        inner = list(refs(term))
        early = all(ref.source == "leaf" and self.at(ref) < state for ref in inner)
        if inner and early and term.kind in ("int", "float"):
            return self.computed(term, state)
        return replace(term, operands=tuple(self.hoist(operand, state) for operand in term.operands))

    def computed(self, term: Term, state: int) -> Ref:
        """Return a leaf that holds the value of a term."""
        if isinstance(term, Ref):
            return term
        leaf = Ref("leaf", "", "computed", words(term), term.kind)
        if leaf not in self.terms:
            self.terms[leaf] = term
            at = self.at(leaf)
            if at < state and isinstance(term, Apply):
                self.terms[leaf] = replace(term, operands=tuple(self.hoist(o, at) for o in term.operands))
        return leaf

    def special(self, position: int, what: str) -> Ref:
        """Return the leaf for a row, a chain, its length, its first row, or whether a sequence may end."""
        variable = next(name for name, k in self.position.items() if k == position)
        return Ref("leaf", variable, what, "", "int")


def _apply(operator: str, operands: tuple[Term, ...]) -> Term:
    if operator in _TRUTH:
        text = [operand.kind == "text" for operand in operands]
        if any(text) and operator not in ("=", "!=", "in"):
            raise SpillwayError(
                f"{operator}: texts can be compared for equality only.", hint="use = or !=, or a number"
            )
        if any(text) != all(text) and operator not in ("and", "or", "not"):
            raise SpillwayError(f"{operator}: a text is compared with what is none.")
        return Apply(operator, operands, "truth")
    whole = all(operand.kind != "float" for operand in operands)
    if operator == "sign" or (whole and operator in WHOLE):
        return Apply(operator, operands, "int")
    return Apply(operator, operands, "float")


def texts_of(expressions: tuple[Expression, ...]) -> list[str]:
    """Return the texts that conditions compare with."""
    found: list[str] = []
    for expression in expressions:
        match expression:
            case Constant(value=str(value)):
                found.append(value)
            case Operation(operands=inner) | Call(arguments=inner):
                found += texts_of(inner)
            case _:
                pass
    return found
