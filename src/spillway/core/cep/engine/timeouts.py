"""Runs that timed out: those whose window has passed and from which no further run and no match was made.

They are found in the record of runs, which is kept for a window. Under the policy ``any`` a run continues both with
and without a row. Of all runs made from a run, those that ended without a match are returned here, each with its
rows, in the order of their first rows. They are kept until they are requested, also across a snapshot.

A run that was shed is not reported, because it is not known whether it would have become a match. It is removed from
the record, unless runs made from it are still alive. So the record is as large as the state, however many runs were
made in the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.core.arrays import Ints
from spillway.core.cep.language.syntax import Element

_SERIAL, _STATE, _PARENT, _ROW, _FIRST, _, _WENT_ON = range(7)  # for a complete match, _WENT_ON is set, too


class Timeouts:
    """The record of the last window, and the runs that timed out since the last request."""

    def __init__(self, elements: list[Element]) -> None:
        self._elements = elements
        self._last_goes_on = elements[-1].repeated
        fields = [pa.field(e.variable, pa.list_(pa.int64()) if e.repeated else pa.int64()) for e in elements]
        self.schema = pa.schema(fields)
        self._record: Ints = np.empty((7, 0), np.int64)
        self._ended: Ints = np.empty((7, 0), np.int64)

    @property
    def count(self) -> int:
        """How many runs are recorded."""
        return int(self._record.shape[1] + self._ended.shape[1])

    @property
    def bytes(self) -> int:
        """The memory that the record takes."""
        return self._record.nbytes + self._ended.nbytes

    def add(self, record: Ints) -> None:
        """Add entries to the record; rows are given by number."""
        new = record[:, record[_STATE] >= 0]
        known = np.concatenate([self._record, new], axis=1)
        parents = new[_PARENT]
        known[_WENT_ON, np.searchsorted(known[_SERIAL], parents[parents >= 0])] = 1
        matches = np.flatnonzero(new[_WENT_ON]) + self._record.shape[1]
        self._record = known if self._last_goes_on else np.delete(known, matches, axis=1)

    def forget(self, gone: Ints, alive: Ints) -> None:
        """Remove runs that were shed, by their serial numbers; ``alive`` are those that are left."""
        record = self._record
        record[_WENT_ON, np.isin(record[_SERIAL], gone)] = 1
        self._record = _with_parents(record, np.isin(record[_SERIAL], alive) | (record[_WENT_ON] == 0))

    def expire(self, limit: int) -> None:
        """Move out the runs whose first row is not later than ``limit``."""
        gone = self._record[_FIRST] <= limit
        if not gone.any():
            return
        old, self._record = self._record[:, gone], self._record[:, ~gone]
        self._ended = np.concatenate([self._ended, _with_parents(old, old[_WENT_ON] == 0)], axis=1)

    def table(self) -> pa.Table:
        """Return the runs that timed out since the last call; elements that a run had not reached are null."""
        record = self._ended[:, np.argsort(self._ended[_SERIAL])]
        self._ended = self._ended[:, :0]
        ends = np.flatnonzero(record[_WENT_ON] == 0)
        if not len(ends):
            return self.schema.empty_table()
        return self._table(record, ends[np.argsort(record[_FIRST, ends], kind="stable")])

    def _table(self, record: Ints, ends: Ints) -> pa.Table:
        runs, states, rows = _chains(record, ends)
        columns: list[Any] = []
        for state, element in enumerate(self._elements):
            here = states == state
            if element.repeated:
                counts = np.bincount(runs[here], minlength=len(ends))
                starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
                reached = pa.array(counts == 0)
                columns.append(pa.ListArray.from_arrays(pa.array(starts), pa.array(rows[here]), mask=reached))
            else:
                values = np.zeros(len(ends), np.int64)
                missing = np.ones(len(ends), np.bool_)
                values[runs[here]], missing[runs[here]] = rows[here], False
                columns.append(pa.array(values, mask=missing))
        return pa.table(columns, schema=self.schema)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as arrays."""
        return {"record": self._record, "ended": self._ended}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a snapshot."""
        self._record, self._ended = state["record"].copy(), state["ended"]


def _with_parents(record: Ints, wanted: npt.NDArray[np.bool_]) -> Ints:
    """Return some entries and all their ancestors."""
    at = np.flatnonzero(wanted)
    while len(at):
        parents = record[_PARENT, at]
        at = np.unique(np.searchsorted(record[_SERIAL], parents[parents >= 0]))
        at = at[~wanted[at]]
        wanted[at] = True
    return record[:, wanted]


def _chains(record: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Return run, state and row of the given entries and their ancestors, by run and from first to last."""
    runs, places = [], []
    run, at = np.arange(len(ends)), ends
    while len(at):
        runs.append(run)
        places.append(at)
        parents = record[_PARENT, at]
        further = parents >= 0
        run, at = run[further], np.searchsorted(record[_SERIAL], parents[further])
    run, at = np.concatenate(runs), np.concatenate(places)
    order = np.lexsort((at, run))
    run, at = run[order], at[order]
    return run, record[_STATE, at], record[_ROW, at]
