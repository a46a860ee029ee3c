"""The functions that a query may call, and the words that have a meaning of their own."""

from __future__ import annotations

from typing import Final

from spillway.core.cep.language.syntax import Policy

# How many values each takes; None is any number from two on.
FUNCTIONS: Final[dict[str, int | None]] = {
    "abs": 1,
    "sqrt": 1,
    "exp": 1,
    "log": 1,
    "log10": 1,
    "floor": 1,
    "ceil": 1,
    "round": 1,
    "sign": 1,
    "least": None,
    "greatest": None,
    "avg": None,
    "seconds": 2,
}
# Over the rows of a repeated variable.
AGGREGATES: Final = ("avg", "sum", "min", "max", "count")
# Written as functions, but in the tree something else.
SYNONYMS: Final = ("sum", "min", "max", "pow")

KEYWORDS: Final = (
    *("PATTERN", "SEQ", "NEG", "NOT", "WHERE", "AND", "OR", "IN", "TRUE", "FALSE"),
    *("WITHIN", "INCLUSIVE", "UNDER"),
)
POLICIES: Final[dict[Policy, str]] = {
    "any": "skip_till_any_match",
    "next": "skip_till_next_match",
    "strict": "strict_contiguity",
}
