"""Draws rows by group in the tasks of a stream: each task draws from its own rows (core/groups/task_portion.py).

A function of keys, hashes and keep probabilities runs in Python on Arrow data, for all rows of a partition at once.
It needs four numbers per row, regardless of the other columns, and costs about half a microsecond of a core per row.
The rows that a task keeps depend only on its rows and the control row, so a replayed batch with the same partitions
keeps the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf


def portions(key: str, hashed: str, limit: str, share: str) -> Column:
    """Return the weight of each row in its task's sample, 0 for rows that are not in it.

    ``limit`` is the hash up to which an independent draw would keep the row, null where no keep probability is
    planned for its group.
    """
    drawn = arrow_udf(_portions, T.DoubleType())  # type: ignore[call-overload]
    found: Column = drawn(key, hashed, limit, share)
    return found


def _portions(
    batches: Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]],
) -> Iterator[pa.Array]:
    from spillway.core.groups.task_portion import portion  # noqa: PLC0415  in the task, not where the plan is made

    held = []
    for keys, hashes, limits, shares in batches:
        share = shares[0].as_py() if len(shares) else 1.0
        if share >= 1.0:
            yield pa.array(np.ones(len(keys)))
            continue
        chances = (
            limits.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) + 2.0**63 + 1.0
        ) / 2.0**64
        held.append((keys.to_numpy(), hashes.to_numpy(), chances))
    if not held:
        return
    keys, hashes, chances = (np.concatenate(columns) for columns in zip(*held, strict=True))
    weights = portion(keys, hashes, chances, share=share)
    at = 0
    for part, _, _ in held:
        yield pa.array(weights[at : at + len(part)])
        at += len(part)
