"""Defines DEADLINE, the default controller: a row enters only while its estimated wait fits the target.

The paper's controllers steer the *rate* of rows so that the delay settles at its target. A loop that tracks
a target spends about half of its time above it, and it can only act once a period. DEADLINE bounds the
*queue* instead: the engine compares a limit with the number of outstanding rows at every single row (or, on
a batch engine, with the exact size of every batch). So a burst is cut when it arrives, and no forecast of the
arrival rate is needed. Only the cost of a row can be estimated wrongly. The controller's whole task is
therefore a cautious estimate of how many rows fit into the target. It has no integrator, so nothing can
wind up.

The limit means something different on the two kinds of engine, and each kind has its own file:

=============  ===========================================================================================
engine         the limit
=============  ===========================================================================================
``pipelined``  rows that may be outstanding at once; see :mod:`~spillway.core.control.deadline_pipelined`
``batched``    rows that one micro-batch may hold; see :mod:`~spillway.core.control.deadline_batched`
=============  ===========================================================================================

In both, ``keep_ratio`` stays 1, ``queue_limit_rows`` is at least 1 (a query that keeps nothing would never
learn that it can keep rows again), and a sample without any measurement, such as an empty one before the first
period,
gives the cold-start limit.

>>> from spillway.core.control.values import Sample
>>> controller = DeadlineConfig(target_delay_s=2.0).build()
>>> decision = controller.step(
...     Sample(at_s=1, period_s=1, arrived_rows=1204, kept_rows=360, backlog_rows=300, cost_s=0.0053)
... )
>>> decision.reason
'a row costs 5.3 ms, so 362 rows fit into 2 s, held at 337 for safety; 1,204 arrived'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from spillway.core.checks import require_number
from spillway.core.control.base import BaseController, ControllerConfig
from spillway.core.control.deadline_batched import BatchedDeadline
from spillway.core.control.deadline_pipelined import PipelinedDeadline
from spillway.errors import unknown

Engine = Literal["pipelined", "batched"]


@dataclass(frozen=True, kw_only=True)
class DeadlineConfig(ControllerConfig):
    """DEADLINE's options.

    ================ ===================================================================================
    field            meaning
    ================ ===================================================================================
    engine           "pipelined": rows flow through one by one; "batched": in micro-batches
    margin           share of the target left unused to cover model errors; None: pipelined 0.01,
                     batched it follows from the errors of the last batches
    cold_cost_s      cost of a row assumed before the first measurement; None: 1 ms, batched 10 µs
    caution          pipelined: share of the shed rows that may be shed only for safety
    shortest         pipelined: how far caution may shorten the queue, as a share of what fits
    ================ ===================================================================================
    """

    kind: ClassVar[str] = "deadline"
    engine: Engine = "pipelined"
    margin: float | None = None
    cold_cost_s: float | None = None
    caution: float = 0.03
    shortest: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in get_args(Engine):
            raise unknown("engine", self.engine, get_args(Engine))
        if self.margin is not None:
            require_number("margin", self.margin, 0.0, 0.4, hint="a share of the target, as 0.05")
        if self.cold_cost_s is not None:
            require_number("cold_cost_s", self.cold_cost_s, 0.0, above=True, hint="seconds a row, as 10e-6")
        require_number("caution", self.caution, 0.0, 1.0)
        require_number("shortest", self.shortest, 0.0, 1.0, above=True)

    def build(self, state: Mapping[str, Any] | None = None) -> BaseController:
        """Return a controller for this engine: a new one, or one restored from a snapshot."""
        return (PipelinedDeadline if self.engine == "pipelined" else BatchedDeadline)(self, state)
