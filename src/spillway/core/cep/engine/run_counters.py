"""The data about runs that shedding uses: their classes, counters, refusals, and a record of them.

Each run has a **serial** number, a **class** and a **path**. Its class is decided once, when it is made, by a
decision tree of its state over the run's features, which is stored as a table (see ``class_lookup``). Its path is the
states and classes of itself and of all runs that it was made from; paths are numbered in order of appearance. A run
and its ancestors have the same first row, so at any moment they are in the same time slice

    slice = (t_now - t_first) * slices // window

and what is counted for a run and its ancestors is counted once, by path and slice, and spread over the chain when
the counters are read (``counted``):

==========  ===============================================================================================
completed   complete matches, counted for every run that they were made from
own         examinations of runs, each weighted by a cost of the run's state
tested      the same, counted for the run and those that it was made from
==========  ===============================================================================================

There is room for 4,096 paths; later ones are not counted.

**Pairs.** Which runs a row completes depends on both. Where the last element does not repeat, its rows may have
classes of their own, by a tree over those features of the last state that belong to the row. Then matches are also
counted by the class of the run and that of the row (``paired``), and runs that were made or refused by the class that
they have or would have had (``offered``).

**Refusal.** A run that a step would make is not made if hash(salt, serial) < share[state, class, slice] and it is
not spared: hash(fixed salt, serial) >= spare. Runs in the state are dropped by the same rule (``Patterns.shed``).

**Record.** One entry for each run and match: serial, state, parent's serial, row, first time, time, and whether it is
complete; and the run's features. A match that is held and then forbidden is taken back by another entry of its serial
number, in the state -1: it turned out not to be a match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from spillway.core.arrays import Floats, Ints
from spillway.core.cep.engine.class_lookup import Forest, tables_of
from spillway.core.cep.engine.row_numbers import Numbering
from spillway.core.kernel import kernel
from spillway.core.random import mix, threshold
from spillway.errors import invalid

COMPLETED, TESTED = 0, 1
TAKEN_BACK = -1
RECORD = ("serial", "state", "parent", "row", "first_us", "at_us", "complete")
_PATHS = 4096
_SPARED = mix(0x5350415245)
_ROOM = 1 << 12
_TREES = ("features", "thresholds", "lefts", "rights", "roots")
_KEPT = (
    *_TREES,
    "limits",
    "spare",
    "salt",
    "paths",
    "counts",
    "refused",
    "offered",
    "pairs",
)


@kernel
def chance(salt: int, serial: int) -> Any:
    """Return the hash by which a run is refused or dropped (the finaliser of splitmix64)."""
    z = np.uint64(salt) + np.uint64(serial) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@kernel
def chosen(salts: Any, spare: int, limit: int, serial: int) -> Any:
    """Return whether a run is among the share to shed that belongs to ``limit``."""
    return limit > -(2**63) and chance(salts[0], serial) <= limit and chance(salts[1], serial) > spare


@kernel
def path_of(slots: Any, paths: Any, parent: int, state: int, kind: int) -> Any:
    """Return the number of a path, 0 if there is no room for it."""
    mask = len(slots) - 1
    at = ((parent * 64 + state) * 4096 + kind) * 0x1E3779B97F4A7C15
    at = (at ^ (at >> 32)) & mask
    while slots[at] > 0:
        path = np.int64(slots[at])
        if paths[path, 0] == parent and paths[path, 1] == state and paths[path, 2] == kind:
            return path
        at = (at + 1) & mask
    path = paths[0, 3]
    if path >= len(paths):
        return 0
    paths[0, 3] = path + 1
    slots[at] = path
    paths[path, 0] = parent
    paths[path, 1] = state
    paths[path, 2] = kind
    return path


@kernel
def write_down(
    record: Any,
    recordx: Any,
    at: int,
    serial: int,
    state: int,
    parent: int,
    row: int,
    first: int,
    now: int,
    complete: bool,
    xs: Any,
) -> None:
    """Write an entry of the record, in the order of ``RECORD``, and the run's features beside it."""
    record[0, at] = serial
    record[1, at] = state
    record[2, at] = parent
    record[3, at] = row
    record[4, at] = first
    record[5, at] = now
    record[6, at] = complete
    for n in range(len(xs)):
        recordx[n, at] = xs[n]


@kernel
def _spread(paths: Any, counts: Any, cost: Any, completed: Any, own: Any, tested: Any) -> None:
    """Add the counts by path to the tables of the path and of all its ancestors, one generation at a time.

    ``cost`` is the cost of examining a run of a path.
    """
    count = paths[0, 3]
    above = np.arange(count)
    left = count - 1
    first = True
    while left > 0:
        left = 0
        for path in range(1, count):
            at = above[path]
            if at <= 0:
                continue
            state, kind = paths[at, 1], paths[at, 2]
            weight = cost[path]
            for age in range(counts.shape[2]):
                looks = counts[TESTED, path, age] * weight
                if first:
                    own[state, kind, age] += looks
                tested[state, kind, age] += looks
                completed[state, kind, age] += counts[COMPLETED, path, age]
            above[path] = paths[at, 0]
            left += above[path] > 0
        first = False


def _lengths(paths: Ints) -> Floats:
    """Return how many rows the runs of each path have: as many as the path has runs, each made by one more row."""
    length, above = np.ones(len(paths)), paths[:, 0]
    while (above > 0).any():
        length += above > 0
        above = np.where(above > 0, paths[above, 0], 0)
    return length


class FlatTree(Protocol):
    """A decision tree in arrays: at node n go left if x[feature[n]] <= threshold[n].

    At a leaf ``feature`` is -1 and ``left`` the class.
    """

    @property
    def feature(self) -> Ints:
        """The feature that a node tests."""

    @property
    def threshold(self) -> Floats:
        """The threshold that the feature is compared with."""

    @property
    def left(self) -> Ints:
        """The next node where the feature is at most the threshold."""

    @property
    def right(self) -> Ints:
        """The next node where the feature is larger, or not known."""


class Counted(NamedTuple):
    """Numbers by [state, class, slice]."""

    completed: Floats
    own: Floats
    tested: Floats


class Tracking:
    """Classes, counters, refusals and the record of runs, by state, class and time slice."""

    def __init__(self, features: Sequence[Sequence[str]], classes: int, slices: int) -> None:
        self.feature_names = tuple(tuple(names) for names in features)
        self.states, self.classes, self.slices = len(features), classes, slices
        none = np.empty(0, np.int64)
        self._grow(Forest(none, np.empty(0), none, none, np.full(self.states + 1, -1, np.int64)))
        self.limits = np.full((self.states, classes, slices), -(2**63), np.int64)
        self.spare = np.full(1, -(2**63), np.int64)
        self.salt = np.array([0, _SPARED], np.int64)
        self.paths = np.zeros((_PATHS, 4), np.int64)
        self.paths[0] = -1, -1, -1, 1
        self.slots = np.zeros(4 * _PATHS, np.int32)
        self.counts = np.zeros((2, _PATHS, slices), np.int64)
        self.refused = np.zeros(self.states, np.int64)
        self.offered = np.zeros((self.states, classes, slices), np.int64)
        self.pairs = np.zeros((classes, 1), np.int64)
        width = max(map(len, features), default=0)
        self._x = np.zeros(width)
        self._off = (np.empty((0, 0), np.int64), np.empty((0, 0)))
        self.record, self.record_x = self._off
        self._recorded: list[tuple[Ints, Floats]] = []
        self._kept = False

    def arrays(self) -> tuple[Any, ...]:
        """Return what compiled code reads and writes."""
        return (
            *self.tables,
            *(self.limits, self.spare, self.salt, self.slots, self.paths, self.counts, self.refused),
            *(self.offered, self.pairs),
            *(self.record, self.record_x, self._x),
        )

    def classify(self, trees: Sequence[FlatTree | None], events: FlatTree | None = None) -> None:
        """Set a tree for each state, and one for rows that complete matches; without a tree the class is 0."""
        if len(trees) != self.states:
            raise invalid(
                "trees", f"{len(trees)} trees", f"one for each of the {self.states} states, or None"
            )
        roots, parts = np.full(self.states + 1, -1, np.int64), []
        at = 0
        for state, tree in enumerate([*trees, events]):
            if tree is None:
                continue
            leaf = tree.feature < 0
            width = len(self.feature_names[min(state, self.states - 1)])
            classes = self.classes if state < self.states else 2**31
            if (tree.left[leaf] >= classes).any() or (tree.feature[~leaf] >= width).any():
                raise invalid("trees", f"tree {state}", f"classes below {classes}, features below {width}")
            roots[state] = at
            left, right = np.where(leaf, tree.left, tree.left + at), np.where(leaf, -1, tree.right + at)
            parts.append((tree.feature, tree.threshold, left, right))
            at += len(tree.feature)
        whole, none = np.int64, np.empty(0)
        joined = [np.concatenate([none, *column]) for column in zip(*parts, strict=True)] or [none] * 4
        feature, threshold, left, right = joined
        self._grow(Forest(feature.astype(whole), threshold, left.astype(whole), right.astype(whole), roots))
        kinds = 1 if events is None else int(events.left[events.feature < 0].max()) + 1
        if kinds != self.pairs.shape[1]:
            self.pairs = np.zeros((self.classes, kinds), np.int64)

    def _grow(self, forest: Forest) -> None:
        """Store the trees, which belong to the state, and make the tables that compiled code reads."""
        self.features, self.thresholds, self.lefts, self.rights, self.roots = forest
        self.tables = tables_of(forest)

    def refuse(self, share: Any, salt: int = 0, spare: float = 0.0) -> None:
        """Refuse from now on the given share of new runs, by [state, class, slice at making]."""
        self.limits, self.spare[0] = self.thresholds_of(share), threshold(spare)
        self.salt[0] = mix(salt)

    def thresholds_of(self, share: Any) -> Ints:
        """Return shares as thresholds of a hash."""
        table = np.broadcast_to(np.asarray(share, np.float64), (self.states, self.classes, self.slices))
        if not ((table >= 0) & (table <= 1)).all():
            raise invalid("share", share, "numbers from 0 to 1 by [state, class, slice]")
        shares = table.ravel().tolist()
        limits = {p: threshold(p) for p in set(shares)}  # most shares are equal
        return np.array([limits[p] for p in shares], np.int64).reshape(table.shape)

    def counted(self, reset: bool = True, omega: Any = None) -> Counted:
        """Return what was counted since the last call.

        ``omega`` is the cost of examining a run: 1, a number by state, or its ``"length"`` in rows.
        """
        paths = self.paths[: self.paths[0, 3]]
        if isinstance(omega, str):
            cost = _lengths(paths)
        else:
            by_state = np.ones(self.states) if omega is None else np.array(omega, np.float64)
            cost = by_state[paths[:, 1]]
        shape = (self.states, self.classes, self.slices)
        found = Counted(np.zeros(shape), np.zeros(shape), np.zeros(shape))
        _spread(self.paths, self.counts, cost, *found)
        if reset:
            self.counts[:, : self.paths[0, 3]] = 0
        return found

    def examined(self) -> int:
        """Return how many runs were examined since ``counted`` was last called."""
        return int(self.counts[TESTED, 1 : self.paths[0, 3]].sum())

    def paired(self) -> tuple[Ints, Ints]:
        """Return ``pairs`` by [class of the run, class of the row] and ``offered``, since the last call."""
        found = self.pairs.copy(), self.offered.copy()
        self.pairs[:], self.offered[:] = 0, 0
        return found

    @property
    def recording(self) -> bool:
        """Whether runs are recorded."""
        return self.record is not self._off[0]

    def start_recording(self, kept: bool) -> None:
        """Record all runs from now on; ``kept`` if records are stored until ``recorded`` is called."""
        self._recorded, self._kept = [], kept
        self.record = np.empty((len(RECORD), _ROOM), np.int64)
        self.record_x = np.empty((len(self._x), _ROOM))

    def take_records(self, written: int, numbering: Numbering) -> Ints:
        """Move the new records out of the buffer, and return them."""
        new = self.record[:, :written].copy()
        new[RECORD.index("row")] = numbering.numbers(new[RECORD.index("row")])
        if self._kept:
            self._recorded.append((new, self.record_x[:, :written].copy()))
        return new

    def recorded(self, going_on: bool, last_repeats: bool) -> tuple[dict[str, Ints], Floats]:
        """Return the record by name, and the features of each entry, those of its state first.

        A match that was taken back is removed, unless the last element repeats and the match is a run as well.
        """
        parts = [*self._recorded, (np.empty((len(RECORD), 0), np.int64), np.empty((len(self._x), 0)))]
        whole, features = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        self._recorded, self._kept = [], False
        if not going_on:
            self.record, self.record_x = self._off
        serial, state, complete = (RECORD.index(name) for name in ("serial", "state", "complete"))
        back = whole[state] == TAKEN_BACK
        none = np.isin(whole[serial], whole[serial, back])
        whole[complete, none] = 0
        kept = ~(back if last_repeats else none)
        return dict(zip(RECORD, whole[:, kept], strict=True)), features[:, kept].T

    def snapshot(self) -> dict[str, Any]:
        """Return the state as arrays."""
        return {name: getattr(self, name) for name in _KEPT}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a snapshot."""
        for name in _KEPT:
            setattr(self, name, np.ascontiguousarray(state[name]))
        self._grow(Forest(*(getattr(self, name) for name in _TREES)))
        mask = len(self.slots) - 1
        for path in range(1, int(self.paths[0, 3])):
            parent, own, kind = self.paths[path, :3].tolist()
            at = (((parent * 64 + own) * 4096 + kind) * 0x1E3779B97F4A7C15) & (2**64 - 1)
            signed = at - 2**64 if at >= 2**63 else at
            at = (signed ^ (signed >> 32)) & mask
            while self.slots[at] > 0:
                at = (at + 1) & mask
            self.slots[at] = path
