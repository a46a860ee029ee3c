"""The methods by which shedding controls the runs of an operator: it classifies, counts, drops, refuses, records.

==============================  =============================================================================
``classify``                    gives runs their classes, by trees over ``feature_names``
``alive``                       counts the runs in the state
``counted``, ``paired``         report the matches and the work of runs, ``examined`` how many were examined
``shed``                        drops runs in the state, ``refuse`` new runs before they are made
``record``, ``recorded``        record all runs
==============================  =============================================================================

All of this needs ``tracked``; ``run_counters`` explains what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.cep.engine.row_numbers import Numbering
from spillway.core.cep.engine.row_reader import Reader
from spillway.core.cep.engine.run_counters import Counted, FlatTree, Tracking
from spillway.core.cep.engine.runs import Runs
from spillway.core.cep.engine.timeouts import Timeouts
from spillway.core.cep.plan.layout import RECORDED
from spillway.core.cep.plan.plan import Plan
from spillway.core.cep.plan.terms import words
from spillway.core.random import mix, threshold
from spillway.errors import SpillwayError


class Handles:
    """The shedding methods of an operator; the operator itself creates the parts named here."""

    plan: Plan
    _reader: Reader
    _numbering: Numbering
    _runs: Runs
    _cursor: Ints
    _now: int
    _tracking: Tracking | None
    _timeouts: Timeouts | None

    def feature_names(self, state: int) -> tuple[str, ...]:
        """The features of runs of a state, in the order in which trees number them."""
        return tuple(words(ref) for ref in self.plan.features(state))

    def classify(self, trees: Sequence[FlatTree | None], events: FlatTree | None = None) -> None:
        """Set a decision tree for each state, and one over the last state's features for rows of the last element."""
        self._tracked.classify(trees, events)

    def alive(self) -> Ints:
        """Return how many runs there are by [state, class, slice], at the time of the last row."""
        return self._runs.alive(self._tracked, self._now)

    def counted(self, reset: bool = True, omega: Any = None) -> Counted:
        """Return ``completed``, ``own`` and ``tested`` by [state, class, slice] since the last call.

        ``omega`` is the cost of examining a run, 1 if it is not given; see ``run_counters``.
        """
        return self._tracked.counted(reset, omega)

    def examined(self) -> int:
        """Return how many runs were examined since ``counted`` was last called."""
        return self._tracked.examined()

    def paired(self) -> tuple[Ints, Ints]:
        """Return matches by [class of the run, class of the row] and runs offered, since the last call."""
        return self._tracked.paired()

    def attributes(self, table: pa.Table) -> dict[str, Floats]:
        """Return the columns of a table that the query names in the form of features: texts as codes."""
        return self._reader.attributes(table)

    def shed(self, share: Any, salt: int = 0, spare: float = 0.0) -> Ints:
        """Drop the given share, by [state, class, slice], of the runs in the state; return how many by state.

        A run's slice is the one at the time of the last row. Runs are chosen by a hash of the salt and their serial
        number; the share ``spare`` of them, always the same runs, is never dropped.
        """
        tracking = self._tracked
        salts = np.array([mix(salt), tracking.salt[1]])
        limits = tracking.thresholds_of(share)
        if self._timeouts is None:
            return self._runs.shed(self._now, limits, salts, threshold(spare))
        self._take_records()
        before = self._runs.serials()
        gone = self._runs.shed(self._now, limits, salts, threshold(spare))
        alive = self._runs.serials()
        self._timeouts.forget(np.setdiff1d(before, alive), alive)
        return gone

    def _shed_held(self, share: float, salt: int) -> None:
        tracking = self._tracked
        salts = np.array([mix(salt), tracking.salt[1]])
        self._runs.shed_held(self._now, tracking.thresholds_of(share)[0], salts)

    def refuse(self, share: Any, salt: int = 0, spare: float = 0.0) -> None:
        """Refuse the given share, by [state, class, slice at making], of new runs from now on."""
        self._tracked.refuse(share, salt, spare)

    @property
    def refused(self) -> Ints:
        """How many runs were refused, by state, over the whole life."""
        return self._tracked.refused.copy()

    def record(self) -> None:
        """Record all runs from now on."""
        self._tracked.start_recording(kept=True)
        self._cursor[RECORDED] = 0

    def recorded(self) -> tuple[dict[str, Ints], Floats]:
        """Return the record by name and the features of each entry, and start a new record; see ``run_counters``."""
        return self._tracked.recorded(self._timeouts is not None, self.plan.elements[-1].repeated)

    @property
    def _tracked(self) -> Tracking:
        if self._tracking is None:
            raise SpillwayError(
                "runs are not tracked: they are not counted, nor shed.", hint="pass tracked=True"
            )
        return self._tracking

    def _take_records(self) -> None:
        new = self._tracked.take_records(int(self._cursor[RECORDED]), self._numbering)
        if self._timeouts is not None:
            self._timeouts.add(new)
        self._cursor[RECORDED] = 0
