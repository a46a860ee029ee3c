"""The virtual machine: this core, made slower until the paper's join just fits at 100 rows a second.

The work of a second is what its rows and its units cost on this core (:mod:`~benchmarks.join.speed`), times S:

    S (rows c_row + units c_unit)  <=  1 s

    S = 1 / (200 c_row + 400,000 c_merge)         100 rows a second on each side, 20 s windows, an overlap join

So shedding starts just above 100 rows a second, and at 500 about 0.04 of the comparisons can be made. The scan of the
paper merges sorted items for each comparison, and that is what a comparison costs here; with the bit sets of our
scan it would be 40 times less, and rows, which cost the same, 40 times more in proportion. That is what real time
shows. For an index c_unit is the cost of a lookup or a posting.

A row that is dropped at the input costs nothing, one that is not costs c_row, whatever it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.join.scenario import Kind, Setting, selection
from benchmarks.join.speed import Cost, Timing, cost_of

START_RATE = 100.0
START = Setting(rate=START_RATE)


@dataclass(frozen=True)
class Machine:
    """Costs by kind of join, and for some kinds those of a join that drops rows."""

    costs: Mapping[str, Cost]

    @property
    def slowdown(self) -> float:
        """How many times slower than this core it is."""
        cost = self.costs["overlap_scan"]
        return 1.0 / (2.0 * START_RATE * cost.row_s + START.demand_per_s * cost.unit_s)

    def cost(self, kind: str, *, dropping: bool = False) -> Cost:
        """Return what a kind of join costs here; a join that drops rows has no use for basic windows."""
        return self.costs.get(f"{kind}.random", self.costs[kind]) if dropping else self.costs[kind]

    def budget(self, cost: Cost, rows: float, seconds: float = 1.0) -> float:
        """Return the units that can be paid for in so many seconds, beside so many rows."""
        return max(0.0, seconds / self.slowdown - rows * cost.row_s) / cost.unit_s

    def seconds(self, cost: Cost, rows: float, units: float) -> float:
        """Return the virtual time that rows and units take."""
        return self.slowdown * (rows * cost.row_s + units * cost.unit_s)


SCANS: tuple[Kind, ...] = ("overlap_scan", "equi_scan")
INDEXES: tuple[Kind, ...] = ("overlap_index", "overlap_sorted", "equi_index")


def measured(timing: Timing, index_window_s: float) -> Machine:
    """Measure all kinds of join.

    Scans in short windows, since a merge is slow, and with rows by the hundreds as in the experiments. An index with
    and without basic windows.
    """
    costs: dict[str, Cost] = {}
    for kind in SCANS:
        (costs[kind],) = cost_of(Setting(kind=kind, window_s=2.0), timing, "newest")
    for kind in INDEXES:
        (stored,) = cost_of(Setting(kind=kind, window_s=2.0), timing, "newest")
        setting = Setting(kind=kind, rate=2.0 * START_RATE, window_s=index_window_s)
        for name, cost in zip(
            (kind, f"{kind}.random"), cost_of(setting, timing, selection(kind), "newest"), strict=True
        ):
            costs[name] = replace(cost, row_s=stored.row_s)
    return Machine(costs)
