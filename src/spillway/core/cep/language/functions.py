"""The functions that a query may call, and the reserved words."""

from __future__ import annotations

from typing import Final

from spillway.core.cep.language.syntax import Policy

# How many arguments each function takes; None stands for two or more.
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
# Aggregates over the rows of a repeated variable.
AGGREGATES: Final = ("avg", "sum", "min", "max", "count")
# Written as functions, but other nodes in the tree.
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
