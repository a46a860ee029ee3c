"""Reads a query: text -> parse tree of lark -> syntax tree -> normal form, with all checks that need no schema.

>>> query = parse("PATTERN SEQ(A a, B+ b[], C c) WHERE [id] AND a.v + b[last].v = c.v WITHIN 8 ms")
>>> query.within_us, [element.variable for element in query.elements], len(query.conditions)
(8000, ['a', 'b', 'c'], 3)
>>> parse("PATTERN SEQ(A a, B b) WHER a.id = b.id WITHIN 8 ms")
Traceback (most recent call last):
    ...
spillway.core.cep.language.mistakes.QueryError: line 1, column 23: found 'WHER', expected WHERE or WITHIN.
  PATTERN SEQ(A a, B b) WHER a.id = b.id WITHIN 8 ms
                        ^ Hint: did you mean 'WHERE'?
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from spillway.core.cep.language.grammar import GRAMMAR, GROUPS, HIDDEN, WORDS
from spillway.core.cep.language.hints import hint, word_at
from spillway.core.cep.language.mistakes import QueryError
from spillway.core.cep.language.normal_form import normal
from spillway.core.cep.language.rules import check_conditions, check_elements
from spillway.core.cep.language.syntax import Place, Query
from spillway.core.cep.language.tree_builder import Builder, at
from spillway.core.cep.language.value_types import check_kinds
from spillway.errors import invalid

_DEEPEST = (
    150  # nested operations; as Python text they may have 200 parentheses, and some operations have three
)
_LEVELS = {
    **dict.fromkeys(("either", "both", "negation", "binary", "minus"), 1),
    **{"power": 2, "superscript": 2, "call": 3},
}


def parse(text: str) -> Query:
    """Return the query of a text, or raise a QueryError that points at the error."""
    try:
        written = as_written(text)
        check_elements(written)
        query = replace(written, conditions=normal(written))
        check_conditions(query)
        check_kinds(query, None)
    except RecursionError:
        raise QueryError("the condition is nested too deeply.", text, Place(1, 1)) from None
    return query


def as_written(text: str) -> Query:
    """Return the query before its conditions are brought into normal form and checked."""
    if not isinstance(text, str):
        raise invalid("query", text, "a text such as 'PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 8 ms'")
    try:
        tree = _parser().parse(text)
        _check_depth(tree, text)
        query: Query = Builder(text).transform(tree)
    except UnexpectedInput as error:
        raise _misread(text, error) from None
    except VisitError as error:
        raise error.orig_exc from None
    return query


@functools.cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _check_depth(tree: Tree[Token], text: str) -> None:
    """Raise an error at the first condition that is nested too deeply. The search does not use recursion."""
    left = [(tree, 0, Place(1, 1))]
    while left:
        node, depth, place = left.pop()
        depth += _LEVELS.get("power" if _is_power(node) else node.data, 0)
        if depth > _DEEPEST:
            hint = f"at most {_DEEPEST} operations within each other: compute some of them as a column first"
            raise QueryError("this condition is nested too deeply.", text, place, hint=hint)
        joins = node.data in {"start", "where", "both"}
        inner = [child for child in node.children if isinstance(child, Tree)]
        left += [(child, depth, at(child.meta) if joins else place) for child in reversed(inner)]


def _is_power(node: Tree[Token]) -> bool:
    return any(isinstance(child, Token) and child.type == "POWER" for child in node.children)


def _misread(text: str, error: UnexpectedInput) -> QueryError:
    """Build the error that says in words what was found and what was expected."""
    parser = error.interactive_parser
    assert parser is not None
    terminals: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    place = _end(text) if ended else Place(error.line, error.column)
    expected = _in_words(terminals)
    if ended:
        said = "nothing here" if not text.strip() else "the query ends here"
        window = "a pattern needs a window, such as WITHIN 10 s" if "WITHIN" in terminals else None
        if re.search(r"\S--[^\n]*\bWITHIN\b", text, re.IGNORECASE):
            window = "-- begins a comment, up to the end of the line: write - -"
        return QueryError(f"{said}, expected {expected}.", text, place, hint=window)
    found = word_at(text, place)
    return QueryError(
        f"found {found!r}, expected {expected}.", text, place, hint=hint(found, text, place, terminals)
    )


def _in_words(terminals: set[str]) -> str:
    """Return the terminals as a list in words.

    >>> _in_words({"WHERE", "WITHIN"}), _in_words({"WORD", "QUOTED"}), _in_words({"COMMA", "RPAR"})
    ('WHERE or WITHIN', 'a name', 'a comma or )')
    """
    left, words = set(terminals), []
    for group, name in GROUPS:
        if group <= left:
            left -= group
            words.append(name)
    left -= HIDDEN if words or len(left) > 1 else set()
    left -= {"LPAR"} if "DOT" in left else set()
    words += [WORDS.get(terminal, terminal) for terminal in sorted(left)]
    *most, last = words or ["something else"]
    return f"{', '.join(most)} or {last}" if most else last


def _end(text: str) -> Place:
    """Return the place after the last word; comments do not count."""
    bare = re.sub(r"--[^\n]*", lambda comment: " " * len(comment.group()), text).rstrip()
    lines = bare.split("\n")
    return Place(len(lines), len(lines[-1]) + 1)
