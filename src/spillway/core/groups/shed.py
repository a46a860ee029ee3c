"""Sheds rows of groups of a pyarrow Table in memory, as ``Spillway.groups`` does on a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spillway.core.groups.even_sample import evenly, places_along
from spillway.core.groups.pilot import learned
from spillway.core.groups.random_order import draws, group_draws
from spillway.core.groups.rates import RULES, Allocation, Rule, allocate
from spillway.core.groups.spread import Spread, group_keys
from spillway.core.groups.strata import numbers_of, strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.table_checks import budget_of, require_new, require_table, taken
from spillway.errors import unknown

METADATA = b"spillway.groups"  # key in the schema's metadata for a JSON record of what was done


def shed(
    table: pa.Table,
    *,
    by: str | Sequence[str],
    keep_ratio: float,
    rule: Rule = "variance",
    value: str | None = None,
    salt: int = 0,
    key: str | Sequence[str] | None = None,
    weight: str = "weight",
    at_least: int = 1,
    exceed: bool = True,
    spread: Spread | None = None,
    along: str | None = None,
) -> pa.Table:
    """Keep the given share of a table's rows, some of each group, and add the weight of each kept row.

    - ``by`` is the column that defines the groups, or several; nulls are a group.
    - ``rule`` says how many rows each group gets: ``"proportional"``, ``"equal"`` or ``"variance"``.
    - ``value`` names the column whose variation the variance rule uses; without it that rule divides equally.
    - ``key`` names the columns that distinguish a row from the others; by default all columns.
    - ``at_least`` is how many rows each group keeps. If that is more than ``keep_ratio`` allows, with ``exceed``
      more rows are kept, and without it groups may be missing.
    - ``spread`` is the learned variation of the groups. By default it is learned from a pilot: as many rows as
      are to be kept, drawn independently of the sample, of which only ``value`` is read.
    - ``along`` names a column of times or other numbers along which the rows of a group are drawn evenly, because
      neighbours are often similar. By default they are drawn at random.

    The schema's metadata hold, under ``spillway.groups``, the numbers of rows and groups and the rule's reason.

    >>> rides = pa.table({"id": range(1000), "route": ["rare" if n % 500 == 0 else "busy" for n in range(1000)]})
    >>> kept = shed(rides, by="route", keep_ratio=0.01)
    >>> kept.group_by("route").aggregate([("weight", "count"), ("weight", "sum")]).to_pydict()
    {'route': ['rare', 'busy'], 'weight_count': [2, 8], 'weight_sum': [2.0, 998.0]}
    """
    require_table(table)
    budget = budget_of(keep_ratio, table.num_rows)
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    require_new("weight", weight, table)
    strata = strata_of(table, by)
    values = None if value is None else numbers_of("value", value, table)
    order = draws(table, key, salt=salt)
    places = None if along is None else places_along(along, table, order)
    ties = group_draws(strata.labels, salt=salt)
    variation = None
    if rule == "variance" and values is not None and len(strata):
        if spread is None:
            spread = learned(table, strata, values, budget, key, salt)
        variation = spread.variation(group_keys(strata.labels))
    found = allocate(
        strata.sizes, budget, rule=rule, variation=variation, at_least=at_least, exceed=exceed, order=ties
    )
    drawn = {"sizes": strata.sizes, "rows": found.rows}
    if places is None:
        kept, weights = stratified(strata.codes, order, **drawn, chance=found.chance)
    else:
        kept, weights = evenly(strata.codes, order, **drawn, chance=found.chance, places=places)
    answer = taken(table, kept).append_column(weight, pa.array(weights))
    return answer.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: _told(table, found)})


def group_chance(table: pa.Table) -> float:
    """Return the probability that a group of a shed table has rows: 1, unless the budget was below one row each.

    >>> kept = shed(pa.table({"g": [0, 1, 2, 3]}), by="g", keep_ratio=0.5, exceed=False)
    >>> group_chance(kept)
    0.5
    """
    told = (table.schema.metadata or {}).get(METADATA)
    return 1.0 if told is None else float(json.loads(told).get("group_chance", 1.0))


def _told(table: pa.Table, found: Allocation) -> bytes:
    told = {
        "rows": table.num_rows,
        "kept_rows": int(np.sum(found.rows)),
        "budget_rows": found.budget,
        "groups": len(found.rows),
        "missing_groups": found.missing,
        "group_chance": found.chance * group_chance(table),  # includes earlier shedding
        "reason": found.reason,
    }
    return json.dumps(told).encode()
