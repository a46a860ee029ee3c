"""Checks the arguments that all ways of shedding a table have in common."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import SpillwayError, invalid


def require_ratio(name: str, value: Any) -> float:
    """Return a share as a float, or raise."""
    ratio = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not 0.0 <= ratio <= 1.0:
        raise invalid(name, value, "a number from 0 to 1")
    return ratio


def budget_of(keep_ratio: Any, rows: int) -> int:
    """Return the share ``keep_ratio`` of ``rows``, rounded to the nearest whole number.

    >>> budget_of(0.02, 1225), budget_of(0.5, 1)
    (25, 1)
    """
    return math.floor(require_ratio("keep_ratio", keep_ratio) * rows + 0.5)


def require_table(table: Any, *, name: str = "table") -> None:
    """Raise if this is not a pyarrow Table, or if two of its columns have the same name.

    >>> require_table({"route": ["a"]})
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: table is of type dict: expected a pyarrow Table. Hint: ...
    """
    if not isinstance(table, pa.Table):
        raise SpillwayError(
            f"{name} is of type {type(table).__name__}: expected a pyarrow Table.",
            hint="pa.table(...) takes columns, record batches and data frames",
        )
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpillwayError(
            f"{name} has more than one column {twice[0]!r}: which is meant cannot be told.",
            hint="rename_columns gives each a name of its own",
        )


def taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return the rows with these numbers, or raise if pyarrow cannot take rows of a column's type."""
    try:
        return table.take(pa.array(rows))
    except pa.ArrowNotImplementedError as error:
        raise SpillwayError(
            f"table has a column of which rows cannot be taken: {error}.",
            hint="cast it, as string_view to string, or leave it out",
        ) from None


def require_new(field: str, name: Any, table: pa.Table) -> None:
    """Raise if a column to be added exists already, or its name is not a non-empty string."""
    if not isinstance(name, str) or not name:
        raise invalid(field, name, "the name of a column")
    if name in table.column_names:
        raise invalid(field, name, "a name that is not yet a column", hint=f"pass {field}= another name")
