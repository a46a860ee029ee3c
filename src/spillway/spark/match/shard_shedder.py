"""Keeps a shard within its budget: it processes rows in pieces, and checks after each piece what to shed.

**Budget.** If n rows and W units of work are left in a batch, a row may take

    θ = W / n

units. That is the bound for the strategies of ``spillway.core.cep.shedding``. At each check they get θ and the work
of the last rows, and decide which partial matches to remove, which not to make, and which rows to skip. Work that is
saved is available to the rest of the batch, because θ is computed anew at each check.

There is a check every twentieth of a window, since the work per row may grow by any factor within a window, but at
most fifty checks in a batch. While rows take less than an eighth of θ, each piece is twice as long as the one before.
If the rows of a piece take more than four times their budget, the rest of the piece is dropped, so that no piece uses
up the budget of the whole batch. If the budget is spent before the last row, the remaining rows are dropped. Runs are
kept when rows are dropped, because they take no time then. So W is never exceeded by more than one row's work.

**State.** At most ``most_runs`` partial matches are kept, regardless of the budget: a pattern with repetition may
double them with every row. If there are more, the least valuable by the cost model are shed; as long as nothing has
been learned, they are chosen by a hash. A shard with a full state can still learn (training_stretch.py).

Everything that is shed is counted: rows, and partial matches that were removed or not made.

**Replay.** Pieces, checks and choices follow from the rows, the budget and the earlier state. A batch that is run
again gives the same matches.

======  =================================================
symbol  meaning
======  =================================================
W, n    units of the budget and rows left in the batch
θ       units of work that a row may take
======  =================================================
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.shedding.cost_model import conditions_of, resource_costs
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.enforcer import Enforcer
from spillway.core.cep.shedding.knapsack import split_shares
from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.cep.shedding.load_monitor import WatchConfig
from spillway.core.cep.shedding.simulation import strategy_of
from spillway.core.cep.shedding.trigger import TriggerConfig
from spillway.core.data.times import times_of
from spillway.core.random import mix
from spillway.core.state.blob import BlobFormat, under
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import Stretch, from_arrays, to_arrays
from spillway.spark.shards.packets import from_bytes, to_bytes

_UNIT_S = 1e-6  # strategies count in seconds
_NO_BOUND_S = 1e12
_LEAST, _MOST = 25, 2_000  # rows of a piece
_CHECKS, _MOST_CHECKS = 20, 50  # checks per window, and the most checks per batch
_MOST_TIMES = 4.0  # a piece may take this multiple of its budget
_CALM = 1 / 8  # of θ: below it, pieces become longer
_LEAST_SHARE = 0.01  # the least share of the work from which the whole demand is extrapolated
_FORMAT = BlobFormat(b"SPMSHD", version=1, owner="the shedding of a pattern")
_LEARNED = "learned."


@dataclass
class Spent:
    """The counts of a batch: how many rows and runs were processed or shed.

    ``passed_over`` counts the dropped rows that a strategy chose to skip, ``crowded_out`` the shed runs for which
    there was no room.
    """

    rows: int = 0
    dropped: int = 0
    passed_over: int = 0
    units: float = 0.0
    matches: int = 0
    shed_runs: int = 0
    crowded_out: int = 0
    runs: int = 0
    elements: int = 1

    @property
    def demand(self) -> float:
        """The estimated work of all rows without shedding.

        Rows that were dropped at the end of the batch count with the mean work of the rows before them. If a share p
        of these was processed, a pattern of k elements took about p^k of their work. Of shed runs only the number is
        known.
        """
        before = max(1, self.rows - self.dropped + self.passed_over)
        p = max(1, before - self.passed_over) / before
        runs = 1.0 + self.shed_runs / max(1, self.runs + self.shed_runs)
        return self.units * runs * max(1, self.rows) / before / max(p**self.elements, _LEAST_SHARE)


class Shedder:
    """The shedding of one shard."""

    def __init__(self, patterns: Patterns, spec: SheddingSpec, salt: int, state: bytes | None = None) -> None:
        self.patterns, self.spec, self._salt = patterns, spec, salt
        self._stretch: Stretch | None = None
        patterns.relieve, patterns.clock = self._relieve, time.perf_counter
        self.note = ""
        self._begin(None)
        if spec.learns:
            self._stretch = Stretch(patterns.config, patterns.columns, spec)
        if state is not None:
            self._recall(state)

    def process(self, table: pa.Table, budget: float | None) -> tuple[list[pa.Table], Spent]:
        """Process the rows of a batch; return their matches and the counts."""
        found, at, before, discarded = [], 0, self._gone(), self._enforcer.discarded
        spent = Spent(rows=table.num_rows, elements=len(self.patterns.plan.elements))
        shortest = length = self._length(table)
        while at < table.num_rows:
            left = None if budget is None else max(0.0, budget - spent.units)
            theta = None if left is None else left / (table.num_rows - at)
            piece = table.slice(at, table.num_rows if theta == 0.0 else length)  # θ = 0 drops the rest
            found.append(self._piece(piece, left, theta, spent))
            at += piece.num_rows
            calm = theta is None or self.patterns.work.spent < _CALM * theta * piece.num_rows
            length = min(max(_MOST, shortest), 2 * length) if calm else shortest
        spent.shed_runs += self._gone() - before
        spent.passed_over = self._enforcer.discarded - discarded
        spent.runs = int(self.patterns.alive().sum())
        return found, spent

    def learn(self, table: pa.Table, spent: Spent) -> Learned | None:
        """Add the rows of a batch to the training rows; return the learned values once there are enough rows.

        Problems are reported in ``note``.
        """
        stretch, self.note = self._stretch, ""
        if stretch is None:
            return None
        learned = stretch.learned() if stretch.take(table, spent.demand) else None
        self.note = stretch.note
        if learned is not None:
            self.know(learned)
        return learned

    @property
    def worked_s(self) -> float:
        """How long the engine has worked, over the whole life of the shard.

        It is the time in the compiled program alone. The other time per row (reading, sorting, checks) does not fall
        with fewer units. If it were part of the price of a unit, a small budget would make units look expensive, and
        the next budget would be even smaller.
        """
        return self.patterns.worked_s

    @property
    def ignorant(self) -> bool:
        """Whether it has learned nothing yet and gathers training rows."""
        return self._stretch is not None

    def know(self, learned: Learned) -> None:
        """Shed by the learned values from now on."""
        self._stretch = None
        self.patterns.counted()  # resets the counts
        self._begin(learned)

    def _piece(self, piece: pa.Table, left: float | None, theta: float | None, spent: Spent) -> pa.Table:
        if self.strategy is None or theta == 0.0:
            matches = self.patterns.process(
                piece, left
            )  # there is nothing to decide, and the enforcer's counting takes time
        else:
            trigger = self.strategy.watch.trigger
            bound_s = _NO_BOUND_S if theta is None else max(theta, 1e-9) * _UNIT_S
            trigger.config = replace(trigger.config, bound_s=bound_s)
            most = None if theta is None else _MOST_TIMES * theta * piece.num_rows
            limit = left if left is None or most is None else min(left, most)
            matches = self._enforcer.process(piece, limit).matches
        work = self.patterns.work
        spent.units += work.spent
        spent.matches += work.matches
        spent.dropped += work.dropped_rows
        spent.shed_runs += work.crowded_out
        spent.crowded_out += work.crowded_out
        return matches

    def _length(self, table: pa.Table) -> int:
        """Return how many rows to process before a check, when the budget is short."""
        rows: int = table.num_rows
        if self.strategy is None:
            return rows
        times, _ = times_of(table, self.patterns.config.time)
        windows = max(1.0, float(times[-1] - times[0]) / self.patterns.query.within_us)
        return max(_LEAST, min(_MOST, int(rows / windows / _CHECKS)), rows // _MOST_CHECKS)

    def _relieve(self, patterns: Patterns) -> None:
        """Shed the runs that exceed what the state may hold, and a few more."""
        most, count = patterns.config.most_runs or 0, patterns.size.runs
        need = 1.0 - 0.9 * most / count
        alive = patterns.alive().astype(np.float64)
        model = None if self.strategy is None else self.strategy.watch.model
        if model is not None and model.seen.any():
            loss, _ = model.shares(alive)
            loss = np.where(model.seen, loss, loss.max(initial=0.0))
            shares = split_shares(loss.ravel(), (alive / alive.sum()).ravel(), need).reshape(alive.shape)
            patterns.shed(shares, mix(self._salt, self._enforcer.rows))

    def _gone(self) -> int:
        """How many partial matches the strategy has removed or refused, over the whole life."""
        return self._enforcer.shed_runs + int(self.patterns.refused.sum())

    # Learned values and state

    def _begin(self, learned: Learned | None, state: bytes | None = None) -> None:
        """Begin to shed by the learned values; without them only the budget is enforced."""
        self._learned = learned
        self.strategy: Any = None
        trees, last = (Tree.single(),) * len(self.patterns.plan.elements), Tree.single()
        if learned is not None:
            trees, last = learned.trees, learned.last
            watch = WatchConfig(
                trigger=TriggerConfig(bound_s=_NO_BOUND_S, delay_events=self.spec.delay_events)
            )
            self.strategy = strategy_of(self.spec.strategy, watch, learned, select=self.spec.select)
        self._enforcer = Enforcer(
            self.patterns,
            self.strategy,
            trees,
            last,
            unit_s=_UNIT_S,
            resource=resource_costs(self.spec.resource, conditions_of(self.patterns.plan)),
            salt=self._salt,
            state=state,
        )

    def snapshot(self) -> bytes:
        """Return the state, from which a new shedder continues exactly."""
        arrays = {"enforcer": np.frombuffer(self._enforcer.snapshot(), np.uint8)}
        if self._learned is not None:
            arrays |= {_LEARNED + name: array for name, array in to_arrays(self._learned).items()}
        if self._stretch is not None and self._stretch.rows is not None:
            arrays["stretch"] = np.frombuffer(to_bytes(self._stretch.rows, "zstd"), np.uint8)
        stretch = self._stretch
        meta = (
            {"units": 0.0, "anew": 0} if stretch is None else {"units": stretch.units, "anew": stretch.anew}
        )
        return zlib.compress(_FORMAT.write(meta, arrays), 1)

    def _recall(self, state: bytes) -> None:
        meta, arrays = _FORMAT.read(zlib.decompress(state))
        learned = under(_LEARNED, arrays)
        if learned:
            self._stretch = None
        if self._stretch is not None:
            self._stretch.units, self._stretch.anew = meta["units"], meta.get("anew", 0)
            self._stretch.rows = from_bytes(arrays["stretch"].tobytes()) if "stretch" in arrays else None
        self._begin(from_arrays(learned) if learned else None, arrays["enforcer"].tobytes())
