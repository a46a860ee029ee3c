"""Estimates what a batch costs: its fixed time, the time of a kept and of a dropped row, and how slow the machine is.

The time of a batch with n rows of which k are kept is modelled as

    busy = o + σ (F + s (n - k) + c k)                                      F, s, c > 0

o is the part that Spark reports apart because it does not depend on rows (planning, log writes); it is measured and
needs no model. F, s and c are the prices of the query, σ is the pace of the machine;
:mod:`~spillway.core.control.pace_filter` separates them. The result is the costs at the current pace,
o + σF, σs and σc, and how certain the cost of a row is.

**What the data cannot show.** Batches of one size do not show how F and c share their time, small ones
do not show c, and without any drop nothing is known about s. Then the estimates stay as they were: at first the cold
values, with an uncertainty that leaves c free within a factor of fifty, later what larger batches have shown.

**Bounds.** s is at most c; c is never zero. A batch without rows shows only F and the pace. A run begins with an
unknown pace (``begin_run``). Impossible measurements are ignored.

=======  ==========================================================
symbol   meaning
=======  ==========================================================
F        ``fixed_s``, time per batch regardless of its size, with o
s        ``skip_s``, time per row that is read and dropped
c        ``cost_s``, time per row that is kept
σ        ``pace``
n, k     rows that arrived, rows kept
=======  ==========================================================

>>> model = CostModelConfig().build()
>>> for rows in (20_000, 60_000, 30_000, 80_000, 40_000, 10_000) * 3:
...     costs = model.update(arrived_rows=rows, kept_rows=rows, busy_s=0.3 + 12e-6 * rows)
>>> round(costs.fixed_s, 2), round(costs.cost_s * 1e6)
(0.3, 12)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from spillway.core.checks import require_number
from spillway.core.control.pace_filter import PaceFilter, PaceFilterConfig, PaceFilterState
from spillway.core.state.records import from_snapshot, to_snapshot

_OVERHEADS = 9  # batches over which the median of o is taken
_FIXED_DOUBT, _ROW_DOUBT = 0.9, 4.0  # of ln F and ln c at first: factors of 3 and of 50 are not unusual


@dataclass(frozen=True, slots=True)
class Costs:
    """The parameters of a batch's time, how certain the cost of a row is, and the pace, which all costs include."""

    fixed_s: float
    cost_s: float
    skip_s: float
    spread: float = 0.0
    pace: float = 1.0

    def busy_s(self, arrived_rows: float, kept_rows: float) -> float:
        """Return how long a batch should take.

        >>> Costs(fixed_s=0.25, cost_s=1e-5, skip_s=1e-6).busy_s(arrived_rows=100_000, kept_rows=50_000)
        0.8
        """
        dropped = max(arrived_rows - kept_rows, 0.0)
        return self.fixed_s + self.skip_s * dropped + self.cost_s * kept_rows


def cost_fields(costs: Costs | None) -> dict[str, float]:
    """Return the fields of a sample that are about costs; none before a row has been timed.

    >>> cost_fields(None), cost_fields(Costs(fixed_s=0.3, cost_s=1e-5, skip_s=1e-6))["cost_s"]
    ({}, 1e-05)
    """
    return {} if costs is None else asdict(costs)


@dataclass(frozen=True, kw_only=True)
class CostModelConfig:
    """The costs assumed before the first batch, and how things change; see :class:`PaceFilterConfig`."""

    cold_fixed_s: float = 0.3
    cold_cost_s: float = 10e-6
    cold_skip_s: float = 0.5e-6
    noise: float = 0.06
    pace_wander: float = 0.06
    forgetting: float = 0.02

    def __post_init__(self) -> None:
        require_number("cold_fixed_s", self.cold_fixed_s, 0.0, above=True, hint="seconds a batch, as 0.3")
        require_number("cold_cost_s", self.cold_cost_s, 0.0, above=True, hint="seconds a row, as 10e-6")
        require_number("cold_skip_s", self.cold_skip_s, 0.0, above=True, hint="seconds a row, as 0.5e-6")
        for name in ("noise", "pace_wander", "forgetting"):
            require_number(name, getattr(self, name), 0.001, 1.0, hint="a share, as 0.05")

    def build(self, state: Mapping[str, Any] | None = None) -> CostModel:
        """Return a new model, or one restored from a snapshot."""
        return CostModel(self, state)


@dataclass
class CostModelState(PaceFilterState):
    """The filter's state, the times o of the last batches, and the most rows seen in a batch."""

    overheads_s: list[float] = field(default_factory=list)
    rows_seen: float = 0.0


class CostModel:
    """Online estimate of fixed, per-row and per-dropped-row time, and of the pace, from whole batches."""

    kind = "cost_model"
    version = 4

    def __init__(self, config: CostModelConfig, state: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.state = (
            CostModelState()
            if state is None
            else from_snapshot(CostModelState, state, kind=self.kind, version=self.version)
        )
        self._filter = PaceFilter(
            PaceFilterConfig(
                fixed_s=config.cold_fixed_s,
                row_s=config.cold_cost_s,
                skip_share=min(config.cold_skip_s / config.cold_cost_s, 1.0),
                fixed_doubt=_FIXED_DOUBT,
                row_doubt=_ROW_DOUBT,
                noise=config.noise,
                pace_wander=config.pace_wander,
                forgetting=config.forgetting,
            ),
            self.state,
        )

    @property
    def costs(self) -> Costs | None:
        """The estimates, None before a batch with rows has been seen."""
        return self._costs() if self.state.rows_seen > 0.0 else None

    def begin_run(self) -> Costs | None:
        """Record that the query starts anew, as after a crash, and return what its first batch should cost."""
        self._filter.begin_run()
        return self.costs

    def update(
        self,
        *,
        arrived_rows: float,
        kept_rows: float,
        busy_s: float,
        overhead_s: float = 0.0,
    ) -> Costs | None:
        """Add a finished batch and return the new estimates."""
        if not _plausible(arrived_rows, kept_rows, busy_s) or not math.isfinite(overhead_s):
            return self.costs
        k = float(round(kept_rows))
        d = float(max(round(arrived_rows) - k, 0.0))
        o = min(max(overhead_s, 0.0), 0.98 * busy_s)
        state = self.state
        state.overheads_s = [*state.overheads_s[1 - _OVERHEADS :], o]
        state.rows_seen = max(state.rows_seen, k)
        self._filter.update(kept=k, dropped=d, time_s=busy_s - o)
        return self.costs

    def snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-ready dict, from which ``build(state)`` continues exactly."""
        return to_snapshot(self.state, kind=self.kind, version=self.version)

    def _costs(self) -> Costs:
        prices = self._filter.prices()
        return Costs(
            fixed_s=prices.fixed_s + (median(self.state.overheads_s) if self.state.overheads_s else 0.0),
            cost_s=prices.row_s,
            skip_s=prices.skip_s,
            spread=prices.row_doubt,
            pace=self._filter.pace,
        )


def _plausible(arrived_rows: float, kept_rows: float, busy_s: float) -> bool:
    """Return whether a batch is possible: from a microsecond to a day, and at least a tenth of a ns per row."""
    finite = all(math.isfinite(x) and x >= 0.0 for x in (arrived_rows, kept_rows, busy_s))
    return finite and 1e-6 <= busy_s <= 1e5 and max(arrived_rows, kept_rows) * 1e-10 <= busy_s
