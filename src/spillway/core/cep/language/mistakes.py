"""Builds the errors for a query: the place, what is wrong there, what was expected, and what was probably meant.

>>> text = "PATTERN SEQ(A a)\\nWHERE a.idd = 3 WITHIN 1 s"
>>> raise unknown_name("attribute", "idd", ["id", "v"], text, Place(2, 9))
Traceback (most recent call last):
    ...
spillway.core.cep.language.mistakes.QueryError: line 2, column 9: no attribute 'idd', expected one of 'id', 'v'.
  WHERE a.idd = 3 WITHIN 1 s
          ^ Hint: did you mean 'id'?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from spillway.core.cep.language.syntax import Place
from spillway.errors import SpillwayError

_MANY = 12  # names that an error lists; if there are more, it gives only the nearest one
_LONG = 160  # characters of a line that an error shows


class QueryError(SpillwayError):
    """A query text that cannot be run. ``line`` and ``column`` are counted from 1."""

    def __init__(self, wrong: str, text: str, place: Place, *, hint: str | None = None) -> None:
        self.wrong, self.text, self.place = wrong, text, place
        super().__init__(
            f"line {place.line}, column {place.column}: {wrong}{_pointed(text, place)}", hint=hint
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes."""
        return _again, (self.wrong, self.text, self.place, self.hint)

    @property
    def line(self) -> int:
        """The line of the query's text."""
        return self.place.line

    @property
    def column(self) -> int:
        """The column within the line."""
        return self.place.column


def unknown_name(what: str, name: str, choices: Iterable[str], text: str, place: Place) -> QueryError:
    """Build the error for a name that is not one of the known names."""
    names = sorted(set(choices))
    listed = f", expected one of {', '.join(map(repr, names))}" if 0 < len(names) <= _MANY else ""
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else None
    return QueryError(f"no {what} {name!r}{listed}.", text, place, hint=hint)


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to a name, ignoring case, or None if none is close enough.

    >>> nearest("ID", ["id", "v"]), nearest("wher", ["WHERE", "WITHIN"]), nearest("x", ["id"])
    ('id', 'WHERE', None)
    """
    folded: dict[str, str] = {}
    for choice in choices:
        folded.setdefault(choice.casefold(), choice)
    found = difflib.get_close_matches(name.casefold(), folded, n=1)
    return folded[found[0]] if found else None


def _pointed(text: str, place: Place) -> str:
    """Return the line of the text with a caret below the column."""
    lines = text.split("\n")
    if not 1 <= place.line <= len(lines) or not text.strip():
        return ""
    line, column = lines[place.line - 1].rstrip(), place.column
    if len(line) > _LONG:
        start = max(0, column - _LONG // 2)
        line, column = (
            f"…{line[start : start + _LONG]}…" if start else f"{line[:_LONG]}…",
            column - start + (start > 0),
        )
    before = "".join(c if c == "\t" else " " for c in line[: column - 1])
    return f"\n  {line}\n  {before:<{column - 1}}^"


def _again(wrong: str, text: str, place: Place, hint: str | None) -> QueryError:
    return QueryError(wrong, text, place, hint=hint)
