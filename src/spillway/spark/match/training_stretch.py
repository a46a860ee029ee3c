"""Learns the values of partial matches in a shard, from the first rows that it sees.

Strategies divide partial matches into classes (``spillway.core.cep.estimation``), which are learned from a stretch
of the stream. A shard gathers such a stretch, learns from it once, and forgets it.

- The stretch is three windows long. It ends earlier after ``MOST_ROWS`` rows or ``MOST_UNITS`` units of work, since
  it is matched a second time for learning. If it is then shorter than one and a half windows, a new stretch begins.
  Such a shard may never learn anything by itself; it reports this after the first time, the second, the fourth and
  so on.
- The time for learning grows with the work of the stretch. Measured on one core of a shared machine: 0.04 s for 2,000
  units, 0.6 s for a million, 2 s for the three million at which it ends.
- Shedding in the meantime does not matter: all rows of the stretch are matched again from the first, and nothing is
  shed then unless the state is full. So a shard can also learn from a stream that overloads it from the start, or
  whose state is always full.
- The values that one shard has learned are available to all others from the next batch on (shared_model.py).

Until then a shard can only use the order of rows: when the budget is spent, the last rows are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.estimation import EstimationConfig, learn
from spillway.core.cep.estimation.model import LEAST_WINDOWS, Each, windows_in
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.data.times import times_of
from spillway.errors import SpillwayError
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.shards.packets import together

CLASSES = 32
MOST_ROWS, MOST_UNITS = 20_000, 3_000_000
_WINDOWS, _LEAST_ROWS = 3.0, 200
_TREE = ("feature", "threshold", "left", "right")


class Stretch:
    """The training rows of a shard.

    ``anew`` counts how often a new stretch had to begin; ``note`` is what the last call reports about it.
    """

    def __init__(self, config: PatternConfig, columns: list[str], spec: SheddingSpec) -> None:
        self._config, self._columns, self._spec = config, columns, spec
        self.rows: pa.Table | None = None
        self.units = 0.0
        self.anew = 0
        self.note = ""

    def take(self, table: pa.Table, demand: float) -> bool:
        """Add the rows of a batch, whose work is ``demand`` units; return whether there are enough rows now."""
        self.note = ""
        share = min(1.0, (MOST_UNITS - self.units) / max(1.0, demand))
        some = table.select(self._columns).slice(0, int(share * table.num_rows))
        rows = together(self.rows, some, what="the rows to learn from", kind="pattern")
        assert rows is not None
        self.rows = rows.slice(0, MOST_ROWS)
        self.units += share * demand
        full = share < 1.0 or self.rows.num_rows == MOST_ROWS
        enough = (
            self._windows() >= (LEAST_WINDOWS if full else _WINDOWS) and self.rows.num_rows >= _LEAST_ROWS
        )
        if full and not enough:
            self._begin_anew(
                f"{LEAST_WINDOWS:g} windows have more than {MOST_ROWS:,} rows or {MOST_UNITS:,} units of work"
            )
        return enough

    def learned(self) -> Learned | None:
        """Return the values learned from the rows, and forget the rows; None if it is not possible."""
        assert self.rows is not None
        try:
            found = learned_from(self._config, self.rows, self._spec)
        except (SpillwayError, ValueError) as error:  # the shard stays without classes, but the query runs on
            self._begin_anew(str(error))
            return None
        self.forget()
        return found

    def forget(self) -> None:
        """Discard the rows."""
        self.rows, self.units = None, 0.0

    def _begin_anew(self, why: str) -> None:
        self.forget()
        self.anew += 1
        if self.anew & (self.anew - 1) == 0:
            self.note = (
                f"a shard could not learn what partial matches are worth: {why}. Until it can, the last rows of a "
                "batch are dropped where the budget ends. Give match(history=...) earlier rows to learn from"
            )

    def _windows(self) -> float:
        times, _ = times_of(self.rows, self._config.time)
        return windows_in(self._config, times)


def learned_from(config: PatternConfig, table: pa.Table, spec: SheddingSpec, each: Each = map) -> Learned:
    """Return the values learned from a stretch, with a fixed number of classes; raise if there is no run in it.

    ``each`` handles the states one after the other, or all in parallel (training_rows.py).
    """
    settings = EstimationConfig(most_classes=CLASSES, most_runs=5_000, clusters=spec.clusters)
    found = learn(replace(config, timeouts=False), table, settings, each, spec.resource)
    more = ((0, 0), (0, CLASSES - found.classes), (0, 0))
    gain, own, cost = (np.pad(table, more) for table in (found.gain, found.own, found.cost))
    return replace(found, gain=gain, own=own, cost=cost)


def load_estimators() -> None:
    """Load the libraries for learning, which takes a second: in the first batch of a process it is not noticed."""
    import sklearn.cluster  # noqa: PLC0415
    import sklearn.tree  # noqa: PLC0415, F401


def to_arrays(learned: Learned) -> dict[str, Any]:
    """Return the learned values as arrays by name."""
    found: dict[str, Any] = {}
    for field in fields(learned):
        value = getattr(learned, field.name)
        if field.name in ("trees", "last"):
            for n, tree in enumerate(value if isinstance(value, tuple) else [value]):
                found |= {f"{field.name}.{n}.{part}": getattr(tree, part) for part in _TREE}
        else:
            found[field.name] = np.asarray(value)
    return found


def from_arrays(arrays: Mapping[str, Any]) -> Learned:
    """Read back the output of :func:`to_arrays`."""
    rest = {name: array for name, array in arrays.items() if "." not in name}
    trees = [_tree(arrays, f"trees.{n}") for n in range(len(arrays["gain"]))]
    rest["selectivity"] = tuple(arrays["selectivity"].tolist())
    return Learned(trees=tuple(trees), last=_tree(arrays, "last.0"), **rest)


def _tree(arrays: Mapping[str, Any], name: str) -> Tree:
    return Tree(*(arrays[f"{name}.{part}"] for part in _TREE))
