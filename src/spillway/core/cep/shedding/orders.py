"""The observations that a strategy gets at a check, and the orders it returns: the same values for all strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.cep.shedding.cost_model import Counts


@dataclass(frozen=True, eq=False)
class Seen:
    """The events since the last check, and the state after them.

    - ``times``: how long each event took, in seconds; ``work``: the same in units.
    - ``kept``: which were not discarded; ``matches``: how many each completed.
    - ``classes``: the classes of events that can complete a match, -1 for others.
    - ``counts``: the counts of runs; the sums are since the last check.
    - ``examined``: how many runs were examined.
    - ``share_of_slice``: how much of a time slice has passed.
    - ``pairs``: matches by class of the run and of the event; ``offered``: runs made or refused, by state, class and
      slice. Both are None where pairs are not counted.
    - ``keyed``: whether the rows of a match have a key in common.
    """

    times: Floats
    work: Floats
    kept: Bools
    matches: Ints
    classes: Ints
    counts: Counts
    examined: float
    share_of_slice: float
    pairs: Floats | None = None
    offered: Floats | None = None
    keyed: bool = False


class Room(NamedTuple):
    """The time that the next events may take together, in seconds, and the time that each is expected to take.

    - ``all_s``: all of them; ``completing_s``, ``other_s``: one that can complete a match, and any other.
    - ``early_s``: how much sooner events are discarded whose rank is at most ``cheap``.
    - ``rank``: by class of events that can complete a match, which are discarded first if they would take more; None
      for any.
    """

    all_s: float
    completing_s: float
    other_s: float
    early_s: float = 0.0
    rank: Floats | None = None
    cheap: float = -1.0


@dataclass(frozen=True, eq=False)
class Orders:
    """What to do until the next check. All fields are shares to shed; None where nothing of the kind is shed.

    - ``shed``: of the present runs, by state, class and slice, once.
    - ``refuse``: of the runs that would be made, by state, class and slice.
    - ``unwanted``: the same table, if events are discarded that could only make such runs.
    - ``events``: of the events that can complete a match, by class.
    - ``types``: of all events, by type; the last entry is for types that the query does not name.
    - ``keys``: of the values of the key, with all of their events.
    - ``room``: how much time the next events may take; if they would take more, further ones are discarded.
    - ``spare``: the share of runs and events that is never shed, to learn from.
    """

    shed: Floats | None = None
    refuse: Floats | None = None
    unwanted: Floats | None = None
    events: Floats | None = None
    types: Floats | None = None
    keys: float = 0.0
    room: Room | None = None
    spare: float = 0.0
    reason: str = ""
