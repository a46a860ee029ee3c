"""The baselines of hybrid shedding: random and selectivity-based shedding, of events and of runs (Section VI-A).

====================  ==============================================================================================
``random_input``      RI: each event is discarded with the same probability
``selective_input``   SI: a type keeps events in proportion to its selectivity: types that are in no match go first
``random_state``      RS: each run is shed with the same probability
``selective_state``   SS: runs of the state with the fewest matches per run go first, at random within a state
====================  ==============================================================================================

All keep the same bound with the same trigger, and with the same correction for lag.

**How much.** RS and SS shed a share v of the live runs' load, like the hybrid. Discarding events takes effect only
later, up to a window, and more than in proportion: with a share p of all events a pattern of k elements keeps p^k of
its matches and about as much of its work. So p follows slowly,

    p  <-  min(1, p (θ' / μ)^(n / (k s)))

for n events between checks and s events in a window: over one window this corrects the deviation of μ. Where the
latency without shedding is known, μ_0, p begins with (θ' / μ_0)^(1/k).

**Selectivity.** Of a type: matches per event of that type, in a recorded stretch. Of a state: matches to come per
run. Both ignore the values of events, which is what classes add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from spillway.core.arrays import Floats
from spillway.core.cep.shedding.cost_model import CostModel
from spillway.core.cep.shedding.knapsack import split_shares
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.orders import Orders, Seen
from spillway.core.cep.shedding.state_format import FORMAT, read_state
from spillway.core.checks import require_whole
from spillway.core.state.blob import together, under
from spillway.errors import invalid, unknown

Baseline = Literal["random_input", "selective_input", "random_state", "selective_state"]


@dataclass(frozen=True, kw_only=True)
class BaselineConfig:
    """A baseline and its bound.

    ``selectivity`` is for ``selective_input``: matches per event by type, the last entry for types that the query
    does not name. ``elements`` is k, how many elements the pattern has; one less where only the latency of events
    which complete matches is bounded, because it does not depend on how many of these are kept. ``unshed_s`` is μ_0.
    """

    watch: WatchConfig
    strategy: Baseline
    elements: int = 3
    selectivity: tuple[float, ...] = ()
    unshed_s: float | None = None

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Baseline):
            raise unknown("strategy", self.strategy, get_args(Baseline))
        require_whole("elements", self.elements, 1, 1000)
        if self.strategy == "selective_input" and max(self.selectivity, default=0.0) <= 0.0:
            raise invalid("selectivity", self.selectivity, "matches per event by type, some above 0")

    def build(self, model: CostModel, state: bytes | None = None) -> InputBaseline | StateBaseline:
        """Return a new shedder, or the shedder of a snapshot.

        The model gives the load of the runs; it may be empty.
        """
        kind = InputBaseline if self.strategy.endswith("input") else StateBaseline
        shedder = kind(self, model)
        if state is not None:
            shedder.restore(state)
        return shedder


class _Baseline:
    """The state of both kinds of baseline: the cost model, the load monitor, and the share that is kept."""

    def __init__(self, config: BaselineConfig, model: CostModel) -> None:
        self.config, self.model, self.watch = config, model, config.watch.build(model)
        self.keep = 1.0

    def snapshot(self) -> bytes:
        """Return the state as bytes; a baseline from ``build(state)`` continues exactly from here."""
        parts = {"model": self.model.snapshot(), "watch": self.watch.snapshot()}
        arrays = {"keep": np.array([self.keep]), **together(parts)}
        return FORMAT.write({"strategy": self.config.strategy}, arrays)

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        found = read_state(state, self.config.strategy, self.model.gain.shape)
        self.keep = float(found["keep"][0])
        self.model = self.watch.model = CostModel.restore(under("model.", found))
        self.watch.restore(under("watch.", found))


class InputBaseline(_Baseline):
    """Discards events, at random or by type."""

    def __init__(self, config: BaselineConfig, model: CostModel) -> None:
        super().__init__(config, model)
        if config.unshed_s is not None:
            self.keep = min(1.0, (self.watch.trigger.target_s / config.unshed_s) ** (1 / config.elements))

    def step(self, seen: Seen) -> Orders:
        """Adjust p to the latency."""
        n, smooth, slices = len(seen.times), self.watch.config.smooth, seen.counts.alive.shape[2]
        window = max(smooth, n * slices / max(seen.share_of_slice, 1e-9))
        self.watch.pace = smooth / window
        self.watch.learn(seen)
        self.watch.violation(seen)
        mu = self.watch.expected(seen.counts.alive, self.keep)
        if mu > 0.0:
            slowly = n / (self.config.elements * window)
            p = self.keep * (self.watch.trigger.target_s / mu) ** slowly
            self.keep = min(1.0, max(1e-6, p))
        if self.keep >= 1.0:
            return Orders(reason="the bound holds")
        reason = f"{self.keep:.1%} of the events are kept"
        return Orders(types=1.0 - self._kept(), room=self.watch.room(n), reason=reason)

    def _kept(self) -> Floats:
        """Return the share of each type that is kept, or a single number that applies to all types."""
        if self.config.strategy == "random_input":
            return np.array([self.keep])
        return by_selectivity(self.keep, self.config.selectivity)


def by_selectivity(keep: float, selectivity: Sequence[float]) -> Floats:
    """Return the share of each type that is kept: ``keep`` of the least selective one, more in proportion, 1 at most.

    >>> by_selectivity(0.25, (1.0, 2.0, 8.0, 0.0)).tolist()
    [0.25, 0.5, 1.0, 0.0]
    """
    s: Floats = np.array(selectivity)
    kept: Floats = np.minimum(1.0, keep * s / s[s > 0.0].min())
    return kept


class StateBaseline(_Baseline):
    """Removes runs, at random or by state."""

    def step(self, seen: Seen) -> Orders:
        """Remove the share of the load that is too much."""
        self.watch.learn(seen)
        v = self.watch.violation(seen)
        if v == 0.0 or not self.watch.trigger.may_shed():
            return Orders(reason="the bound holds")
        shares = self._shares(seen.counts.alive, v)
        self.watch.leave(seen.counts.alive * (1.0 - shares))
        return Orders(shed=shares, reason=f"{v:.1%} too much work")

    def _shares(self, alive: Floats, v: float) -> Floats:
        if self.config.strategy == "random_state":
            return np.full(alive.shape, v)
        gain = (alive * self.model.ahead(self.model.gain)).sum(axis=(1, 2))
        work = (alive * self.model.own).sum(axis=(1, 2))
        runs = np.maximum(alive.sum(axis=(1, 2)), 1.0)
        order = np.argsort(gain / runs, kind="stable").astype(np.float64)
        rank = np.argsort(order).astype(np.float64)
        saving = work / max(work.sum(), 1e-300)
        return np.ones(alive.shape) * split_shares(rank * saving, saving, v)[:, None, None]
