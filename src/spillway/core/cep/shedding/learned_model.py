"""The learned data that a strategy begins with: classes of runs and events, and what they bring and take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spillway.core.arrays import Bools, Floats
from spillway.core.cep.shedding.cost_model import CostModel
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.event_model import EventModel
from spillway.core.cep.shedding.pair_prices import Pairs


@dataclass(frozen=True, eq=False)
class Learned:
    """Trees by state, the tree of events that complete matches, and the initial cost models.

    ``selectivity`` is matches per event by type, with 0 for types that the query does not name. ``pair_matches``
    and ``pair_examined`` are by class of run and event, ``pair_born`` are runs by [class, slice] and ``pair_rate``
    events by class, per slice of time (see ``pair_prices``). They are missing where one of the last two elements
    repeats.
    """

    trees: tuple[Tree, ...]
    last: Tree
    gain: Floats
    own: Floats
    cost: Floats
    completes: Bools
    event_rate: Floats
    event_work: Floats
    event_matches: Floats
    per_event: Floats
    selectivity: tuple[float, ...]
    pair_matches: Floats
    pair_examined: Floats
    pair_born: Floats
    pair_rate: Floats

    @classmethod
    def nothing(cls, states: int, types: int, slices: int, *, last_repeats: bool = False) -> Learned:
        """Return a model without any knowledge: a single class for everything, and no numbers."""
        empty = CostModel.empty(states, 1, slices)
        return cls(
            trees=(Tree.single(),) * states,
            last=Tree.single(),
            gain=empty.gain,
            own=empty.own,
            cost=empty.cost,
            completes=np.arange(states) >= states - (1 if last_repeats or states == 1 else 2),
            event_rate=np.zeros(1),
            event_work=np.zeros(1),
            event_matches=np.zeros(1),
            per_event=np.zeros(2),
            selectivity=(0.0,) * (types + 1),
            pair_matches=np.zeros((1, 0)),
            pair_examined=np.zeros((1, 0)),
            pair_born=np.zeros((1, slices)),
            pair_rate=np.zeros(0),
        )

    @property
    def classes(self) -> int:
        """The largest number of classes of a state."""
        return int(self.gain.shape[1])

    def model(self) -> CostModel:
        """Return the initial cost model of runs."""
        return CostModel(self.gain.copy(), self.own.copy(), self.cost.copy(), self.completes.copy())

    def events(self) -> EventModel:
        """Return the initial model of events that complete matches."""
        model = EventModel(len(self.event_rate))
        model.rate, model.work = self.event_rate.copy(), self.event_work.copy()
        model.matches, model.per_event = self.event_matches.copy(), self.per_event.copy()
        model.seen = self.event_rate > 0
        return model

    def pairs(self) -> Pairs | None:
        """Return the initial counts of pairs of runs and events; None where there are no pairs."""
        if not len(self.pair_rate):
            return None
        more = ((0, self.classes - len(self.pair_matches)), (0, 0))
        matches, examined, born = (
            np.pad(table, more) for table in (self.pair_matches, self.pair_examined, self.pair_born)
        )
        return Pairs(matches, examined, born, self.pair_rate)
