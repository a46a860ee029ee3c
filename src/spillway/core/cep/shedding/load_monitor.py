"""The load monitor of all strategies: updates the cost model, measures the latency, and computes the violation.

``Watch.violation`` takes the observations since the last check and returns v. The load of the runs grows between two
checks, because new runs are made. A measurement is paired with the average of the load after the last check and the
load at this one, and half of the growth is added to the load expected until the next check. With μ̂ the latency to
expect if nothing is shed, and c the part of it that the present runs cause, the share of these runs that has to go is

    v = (μ̂ - θ') / c            at most 1

**Percentiles.** A percentile of all events depends on the busiest moments. For it the load is computed per event (see
examinations), and for each measurement it is interpolated between the two checks. Instead of half of the last growth,
the largest recent growth, which fades over n measurements, is added to the expected load. Where much time passes
between two checks, runs appear and expire in between, and the load was at least what events examined.

**Ahead.** The mean of the last n measurements may leave room for more than θ' in the next ones. As long as it does,
groups that bring matches are not shed. Groups that bring nothing would only use up that room. ``Watch.lasting`` is v
without this room: how much would have to go if events continue to take what they take now.

**Events.** Where a share k of the events that complete matches is admitted, runs are examined less often in
proportion: the load is that of runs that wait for other events, plus k times that of runs that wait for these. k is
relative to the number of such events in the long run, so it is above 1 if by chance there were more.

**At once.** By chance there may be more expensive events than on average. Runs that are shed for that are missing
afterwards; events that are discarded for a moment are not. ``Watch.room`` returns how much time the next events may
take so that the mean is still within θ' at the next check (see latency), and how much one of them takes with the
present runs. It is only for strategies that discard events, and for a mean over all events.

======  ==============================================================================
symbol  meaning
======  ==============================================================================
v       ``violation``: share of the load of the present runs that has to go
θ'      the bound less the margin (see trigger)
n       ``smooth``: over how many measurements the latency is taken
k       share of the events that complete matches that is admitted
======  ==============================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.cep.shedding.cost_model import CostModel, Counts
from spillway.core.cep.shedding.examinations import Looks
from spillway.core.cep.shedding.latency import Latency
from spillway.core.cep.shedding.orders import Room, Seen
from spillway.core.cep.shedding.trigger import TriggerConfig
from spillway.core.checks import require_whole
from spillway.core.state.blob import together, under
from spillway.errors import unknown

Over = Literal["all", "completing"]
_EARLY = 0.02  # of the time that n measurements may take together
_AHEAD = 4  # the room is computed for the next n / 4 measurements or more


@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    """The bound, and the latency that it applies to.

    - ``over``: ``"all"`` events, or only those that can complete a match (``"completing"``) and are not discarded.
    - ``smooth``: over how many of these events; ``percentile``: which percentile of them, None for the mean.
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
        """Return the load monitor for a cost model."""
        return Watch(self, model)


class Watch:
    """Keeps the cost model, the latency and the trigger."""

    def __init__(self, config: WatchConfig, model: CostModel) -> None:
        self.config, self.model = config, model
        busiest = config.percentile is not None and config.over == "all"
        self.latency = Latency(config.smooth, config.percentile, each=busiest)
        self.looks = Looks(model.gain.shape, model.weight) if busiest else None
        self.trigger = config.trigger.build()
        self.only_last = config.over == "completing"
        self.pace = 1.0
        self._left = np.zeros_like(model.gain)
        self._usual = np.zeros(6)
        self._passed = self._growth = 0.0
        self._sums = [np.zeros_like(model.gain) for _ in range(3)]
        self._let_in = np.zeros(2)
        self._pace = 0.0
        self.lasting = 0.0

    def violation(self, seen: Seen, usually: float = 1.0) -> float:
        """Take the observations since the last check, and return v: the share of the work that has to go.

        ``usually`` is the share of the events that complete matches that would be admitted from now on.
        """
        alive = seen.counts.alive
        passed = seen.share_of_slice / self.model.slices
        forget = -math.expm1(-min(passed, len(seen.times) / self.config.smooth))
        kept = self._note(seen, forget)
        load = self.load(alive, kept)
        before = self.load(self._left, kept) if self._left.any() else load
        growth = max(0.0, load - before)
        measured = self._measured(seen)
        loads = load - growth / 2 if self.looks is None else self._on_the_way(before, load, seen)
        self.latency.observe(measured, loads, self._fixed(seen), forget)
        pace = self.pace * min(10.0, 10.0 * len(measured) / self.config.smooth)
        self.trigger.learn(self.latency.value, len(seen.times), pace)
        self._left = alive
        load = self.load(alive, usually)
        self._growth = max(growth, self._growth * math.exp(-len(measured) / self.config.smooth))
        expected = self.latency.expected(load + (growth / 2 if self.looks is None else self._growth))
        caused = self.latency.expected(load) - self.latency.fixed_part
        now, self.lasting = (
            min(1.0, v * expected / caused) if v > 0.0 and caused > 0.0 else v
            for v in (
                self.trigger.violation(expected, self._allowed(len(measured))),
                self.trigger.violation(expected),
            )
        )
        return now

    def _on_the_way(self, before: float, load: float, seen: Seen) -> Floats:
        """Return the load at each measurement since the last check."""
        events = max(1, len(seen.times))
        way: Floats = before + (load - before) * (np.arange(len(seen.times)) + 0.5) / events
        return np.maximum(way, min(1.0, seen.share_of_slice) * seen.examined / events)

    @property
    def takes(self) -> Floats:
        """The work of a run by itself: per event if a percentile of all events is bounded, else per slice."""
        return self.model.own if self.looks is None else self.looks.table(self.model.own)

    def expected(self, alive: Floats, kept: float = 1.0) -> float:
        """Return the latency to expect with these runs."""
        return self.latency.expected(self.load(alive, kept))

    def _allowed(self, count: int) -> float | None:
        """Return how long the next measurements may take on average: the target, or more if the last took less."""
        ahead = max(count, self.config.smooth // _AHEAD)
        if self.config.percentile is not None or len(self.latency.times) < self.config.smooth:
            return None
        return max(0.0, self.latency.room(self.trigger.target_s, ahead) / ahead)

    def _note(self, seen: Seen, forget: float) -> float:
        """Note how long events took, and return k."""
        able = seen.classes >= 0
        if not len(able):
            return 1.0
        done = able & seen.kept
        last = self.model.load(seen.counts.alive, only_last=True)
        count = int(done.sum())
        now = (
            len(able),
            able.sum(),
            count * last,
            seen.times[done].sum(),
            (~able).sum(),
            seen.times[~able].sum(),
        )
        self._usual = (1.0 - forget) * self._usual + np.array(now, np.float64)
        events, arrived = self._usual[:2]
        return count / (len(able) * arrived / events) if arrived > 0.0 and self.momentary else 1.0

    def load(self, alive: Floats, kept: float = 1.0) -> float:
        """Return the load of runs if a share ``kept`` of the events that complete matches is admitted."""
        takes = self.takes
        last = self.model.load(alive, only_last=True, takes=takes)
        if self.only_last:
            return last
        return self.model.load(alive, takes=takes) - (1.0 - (kept if self.momentary else 1.0)) * last

    @property
    def momentary(self) -> bool:
        """Whether discarding events for a moment helps: only if the mean over all events is bounded."""
        return not self.only_last and self.config.percentile is None

    def leave(self, alive: Floats) -> None:
        """Note which runs are left after shedding."""
        self._left = alive

    def room(self, count: int, rank: Floats | None = None) -> Room | None:
        """Return how much time the next ``count`` events may take, if the mean over all events is bounded.

        It is for discarding events that complete matches. Where the other events take most of the time this would not
        help, and there is no such limit.
        """
        if not self.momentary:
            return None
        _, arrived, weighted, completing, others, rest = self._usual
        last = self.model.load(self._left, only_last=True)
        each = completing / weighted * last if weighted > 0.0 else 0.0
        if rank is not None and each * arrived < rest:
            return None
        room = self.latency.room(self.trigger.target_s, count)
        early = _EARLY * self.config.smooth * self.trigger.target_s
        return Room(room, each, rest / max(others, 1.0), early, rank)

    def learn(self, seen: Seen) -> bool:
        """Count; at the end of a time slice adapt the cost model. Return whether a slice has ended.

        Work on runs of the last state is counted as if all events that complete matches had been admitted, and as if
        their number had been average: else a slice with more of them would make runs look more expensive.
        """
        self.model.expose(seen.counts.alive, seen.share_of_slice)
        counted = (seen.counts.completed, seen.counts.own, seen.counts.tested)
        self._sums = [total + part for total, part in zip(self._sums, counted, strict=True)]
        able = seen.classes >= 0
        self._let_in += able.sum(), (able & seen.kept).sum()
        if self.looks is not None:
            there = (self._left + seen.counts.alive) / 2
            self.looks.count(there, int(seen.kept.sum()), seen.counts.own, seen.share_of_slice)
        self._passed += seen.share_of_slice
        if self._passed < 1.0 - 1e-9:
            return False
        completed, own, tested = self._sums
        arrived, processed = self._let_in
        self._pace += (arrived / self._passed - self._pace) * (0.1 if self._pace > 0.0 else 1.0)
        if processed > 0.0:
            usual = self._pace * self._passed / processed
            own = np.where(self.model.last[:, None, None], own * usual, own)
        self.model.adapt(Counts(seen.counts.alive, completed, own, tested))
        self._sums = [np.zeros_like(total) for total in self._sums]
        self._let_in[:], self._passed = 0.0, 0.0
        return True

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, without the cost model."""
        numbers = np.array([self.trigger.margin, self.trigger.waited, self._passed, self._pace, self._growth])
        own = {"numbers": numbers, "sums": np.stack(self._sums), "let_in": self._let_in}
        own |= {"left": self._left, "usual": self._usual}
        looks = {} if self.looks is None else self.looks.snapshot()
        return own | together({"latency": self.latency.snapshot(), "looks": looks})

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        margin, waited, self._passed, self._pace, self._growth = state["numbers"].tolist()
        self.trigger.margin, self.trigger.waited = margin, int(waited)
        self._left, self._usual = (state[name].astype(np.float64) for name in ("left", "usual"))
        self._sums = list(state["sums"].astype(np.float64))
        self._let_in = state["let_in"].astype(np.float64)
        self.latency.restore(under("latency.", state))
        if self.looks is not None:
            self.looks.restore(under("looks.", state))

    def _fixed(self, seen: Seen) -> float:
        """Return the part of the work that is not examinations; a match and the event itself are a unit each."""
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
