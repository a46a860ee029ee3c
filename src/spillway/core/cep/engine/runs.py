"""All runs of a query in memory: one store for each index, ban and kind of held match, and the chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spillway.core.arrays import Ints
from spillway.core.cep.engine import chains, run_store
from spillway.core.cep.engine.run_counters import Tracking
from spillway.core.cep.engine.run_removal import distinct, drop, tally
from spillway.core.cep.plan.layout import Layout
from spillway.core.cep.plan.terms import NULL
from spillway.core.state.blob import together, under


class Runs:
    """All runs, and ways to free them. A run has expired if the time of its first row is at most ``limit``."""

    def __init__(self, layout: Layout, within: int) -> None:
        self.layout, self._within = layout, within
        self._shapes = layout.shapes
        self.stores = [run_store.empty(shape) for shape in self._shapes]
        whole, fractions = layout.node_columns()
        self._node_shape = len(whole), len(fractions)
        self.chains = chains.empty(*self._node_shape)

    def arrays(self) -> tuple[Any, Any]:
        """Return what compiled code reads and writes."""
        return tuple(map(tuple, self.stores)), tuple(self.chains)

    def sweep(self, number: int, limit: int) -> None:
        """Free the expired runs of a run_store."""
        self.stores[number] = run_store.sweep(self.stores[number], self._shapes[number], limit)

    def collect(self, limit: int) -> None:
        """Free what has expired in all stores, and the nodes that no run leads to."""
        for number in range(len(self.stores)):
            self.sweep(number, limit)
        cells = self._node_cells()
        heads = [self.stores[number].ints[column, places] for number, column, places in cells]
        self.chains, moved = chains.collect(self.chains, heads)
        for (number, column, places), old in zip(cells, heads, strict=True):
            self.stores[number].ints[column, places] = moved[old]

    def _node_cells(self) -> list[tuple[int, int, Ints]]:
        found = []
        for number, leaves in enumerate(self.layout.leaves):
            places = run_store.live(self.stores[number])
            for leaf in leaves:
                if leaf.which == "node":
                    found.append((number, self.layout.column(number, leaf)[1], places))
        return found

    def used(self) -> list[Ints]:
        """Return all whole numbers in the stores: the codes of texts are among them."""
        parts = [part for s in self.stores for part in (s.ints.ravel(), s.keys.ravel())]
        return [*parts, self.chains.ints.ravel()]

    @property
    def count(self) -> int:
        """How many runs and held matches there are; a run that waits for two kinds of rows counts twice."""
        return self._live(*range(self.layout.first_ban)) + self.held

    @property
    def held(self) -> int:
        """How many matches wait for their window to pass."""
        return self._live(self.layout.held) if self.layout.plan.held else 0

    @property
    def forbidding(self) -> int:
        """How many rows are kept that may forbid matches."""
        first = self.layout.first_ban
        return self._live(*range(first, first + len(self.layout.plan.bans)))

    def _live(self, *numbers: int) -> int:
        return sum(int(self.stores[n].meta[run_store.LIVE]) for n in numbers)

    def serials(self) -> Ints:
        """Return the serial numbers of all runs."""
        stores = self.stores[: self.layout.first_ban]
        return np.unique(
            np.concatenate([np.empty(0, np.int64), *(s.ints[1, run_store.live(s)] for s in stores)])
        )

    @property
    def bytes(self) -> int:
        """The memory that runs and chains take."""
        return sum(map(run_store.size_bytes, self.stores)) + sum(array.nbytes for array in self.chains)

    def alive(self, tracking: Tracking, now: int) -> Ints:
        """Return how many runs there are by [state, class, slice]."""
        table = np.zeros((tracking.states, tracking.classes, tracking.slices), np.int64)
        for state in range(tracking.states):
            numbers = self._stores_of(state)
            if len(numbers) == 1:
                s = self.stores[numbers[0]]
                tally(s.ints, s.buckets, s.meta, now, self._within, table[state])
            elif numbers:
                self._tally_once(numbers, now, table[state])
        return table

    def _tally_once(self, numbers: list[int], now: int, table: Ints) -> None:
        """Count runs that may be in several stores once each."""
        parts = [self.stores[n].ints[:3, run_store.live(self.stores[n])] for n in numbers]
        first, serials, kinds = np.concatenate(parts, axis=1)
        _, at = np.unique(serials, return_index=True)
        ages = np.maximum(0, now - first[at])
        at, ages = at[ages < self._within], ages[ages < self._within]
        np.add.at(table, (kinds[at], ages * table.shape[1] // self._within), 1)

    def shed(self, now: int, limits: Ints, salts: Ints, spare: int) -> Ints:
        """Drop runs whose hash is within the limit of their [state, class, slice]; return how many by state."""
        gone = np.zeros(len(limits), np.int64)
        for state, numbers in enumerate(map(self._stores_of, range(len(limits)))):
            if (limits[state] == NULL).all() or not numbers:
                continue
            dropped = [self._drop(number, now, limits[state], salts, spare) for number in numbers]
            gone[state] = distinct(dropped)
        return gone

    def shed_held(self, now: int, limits: Ints, salts: Ints) -> None:
        """Drop held matches whose hash is within the limit of their [class, slice]."""
        if self.layout.plan.held:
            self._drop(self.layout.held, now, limits, salts, NULL)

    def _drop(self, number: int, now: int, limits: Ints, salts: Ints, spare: int) -> Ints:
        s = self.stores[number]
        serials = np.empty(int(s.meta[run_store.LIVE]), np.int64)
        where = (s.ints, s.floats, s.buckets, s.meta, now, self._within)
        return serials[: drop(*where, limits, salts, spare, serials)]

    def _stores_of(self, state: int) -> list[int]:
        return [n for n, index in enumerate(self.layout.plan.indexes) if index.state == state]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as arrays."""
        stores = {str(n): run_store.snapshot(part) for n, part in enumerate(self.stores)}
        return together({"chains": chains.snapshot(self.chains), **stores})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a snapshot."""
        self.chains = chains.restore(under("chains.", state), *self._node_shape)
        self.stores = [
            run_store.restore(under(f"{n}.", state), shape) for n, shape in enumerate(self._shapes)
        ]
