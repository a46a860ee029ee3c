"""Decides whether shedding may invent matches (Section III-A).

Without negation and under the policy ``any`` a match needs its own rows and nothing else: discarding rows or runs
only loses matches. Under ``next`` and ``strict`` a discarded row no longer stands between two others, so a match
may be found that is not among all matches. Removing runs never invents a match. Discarding rows of negated elements
would invent matches too, but hybrid shedding does not discard them; strategies that discard rows of all types do.
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
