"""Algorithm 5, utility: compares more where matches are worth more (Section 5.3).

Rows have types, and types have utilities V(z), which the user gives. A match is worth the larger of its two rows'
utilities, or their mean. Each type of arriving row gets a fraction of its own, r_(i,z), so that the matches found are
worth most: a knapsack (:mod:`spillway.core.join.selection.knapsack`). This needs u_(i,z), what a comparison of a row
of type z with window i is worth.

**Deviation.** The paper leaves open how u_(i,z) is found. Rows of rare types are few, and those that are processed in
full fewer still, so u is computed from the counts of all comparisons:

    u_(i,z) = o_i · g_(i,z),    g_(i,z) = m_(i,z) · e_(i,z)

    m_(i,z)   matches of type z over those that its comparisons would have had at o_(i,j): 1 if types match alike
    e_(i,z)   mean worth of a match of type z

Both are shrunk towards the values they would have if types had no influence, with the weight of ``TRUST`` matches.
And m counts only as far as it exceeds random variation: matches come in clusters, many for a row whose items are
popular, so M matches are as informative as about M / ``CLUSTER`` independent ones. One standard error,
√(``CLUSTER`` / M), is taken off m towards 1.

======  ==================================================================
symbol  meaning
======  ==================================================================
V(z)    ``values``: utility of a row of type z
u_i,z   worth per comparison of a row of type z with window i
g_i,z   worth of a match of such a row with window i: u_i,z / o_i
o_i,j   matches per comparison with basic window j; o_i their mean
======  ==================================================================

>>> worth = Utility("kind", {"security": 3.0, "sport": 1.0})
>>> worth.of("max").tolist()
[[3.0, 3.0, 3.0], [3.0, 1.0, 1.0], [3.0, 1.0, 0.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from spillway.core.arrays import Floats
from spillway.core.checks import require_number, require_whole
from spillway.core.inlined import lent
from spillway.core.join.access.matches import Matches
from spillway.core.join.meetings import Meetings
from spillway.core.join.selection.range_selection import Chooser
from spillway.core.join.window_store import Store
from spillway.core.kernel import kernel
from spillway.errors import invalid, unknown

Function = Literal["max", "mean"]
TRUST = 100.0  # matches
CLUSTER = 40.0  # matches


@dataclass(frozen=True)
class Utility:
    """The column that holds a row's type, what the types are worth, and what a match of two is worth.

    Types that are not listed, and null, are worth ``otherwise``.
    """

    type: str
    values: Mapping[str | int, float] = field(hash=False)
    function: Function = "max"
    otherwise: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or not self.type:
            raise invalid("type", self.type, "the name of a column")
        if not self.values or not isinstance(self.values, Mapping):
            raise invalid(
                "values", self.values, "a utility for each type, such as {'alarm': 5.0, 'notice': 1.0}"
            )
        kinds = {str if isinstance(name, str) else type(name) for name in self.values}
        if kinds not in ({str}, {int}):  # a column holds the one or the other
            raise invalid("values", dict(self.values), "types that are all strings or all whole numbers")
        for name, value in self.values.items():
            if isinstance(name, int):
                require_whole("values, type", name, -(2**63), 2**63 - 1)
            require_number(f"values[{name!r}]", value, 0.0)
        require_number("otherwise", self.otherwise, 0.0)
        if self.function not in ("max", "mean"):
            raise unknown("function", self.function, ("max", "mean"))

    @property
    def codes(self) -> int:
        """How many types there are; the last one stands for all types that are not listed."""
        return len(self.values) + 1

    def of(self, function: Function | None = None) -> Floats:
        """Return what a match of each two types is worth."""
        V = np.array([*map(float, self.values.values()), self.otherwise])
        largest = (function or self.function) == "max"
        return np.asarray(np.maximum.outer(V, V) if largest else np.add.outer(V, V) / 2.0)


@kernel
def _tally(
    firsts: Any, partners: Any, full: Any, all_count: bool, side: Any, row: Any, types: Any, other_types: Any,
    first: int, other_first: int, table: Any, seen: Any, matched: Any, gained: Any,
) -> None:  # fmt: skip
    types, other_types = lent(types), lent(other_types)
    for k in range(len(side)):
        s = side[k]
        own = types[row[k] - first] if s == 0 else other_types[row[k] - other_first]
        seen[s, own] += 1
        if not (all_count or full[k]):
            continue
        for m in range(firsts[k], firsts[k + 1]):
            other = other_types[partners[m] - other_first] if s == 0 else types[partners[m] - first]
            matched[1 - s, own] += 1
            gained[1 - s, own] += table[own, other]


class Worth:
    """Learns g_(i,z) from what was compared and what matched."""

    def __init__(self, utility: Utility, memory: float, most: int) -> None:
        self.table, self.memory = utility.of(), memory
        types = utility.codes
        self.compared = np.zeros((2, types, most))
        self.matched, self.gained, self.seen = np.zeros((3, 2, types))

    def tally(
        self, stores: tuple[Store, Store], meetings: Meetings, matches: Matches, chooser: Chooser, full: Any,
        *, all_count: bool,
    ) -> None:  # fmt: skip
        """Count rows by side and type, the comparisons a chooser has noted, and matches with what they are worth."""
        left, right = stores
        firsts, partners, _ = matches.found
        self.compared += chooser.met
        _tally(
            *(firsts, partners, full, all_count, meetings.side, meetings.row, left.types, right.types),
            *(left.first, right.first, self.table, self.seen, self.matched, self.gained),
        )

    def step(self, periods: int = 1) -> None:
        """Let old counts weigh less, by how many periods have passed."""
        for counts in (self.compared, self.matched, self.gained, self.seen):
            np.multiply(counts, self.memory**periods, out=counts)

    def estimate(self, density: Floats) -> Floats:
        """Return g_(i,z), with o_(i,j) as ``density``."""
        expected = np.einsum("izj,ij->iz", self.compared, density)
        more = (self.matched + TRUST) / (expected + TRUST)
        error = 1.0 + np.sqrt(CLUSTER / (self.matched + TRUST))
        more /= np.clip(more, 1.0 / error, error)
        shares = self.seen / np.maximum(1e-300, self.seen.sum(axis=1, keepdims=True))
        each = (self.gained + TRUST * (shares @ self.table)) / (self.matched + TRUST)
        return np.asarray(more * each)
