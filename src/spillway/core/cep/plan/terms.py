"""Terms: expressions in which all kinds are known, and each name says where its value comes from.

============== ==================================================================================================
source         value
============== ==================================================================================================
variable       not placed yet: an attribute as it stands in the query
event          of the row that has just arrived
leaf           of the run after it has taken that row
old            of the run before it has taken that row
node           of a row of a repeated variable in a walk along the chain; ``after``: of the next row
negated        of a row of a negated element
============== ==================================================================================================

Whole numbers, truth values and times are ``int`` (64 bits). Texts are codes, so ``text`` is an integer too, which can
only be compared for equality. **Null** is the smallest integer, or NaN: a condition that reads a null does not hold,
nor does its negation. So a truth value is compiled twice, once into "is true" and once into "is false":

    true(not x) = false(x)      true(x and y) = true(x) and true(y)      false(x and y) = false(x) or false(y)

A quotient by zero, the root of a negative number and the like are null, and so is a whole number that does not fit
into 64 bits: the functions in ``arithmetic`` test this before it is used. A fraction that is too large is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from spillway.errors import SpillwayError

Kind = Literal["int", "float", "text", "truth"]
Source = Literal["variable", "event", "leaf", "old", "node", "after", "negated"]

NULL = -(2**63)
TOO_LARGE = NULL + 1  # a running sum that did not fit; it stays unknown whatever is added later
_FITS = {"+": "sum_fits", "-": "difference_fits", "*": "product_fits"}
_COMPARE = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_LARGEST_POWER = 709.782712893384  # the largest exponent of e with a finite result
# Functions of one number: the text that is written, and the condition under which there is a value.
_FUNCTIONS = {
    "sqrt": ("math.sqrt({0})", "{0} >= 0"),
    "abs": ("abs({0})", None),
    "floor": ("np.floor({0})", None),
    "ceil": ("np.ceil({0})", None),
    "round": ("rounded(float({0}))", None),
    "exp": (f"(math.exp({{0}}) if {{0}} < {_LARGEST_POWER} else np.inf)", None),
    "log": ("math.log({0})", "{0} > 0"),
    "log10": ("math.log10({0})", "{0} > 0"),
    "sign": ("(1 if {0} > 0 else -1 if {0} < 0 else 0)", None),
}
WHOLE = ("+", "-", "*", "%", "neg", "abs", "least", "greatest", "floor", "ceil", "round")  # of whole numbers
_SAME = ("floor", "ceil", "round")  # of a whole number they return that number


@dataclass(frozen=True)
class Fixed:
    """A constant; a text is already a code."""

    value: int | float
    kind: Kind


@dataclass(frozen=True)
class Ref:
    """A value by its name. ``which`` is as in the query, or the function of an aggregate, or ``computed``."""

    source: Source
    variable: str
    which: str
    name: str
    kind: Kind


@dataclass(frozen=True)
class Apply:
    """An operator or function with its operands."""

    operator: str
    operands: tuple[Term, ...]
    kind: Kind


Term = Fixed | Ref | Apply


def refs(term: Term) -> Iterator[Ref]:
    """Yield all names in a term."""
    if isinstance(term, Ref):
        yield term
    elif isinstance(term, Apply):
        for operand in term.operands:
            yield from refs(operand)


def substitute(term: Term, place: Callable[[Ref], Ref]) -> Term:
    """Return the term with its names replaced."""
    if isinstance(term, Ref):
        return place(term)
    if isinstance(term, Apply):
        return replace(term, operands=tuple(substitute(operand, place) for operand in term.operands))
    return term


def words(term: Term) -> str:
    """Return the term as text, for names and messages.

    >>> words(Apply("+", (Ref("leaf", "a", "only", "V", "int"), Ref("event", "c", "only", "V", "int")), "int"))
    'a.V+c.V'
    """
    match term:
        case Fixed(value, _):
            return f"{value}"
        case Ref(_, variable, "only", name, _):
            return f"{variable}.{name}"
        case Ref(_, _, "computed", name, _):
            return name
        case Ref(_, variable, which, name, _):
            return f"{variable}[{which}].{name}"
        case Apply(operator, operands, _) if operator.isidentifier() and operator not in ("and", "or"):
            return f"{operator}({','.join(map(words, operands))})"
        case Apply(operator, operands, _):
            joint = f" {operator} " if operator.isidentifier() else operator
            texts = [f"({words(o)})" if isinstance(o, Apply) else words(o) for o in operands]
            return joint.join(texts)
    raise AssertionError(term)


class Writer:
    """Writes terms as Python, given how the names are called."""

    def __init__(self, name: Callable[[Ref], str]) -> None:
        self._name = name

    def number(self, term: Term) -> tuple[str, list[str]]:  # noqa: PLR0911
        """Return the text of a value and the conditions under which it exists."""
        match term:
            case Fixed(value, "float"):
                return repr(float(value)), []
            case Fixed(value, _):
                return repr(int(value)), []
            case Ref(kind=kind):
                text = self._name(term)
                if kind == "int" and term.which == "sum":
                    return text, [f"{text} > TOO_LARGE"]
                return text, [f"{text} == {text}" if kind == "float" else f"{text} != NULL"]
            case Apply("neg", (operand,), _):
                text, checks = self.number(operand)
                return f"(-{text})", checks
            case Apply("avg", operands, _):
                texts, checks = self._all(operands)
                total = " + ".join(f"np.float64({text})" for text in texts)
                return f"(({total}) / {float(len(texts))!r})", checks
            case Apply("least" | "greatest" as which, operands, _):
                texts, checks = self._all(operands)
                text = texts[0]
                for other in texts[1:]:
                    text = f"{'min' if which == 'least' else 'max'}({text}, {other})"
                return text, checks
            case Apply(operator, (left, right), _):
                return self._binary(operator, left, right)
            case Apply(operator, (operand,), "int") if operator in _SAME:
                return self.number(operand)
            case Apply(operator, (operand,), _) if operator in _FUNCTIONS:
                text, checks = self.number(operand)
                pattern, condition = _FUNCTIONS[operator]
                checks = checks if condition is None else [*checks, condition.format(text)]
                return pattern.format(text), checks
        raise SpillwayError(f"{words(term)}: the engine does not know how to compute this.")

    def value(self, term: Term) -> str:
        """Return the text of a value that is null where it does not exist."""
        text, checks = self.number(term)
        if isinstance(term, Ref) or not checks:
            return text
        null = "np.nan" if term.kind == "float" else "NULL"
        return f"({text} if {' and '.join(_once(checks))} else {null})"

    def true(self, term: Term, holds: bool = True) -> str:
        """Return the text of the test that a term is true, or that it is false."""
        match term:
            case Apply("not", (operand,), _):
                return self.true(operand, not holds)
            case Apply("and" | "or" as operator, operands, _):
                joint = "and" if (operator == "and") == holds else "or"
                return "(" + f" {joint} ".join(self.true(operand, holds) for operand in operands) + ")"
            case Apply("in", (operand, *choices), _):
                text, checks = self.number(operand)
                tests = [f"{text} {'==' if holds else '!='} {self.number(choice)[0]}" for choice in choices]
                checks += [] if holds else _no_nan(operand, text)
                return self._both(checks, "(" + (" or " if holds else " and ").join(tests) + ")")
            case Apply(operator, (left, right), _) if operator in _COMPARE:
                texts, checks = self._all((left, right))
                sign = _COMPARE[operator] if holds else _OPPOSITE[_COMPARE[operator]]
                if sign == "!=":
                    checks += [*_no_nan(left, texts[0]), *_no_nan(right, texts[1])]
                return self._both(checks, f"{texts[0]} {sign} {texts[1]}")
            case Fixed(value, _):
                return "True" if bool(value) == holds else "False"
            case Ref():
                text, checks = self.number(term)
                return self._both(checks, f"{text} {'!=' if holds else '=='} 0")
        raise SpillwayError(f"{words(term)}: the engine does not know this condition.")

    def _both(self, checks: list[str], test: str) -> str:
        return "(" + " and ".join([*_once(checks), test]) + ")"

    def _all(self, terms: tuple[Term, ...]) -> tuple[list[str], list[str]]:
        found = [self.number(term) for term in terms]
        return [text for text, _ in found], [check for _, checks in found for check in checks]

    def _binary(self, operator: str, left: Term, right: Term) -> tuple[str, list[str]]:
        (x, y), checks = self._all((left, right))
        whole = "float" not in (left.kind, right.kind)
        if operator in _FITS:
            return f"({x} {operator} {y})", [*checks, f"{_FITS[operator]}({x}, {y})"] if whole else checks
        if operator == "/":
            return f"({x} / {y})", [*checks, f"{y} != 0"]
        if operator == "%":
            return f"{'remainder' if whole else 'np.fmod'}({x}, {y})", [*checks, f"{y} != 0"]
        if operator == "seconds":
            return f"(({y} - {x}) / 1e6)", [*checks, f"difference_fits({y}, {x})"]
        if operator == "^":
            power = f"(np.float64({x}) ** np.float64({y}))"
            return power, [*checks, f"({x} != 0 or {y} >= 0)", f"{power} == {power}"]
        raise SpillwayError(f"{operator}: the engine does not know this operator.")


def _no_nan(term: Term, text: str) -> list[str]:
    """Return the condition that a computed fraction is a number: the difference of two infinities is not."""
    return [f"{text} == {text}"] if isinstance(term, Apply) and term.kind == "float" else []


def _once(checks: list[str]) -> list[str]:
    return list(dict.fromkeys(checks))
