"""Hybrid shedding: sheds the runs and the events that bring least for what they take (Sections IV and V).

At each check, every hundred events or so:

1. The latency expected with the runs now alive is compared with the bound: v is the share of them that has to go.
   Groups that bring nothing are shed as soon as the latency would become too high at the present load, before the
   mean latency is too high.
2. The price λ is the largest worth, in matches per work, at which the latency would still be above the bound in the
   long run if all groups worth no more were shed (see ``_price``; for worths, pair_prices). Runs of such groups are
   not made, and events are discarded that would only make such runs or complete too few matches (input-based
   shedding). Groups that bring nothing at all are shed as long as anything is shed.
3. The shedding set D is chosen among the groups of live runs and the classes of events that complete matches: the
   least loss of matches for a share v of the work. Runs in D are removed (state-based shedding), events in D are
   discarded until the next check.
4. If the next events would still take more time than there is room for, further events that complete matches are
   discarded when they arrive, those worth least first (see load_monitor, input_filter).
5. Where more matches are found by admitting fewer keys than by raising the price, fewer keys are admitted (see
   key_admission).
6. After ``hold_windows`` windows without need the filter is switched off.

So state-based shedding reduces the present load, at once and by just as much as needed, and input-based shedding
avoids the work of making runs that would be shed next. Both use one cost model and one price; no weight between them
has to be set.

======  ==============================================================================
symbol  meaning
======  ==============================================================================
v       share of the work that has to go now (see load_monitor)
λ       ``price``: groups worth no more are refused and discarded
D       shedding set: live runs and classes of events that are shed at this check
======  ==============================================================================

**Saving.** What D saves is the work of its runs in the rest of their life. Where events are not discarded, shedding
runs has to compensate random peaks as well: then the saving is their present work, and old runs go first, because
little is lost with them.

**Early states.** Refusing a run of a state from which no match comes directly takes effect up to a window later. For
these states the price follows slowly, over a window, or the latency would oscillate with the window's period. And
since it is less certain what these runs bring, they are shed only at half of the price. Where they take little of the
work they are kept: little would be saved, and if the stream changes it takes a window to have them again.

**Keys.** Where leaving out whole keys loses less than raising the price, that is done (see key_admission). A query
whose rows have no attribute in common has no key; then only classes are shed.

**Witnesses.** A group that is always shed is never observed again, even when the stream has changed and it would be
worth most. So a share ``spare`` of all runs and events, chosen by a hash, is never shed: it shows what its group is
worth now. Runs of early states cost little, so of these the larger share ``early_spare`` stays.

===========  ======================  ====================
strategy     removes and refuses     discards events
===========  ======================  ====================
``hybrid``   yes                     yes
``state``    yes                     no
``input``    no                      yes
===========  ======================  ====================

Where the bound is on the latency of matches or on a percentile, discarding an event that completes matches does not
make the others faster, so it is not done.

**Deviations.** The filter of the paper discards events that are in runs of D, until the bound holds again (Equation
9). Here λ represents all future sets D, so that the filter does not change with each of them; and the filter also
covers events that complete matches, which are in no run. D is split (see knapsack), and its saving is that of its own
runs (see cost_model).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from spillway.core.arrays import Floats
from spillway.core.cep.shedding.cost_model import CostModel
from spillway.core.cep.shedding.event_model import EventModel
from spillway.core.cep.shedding.key_admission import Keys
from spillway.core.cep.shedding.knapsack import exact_set, greedy_set, split_shares
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.orders import Orders, Room, Seen
from spillway.core.cep.shedding.pair_prices import Pairs
from spillway.core.cep.shedding.state_format import FORMAT, read_state
from spillway.core.checks import require_number
from spillway.core.state.blob import together, under
from spillway.errors import unknown

Strategy = Literal["hybrid", "state", "input"]
Selection = Literal["split", "exact", "greedy"]
_LITTLE = 0.25  # of the work
_SURE = 1.15  # times the target: a latency above this is not too high by chance


@dataclass(frozen=True, kw_only=True)
class HybridConfig:
    """The bound, and how it is kept by shedding runs and events.

    - ``select``: how the shedding set is chosen.
    - ``weight``: w, how fast the cost model follows the stream.
    - ``spare``, ``early_spare``: the share of witnesses, and the share among runs of early states.
    - ``hold_windows``: how long the filter stays on without need, in windows.
    """

    watch: WatchConfig
    strategy: Strategy = "hybrid"
    select: Selection = "split"
    weight: float = 0.5
    spare: float = 0.002
    early_spare: float = 0.1
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
        require_number("early_spare", self.early_spare, 0.0, 1.0)
        require_number("hold_windows", self.hold_windows, 0.0)

    def build(
        self, model: CostModel, events: EventModel, pairs: Pairs | None = None, state: bytes | None = None
    ) -> Hybrid:
        """Return a new shedder with the learned models of runs and events, or the shedder of a snapshot."""
        shedder = Hybrid(self, model, events, pairs)
        if state is not None:
            shedder.restore(state)
        return shedder


class Worth(NamedTuple):
    """Matches per work of runs, by state, class and slice, and of classes of events."""

    runs: Floats
    events: Floats


class Hybrid:
    """Decides at each check what to shed."""

    def __init__(
        self, config: HybridConfig, model: CostModel, events: EventModel, pairs: Pairs | None = None
    ) -> None:
        self.config, self.model, self.events, self.pairs = config, model, events, pairs
        model.weight = events.weight = config.weight
        if pairs is not None:
            pairs.weight = config.weight
        self.watch = config.watch.build(model)
        self.price: float | None = None
        self.slow_price = 0.0
        self.idle = 0.0
        self.keys = Keys(config.watch.smooth)
        self._runs_go = config.strategy != "input"
        self._events_go = config.strategy != "state" and self.watch.momentary
        self._most = 1.0 - config.spare

    def step(self, seen: Seen) -> Orders:
        """Take the observations since the last check, and decide."""
        alive = seen.counts.alive
        self._learn(seen)
        worth, rate = self._worth(), self._rate()
        discard = self._poor(worth)
        v = self.watch.violation(seen, 1.0 - float(rate @ discard))
        price, enough = self._price(alive, worth, rate, seen.keyed and self._events_go)
        self._follow(price, v, seen.share_of_slice / self.model.slices)
        self._let_keys_in(enough)
        if self.price is None:
            return Orders(reason="the bound holds")
        discard, shed = self._poor(worth), None
        if max(v, self.watch.lasting) > 0.0 and self.watch.trigger.may_shed():
            most = math.inf if enough else self.price
            shed, chosen = self._choose(alive, v, worth, rate * (1.0 - discard), most)
            discard = 1.0 - (1.0 - discard) * (1.0 - chosen)
        if shed is not None:
            self.watch.leave(alive * (1.0 - shed))
        return self._order(shed, discard, worth, v, seen)

    def _learn(self, seen: Seen) -> None:
        self.events.count(seen.classes, seen.kept, seen.work, seen.matches)
        if self.watch.learn(seen):
            self.events.adapt()
        if self.pairs is not None and seen.pairs is not None and seen.offered is not None:
            own = seen.counts.own[-2].sum(axis=1)
            self.pairs.count(seen.pairs, seen.offered[-2], own, seen.classes, seen.kept, seen.share_of_slice)
        self.keys.count(seen)

    def _let_keys_in(self, enough: bool) -> None:
        """Admit a share of the keys if the price is not enough, and else all keys."""
        if enough or self.price is None:
            self.keys.kept = 1.0
        else:
            self.keys.let_in(self.watch.trigger.target_s)

    def _worth(self) -> Worth:
        runs, events = self.model.worth(), self.events.worth()
        if self.pairs is not None:
            of_runs, events = self.pairs.prices(self._runs_go, self._events_go)
            runs[-2] = of_runs[:, None]
        return Worth(runs, events)

    def _rate(self) -> Floats:
        """Return the share of each class in the events that complete matches."""
        rate = self.events.rate if self.pairs is None else self.pairs.rate
        return rate / max(float(rate.sum()), 1e-300)

    def _poor(self, worth: Worth) -> Floats:
        """Return the share of each class of events to discard: most of it if it is worth no more than the price."""
        if self.price is None or not self._events_go:
            return np.zeros_like(worth.events)
        return np.where(worth.events <= self.price, self._most, 0.0)

    def _price(self, alive: Floats, worth: Worth, rate: Floats, keyed: bool) -> tuple[float | None, bool]:
        """Return the largest price at which the latency would still be above the target; None if it never is.

        Where leaving out keys is better, the price is smaller. The second result is whether the price is enough by
        itself, without leaving out keys.
        """
        model, latency, target = self.model, self.watch.latency, self.watch.trigger.target_s
        own, of_slice, cost = alive * self.watch.takes, alive * model.own, alive * model.cost
        if self.pairs is not None:
            each = own[-2].sum() / max(float(alive[-2].sum()), 1e-300)
            of_class = self.pairs.population * each
            own[-2] = of_class[:, None] / own.shape[2]
        known = [values[np.isfinite(values)] for values in worth]
        levels = np.unique(np.concatenate([[-1.0, 0.0], *known]))
        load, last, share = np.zeros(len(levels)), np.zeros(len(levels)), np.ones(len(levels))
        for state in range(len(own)):
            stays = worth.runs[state].ravel()[None] > levels[:, None]
            stays |= not self._runs_go
            if model.last[state]:
                last += stays @ own[state].ravel()
                continue
            load += stays @ own[state].ravel()
            offspring = np.maximum(0.0, cost[state] - of_slice[state]).ravel()
            if offspring.sum() > 0.0:
                share = share * (stays @ offspring) / offspring.sum()
        if self._events_go:
            last = last * ((worth.events[None] > levels[:, None]) @ rate)
        load = share * last if self.watch.only_last else load + share * last
        expected = latency.expected_at(load) / self.keys.usual
        if not (expected >= target).any():
            return None, True
        if expected[levels == 0.0] < _SURE * target:
            return 0.0, True
        price = float(levels[expected >= target].max())
        if not keyed:
            return price, True
        matches = share * self._matches(alive, worth, levels)
        better = self.keys.better_price(
            price, self.price or 0.0, levels, expected, matches, latency.fixed_part, target
        )
        return (price, True) if better is None else (better, False)

    def _matches(self, alive: Floats, worth: Worth, levels: Floats) -> Floats:
        """Return how many matches can be found at each price, relative to the runs that begin."""
        if self.pairs is None:
            gain = alive * self.model.ahead(self.model.gain)
            stays = worth.runs[None] > levels[:, None, None, None]
            return np.asarray((stays * gain)[:, self.model.last].sum(axis=(1, 2, 3)))
        runs = worth.runs[-2, :, 0][None] > levels[:, None]
        events = (worth.events[None] > levels[:, None]) | (not self._events_go)
        return self.pairs.found(runs, events)

    def _follow(self, price: float | None, v: float, passed: float) -> None:
        """Set the price when the load is too high, and switch it off after a time in which it was not needed."""
        if v == 0.0 and self.config.watch.percentile is not None:
            self.price = None  # a percentile is of the worst moments, and these have passed
        elif v > 0.0 or self.watch.lasting > 0.0 or (self.price is not None and price is not None):
            counts = v > 0.0 or (self.watch.momentary and self.price is not None)
            self.price, self.idle = max(0.0, price or 0.0) if counts else 0.0, 0.0
        else:
            self.idle += passed
            if self.idle > self.config.hold_windows + 1e-9:
                self.price = None
        self.slow_price += min(1.0, passed) * ((self.price or 0.0) - self.slow_price)

    def _choose(
        self, alive: Floats, v: float, worth: Worth, rate: Floats, most: float
    ) -> tuple[Floats | None, Floats]:
        """Return the shares to shed: of live runs, and, by class, of the events that are not discarded anyway.

        Only groups that are worth no more than ``most`` are shed.
        """
        model = self.model
        rest, known = alive * model.ahead(model.own), np.where(np.isfinite(worth.runs), worth.runs, 0.0)
        loss = np.where(model.last[:, None, None], rest * known, alive * model.ahead(model.gain))
        own = rest if self._events_go else alive * self.watch.takes
        work = max(float(own.sum()), 1e-300)
        may_go = [np.isfinite(of) & (of <= most) for of in worth]
        counts = model.last[:, None, None] | self._early_counts(alive)
        saving = np.where(may_go[0] & counts, own / work, 0.0) * self._runs_go
        part = model.load(alive, only_last=True) / max(model.load(alive), 1e-300)
        of_events = rate / max(float(rate.sum()), 1e-300) * part * self._events_go
        of_events = np.where(may_go[1], of_events, 0.0)
        lost = np.where(of_events > 0.0, worth.events, 0.0) * of_events * work * (1.0 - 1e-9)
        loss_of, saving_of = np.append(loss, lost), np.append(saving, of_events)
        shares = self._select(loss_of, saving_of, v)
        if self.watch.lasting > v:
            early = split_shares(loss_of, saving_of, self.watch.lasting, self._most)
            shares = np.where(loss_of <= 0.0, np.maximum(shares, early), shares)
        runs, events = shares[: loss.size].reshape(loss.shape), shares[loss.size :]
        return (runs if self._runs_go else None), events

    def _select(self, loss: Floats, saving: Floats, v: float) -> Floats:
        if self.config.select == "split":
            return split_shares(loss, saving, v, self._most)
        choose = exact_set if self.config.select == "exact" else greedy_set
        return choose(loss, saving * self._most, v).astype(np.float64) * self._most

    def _order(self, shed: Floats | None, discard: Floats, worth: Worth, v: float, seen: Seen) -> Orders:
        assert self.price is not None
        last, strategy = self.model.last[:, None, None], self.config.strategy
        early = min(self.price, self.slow_price) / 2 if self._early_counts(seen.counts.alive) else -1.0
        price = np.where(last, self.price, early)
        most = np.where(last, self._most, min(self._most, 1.0 - self.config.early_spare))
        poor = np.where(worth.runs <= price, most, 0.0)
        return Orders(
            shed=shed,
            refuse=poor if self._runs_go else None,
            unwanted=None if strategy == "state" else poor,
            events=discard if self._events_go else None,
            keys=1.0 - self.keys.kept,
            room=self._room(len(seen.times), worth) if self._events_go else None,
            spare=self.config.spare,
            reason=f"{v:.1%} too much work; what brings at most {self.price:.3g} matches per work is left out",
        )

    def _early_counts(self, alive: Floats) -> bool:
        """Whether runs of early states take enough work for shedding them to pay."""
        load = self.model.load(alive)
        return load - self.model.load(alive, only_last=True) > _LITTLE * load

    def _room(self, count: int, worth: Worth) -> Room | None:
        """Return the room for the next events; those worth less than half of the average go a little earlier."""
        room = None if self.keys.kept < 1.0 else self.watch.room(count, worth.events)
        if room is None or self.pairs is None:
            return room
        total = float(self.pairs.examined.sum())
        return room._replace(cheap=self.pairs.matches.sum() / total / 2 if total > 0.0 else 0.0)

    def snapshot(self) -> bytes:
        """Return the state as bytes; a shedder from ``build(state)`` continues exactly from here."""
        price = np.nan if self.price is None else self.price
        own = {"numbers": np.array([price, self.slow_price, self.idle])}
        parts = {
            "model": self.model.snapshot(),
            "events": self.events.snapshot(),
            "watch": self.watch.snapshot(),
            "keys": self.keys.snapshot(),
            "pairs": {} if self.pairs is None else self.pairs.snapshot(),
        }
        return FORMAT.write({"strategy": self.config.strategy}, own | together(parts))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        found = read_state(state, self.config.strategy, self.model.gain.shape)
        price, self.slow_price, self.idle = found["numbers"].tolist()
        self.price = None if np.isnan(price) else price
        self.model = self.watch.model = CostModel.restore(under("model.", found))
        self.events = EventModel.restore(under("events.", found))
        self.watch.restore(under("watch.", found))
        self.keys.restore(under("keys.", found))
        pairs = under("pairs.", found)
        self.pairs = Pairs.restore(pairs) if pairs else None
