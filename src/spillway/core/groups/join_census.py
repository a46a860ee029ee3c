"""Computes keep probabilities for the two inputs of an equality join on a stream (Section VI-C3).

Each input has its census. For all keys in either census, the expected rows L_g and R_g of both sides give l_g and
r_g of a common budget (:mod:`~spillway.core.groups.join_allocation`), and from them the probabilities l_g / L_g and
r_g / R_g. Both inputs compute this from the same published values, so they agree.

If one side has a key and the other side, all of whose keys are known, does not, the key cannot match and is shed
first. It still keeps a tenth of the common probability, because it may appear on the other side, and no weight can
compensate for a result that had no chance of being found. Keys that neither side knows are rare on both; they are
paid from the budget first, as in :mod:`~spillway.core.groups.census`.

>>> mine = Census().after([(1, 500), (2, 500)], arrived=1000)
>>> other = Census().after([(1, 500), (3, 500)], arrived=1000)
>>> found = ration_join(mine, other, keep_ratio=0.3, rows=1000, other_rows=1000)
>>> dict(zip(found.keys, found.chances, strict=True))
{1: 0.6..., 2: 0.03...}
"""

from __future__ import annotations

import numpy as np

from spillway.core.groups.census import Census, Ration, rest_chance
from spillway.core.groups.join_allocation import JoinRule, allocate_join

_ALL_KNOWN = 0.01  # share of rows of unknown keys below which an unknown key counts as absent
_OF_HOPELESS = 0.1


def ration_join(
    mine: Census,
    other: Census,
    *,
    keep_ratio: float,
    rows: float,
    other_rows: float,
    rule: JoinRule = "output",
    first: bool = True,
) -> Ration:
    """Return the probabilities of one input; ``first`` says which of the two it is, so that both divide alike."""
    if keep_ratio >= 1.0:
        return Ration()
    if not mine.keys or not other.keys:
        return Ration(rest=keep_ratio)
    keys = sorted({*mine.keys, *other.keys})
    sizes = [_sizes(keys, side, n) for side, n in ((mine, rows), (other, other_rows))]
    unknown = mine.rest * rows + other.rest * other_rows
    budget = keep_ratio * (rows + other_rows)
    rest = rest_chance(budget, unknown, rows + other_rows - unknown)
    left, right = sizes if first else sizes[::-1]
    found = allocate_join(left, right, max(0, int(budget - rest * unknown)), rule=rule, exceed=True)
    kept = found.left if first else found.right
    hopeless = other.rest < _ALL_KNOWN
    chances = np.minimum(1.0, kept / np.maximum(sizes[0], 1))
    chances = np.where(kept > 0, chances, keep_ratio * _OF_HOPELESS if hopeless else keep_ratio)
    known = set(mine.keys)
    listed = [(key, float(chance)) for key, chance in zip(keys, chances, strict=True) if key in known]
    return Ration(tuple(key for key, _ in listed), tuple(chance for _, chance in listed), rest)


def _sizes(keys: list[int], census: Census, rows: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    share = dict(zip(census.keys, census.shares.tolist(), strict=True))
    found = [0 if key not in share else max(1, round(share[key] * rows)) for key in keys]
    return np.array(found, dtype=np.int64)
