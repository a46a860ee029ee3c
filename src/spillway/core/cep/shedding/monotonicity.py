"""Whether shedding may invent matches (Section III-A).

Without negation and under the policy ``any`` a match needs its own rows and nothing else: whoever loses rows or
runs loses matches and gains none. Under ``next`` and ``strict`` a row that is discarded no longer stands between
two others, and a match may come out that is none. Removing runs never invents a match. Negation would be as bad,
but rows of negated elements are not discarded by hybrid shedding; strategies that discard rows of all types do
invent matches.
"""

from __future__ import annotations

from spillway.core.cep.language.syntax import Query


def may_invent(query: Query) -> str | None:
    """Return in words why shedding events may invent matches of a query, or None if it cannot."""
    if query.policy != "any":
        return f"under the policy {query.policy!r} a discarded row no longer stands between two others"
    negated = [element.variable for element in query.elements if element.negated]
    if negated:
        return f"a row of {', '.join(negated)} that is dropped no longer forbids a match"
    return None
