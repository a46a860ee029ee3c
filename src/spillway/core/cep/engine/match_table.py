"""Writes matches as a table: a column for each variable, with row numbers, or lists of them if it is repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.cep.engine.row_numbers import Numbering
from spillway.core.cep.language.syntax import Element
from spillway.core.cep.plan.layout import NEED, UPTO, VALUES, WRITTEN

_FIRST, _MOST = 1 << 10, 1 << 20


class Output:
    """The buffers that compiled code writes matches to; they are emptied when they are full."""

    def __init__(self, elements: list[Element]) -> None:
        self._elements = elements
        self._lists = [k for k, element in enumerate(elements) if element.repeated]
        fields = [
            pa.field(e.variable, pa.list_(pa.int64()) if e.repeated else pa.int64(), nullable=False)
            for e in elements
        ]
        self.schema = pa.schema(fields)
        self.cursor = np.zeros(VALUES + len(self._lists), np.int64)
        self.cursor[UPTO] = -1
        self._size = _FIRST
        self._batches: list[pa.RecordBatch] = []
        self._renew(0)

    def _renew(self, need: int) -> None:
        self.rows = np.empty((len(self._elements), self._size), np.int64)
        self.values = tuple(np.empty(max(4 * self._size, need), np.int64) for _ in self._lists)
        self.cursor[WRITTEN] = self.cursor[NEED] = 0
        self.cursor[VALUES : VALUES + len(self._lists)] = 0

    def make_room(self, numbering: Numbering) -> None:
        """Take the matches out of the buffers, and provide larger buffers."""
        need = int(self.cursor[NEED])
        self._take(numbering, copy=False)
        self._size = min(_MOST, 4 * self._size)
        self._renew(need)

    def table(self, numbering: Numbering) -> pa.Table:
        """Return all matches since the last call."""
        self._take(numbering, copy=True)
        self.cursor[WRITTEN] = 0
        self.cursor[VALUES : VALUES + len(self._lists)] = 0
        found, self._batches = self._batches, []
        return pa.Table.from_batches(found, schema=self.schema)

    def _take(self, numbering: Numbering, copy: bool) -> None:
        count = int(self.cursor[WRITTEN])
        if not count:
            return
        columns: list[Any] = []
        for k, element in enumerate(self._elements):
            rows = self.rows[k, :count]
            if not element.repeated:
                found = numbering.numbers(rows)
                columns.append(pa.array(found.copy() if copy and found.base is not None else found))
                continue
            n = self._lists.index(k)
            values = numbering.numbers(self.values[n][: self.cursor[VALUES + n]])
            offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(rows, dtype=np.int32)])
            inner = pa.array(values.copy() if copy and values.base is not None else values)
            columns.append(pa.ListArray.from_arrays(pa.array(offsets), inner))
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
