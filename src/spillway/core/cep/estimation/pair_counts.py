"""The initial counts of pairs: which events completed which runs in a recorded stretch (see shedding.pair_prices)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.cep.estimation.classifier import without_gaps
from spillway.core.cep.estimation.run_records import History
from spillway.core.cep.shedding.decision_tree import Tree


class Shape(NamedTuple):
    """The number of classes of events (0 where pairs are not counted), the slices of the window, and its length."""

    events: int
    slices: int
    within_us: int


def paired(
    record: dict[str, Ints],
    history: History,
    trees: Sequence[Tree],
    classes: Ints,
    work_per_slice: float,
    shape: Shape,
) -> dict[str, Floats]:
    """Return the fields of ``Learned`` for pairs; ``classes`` are those of all rows, -1 for none."""
    state, (kinds, slices, within) = len(trees) - 2, shape
    if not kinds:
        none = np.zeros((1, 0))
        return _named(none, none, np.zeros((1, slices)), np.zeros(0))
    runs = np.flatnonzero(record["state"] == state)
    n, of_run = trees[state].classes, np.zeros(len(record["state"]), np.int64)
    width = 1 + int(trees[state].feature.max(initial=0))
    of_run[runs] = trees[state].classify(without_gaps(history.features[runs, :width]))
    matches, born = np.zeros((n, kinds)), np.zeros((n, slices))
    complete = np.flatnonzero(record["complete"])
    parents = np.searchsorted(record["serial"], record["parent"][complete])
    np.add.at(matches, (of_run[parents], classes[record["row"][complete]]), 1.0)
    rate = np.bincount(classes[classes >= 0], minlength=kinds).astype(np.float64)
    first, end = int(record["at_us"].min()), int(record["at_us"].max())
    stayed = (np.minimum(record["first_us"] + within, end) - record["at_us"])[runs] / within * slices
    examined = work_per_slice * np.bincount(of_run[runs], stayed, n)
    passed = max(1, end - first) / within * slices
    full = runs[record["at_us"][runs] - first >= within] if passed > slices + 1 else runs
    age = (record["at_us"] - record["first_us"])[full]
    np.add.at(born, (of_run[full], np.minimum(age * slices // within, slices - 1)), 1.0)
    born /= passed - slices if passed > slices + 1 else passed
    return _named(matches, np.outer(examined, rate / max(rate.sum(), 1.0)), born, rate / passed)


def _named(matches: Floats, examined: Floats, born: Floats, rate: Floats) -> dict[str, Floats]:
    return {"pair_matches": matches, "pair_examined": examined, "pair_born": born, "pair_rate": rate}
