"""What a call did, and how much is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spillway.core.cep.reading import Ints


@dataclass
class Work:
    """What one call of ``process`` did.

    ``spent`` is in units: 1 for each row that was looked at, each run that was looked at, each run that was made, and
    each match. ``per_row`` and ``matches_per_row`` are the same for each row, in the order of the stream.
    ``crowded_out`` are runs that were shed because there were more than ``most_runs``.
    """

    rows: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    spent: int = 0
    matches: int = 0
    crowded_out: int = 0
    per_row: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    matches_per_row: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Size:
    """How much is kept: runs (each counted in every index it lies in), nodes of chains, waiting rows, and bytes."""

    runs: int
    nodes: int
    waiting_rows: int
    bytes: int
