"""Runs that came to nothing: those whose window has passed and from which no further run and no match was made.

They are found in the record of runs, which is kept for a window. Under the policy ``any`` a run goes on both with and
without a row; of all that a run has become, the ends that are no match come out here, each with the rows it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.core.cep.syntax import Element

Ints = npt.NDArray[np.int64]
_SERIAL, _STATE, _PARENT, _ROW, _FIRST, _, _COMPLETE = range(7)


class Timeouts:
    """The record of the last window."""

    def __init__(self, elements: list[Element]) -> None:
        self._elements = elements
        fields = [pa.field(e.variable, pa.list_(pa.int64()) if e.repeated else pa.int64()) for e in elements]
        self.schema = pa.schema(fields)
        self._record: Ints = np.empty((7, 0), np.int64)
        self._found: list[pa.Table] = []

    def add(self, record: Ints) -> None:
        """Take more of the record; rows are numbers."""
        self._record = np.concatenate([self._record, record], axis=1)

    def expire(self, limit: int) -> None:
        """Take out the runs whose first row is not later than ``limit``."""
        gone = self._record[_FIRST] <= limit
        if not gone.any():
            return
        old, self._record = self._record[:, gone], self._record[:, ~gone]
        ends = ~np.isin(old[_SERIAL], old[_PARENT]) & (old[_COMPLETE] == 0)
        if ends.any():
            self._found.append(self._table(old, np.flatnonzero(ends)))

    def table(self) -> pa.Table:
        """Return what was taken out since the last call; elements that a run had not come to are null."""
        found, self._found = self._found, []
        return pa.concat_tables([self.schema.empty_table(), *found])

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
        return {"record": self._record}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self._record = state["record"]


def _chains(record: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Return run, state and row of all entries that lead to the given ones, by run and from first to last."""
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
