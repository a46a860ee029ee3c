"""The query language of patterns: reads a query, checks it against a schema, finds its key, prints it."""

from spillway.core.cep.language.functions import AGGREGATES, FUNCTIONS
from spillway.core.cep.language.mistakes import QueryError
from spillway.core.cep.language.parser import parse
from spillway.core.cep.language.partition_key import Correlation, correlation
from spillway.core.cep.language.query_text import expression_text, to_text
from spillway.core.cep.language.value_types import Kind, check, kinds

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
