"""Divides rows by key and side for two-way equality joins, so that kept rows still match (Section VI-C3).

Both sides' frequencies are known when the window is full: key g has L_g rows on the left and R_g on the right,
and the join has Σ L_g R_g results. Keys that are on one side only, and nulls, cannot match: they are shed first,
without loss. The others get l_g and r_g rows of a common budget n:

    output         maximise Σ l_g r_g, the results still found      (ours, the default)
    proportional   both sides and all keys at the same rate         (the paper)
    equal          the same number of rows for each key and side

with Σ (l_g + r_g) = n, 1 <= l_g <= L_g and 1 <= r_g <= R_g.

**The output rule.** k rows of one key find most results when both sides have the same number, so the k-th row
finds k/2 more, and from twice the smaller side on as many as the smaller side has: the more rows a key has, the
more results another row finds. So rows are not spread over keys but concentrated on few. Keys are kept whole in the
order of results per row, (L_g R_g - 1) / (L_g + R_g - 2), as many as fit, and one more key takes the remaining rows.

**Weights multiply.** Left rows have L_g / l_g, right rows R_g / r_g. The two sides are drawn independently, so Σ w w'
over the results found is an unbiased estimate of the number of all results, and Σ w w' f of the sum of any f over
them. (The number itself is known exactly from the frequencies.)

**Small budgets.** A key needs at least two rows. If the budget is below that, ``exceed`` decides as in
:mod:`~spillway.core.groups.rates`: either more rows than the budget are kept, or only some keys, all with the same
probability. The probability of a key is part of the weights of the left side alone, since both sides of a key are
kept or dropped together.

>>> found = allocate_join(np.array([100, 10, 5, 9]), np.array([100, 90, 0, 1]), 210)
>>> found.left, found.right, round(found.output_share, 3)
(array([100,   4,   0,   1]), array([100,   4,   0,   1]), 0.918)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Ints
from spillway.core.groups.random_order import draws, group_draws
from spillway.core.groups.rates import allocate
from spillway.core.groups.strata import names_of, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.table_checks import budget_of, require_new, require_table, taken
from spillway.core.random import mix
from spillway.errors import SpillwayError, invalid, unknown

JoinRule = Literal["output", "proportional", "equal"]
JOIN_RULES: tuple[str, ...] = get_args(JoinRule)
_LEFT, _RIGHT = 0x1EF7, 0x417


@dataclass(frozen=True, slots=True)
class JoinAllocation:
    """Rows of each key per side, the probability that a key has rows at all, and how the budget was met, in words."""

    left: Ints
    right: Ints
    output_share: float
    reason: str
    chance: float = 1.0


def allocate_join(
    left: Ints,
    right: Ints,
    budget: int,
    *,
    rule: JoinRule = "output",
    exceed: bool = True,
    order: Ints | None = None,
) -> JoinAllocation:
    """Divide a budget of rows among keys and sides, given how many rows each key has on each side."""
    if rule not in JOIN_RULES:
        raise unknown("rule", rule, JOIN_RULES)
    left, right = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
    if left.shape != right.shape or (left < 0).any() or (right < 0).any():
        raise invalid("left, right", (left.shape, right.shape), "one number of rows >= 0 for each key")
    order = np.arange(len(left)) if order is None else order
    matching = np.flatnonzero((left > 0) & (right > 0))
    L, R, ranks = left[matching], right[matching], order[matching]
    chance, reason = 1.0, f"{len(left) - len(matching)} of {len(left)} keys cannot match and go first"
    if 2 * len(L) > budget:
        keys = len(L) if exceed else budget // 2
        chosen = np.argsort(ranks, kind="stable")[:keys]
        rows = np.zeros((2, len(L)), dtype=np.int64)
        rows[:, chosen] = 1
        chance = keys / len(L)
        reason += f"; {budget} rows are less than two for each of {len(L)}: {keys} keep one on each side"
    elif rule == "output":
        rows = _gathered(L, R, budget, ranks)
    else:
        both = allocate(np.concatenate([L, R]), budget, rule=rule, order=np.concatenate([ranks, ranks]))
        rows = both.rows.reshape(2, -1)
    kept = np.zeros((2, len(left)), dtype=np.int64)
    kept[:, matching] = rows
    results = float((left.astype(np.float64) * right).sum())
    share = float((kept[0].astype(np.float64) * kept[1]).sum()) / results if results else 1.0
    return JoinAllocation(kept[0], kept[1], share, f"{reason}; {share:.3g} of the results are found.", chance)


def _gathered(L: Ints, R: Ints, budget: int, order: Ints) -> Ints:
    """Return the rows of the output rule: whole keys, and one that takes the remaining rows.

    If the next key does not fit, either it takes all remaining rows, or smaller keys are filled first: whichever
    finds more results.
    """
    need = L + R - 2
    worth = (L.astype(np.float64) * R - 1.0) / np.maximum(need, 1)
    ranked = np.lexsort((order, -worth))
    spare = min(budget, int((L + R).sum())) - 2 * len(L)
    choices = [_filled(L, R, ranked, spare, skip=skip) for skip in (False, True)]
    return max(choices, key=lambda rows: float((rows[0].astype(np.float64) * rows[1]).sum()))


def _filled(L: Ints, R: Ints, ranked: Ints, left: int, *, skip: bool) -> Ints:
    need, rows = L + R - 2, np.ones((2, len(L)), dtype=np.int64)
    while left > 0 and len(ranked):
        whole = np.cumsum(need[ranked]) <= left
        fits = ranked[: len(ranked) if whole.all() else int(np.argmin(whole))]
        rows[:, fits] = L[fits], R[fits]
        left -= int(need[fits].sum())
        rest = ranked[len(fits) :]
        ranked = rest[need[rest] <= left] if skip else rest[:0]
    others = np.flatnonzero((rows.sum(axis=0) < L + R) & (need > left))
    if left > 0 and len(others):
        k = left + 2  # both sides equal, as far as they have rows
        x = np.clip((k + 1) // 2, np.maximum(k - R[others], 1), np.minimum(L[others], k - 1))
        best = int(np.argmax(x * (k - x)))
        rows[:, others[best]] = x[best], k - x[best]
    return rows


def shed_join(
    left: pa.Table,
    right: pa.Table,
    *,
    on: str | Sequence[str],
    keep_ratio: float,
    rule: JoinRule = "output",
    salt: int = 0,
    key: str | Sequence[str] | None = None,
    weight: str = "weight",
    exceed: bool = True,
) -> tuple[pa.Table, pa.Table]:
    """Keep the given share of both sides' rows together, and add weights; a result's weight is their product.

    ``on`` is the column that both sides are joined on, or several; ``key`` is as in :func:`~.shed.shed`, on both
    sides.

    >>> orders = pa.table({"item": [1, 1, 2, 3, None], "order": range(5)})
    >>> prices = pa.table({"item": [1, 2, 2, 9], "price": [5.0, 6.0, 7.0, 8.0]})
    >>> kept, others = shed_join(orders, prices, on="item", keep_ratio=0.5)
    >>> sorted(kept["item"].to_pylist()), sorted(others["item"].to_pylist())
    ([1, 2], [1, 2, 2])
    """
    require_table(left, name="left")
    require_table(right, name="right")
    names = names_of("on", on, left)
    names_of("on", on, right)
    for table in (left, right):
        require_new("weight", weight, table)
    budget = budget_of(keep_ratio, left.num_rows + right.num_rows)
    strata = strata_of(_stacked(left, right, names), names)
    codes = strata.codes[: left.num_rows], strata.codes[left.num_rows :]
    sizes = [np.bincount(part, minlength=len(strata)).astype(np.int64) for part in codes]
    whole = np.ones(len(strata), dtype=np.bool_)
    for name in names:
        whole &= np.asarray(pc.is_valid(strata.labels[name]).to_numpy(), dtype=np.bool_)
    found = allocate_join(
        np.where(whole, sizes[0], 0),
        np.where(whole, sizes[1], 0),
        budget,
        rule=rule,
        exceed=exceed,
        order=group_draws(strata.labels, salt=salt),
    )
    sides = ((left, found.left, _LEFT, found.chance), (right, found.right, _RIGHT, 1.0))
    kept = []
    for (table, rows, side, chance), part, size in zip(sides, codes, sizes, strict=True):
        coins = draws(table, key, salt=mix(salt, side))
        at, weights = stratified(part, coins, sizes=size, rows=rows, chance=chance)
        kept.append(taken(table, at).append_column(weight, pa.array(weights)))
    return kept[0], kept[1]


def _stacked(left: pa.Table, right: pa.Table, names: list[str]) -> pa.Table:
    """Return the keys of both sides, one table below the other."""
    try:
        return pa.concat_tables([left.select(names), right.select(names)], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        kinds = [[str(side.schema.field(name).type) for name in names] for side in (left, right)]
        raise SpillwayError(
            f"on = {names!r} has types {kinds[0]} on the left and {kinds[1]} on the right.",
            hint="cast one side",
        ) from None
