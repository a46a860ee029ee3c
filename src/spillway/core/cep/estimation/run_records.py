"""Computes what each run of a recorded stretch brought and took, by time slice (Section V-B).

A record lists runs in the order in which they were made: state, the run it was made from, row, time of its first row,
when it was made, and whether it is a complete match. With Z slices to a window W and κ the work per slice of time of
examining a run of a state,

    gain(p, z)   complete matches made from p, or from runs made from it, while p was in slice z
    cost(p, z)   κ · time in slice z, of p and of all runs made from it; times their lengths where Ω is the length

All runs of a chain have the same first row, so they are always in the same slice. A run's whole life is known only if
its window ended within the stretch: only such runs are used for learning (``whole``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spillway.core.arrays import Bools, Floats, Ints
from spillway.errors import invalid


@dataclass(frozen=True, eq=False)
class History:
    """The runs of a stretch: ``state``, ``features``, ``gain``, ``cost``, and whether the whole life is known."""

    state: Ints
    features: Floats
    gain: Floats
    cost: Floats
    whole: Bools

    def of(self, state: int) -> tuple[Floats, Floats, Floats]:
        """Return features, gain and cost of the runs of a state whose life is known."""
        at = (self.state == state) & self.whole
        return self.features[at], self.gain[at], self.cost[at]


def history_of(
    record: dict[str, Ints],
    features: Floats,
    *,
    within_us: int,
    slices: int,
    work_per_slice: Floats,
    last_repeats: bool = False,
    by_length: bool = False,
) -> History:
    """Return what the recorded runs brought and took.

    ``record`` has the columns serial, state, parent (a serial, -1 for none), row, first_us, at_us and complete;
    ``work_per_slice`` is κ by state, for each row of a run if ``by_length``. Where the last element repeats, a
    complete match may also continue as a run.
    """
    n = len(record["serial"])
    if len(features) != n:
        raise invalid("features", len(features), f"one row for each of the {n} runs")
    parent = _places(record["serial"], record["parent"])
    complete = record["complete"].astype(np.bool_)
    age = record["at_us"] - record["first_us"]
    z = np.minimum(slices - 1, age * slices // within_us)
    runs = ~complete | last_repeats
    gain, cost = np.zeros((n, slices)), np.zeros((n, slices))
    stay = _stay(age, within_us, slices) * work_per_slice[record["state"]][:, None]
    if by_length:
        stay *= _lengths(parent)[:, None]
    cost[runs] = stay[runs]
    _credit(np.flatnonzero(runs), parent, stay, cost)
    matches = np.zeros((n, slices))
    matches[np.arange(n), z] = complete
    if last_repeats:
        gain += matches
    _credit(np.flatnonzero(complete), parent, matches, gain)
    end = record["at_us"].max(initial=0)
    whole = runs & (record["first_us"] + within_us <= end)
    return History(record["state"], features, gain, cost, whole)


def _places(serial: Ints, parent: Ints) -> Ints:
    """Return the position of each parent in the record; serial numbers ascend."""
    at = np.searchsorted(serial, parent)
    at = np.minimum(at, max(0, len(serial) - 1))
    return np.where((parent >= 0) & (serial[at] == parent), at, -1).astype(np.int64)


def _lengths(parent: Ints) -> Floats:
    """Return how many rows each run has: one more than the run it was made from."""
    length, up = np.ones(len(parent)), parent
    while (up >= 0).any():
        length += up >= 0
        up = np.where(up >= 0, parent[up], -1)
    return length


def _stay(age: Ints, within_us: int, slices: int) -> Floats:
    """Return the part of each slice for which a run that is made at this age is alive."""
    made = (age / within_us * slices)[:, None]
    stay: Floats = np.clip(np.arange(1, slices + 1)[None] - made, 0.0, 1.0)
    return stay


def _credit(at: Ints, parent: Ints, amounts: Floats, table: Floats) -> None:
    """Add the amounts of each of these runs to all runs that it was made from."""
    up = parent[at]
    while True:
        found = up >= 0
        at, up = at[found], up[found]
        if not len(at):
            return
        for z in range(table.shape[1]):
            table[:, z] += np.bincount(up, amounts[at, z], len(table))
        up = parent[up]
