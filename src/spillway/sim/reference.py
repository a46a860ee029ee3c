"""A shedder that knows what it cannot know: the true costs, and how slow the machine was in the batch before.

It keeps as many rows as take half of the target, at the costs of a quiet machine times the slow-down of the batch
before, and at least as many as take a sixth of the target:

    k = max(y_d / 2 - w (F + s n), y_d / 6) / (w (c - s))

with w the slow-down. Its decisions are not late. Run it on an engine without ``estimate``, which tells the true
costs. With another ``batch_share`` than a half it is one of the shedders among which the best is looked for.
"""

from __future__ import annotations

from typing import Any

from spillway.core.control import Costs, Decision, Sample
from spillway.core.control.values import LEAST_ROOM


class Reference:
    """A controller that is told the truth; see the module's text."""

    def __init__(
        self, target_delay_s: float, *, batch_share: float = 0.5, least_room: float = LEAST_ROOM
    ) -> None:
        self._target_s = target_delay_s
        self._batch_share = batch_share
        self._least_room = least_room
        self._slowdown = 1.0

    def step(self, sample: Sample) -> Decision:
        """Decide by the true costs at the pace of the batch that has just finished."""
        y = self._target_s
        if sample.cost_s is None:
            return Decision(target_delay_s=y)
        true = Costs(sample.fixed_s, sample.cost_s, sample.skip_s)
        if sample.busy_s is not None:
            self._slowdown = sample.busy_s / true.busy_s(sample.arrived_rows, sample.kept_rows)
        F, c = self._slowdown * true.fixed_s, self._slowdown * true.cost_s
        least = self._least_room * y
        return Decision(
            queue_limit_rows=max(self._batch_share * y - F, least) / c,
            skip_cost=min(true.skip_s / true.cost_s, 1.0),
            least_rows=least / c,
            target_delay_s=y,
        )

    def retarget(self, target_delay_s: float) -> None:
        """Change the target while running."""
        self._target_s = target_delay_s

    def snapshot(self) -> dict[str, Any]:
        """Return nothing: it does not learn."""
        return {}
