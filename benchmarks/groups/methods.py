"""The three ways of shedding a window, all with the same number of processed rows.

*cod* goes first: a share of the rows by one of the rules, but at least one row a group. What it knows of how much the
groups vary it has learned from the rows that it kept of earlier windows: no row is read that is not processed, and in
the first window of a span it knows nothing. The others then get as many rows as it kept, even where that is more than
the share, because there are more groups than that.

*uniform* keeps exactly that number. *oasrs* has reservoirs of one capacity k for all groups, and Σ min(N_g, k) is
seldom the number wanted. So a window is answered twice, with the largest capacity that is within it and with one
more, and the two errors are weighted such that the mean number of rows is as wanted. Its interval is the whole
window, which can only help it: a window of several intervals would have several smaller samples of each group.

Of the rows of a group cod draws its own evenly over time, and the others draw theirs at random. Of a group of which
cod and oasrs both keep one row, that is a row at random for both, and they get the same one: a difference would be
chance alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.groups.windows import Window
from spillway.core.arrays import Floats, Ints
from spillway.core.groups import (
    OasrsConfig,
    Rule,
    Spread,
    SpreadConfig,
    estimate,
    group_keys,
    shed,
    strata_of,
    uniform,
)
from spillway.core.random import mix

KEY = "row"
LEVEL = 0.95


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What concept-driven shedding says of a window: the rows it kept, and an interval for each of its groups."""

    kept: pa.Table
    low: Floats
    high: Floats
    sampled: Ints

    def covered(self, window: Window) -> tuple[Floats, Floats]:
        """Return whether each group's interval contains the truth, and whether some of its rows were shed."""
        slack = 1e-9 * np.abs(window.truth)
        inside = (self.low - slack <= window.truth) & (window.truth <= self.high + slack)
        return inside.astype(np.float64), (self.sampled < window.sizes).astype(np.float64)


@dataclass(eq=False, kw_only=True)
class Cod:
    """Concept-driven shedding of the windows of one span, in their order."""

    keep_ratio: float
    rule: Rule = "variance"
    salt: int = 0
    spread: Spread = field(default_factory=lambda: SpreadConfig().build())

    def keep(self, window: Window) -> pa.Table:
        """Shed the next window, and learn from the rows that are kept."""
        kept = self._shed(window)
        self._learn(kept)
        return kept

    def answer(self, window: Window) -> Answer:
        """Do the same, and give an interval for each group, from what was known before."""
        kept = self._shed(window)
        found = estimate(kept, by="group", value="value", level=LEVEL, spread=self.spread, along="time")
        self._learn(kept)
        at = window.places(found["group"].to_numpy())
        low, high = (window.scattered(at, found[name].to_numpy()) for name in ("low", "high"))
        sampled = window.scattered(at, found["sampled"].to_numpy(), nothing=0)
        return Answer(kept=kept, low=low, high=high, sampled=sampled.astype(np.int64))

    def _shed(self, window: Window) -> pa.Table:
        return shed(
            window.table,
            by="group",
            keep_ratio=self.keep_ratio,
            rule=self.rule,
            value="value",
            salt=salt_of(window, self.salt),
            key=KEY,
            spread=self.spread,
            along="time",
        )

    def _learn(self, kept: pa.Table) -> None:
        strata = strata_of(kept, "group")
        values = np.asarray(kept["value"].to_numpy())
        self.spread.learn(group_keys(strata.labels), codes=strata.codes, values=values)


def keep_uniform(window: Window, rows: int, salt: int) -> pa.Table:
    """Return so many rows of a window, each as likely."""
    return uniform(window.table, keep_ratio=rows / window.rows, salt=salt_of(window, salt), key=KEY)


def keep_oasrs(window: Window, capacity: int, salt: int) -> pa.Table:
    """Return the rows in reservoirs of this capacity."""
    ratio = min(1.0, capacity * len(window.groups) / window.rows)
    sampler = OasrsConfig(keep_ratio=ratio).build()
    return sampler.shed(window.table, by="group", salt=salt_of(window, salt), key=KEY)


def with_lone_rows(kept: pa.Table, other: pa.Table, window: Window) -> pa.Table:
    """Return what a method kept of a window, but of groups of which both kept a single row that of the other."""
    places = [window.places(table["group"].to_numpy()) for table in (kept, other)]
    lone = np.logical_and(*(np.bincount(at, minlength=len(window.groups)) == 1 for at in places))
    mine, theirs = (pa.array(lone[at]) for at in places)
    return pa.concat_tables([kept.filter(pc.invert(mine)), other.filter(theirs)])


def salt_of(window: Window, salt: int) -> int:
    """Return the salt of one window: windows that overlap draw apart."""
    return mix(salt, round(1e6 * window.start_s))


def capacities(sizes: Ints, rows: int) -> dict[int, float]:
    """Return the capacities that hold this many rows on average, with the share of each.

    >>> capacities(np.array([10, 3, 1]), 6)  # 2 rows a group are 5 in all, 3 are 7
    {2: 0.5, 3: 0.5}
    >>> capacities(np.array([10, 3, 1]), 7), capacities(np.array([10, 3, 1]), 1)
    ({3: 1.0}, {1: 1.0})
    """
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(sizes, middle).sum() <= rows else (low, middle - 1)
    held, more = (int(np.minimum(sizes, k).sum()) for k in (low, low + 1))
    if held >= rows or held == more:
        return {low: 1.0}
    share = (rows - held) / (more - held)
    return {low: 1.0 - share, low + 1: share}
