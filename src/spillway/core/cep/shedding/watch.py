"""What all strategies have in common: the cost model kept up to date, the latency measured, the violation told.

``Watch.violation`` takes in what was seen since the last check and returns v. The load of the runs grows between
two checks, as new ones are made. The average of what the last check left and what this one finds belongs to the
measurement, and half of the growth is added to what is expected until the next check. With μ̂ the latency to expect
if nothing is shed, and c the part of the latency that the runs cause which are there now, the share of them that
has to go is

    v = (μ̂ - θ') / c            at most 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from spillway.core.blob import together, under
from spillway.core.cep.shedding.cost_model import CostModel, Counts
from spillway.core.cep.shedding.latency import Latency
from spillway.core.cep.shedding.orders import Seen
from spillway.core.cep.shedding.trigger import TriggerConfig
from spillway.core.control.checks import require_whole
from spillway.errors import unknown

Floats = npt.NDArray[np.float64]
Over = Literal["all", "completing"]


@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    """The bound and what it is on.

    - ``over``: ``"all"`` events, or only those that can complete a match (``"completing"``) and are not discarded.
    - ``smooth``: over how many of them; ``percentile``: None for the mean.
    """

    trigger: TriggerConfig
    over: Over = "all"
    smooth: int = 1000
    percentile: float | None = None

    def __post_init__(self) -> None:
        if self.over not in get_args(Over):
            raise unknown("over", self.over, get_args(Over))
        require_whole("smooth", self.smooth, 1, 10**7)

    def build(self, model: CostModel) -> Watch:
        """Return the watch over a cost model."""
        return Watch(self, model)


class Watch:
    """Keeps the cost model, the latency and the trigger."""

    def __init__(self, config: WatchConfig, model: CostModel) -> None:
        self.config, self.model = config, model
        self.latency = Latency(config.smooth, config.percentile)
        self.trigger = config.trigger.build()
        self.only_last = config.over == "completing"
        self.pace = 1.0
        self._left: float | None = None
        self._passed = 0.0
        self._sums = [np.zeros_like(model.gain) for _ in range(3)]

    def violation(self, seen: Seen) -> float:
        """Take in what was seen, and return v: the share of the work that has to go."""
        load = self.model.load(seen.counts.alive, self.only_last)
        growth = 0.0 if self._left is None else max(0.0, load - self._left)
        self.latency.observe(self._measured(seen), load - growth / 2, self._fixed(seen))
        self.trigger.learn(self.latency.value, len(seen.times), self.pace)
        self._left = load
        expected = self.latency.expected(load + growth / 2)
        caused = self.latency.expected(load) - self.latency.value * self.latency.fixed_share
        v = self.trigger.violation(expected)
        return min(1.0, v * expected / caused) if v > 0.0 and caused > 0.0 else v

    def leave(self, alive: Floats) -> None:
        """Note which runs are left after shedding."""
        self._left = self.model.load(alive, self.only_last)

    def learn(self, seen: Seen) -> bool:
        """Count; at the end of a time slice adapt the cost model. Return whether one has ended."""
        self.model.expose(seen.counts.alive, seen.share_of_slice)
        counted = (seen.counts.completed, seen.counts.own, seen.counts.tested)
        self._sums = [total + part for total, part in zip(self._sums, counted, strict=True)]
        self._passed += seen.share_of_slice
        if self._passed < 1.0 - 1e-9:
            return False
        self.model.adapt(Counts(seen.counts.alive, *self._sums))
        self._sums = [np.zeros_like(total) for total in self._sums]
        self._passed = 0.0
        return True

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers, as arrays; the cost model is not among it."""
        left = np.nan if self._left is None else self._left
        numbers = np.array([self.trigger.margin, self.trigger.waited, left, self._passed])
        own = {"numbers": numbers, "sums": np.stack(self._sums)}
        return own | together({"latency": self.latency.snapshot()})

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        margin, waited, left, self._passed = state["numbers"].tolist()
        self.trigger.margin, self.trigger.waited = margin, int(waited)
        self._left = None if np.isnan(left) else left
        self._sums = list(state["sums"].astype(np.float64))
        self.latency.restore(under("latency.", state))

    def _fixed(self, seen: Seen) -> float:
        """The part of the work that is not examinations; a match and the event itself are a unit each."""
        if self.only_last:
            at = (seen.classes >= 0) & seen.kept
            rest, total = float((seen.matches[at] + 1).sum()), float(seen.work[at].sum())
        else:
            total = float(seen.work.sum())
            rest = total - seen.examined
        return min(1.0, max(0.0, rest / total)) if total > 0 else 0.0

    def _measured(self, seen: Seen) -> Floats:
        if not self.only_last:
            return seen.times
        return seen.times[(seen.classes >= 0) & seen.kept]
