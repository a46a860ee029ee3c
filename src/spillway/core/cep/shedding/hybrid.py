"""Hybrid shedding: the runs and the events that bring least for what they take (Sections IV and V).

At each check, every hundred events or so:

1. The latency to expect with the runs now alive is compared with the bound: v is the share of them that has to go.
2. The shedding set D is chosen among the groups of live runs and the classes of events that complete matches: the
   least share of matches for a share v of the work. Runs in D are removed (state-based shedding), events in D are
   discarded until the next check.
3. The price λ is the worth, in matches per work, of the best group that is in D as a whole. Whatever is worth no
   more than λ need not come in: runs of such groups are not made, events are discarded that would only make such runs
   or complete too few matches (input-based shedding).
4. λ follows the prices of the checks over ``price_windows``; a check at which nothing had to go counts as 0, so that
   after a while only what brings nothing stays out. After ``hold_windows`` without shedding the filter is off.

So state-based shedding cuts what is there, at once and by just as much as needed, and input-based shedding avoids the
work of making what would be cut next. Both go by one cost model and one price; no weight between them has to be set.

**Early states.** Refusing a run of a state from which no match comes directly shows up to a window later. For these
λ follows over a window, or the latency would swing with the window's period.

**Witnesses.** What is always shed is never seen again, even when the stream has changed and it would be worth most. A
share ``spare`` of all runs and events, chosen by a hash, is never shed: it tells what its group is worth now.

===========  ======================  ====================
strategy     removes and refuses     discards events
===========  ======================  ====================
``hybrid``   yes                     yes
``state``    yes                     no
``input``    no                      yes
===========  ======================  ====================

**Deviations.** The filter of the paper discards events that are in runs of D, until the bound holds again (Equation
9). Here λ stands for all recent D, so that the filter does not swing with each of them; and it knows events that
complete matches, which are in no run. D is split (see knapsack), and the saving of D is what it saves at once (see
cost_model).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from spillway.core.blob import together, under
from spillway.core.cep.shedding.cost_model import CostModel
from spillway.core.cep.shedding.events import EventModel
from spillway.core.cep.shedding.knapsack import exact_set, greedy_set, split_shares
from spillway.core.cep.shedding.orders import Orders, Seen
from spillway.core.cep.shedding.state import FORMAT, read_state
from spillway.core.cep.shedding.watch import WatchConfig
from spillway.core.control.checks import require_number
from spillway.errors import unknown

Floats = npt.NDArray[np.float64]
Strategy = Literal["hybrid", "state", "input"]
Selection = Literal["split", "exact", "greedy"]


@dataclass(frozen=True, kw_only=True)
class HybridConfig:
    """The bound, and how it is held by shedding runs and events.

    - ``select``: how the shedding set is chosen.
    - ``weight``: w, how fast the cost model follows the stream; ``spare``: the share of witnesses.
    - ``price_windows``, ``hold_windows``: how slowly λ follows, and how long it stays without shedding, in windows.
    """

    watch: WatchConfig
    strategy: Strategy = "hybrid"
    select: Selection = "split"
    weight: float = 0.5
    spare: float = 0.01
    price_windows: float = 0.4
    hold_windows: float = 0.5

    def __post_init__(self) -> None:
        for field, value, choices in (
            ("strategy", self.strategy, get_args(Strategy)),
            ("select", self.select, get_args(Selection)),
        ):
            if value not in choices:
                raise unknown(field, value, choices)
        require_number("weight", self.weight, 0.0, 1.0)
        require_number("spare", self.spare, 0.0, 1.0)
        require_number("price_windows", self.price_windows, 0.0, above=True)
        require_number("hold_windows", self.hold_windows, 0.0)

    def build(self, model: CostModel, events: EventModel, state: bytes | None = None) -> Hybrid:
        """Return the shedder with what is known of runs and events, or as it was when a snapshot was made."""
        shedder = Hybrid(self, model, events)
        if state is not None:
            shedder.restore(state)
        return shedder


class Hybrid:
    """Decides at each check what to shed."""

    def __init__(self, config: HybridConfig, model: CostModel, events: EventModel) -> None:
        self.config, self.model, self.events = config, model, events
        model.weight = events.weight = config.weight
        self.watch = config.watch.build(model)
        self.price: float | None = None
        self.slow_price = 0.0
        self.idle = 0.0
        self._orders = Orders()
        self._chosen = np.zeros_like(events.rate)

    def step(self, seen: Seen) -> Orders:
        """Take in what was seen since the last check, and decide."""
        self.events.count(seen.classes, seen.kept, seen.work, seen.matches)
        if self.watch.learn(seen):
            self.events.adapt()
        v = self.watch.violation(seen)
        shed, price = None, None
        self._chosen = np.zeros_like(self.events.rate)
        if v > 0.0 and self.watch.trigger.may_shed():
            shed, price = self._choose(seen.counts.alive, v)
            if shed is not None:
                self.watch.leave(seen.counts.alive * (1.0 - shed))
        self._follow(price, seen.share_of_slice / self.model.slices)
        self._orders = self._order(shed, v)
        return self._orders

    def snapshot(self) -> bytes:
        """Return all that it knows, from which ``build(state)`` goes on exactly."""
        price = np.nan if self.price is None else self.price
        discarded = np.empty(0) if self._orders.events is None else self._orders.events
        own = {"numbers": np.array([price, self.slow_price, self.idle]), "discarded": discarded}
        parts = {
            "model": self.model.snapshot(),
            "events": self.events.snapshot(),
            "watch": self.watch.snapshot(),
        }
        return FORMAT.write({"strategy": self.config.strategy}, own | together(parts))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        found = read_state(state, self.config.strategy, self.model.gain.shape)
        price, self.slow_price, self.idle = found["numbers"].tolist()
        self.price = None if np.isnan(price) else price
        self.model = self.watch.model = CostModel.restore(under("model.", found))
        self.events = EventModel.restore(under("events.", found))
        self.watch.restore(under("watch.", found))
        discarded = found["discarded"]
        self._orders = Orders(events=discarded if len(discarded) else None)
        self._chosen = np.zeros_like(self.events.rate)

    def _choose(self, alive: Floats, v: float) -> tuple[Floats | None, float]:
        """Return the shares of live runs to remove, and the price."""
        loss, saving = self.model.shares(alive)
        saving = np.where(self.model.seen, saving, 0.0)
        event_loss, event_saving = self.events.shares()
        if self._orders.events is not None:
            event_saving = event_saving * (1.0 - self._orders.events)
        event_saving = event_saving * (not self.watch.only_last and self.config.strategy != "state")
        losses, savings = np.append(loss, event_loss), np.append(saving, event_saving)
        shares = self._select(losses, savings, v)
        runs, events = shares[: loss.size].reshape(loss.shape), shares[loss.size :]
        whole = 1.0 - self.config.spare - 1e-9
        paid = np.append(self.model.worth()[runs >= whole], self.events.worth()[events >= whole])
        price = float(paid[np.isfinite(paid)].max(initial=0.0))
        self._chosen = events
        return (None if self.config.strategy == "input" else runs), price

    def _select(self, loss: Floats, saving: Floats, v: float) -> Floats:
        most = 1.0 - self.config.spare
        if self.config.select == "split":
            return split_shares(loss, saving, v, most)
        choose = exact_set if self.config.select == "exact" else greedy_set
        return choose(loss, saving * most, v).astype(np.float64) * most

    def _follow(self, price: float | None, passed: float) -> None:
        """Let λ follow: at once when shedding begins, then slowly; None where nothing had to go."""
        paid = price or 0.0
        self.slow_price += min(1.0, passed) * (paid - self.slow_price)
        self.idle = 0.0 if price is not None else self.idle + passed
        if self.idle > self.config.hold_windows + 1e-9:
            self.price = None
        elif self.price is None:
            self.price = price
        else:
            self.price += -math.expm1(-passed / self.config.price_windows) * (paid - self.price)

    def _order(self, shed: Floats | None, v: float) -> Orders:
        if self.price is None:
            return Orders(reason="the bound holds")
        most, strategy = 1.0 - self.config.spare, self.config.strategy
        price = np.where(self.model.last, self.price, min(self.price, self.slow_price))[:, None, None]
        poor = np.where(self.model.worth() <= price, most, 0.0)
        poor_events = np.where(self.events.worth() <= self.price, most, 0.0)
        poor_events = np.maximum(poor_events, self._chosen)
        return Orders(
            shed=shed,
            refuse=None if strategy == "input" else poor,
            unwanted=None if strategy == "state" else poor,
            events=None if strategy == "state" or self.watch.only_last else poor_events,
            spare=self.config.spare,
            reason=f"{v:.1%} too much work; what brings at most {self.price:.3g} matches per work is left out",
        )
