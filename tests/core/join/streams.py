"""Two streams that match with a lag: what is popular on one side becomes popular on the other later."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ITEMS = 200
CYCLE_S = 60.0


def two_streams(
    rate: int, seconds: int, lag_s: float, seed: int, kinds: str = "a"
) -> tuple[pa.Table, pa.Table]:
    """Sets of five items around one that moves on with time, on the right ``lag_s`` later."""
    rng = np.random.default_rng(seed)
    tables = []
    for lag in (0.0, lag_s):
        times = np.sort(rng.uniform(0, seconds, rate * seconds))
        centre = ITEMS * (times - lag) / CYCLE_S
        items = (np.floor(centre)[:, None] + rng.integers(0, 8, (len(times), 5))).astype(int) % ITEMS
        kind = [kinds[k] for k in rng.integers(0, len(kinds), len(times))]
        tables.append(pa.table({"ts": times, "v": pa.array(items.tolist()), "kind": kind}))
    return tables[0], tables[1]
