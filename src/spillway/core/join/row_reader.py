"""Reads tables into rows: checks columns, numbers rows, and gives codes to strings and to types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Ints
from spillway.core.data.vocabulary import Vocabulary
from spillway.core.join.config import JoinConfig
from spillway.core.join.item_sets import Rows, Shape, rows_of, shape_of
from spillway.core.join.selection.utility import Utility
from spillway.core.join.waiting_rows import no_rows
from spillway.errors import SpillwayError, unknown

SIDES = ("left", "right")


class Reader:
    """Reads the rows of both sides. Rows are numbered from 0 on each side, including rows that cannot match.

    What ``read`` did counts only after ``advance``: if a side is refused, the next call starts where this one did.
    """

    def __init__(self, config: JoinConfig, utility: Utility | None) -> None:
        self.config, self.utility = config, utility
        self.vocabulary = Vocabulary()
        self.shapes: list[Shape | None] = [None, None]
        self.next_number = [0, 0]
        self._ahead = self.shapes, self.next_number

    @property
    def single_sides(self) -> tuple[bool, bool]:
        """Which sides have single values, as far as is known."""
        left, right = (shape is None or shape.single for shape in self.shapes)
        return left, right

    def read(
        self, left: pa.Table | pa.RecordBatch | None, right: pa.Table | pa.RecordBatch | None
    ) -> tuple[Rows, Rows]:
        """Return the rows of both tables, each in the order of time."""
        self._ahead = [*self.shapes], [*self.next_number]
        return self._read(0, left), self._read(1, right)

    def advance(self) -> None:
        """Make the effects of the last ``read`` permanent."""
        self.shapes, self.next_number = self._ahead

    def _read(self, side: int, table: pa.Table | pa.RecordBatch | None) -> Rows:
        if table is None:
            return no_rows()
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            raise SpillwayError(f"{SIDES[side]}: expected a pyarrow Table, got {type(table).__name__}.")
        on, times = self.config.on, self.config.times
        column = (on.left, on.right)[side]
        shape = self._shape(side, table, column)
        rows = rows_of(
            table,
            column=column,
            time=times[side],
            shape=shape,
            weighted=on.weighted,
            first_number=self.next_number[side],
            types=types_of(table, self.utility),
            encode=self.vocabulary.encode,
        )
        self._ahead[1][side] += table.num_rows
        return rows

    def _shape(self, side: int, table: pa.Table, column: str) -> Shape:
        shapes, shape = self._ahead[0], shape_of(table, column, SIDES[side])
        known, other = shapes[side], shapes[1 - side]
        if known is not None and known != shape:
            raise SpillwayError(
                f"on: the {SIDES[side]} column {column!r} has changed from {known} to {shape}.",
                hint="give all batches of a stream the same schema",
            )
        if other is not None and other.item != shape.item:
            raise SpillwayError(
                f"on: the {SIDES[side]} column {column!r} has items of type {shape.item}, the other side has "
                f"{other.item}.",
                hint="cast one of them",
            )
        shapes[side] = shape
        return shape


def types_of(table: pa.Table, utility: Utility | None) -> Ints:
    """Return the number of each row's type: all 0 without a utility, and the last number for types not listed."""
    if utility is None:
        return np.zeros(table.num_rows, np.int64)
    if utility.type not in table.column_names:
        raise unknown("utility type", utility.type, table.column_names)
    names = pa.array(list(utility.values))
    column = table[utility.type].combine_chunks()
    try:
        found = pc.index_in(column.cast(names.type), names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SpillwayError(
            f"utility type = {utility.type!r} has type {column.type}, its values are {names.type}.",
            hint="name the types as the column holds them",
        ) from error
    return np.asarray(pc.fill_null(found, len(names)).to_numpy(zero_copy_only=False), dtype=np.int64)
