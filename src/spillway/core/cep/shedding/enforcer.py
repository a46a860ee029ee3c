"""Carries out a strategy's orders: filters events, processes them, counts, removes and refuses runs.

**State.** Runs are the operator's state and have their own snapshot. The enforcer's snapshot holds the present
orders, what was done so far, and the state of the strategy. From both, taken after the same call, it continues
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.arrays import Bools, Floats, Ints
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.language.partition_key import correlation
from spillway.core.cep.shedding.cost_model import Counts, Omega
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.input_filter import InputFilter
from spillway.core.cep.shedding.orders import Orders, Room, Seen
from spillway.core.state.blob import BlobFormat, under
from spillway.errors import SpillwayError

_FORMAT = BlobFormat(b"SPENFO", version=2, owner="an enforcer")
_NUMBERS = ("shed_runs", "refused_runs", "discarded", "rows", "_checks", "_latest")
_TABLES = ("shed", "refuse", "unwanted", "events", "types")


class Strategy(Protocol):
    """Decides at each check what to shed."""

    def step(self, seen: Seen) -> Orders:
        """Take the observations since the last check, and decide."""

    def snapshot(self) -> bytes:
        """Return the state as bytes."""

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""


@dataclass(frozen=True, eq=False)
class Done:
    """The results for some events: their matches, the time each took, and which were kept."""

    matches: pa.Table
    seen: Seen
    orders: Orders


class Enforcer:
    """Runs a pattern's operator under a strategy.

    - ``unit_s``: seconds per unit of work, one number or one for each type of the query (the last for other types).
    - ``resource``: Ω, to weigh examinations with: by state, or the length of a run.
    - ``state``: a snapshot to continue from; the operator must then continue from its own. The strategy may be new.
    - ``clock``: a clock in seconds. With it times are real: the time of a table is divided among its events in
      proportion to their work.
    """

    def __init__(
        self,
        patterns: Patterns,
        strategy: Strategy | None,
        trees: Sequence[Tree],
        last: Tree,
        *,
        unit_s: float | Sequence[float] = 1e-6,
        resource: Omega | None = None,
        salt: int = 0,
        state: bytes | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if not patterns.config.tracked:
            raise SpillwayError("runs are not tracked, so they cannot be shed.", hint="pass tracked=True")
        self.patterns, self.strategy, self.salt = patterns, strategy, salt
        key = correlation(patterns.query, patterns.config.schema)
        self.filter = InputFilter(patterns.plan, trees, last, salt, key)
        self.resource, self.clock = resource, clock
        self.units: Floats = np.broadcast_to(np.asarray(unit_s, np.float64), len(patterns.plan.types) + 1)
        self.orders = Orders()
        self.shed_runs = self.refused_runs = self.discarded = self.rows = 0
        self._checks = 0
        self._latest: int | None = None
        if state is not None:
            self._restore(state)
        patterns.classify(list(trees), self.filter.over_features())

    def process(self, table: pa.Table, budget: float | None = None) -> Done:
        """Process rows under the orders of the last check, then make the next check.

        Once the budget is spent the rows that are left are dropped, as the operator does.
        """
        config = self.patterns.config
        kinds = type_numbers(table[config.type], self.patterns.plan.types)
        attributes = self.patterns.attributes(table)
        classes = self.filter.classes(kinds, attributes)
        numbers = np.arange(self.rows, self.rows + len(kinds))
        keep = self.filter.keep(self.orders, kinds, attributes, classes, numbers)
        began = 0.0 if self.clock is None else self.clock()
        matches = self.patterns.process(
            table, budget, keep=keep
        )  # may refuse the table; nothing has changed so far
        self.rows += len(kinds)
        self.discarded += int((~keep).sum())
        took_s = None if self.clock is None else self.clock() - began
        seen = self._seen(kinds, keep, classes, self._passed(), took_s)
        if self.strategy is not None:
            self._obey(self.strategy.step(seen))
        return Done(matches, seen, self.orders)

    def _seen(self, kinds: Ints, keep: Bools, classes: Ints, passed_us: int, took_s: float | None) -> Seen:
        p, work = self.patterns, self.patterns.work
        spent = work.per_row.astype(np.float64)
        examined = float(p.examined())
        completed, own, tested = p.counted(omega=self.resource)
        counts = Counts(p.alive().astype(np.float64), completed, own, tested)
        pairs, offered = p.paired()
        times = spent * self.units[kinds]
        if took_s is not None:
            times *= took_s / max(float(times.sum()), 1e-300)
        return Seen(
            times=times,
            work=spent,
            kept=keep,
            matches=work.matches_per_row,
            classes=classes,
            counts=counts,
            examined=examined,
            share_of_slice=passed_us * p.config.slices / p.query.within_us,
            pairs=pairs.astype(np.float64),
            offered=offered.astype(np.float64),
            keyed=self.filter.key is not None,
        )

    def _passed(self) -> int:
        """Return how much time the rows of the last table took, in microseconds."""
        if self.patterns.span_us is None:
            return 0
        (first, latest), before = self.patterns.span_us, self._latest
        self._latest = latest
        return max(0, latest - (first if before is None else before))

    def _obey(self, orders: Orders) -> None:
        self._checks += 1
        if orders.shed is not None and (orders.shed > 0.0).any():
            self.shed_runs += int(
                self.patterns.shed(orders.shed, self.salt + self._checks, orders.spare).sum()
            )
        if orders.refuse is not None or self.orders.refuse is not None:
            self.patterns.refuse(0.0 if orders.refuse is None else orders.refuse, self.salt, orders.spare)
        self.refused_runs = int(self.patterns.refused.sum())
        self.orders = orders

    def snapshot(self) -> bytes:
        """Return the orders, what was done, and the strategy's state; the operator's runs have their own snapshot."""
        meta = {
            "numbers": {name: getattr(self, name) for name in _NUMBERS},
            "spare": self.orders.spare,
            "keys": self.orders.keys,
            "reason": self.orders.reason,
            "room": None if self.orders.room is None else list(self.orders.room._replace(rank=None)),
            "sheds": self.strategy is not None,
        }
        orders = {name: getattr(self.orders, name) for name in _TABLES}
        arrays = {f"orders.{name}": table for name, table in orders.items() if table is not None}
        if self.orders.room is not None and self.orders.room.rank is not None:
            arrays["rank"] = self.orders.room.rank
        if self.strategy is not None:
            arrays["strategy"] = np.frombuffer(self.strategy.snapshot(), np.uint8)
        return _FORMAT.write(meta, arrays)

    def _restore(self, state: bytes) -> None:
        meta, arrays = _FORMAT.read(state)
        if meta["sheds"] != (self.strategy is not None):
            raise SpillwayError(
                f"state: made {'with' if meta['sheds'] else 'without'} a strategy, this one is not.",
                hint="restore with the same strategy, or start without a state",
            )
        if self.strategy is not None:
            self.strategy.restore(arrays["strategy"].tobytes())
        for name, number in meta["numbers"].items():
            setattr(self, name, number)
        room = None if meta["room"] is None else Room(*meta["room"])._replace(rank=arrays.get("rank"))
        self.orders = Orders(
            **under("orders.", arrays),
            keys=meta["keys"],
            room=room,
            spare=meta["spare"],
            reason=meta["reason"],
        )


def type_numbers(column: pa.ChunkedArray, types: Sequence[str]) -> Ints:
    """Return the number of each row's type among those of the query; rows of other types have the last number.

    >>> type_numbers(pa.chunked_array([["B", "X", None]]), ["A", "B"]).tolist()
    [1, 2, 2]
    """
    texts = column if pa.types.is_string(column.type) else column.cast(pa.string())
    found = pc.index_in(texts, value_set=pa.array(types, pa.string()), skip_nulls=True)
    return np.asarray(found.fill_null(len(types)).to_numpy()).astype(np.int64)
