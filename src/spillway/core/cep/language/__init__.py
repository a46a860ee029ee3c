"""The language of patterns: read a query, check it against a schema, find its key, print it."""

from spillway.core.cep.language.correlation import Correlation, correlation
from spillway.core.cep.language.functions import AGGREGATES, FUNCTIONS
from spillway.core.cep.language.kinds import Kind, check, kinds
from spillway.core.cep.language.mistakes import QueryError
from spillway.core.cep.language.printing import expression_text, to_text
from spillway.core.cep.language.reading import parse

__all__ = [
    "AGGREGATES",
    "FUNCTIONS",
    "Correlation",
    "Kind",
    "QueryError",
    "check",
    "correlation",
    "expression_text",
    "kinds",
    "parse",
    "to_text",
]
