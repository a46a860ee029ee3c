"""A pilot: rows of which only the value is read, to learn how much each group varies before it is sampled.

It is as large as the sample (the paper's T_w has the size b too, Algorithm 2), but no group has fewer than two
rows if it has two. Its rows are drawn apart from the sample, by coins of their own. Were they the sample's first
rows, its sizes n_g would depend on the very values that are then averaged, and the average would lean: a pilot
that happens to be low often varies little too, and asks for no more rows that would put it right.
"""

from __future__ import annotations

from spillway.core.groups.rates import allocate
from spillway.core.groups.strata import Ints
from spillway.core.groups.stratified import stratified

PILOT = 0x9107  # what sets the coins of pilots apart


def pilot(codes: Ints, coins: Ints, *, sizes: Ints, budget: int) -> Ints:
    """Return the numbers of the rows that are in the pilot."""
    rows = allocate(sizes, budget, rule="equal", at_least=2).rows
    return stratified(codes, coins, sizes=sizes, rows=rows)[0]
