"""Sheds single tuples of a pyarrow Table in memory, as ``Spillway.tuples`` does on a stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.random import threshold
from spillway.core.tuples.cut import Cut, Values, cut_for
from spillway.errors import SpillwayError, invalid, unknown


def shed(
    table: pa.Table,
    *,
    keep_ratio: float,
    utility: str | None = None,
    never: str | None = None,
    floor: float = 0.0,
    key: Sequence[str] | None = None,
    weight: str = "weight",
    salt: int = 0,
) -> pa.Table:
    """Keep the given share of a table's rows, lowest utility dropped first, and add each row's weight.

    The same key, salt and cut keep the same rows as a query on Spark does. A utility that is null or NaN
    ranks below all others.

    >>> rows = pa.table({"id": range(1000), "tier": [n % 4 for n in range(1000)]})
    >>> kept = shed(rows, keep_ratio=0.5, utility="tier")
    >>> sorted(set(kept["tier"].to_pylist())), kept.num_rows
    ([2, 3], 500)
    """
    for field, name in (("utility", utility), ("never", never)):
        if name is not None and name not in table.column_names:
            raise unknown(field, name, table.column_names)
    if weight in table.column_names:
        raise invalid("weight", weight, "a name that is not yet a column", hint="pass weight= another name")
    u = utilities(table, utility)
    protected = protection(table, never)
    ordinary = u[~protected]
    cut = cut_for(
        keep_ratio,
        ranks=Values(ordinary.tolist()) if utility is not None and len(ordinary) else None,
        protected_share=float(protected.mean()) if len(protected) else 0.0,
        floor=floor,
    )
    return apply(table, cut, utility=u, protected=protected, key=key, weight=weight, salt=salt)


def apply(
    table: pa.Table,
    cut: Cut,
    *,
    utility: npt.NDArray[np.float64],
    protected: npt.NDArray[np.bool_],
    key: Sequence[str] | None = None,
    weight: str = "weight",
    salt: int = 0,
) -> pa.Table:
    """Keep the rows that a given cut lets through."""
    names = list(key) if key else table.column_names
    for name in names:
        if name not in table.column_names:
            raise unknown("key", name, table.column_names)
    # Numba takes a third of a second to load, which every Python process of Spark would pay.
    from spillway.core.row_hash import row_hashes  # noqa: PLC0415

    hashes = row_hashes([table[name] for name in names], salt, table.num_rows)
    probability = np.where(utility > cut.value, 1.0, np.where(utility == cut.value, cut.at, cut.below))
    probability[protected] = 1.0
    limit = np.where(
        probability >= 1.0,
        threshold(1.0),
        np.where(utility == cut.value, threshold(cut.at), threshold(cut.below)),
    )
    keep = (hashes <= limit) & (probability > 0.0)
    return table.filter(pa.array(keep)).append_column(weight, pa.array(1.0 / probability[keep]))


def utilities(table: pa.Table, name: str | None) -> npt.NDArray[np.float64]:
    """Return the utilities to rank by: null and NaN are minus infinity; without a column all are zero."""
    if name is None:
        return np.zeros(table.num_rows)
    kind = table.schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SpillwayError(f"utility = {name!r} has type {kind}: expected a number.")
    values = pc.fill_null(table[name].cast(pa.float64()), float("nan")).to_numpy()
    return np.where(np.isnan(values), -np.inf, values)


def protection(table: pa.Table, name: str | None) -> npt.NDArray[np.bool_]:
    """Return which rows may never be dropped; null means that a row may."""
    if name is None:
        return np.zeros(table.num_rows, dtype=np.bool_)
    if not pa.types.is_boolean(table.schema.field(name).type):
        raise SpillwayError(f"never = {name!r} has type {table.schema.field(name).type}: expected boolean.")
    return np.asarray(pc.fill_null(table[name], False), dtype=np.bool_)
