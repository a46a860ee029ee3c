"""Reports the work of a call, and the size of the state."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spillway.core.arrays import Ints


@dataclass
class Work:
    """What one call of ``process`` did.

    ``spent`` is in units: 1 for each row that was processed, each run that was examined, each run that was made, and
    each match. ``matches`` is the number of matches returned. ``per_row`` are the units of each row, in the order of
    the stream, and ``matches_per_row`` the matches that it completed. Where the pattern ends with a negated element
    these are returned later or, if they are forbidden, not at all. ``crowded_out`` is the number of runs that were
    shed because there were more than ``most_runs``.
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
    """The size of the state.

    - ``runs``: partial matches, each counted in every index that holds it, and held matches; this is what
      ``most_runs`` bounds. ``held_matches`` are those among them that wait for their window to pass.
    - ``nodes``: the nodes of the chains of repeated elements.
    - ``waiting_rows``: rows that are later than the watermark.
    - ``forbidding_rows``: rows of negated elements, as many as arrived within a window. They are not shed.
    - ``recorded_runs``: runs that may still time out, or that have timed out and were not requested yet.
    - ``bytes``: the memory of all of these except for waiting rows.
    """

    runs: int
    nodes: int
    waiting_rows: int
    bytes: int
    held_matches: int = 0
    forbidding_rows: int = 0
    recorded_runs: int = 0
