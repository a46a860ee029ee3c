"""The record of a burst on real Spark: the plan, the machine, its capacity, and what each variant did.

The demo and the Spark benchmark play it (:mod:`~spillway.demo.burst_session`), once with a live view and once with
metrics. The record is a value with a JSON form, from which reports and figures are drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

from spillway.demo.burst_plan import BurstPlan
from spillway.demo.capacity import Capacity
from spillway.demo.neighbour import costs_beside
from spillway.demo.run_record import Batch, Recording, Variant
from spillway.errors import SpillwayError
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Rates


@dataclass(frozen=True, kw_only=True)
class Burst:
    """What became of a burst.

    =================== ==================================================================================
    ``plan``            what was played
    ``capacity``        what the machine can do, measured before
    ``runs``            a recording of each variant
    ``machine``         a description
    ``busy_rows_per_s`` the capacity beside the busy neighbour, None where there was none on purpose
    ``speeds``          how fast the machine was in each variant's burst, over its speed while capacity was
                        measured; without those that are not known
    =================== ==================================================================================
    """

    plan: BurstPlan
    capacity: Capacity
    runs: Mapping[Variant, Recording]
    machine: Mapping[str, Any]
    busy_rows_per_s: float | None = None
    speeds: Mapping[Variant, float] = field(default_factory=dict)

    @property
    def lost_rows(self) -> float:
        """Rows that were shed, or had not come through at the end, with Spillway."""
        return self.runs["spillway"].dropped_rows + self.runs["spillway"].waiting_rows

    @cached_property
    def least_lost_rows(self) -> int:
        """Rows that had to go at the capacity that was measured."""
        return self.runs["spillway"].least_lost_rows(self.cost("spillway"))

    @property
    def loss_over_minimum(self) -> float:
        """The one over the other."""
        return self.lost_rows / max(self.least_lost_rows, 1)

    def delivered_over_best(self, variant: Variant) -> float:
        """Return rows delivered within the target over the most that any shedder could have delivered."""
        return self.runs[variant].delivered_over_best(self.cost(variant))

    def cost(self, variant: Variant, *, speed: float = 1.0) -> CostTrace:
        """Return the seconds that a row took at each moment of a run, by the capacities that were measured.

        ``speed`` is that of the machine in the run, over its speed when they were.
        """
        run, rows_per_s = self.runs[variant], speed * self.capacity.rows_per_s
        if self.busy_rows_per_s is None:
            return constant(1.0 / rows_per_s)
        return costs_beside(
            run.busy,
            quiet_rows_per_s=rows_per_s,
            busy_rows_per_s=speed * self.busy_rows_per_s,
            until_s=run.until_s,
        )

    def to_json(self) -> str:
        """Return everything as JSON."""
        runs = {
            name: {**asdict(run), "trace": json.loads(run.trace.to_json())} for name, run in self.runs.items()
        }
        record = {
            "plan": asdict(self.plan),
            "capacity": asdict(self.capacity),
            "machine": dict(self.machine),
            "busy_rows_per_s": self.busy_rows_per_s,
            "speeds": dict(self.speeds),
            "runs": runs,
        }
        return json.dumps(record, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read back what :meth:`to_json` gave."""
        try:
            record = json.loads(text)
            runs: dict[Variant, Recording] = {}
            for name, run in record["runs"].items():
                runs[name] = Recording(
                    trace=Rates(**run.pop("trace")),
                    batches=tuple(Batch(**batch) for batch in run.pop("batches")),
                    history=tuple(run.pop("history")),
                    busy=tuple((start_s, end_s) for start_s, end_s in run.pop("busy", ())),
                    **run,
                )
            capacity: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in record["capacity"].items()
            }
            return cls(
                plan=BurstPlan(**{**record["plan"], "warm_up": tuple(record["plan"]["warm_up"])}),
                capacity=Capacity(**capacity),
                machine=record["machine"],
                busy_rows_per_s=record.get("busy_rows_per_s"),
                speeds=record.get("speeds", {}),
                runs=runs,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SpillwayError(f"not the record of a burst: {error!r}.") from error
