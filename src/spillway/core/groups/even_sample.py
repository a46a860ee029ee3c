"""Draws a sample of exactly n_g rows of each group, spread evenly over the group's rows in the order of time.

Rows that follow each other are often similar: the tasks of one job, the rides of one hour. A random draw may take
many rows from one stretch of time and none from another; an even draw takes a proportional number from each. The rows
of a group, in the order of time, form a ring of N_g places. The ring is cut into n_g parts, as equal as whole rows
allow, and one row is drawn from each: part k = 0, 1, ... gives the row at

    (u_g + ⌊k N_g / n_g⌋ + v_k) mod N_g          0 <= v_k < ⌊(k + 1) N_g / n_g⌋ - ⌊k N_g / n_g⌋

where u_g and v_k are hashes: of the group's first row, and of that row and k. The ring is turned by u_g, so that all
places are equally likely for each part, and no two parts share a row. Hence a row is kept with probability n_g / N_g,
as in a random draw, and weights are the same and unbiased. On a stream it is known beforehand which rows of a group
will be kept (:mod:`~spillway.core.groups.paper.window_scan`).

**The gain** depends on how similar neighbours are. With 98 % shed, the mean error on the recorded tasks per
class falls to two thirds of that of a random draw and per user to nine tenths; on fares per route and distances of
flights it is the same. Parts are drawn independently, so periodic data cannot bias the sample. The variance is
estimated from differences of successive rows around the ring (:mod:`~spillway.core.groups.intervals`). The part in
which the ring closes may give one of the earliest or one of the latest rows, and the estimate includes that
difference: along a trend nothing else is random, and the deviation is estimated 1.7 times too large.

========== ============================================
symbol     meaning
========== ============================================
N_g, n_g   ``sizes``, ``rows``
u_g, v_k   the rotation of the ring, and the place in a part
========== ============================================

>>> codes, order = np.array([0, 0, 1, 0, 0, 0, 0, 1]), np.arange(10, 18)
>>> rows, weights = evenly(codes, order, sizes=np.array([6, 2]), rows=np.array([3, 1]))
>>> rows, weights
(array([1, 5, 6, 7]), array([2., 2., 2., 2.]))
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Floats, Ints
from spillway.core.groups.random_order import mixed
from spillway.core.groups.stratified import weights_of
from spillway.errors import SpillwayError, unknown


def evenly(
    codes: Ints,
    order: Ints,
    *,
    sizes: Ints,
    rows: Ints,
    chance: float = 1.0,
    places: Ints | None = None,
) -> tuple[Ints, Floats]:
    """Return the numbers of the kept rows, in the order of the table, and their weights.

    ``places`` are the rows' numbers in the order of time, by default that of the table. The other arguments are those
    of :func:`~.stratified.stratified`.
    """
    places = np.arange(len(codes)) if places is None else places
    by_group = places[np.argsort(codes[places], kind="stable")]
    first = np.cumsum(sizes) - sizes
    group = np.repeat(np.arange(len(sizes)), rows)
    k = np.arange(len(group)) - np.repeat(np.cumsum(rows) - rows, rows)
    N, n, hashed = sizes[group], rows[group], order[by_group[first]][group]
    part, end = k * N // n, (k + 1) * N // n
    u, v = _below(mixed(hashed, 0), N), _below(mixed(hashed, k + 1), end - part)
    kept = np.sort(by_group[first[group] + (u + part + v) % N])
    return kept, weights_of(sizes, rows, chance)[codes[kept]]


def _below(hashes: Ints, most: Ints) -> Ints:
    """Return whole numbers from 0 to ``most - 1``, by hash."""
    return (hashes.view(np.uint64) % most.astype(np.uint64)).astype(np.int64)


def places_along(name: str, table: pa.Table, ties: Ints | None = None) -> Ints:
    """Return the numbers of a table's rows in the order of a column; rows without a value are last.

    >>> places_along("ts", pa.table({"ts": [5, None, 5, 1]}), np.array([9, 0, 4, 0]))
    array([3, 2, 0, 1])
    """
    if name not in table.column_names:
        raise unknown("along", name, table.column_names)
    kind = table.schema.field(name).type
    if not (pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise SpillwayError(f"along = {name!r} has type {kind}: expected times or numbers.")
    along = table[name].cast(pa.float32()) if pa.types.is_float16(kind) else table[name]
    columns = {"along": along, "tie": pa.array(np.arange(table.num_rows) if ties is None else ties)}
    keys = [("along", "ascending"), ("tie", "ascending")]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy(), dtype=np.int64)
