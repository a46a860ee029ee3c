"""Guesses what was probably meant where a query cannot be read: typing errors, and syntax of other languages.

>>> hint("&&", "PATTERN SEQ(A a) WHERE a.v = 1 && a.w = 2 WITHIN 1 s", Place(1, 32), {"AND", "OR", "WITHIN"})
'write AND'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from spillway.core.cep.language.functions import FUNCTIONS, KEYWORDS
from spillway.core.cep.language.mistakes import nearest
from spillway.core.cep.language.syntax import Place

_COMMENT = "a comment begins with --"
_QUOTES = "a text stands in straight quotes: 'x'"
_SIGNS: Final = {
    **dict.fromkeys(("&", "&&", "∧"), "write AND"),
    **dict.fromkeys(("||", "∨"), "write OR"),
    **dict.fromkeys(("−", "–", "—"), "write -"),
    **dict.fromkeys(("×", "·"), "write *"),
    **dict.fromkeys(("“", "”", "„", "‘", "’"), _QUOTES),
    **dict.fromkeys(("/*", "//", "#"), _COMMENT),
    "¬": "write NOT",
    "÷": "write /",
    "＝": "write =",
    ";": "a query is one sentence and ends without a semicolon",
}
_WORDS: Final = {
    "IS": "there is no IS NULL: a condition on an unknown value does not hold",
    "BETWEEN": "write 1 <= a.v <= 5",
    "LIKE": "texts are compared with =, != or IN",
}
_TEXT = re.compile(r"'(?:[^'\n]|'')*'|\"(?:[^\"\n]|\"\")*\"|`[^`\n]+`")
_ALTERNATIVES = "an element is of one type or another: (B|C) b; other alternatives are queries of their own"
_ANY_ORDER = "rows in any order are a query for each order: SEQ(A a, B b), and another one SEQ(B b, A a)"
_CONJUNCTIONS: Final = {"AND", "ALL", "CONJ", "EACH"}
_DISJUNCTIONS: Final = {"OR", "ANY", "DISJ"}


def word_at(text: str, place: Place) -> str:
    """Return the word or the sign at a place in the text."""
    line = text.split("\n")[place.line - 1]
    found = re.match(r"\w+(?:\.\d+)?|[<>=!]+|&+|\|+|\*+|//|/\*|.", line[place.column - 1 :])
    return found.group() if found else "the end of the line"


def hint(found: str, text: str, place: Place, terminals: set[str]) -> str | None:
    """Return the first guess that fits what was found in place of the expected terminals."""
    *above, line = text.split("\n")[: place.line]
    before, after = line[: place.column - 1].rstrip(), line[place.column - 1 :]
    conditions = re.search(r"\bWHERE\b", "\n".join([*above, before]), re.IGNORECASE) is not None
    guesses = (
        *(_keyword(found, before, after, terminals), _list(found, after, terminals, conditions)),
        *(_window(found, before, after, terminals), _element(found, before, after, terminals)),
        _condition(found, before, after, terminals),
    )
    for each in guesses:
        for fits, said in each:
            if fits:
                return said
    return None if "RBRACE" in terminals else _SIGNS.get(found)


_Guesses = Iterator[tuple[bool, str]]


def _keyword(found: str, before: str, after: str, terminals: set[str]) -> _Guesses:  # noqa: ARG001
    """Yield guesses about keywords: misspelt, misplaced, or used as a name."""
    word = found.upper()
    yield terminals == {"PATTERN"} and word in {"SEQ", "SELECT", "WITHIN"}, "a query begins with PATTERN SEQ("
    near = nearest(found, [name for name in KEYWORDS if name in terminals]) if found.isidentifier() else None
    yield near is not None, f"did you mean {near!r}?"
    yield terminals == {"PATTERN"}, "a query begins with PATTERN SEQ("
    yield terminals == {"SEQ"} and word in _CONJUNCTIONS, _ANY_ORDER
    yield terminals == {"SEQ"} and word in _DISJUNCTIONS, f"write SEQ: {_ALTERNATIVES}"
    yield terminals == {"SEQ"}, "a pattern is written SEQ(A a, B b)"
    yield word == "WHERE" and "UNDER" in terminals, "WHERE stands before WITHIN"
    yield word in {"UNDER", "INCLUSIVE"} and "WITHIN" in terminals, f"{word} stands behind the window"
    yield word in {"AND", "OR"} and "WHERE" in terminals, "conditions begin with WHERE"
    element = {"NAME", "QUOTED", "STRING"} <= terminals
    yield element and word == "AND", _ANY_ORDER
    yield element and word in {"SEQ", "OR"}, _ALTERNATIVES
    yield element and word in KEYWORDS, f"{found} is a keyword: as a type it stands in quotes, '{found}' a"
    yield (
        word in KEYWORDS
        and bool({"PLUS", "INDEX"} & terminals or terminals == {"NAME"})
        and "NAME" in terminals,
        f"{found} is a keyword: take another name",
    )


def _list(found: str, after: str, terminals: set[str], conditions: bool) -> _Guesses:
    """Yield guesses about lists: of elements, and shorter ones in elements and conditions."""
    between = {"COMMA", "RPAR"} <= terminals and "AND" not in terminals
    missing = between and re.match(r"\w+\s+\w+", after) is not None
    other = found == ";" and "COMMA" in terminals
    yield (
        "RPAR" in terminals and not conditions and (missing or other),
        "elements are separated by commas: SEQ(A a, B b)",
    )
    yield missing or other, "lists have commas, as in {1, 2}"


def _window(found: str, before: str, after: str, terminals: set[str]) -> _Guesses:  # noqa: ARG001
    """Yield guesses about the window."""
    if "DURATION" in terminals:
        yield re.match(r"\d+,\d", after) is not None, "a number has no comma: 1000 ms"
        yield found[:1].isdigit(), f"a window has a unit: WITHIN {found} ms"
        yield found == ".", "write 0.5 s"
        yield found in {"-", "−"}, "a window is longer than nothing"


def _element(found: str, before: str, after: str, terminals: set[str]) -> _Guesses:
    """Yield guesses about names, texts and elements."""
    repeats = "LBRACE" in terminals and "NAME" in terminals
    yield found == "{" and before.endswith("+"), "lengths stand in the place of the plus: B{2,5} b[]"
    yield found == "*" and repeats, "a repeated element has at least one row: B+ b[]"
    yield (
        found == "?" and repeats,
        "where an element may be missing there are two queries, one of them without it",
    )
    last = re.search(r"\w+$", before)
    called = last.group().upper() if found == "(" and repeats and last is not None else ""
    yield called in _CONJUNCTIONS, _ANY_ORDER
    yield called in _DISJUNCTIONS, _ALTERNATIVES
    typed = found[:1].isdigit() and {"QUOTED", "STRING"} <= terminals
    yield typed, f"a type that is no word stands in quotes: '{found}' a"
    quoted = found in {"'", '"', "`"}
    yield (
        quoted and _TEXT.match(after) is None,
        f"a text that begins with {found} ends with it, on the same line",
    )
    yield quoted and "WORD" in terminals, "a name that is no word stands in backticks: a.`end station`"
    yield found == "." and "RSQB" in terminals, "the name alone: [id] is the same id in all elements"


def _condition(found: str, before: str, after: str, terminals: set[str]) -> _Guesses:
    """Yield guesses about conditions."""
    yield terminals == {"LBRACE", "LPAR"}, "constants stand in braces: IN {1, 2}"
    yield found == "*" and before.lower().endswith("count("), "write count(b[])"
    yield found in {">", "<", ">=", "<="} and before.endswith("="), f"write {found[0]}="
    yield found[0] == "=" and before.endswith("="), "write ="
    yield found == "/" and before.endswith("/"), "write floor(x / y)"
    yield found == "*" and before.endswith("*"), "write ^"
    joined = {"AND", "WITHIN"} <= terminals
    word, last = found.isidentifier(), re.search(r"\w+$", before)
    yield found == ")" and "WITHIN" in terminals, "a parenthesis too many"
    yield joined and found.upper() in _WORDS, _WORDS.get(found.upper(), "")
    yield (
        found == "." and "AND" in terminals and last is not None,
        "a name with a dot stands in backticks: a.`x.y`; a field of a struct has to be a column first",
    )
    if joined and word and last is not None:
        name = last.group()
        unit = name[0].isdigit() and re.match(r"\w+\s*[.\[(]", after) is None
        yield (
            unit and re.match(r"_\d|[xXbBoO][\dA-Fa-f]+\b", after) is not None,
            "write a number in plain digits",
        )
        yield unit, "a number has no unit; seconds(a.ts, b.ts) is the time between two rows"
        yield name.lower() in FUNCTIONS and "DOT" in terminals, f"write {name}(...)"
        yield "DOT" in terminals, f"write {name}.{found}"
    named = word and re.search(r"\.\w+$", before) is not None
    yield joined and named, "conditions are joined by AND or OR, and a name of two words stands in backticks"
    yield joined and (word or found in {"(", "["}), "conditions are joined by AND or OR"
