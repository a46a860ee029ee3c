"""Implements online adaptive stratified reservoir sampling (OASRS), a baseline: equal reservoirs for all groups.

Time is cut into intervals. In each interval every group that appears gets a reservoir, and all have the same
capacity:

    capacity   k = max(1, ⌊b N / max(G, G')⌋)       G groups seen in this interval, G' in the one before
    weight     max(1, N_g / k)                      how many rows arrived for each one in the reservoir

The capacity shrinks while groups appear. The rows of a reservoir are the first in the random order, so a shrunk
reservoir is the same sample as one that was small from the start. Small groups don't fill their reservoirs, and the
unused places are lost. There the rules of :mod:`~spillway.core.groups.rates` do better; besides, they can use how
much each group varies.

>>> rides = pa.table({"id": range(100), "route": ["busy"] * 95 + ["rare"] * 5})
>>> kept = OasrsConfig(keep_ratio=0.2).build().shed(rides, by="route")
>>> kept.group_by("route").aggregate([("weight", "count"), ("weight", "sum")]).to_pydict()
{'route': ['busy', 'rare'], 'weight_count': [10, 5], 'weight_sum': [95.0, 5.0]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.groups.random_order import draws
from spillway.core.groups.strata import strata_of
from spillway.core.groups.stratified import stratified
from spillway.core.groups.table_checks import budget_of, require_new, require_ratio
from spillway.core.state.records import from_snapshot, to_snapshot
from spillway.errors import invalid


@dataclass(frozen=True, slots=True)
class OasrsConfig:
    """The share of an interval's rows that all reservoirs together may hold."""

    keep_ratio: float

    def __post_init__(self) -> None:
        require_ratio("keep_ratio", self.keep_ratio)

    def build(self, state: Mapping[str, Any] | None = None) -> Oasrs:
        """Return a new sampler, or one restored from a snapshot."""
        return Oasrs(self, state)


@dataclass(slots=True)
class OasrsState:
    """State of OASRS: how many groups the last interval had."""

    groups: int = 0


class Oasrs:
    """Samples one interval after the other."""

    kind = "oasrs"
    version = 1

    def __init__(self, config: OasrsConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            OasrsState()
            if state is None
            else from_snapshot(OasrsState, state, kind=self.kind, version=self.version)
        )
        if self.state.groups < 0:
            raise invalid("state.groups", self.state.groups, "0 or more")

    def shed(
        self,
        table: pa.Table,
        *,
        by: str | Sequence[str],
        salt: int = 0,
        key: str | Sequence[str] | None = None,
        weight: str = "weight",
    ) -> pa.Table:
        """Return the rows in the reservoirs at the end of an interval, with weights."""
        require_new("weight", weight, table)
        strata = strata_of(table, by)
        n = budget_of(self.config.keep_ratio, table.num_rows)
        k = max(1, n // max(len(strata), self.state.groups, 1))
        self.state.groups = len(strata)
        order = draws(table, key, salt=salt)
        rows = np.minimum(strata.sizes, k)
        kept, weights = stratified(strata.codes, order, sizes=strata.sizes, rows=rows)
        return table.take(pa.array(kept)).append_column(weight, pa.array(weights))

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)
