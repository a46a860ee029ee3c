"""Draws a pilot: rows of which only the value is read, to learn how much each group varies before sampling.

The pilot is as large as the sample (the paper's T_w has the size b too, Algorithm 2), but no group has fewer than two
pilot rows if it has two. The pilot is drawn independently of the sample, with its own random numbers. If it consisted
of the sample's first rows, the sizes n_g would depend on the same values that are then averaged, and the average
would be biased: a pilot that happens to be low often varies little too, and then no further rows correct it.

>>> rides = pa.table({"id": range(20), "route": [n % 10 == 0 for n in range(20)], "fare": [n % 7 for n in range(20)]})
>>> len(pilot_spread(rides, by="route", value="fare", keep_ratio=0.02))
2
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.random_order import draws
from spillway.core.groups.rates import allocate
from spillway.core.groups.spread import Spread, SpreadConfig, group_keys
from spillway.core.groups.strata import Strata, numbers_of, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.table_checks import budget_of, require_table
from spillway.core.random import mix

PILOT = 0x9107  # salt that makes a pilot's draws independent of the sample's


def pilot(codes: Ints, coins: Ints, *, sizes: Ints, budget: int) -> Ints:
    """Return the numbers of the rows that are in the pilot."""
    rows = allocate(sizes, budget, rule="equal", at_least=2).rows
    return stratified(codes, coins, sizes=sizes, rows=rows)[0]


def pilot_spread(
    table: pa.Table,
    *,
    by: str | Sequence[str],
    value: str,
    keep_ratio: float,
    key: str | Sequence[str] | None = None,
    salt: int = 0,
) -> Spread:
    """Return the variation of a table's groups, learned from a pilot.

    The result is an argument of :func:`~.shed.shed` and :func:`~.estimate.estimate`. ``shed`` with the same arguments
    learns the same by itself; call this function to estimate with it too.
    """
    require_table(table)
    budget = budget_of(keep_ratio, table.num_rows)
    return learned(table, strata_of(table, by), numbers_of("value", value, table), budget, key, salt)


def learned(
    table: pa.Table, strata: Strata, values: Floats, budget: int, key: str | Sequence[str] | None, salt: int
) -> Spread:
    """Return the variation of a table's groups, learned from a pilot."""
    spread = SpreadConfig().build()
    coins = draws(table, key, salt=mix(salt, PILOT))
    at = pilot(strata.codes, coins, sizes=strata.sizes, budget=budget)
    spread.learn(group_keys(strata.labels), codes=strata.codes[at], values=values[at])
    return spread
