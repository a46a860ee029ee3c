"""What a strategy sees at a check, and what it orders: the same values for all strategies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spillway.core.cep.shedding.cost_model import Counts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Seen:
    """The events since the last check, and the state after them.

    - ``times``: how long each event took, in seconds; ``work``: the same in units.
    - ``kept``: which were not discarded; ``matches``: how many each completed.
    - ``classes``: the classes of events that can complete a match, -1 for others.
    - ``counts``: of runs; the sums are since the last check.
    - ``examined``: how many runs were examined.
    - ``share_of_slice``: how much of a time slice has passed.
    """

    times: Floats
    work: Floats
    kept: Bools
    matches: Ints
    classes: Ints
    counts: Counts
    examined: float
    share_of_slice: float


@dataclass(frozen=True, eq=False)
class Orders:
    """What to do until the next check. All are shares of what is to go; None where nothing of the kind goes.

    - ``shed``: of the runs that are there, by state, class and slice, once.
    - ``refuse``: of the runs that would be made, by state, class and slice.
    - ``unwanted``: the same table, where events are discarded that could only make such runs.
    - ``events``: of the events that can complete a match, by class.
    - ``types``: of all events, by type; the last entry is for types that the query does not name.
    - ``spare``: the share of runs and events that is never shed, to learn from.
    """

    shed: Floats | None = None
    refuse: Floats | None = None
    unwanted: Floats | None = None
    events: Floats | None = None
    types: Floats | None = None
    spare: float = 0.0
    reason: str = ""
