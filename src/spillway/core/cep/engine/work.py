"""What a call did, and how much is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spillway.core.arrays import Ints


@dataclass
class Work:
    """What one call of ``process`` did.

    ``spent`` is in units: 1 for each row that was looked at, each run that was looked at, each run that was made, and
    each match. ``matches`` came out. ``per_row`` are the units of each row, in the order of the stream, and
    ``matches_per_row`` the matches that it completed. Where the pattern ends with a negated element these come out
    later, or, if they are forbidden, not at all. ``crowded_out`` are runs that were shed because there were more than
    ``most_runs``.
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
    """How much is kept.

    - ``runs``: matches so far, each counted in every index it lies in, and matches that are held; this is what
      ``most_runs`` bounds. ``held_matches`` are those among them that wait for their window to pass.
    - ``nodes``: of the chains of repeated elements.
    - ``waiting_rows``: that are later than the watermark.
    - ``forbidding_rows``: of negated elements. They are as many as came within a window, and are not shed.
    - ``recorded_runs``: of which it is not known if they time out, or that have and were not asked for.
    - ``bytes``: all of this but rows that wait.
    """

    runs: int
    nodes: int
    waiting_rows: int
    bytes: int
    held_matches: int = 0
    forbidding_rows: int = 0
    recorded_runs: int = 0
