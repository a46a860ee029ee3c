"""What one query did with one trace: the batches, and from them the delay of every row.

A replay makes this exact without any work in the measured plan. Row i arrives t_i seconds after the replay's
epoch, by the trace. A batch takes the rows from ``first_row`` up to ``last_row``, by its offsets, and commits
at ``ended_s``, by Spark's own clock. So the delay of row i, from arrival to result, is

    y_i = ended_s - t_i

and where a batch kept k of its n rows, each of them counts k / n: the kept rows are a uniform sample.

Rows that were still waiting when the run was cut off have no delay yet, only an age. They are not delivered, so
they are not part of ``within_target``. In quantiles and in ``worst_s`` they count with their age, which
is less than their delay would have become: a query that got stuck does not look better for it.

What a shedder could have done at best is computed over the same rows, those that arrived from ``from_s`` to
``until_s``: it begins with an empty queue at ``from_s``, as if the rows before had cost it nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from spillway.core.arrays import Floats
from spillway.replay.costs import CostTrace, constant
from spillway.replay.traces import Rates
from spillway.sim.minimum import most_in_time, tokens

Variant = Literal["plain", "spillway", "capped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One finished batch, on the trace's clock."""

    number: int
    first_row: int
    last_row: int
    began_s: float
    ended_s: float
    kept_rows: int | None = None

    @property
    def rows(self) -> int:
        """Rows that the batch took in."""
        return self.last_row - self.first_row

    @property
    def keep_ratio(self) -> float:
        """The share of them that it let through."""
        return 1.0 if self.kept_rows is None or self.rows == 0 else self.kept_rows / self.rows


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One run.

    ============= ========================================================================================
    ``variant``   plain; with Spillway; or capped, that is plain with a limit of rows per batch
    ``trace``     what was played
    ``target_s``  the delay that rows should not exceed
    ``from_s``    rows that arrived earlier were there to warm the query up and do not count
    ``until_s``   when the run was cut off, on the trace's clock
    ``batches``   what finished until then
    ``history``   with Spillway: its samples and decisions, one mapping per batch
    ``epoch_s``   when the trace began, in seconds since 1970
    ``busy``      spans of the trace's clock in which another program was made to use a core
    ============= ========================================================================================
    """

    variant: Variant
    trace: Rates
    target_s: float
    from_s: float
    until_s: float
    batches: tuple[Batch, ...]
    history: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    epoch_s: float = 0.0
    busy: tuple[tuple[float, float], ...] = ()

    @cached_property
    def first_row(self) -> int:
        """The first row that counts."""
        return int(self.trace.count(self.from_s))

    @property
    def arrived_rows(self) -> int:
        """Rows that arrived and count."""
        return int(self.trace.count(self.until_s)) - self.first_row

    @cached_property
    def kept_rows(self) -> float:
        """Rows that were delivered."""
        return float(sum(weight * (last - first) for first, last, weight, _ in self._counted()))

    @cached_property
    def dropped_rows(self) -> float:
        """Rows that were shed."""
        return float(sum((1.0 - weight) * (last - first) for first, last, weight, _ in self._counted()))

    @property
    def waiting_rows(self) -> int:
        """Rows that were neither delivered nor shed when the run was cut off."""
        return max(int(self.trace.count(self.until_s)) - self._first_waiting, 0)

    @property
    def oldest_waiting_s(self) -> float:
        """How long the oldest of them had been waiting, 0 where there is none."""
        return float(self.waiting_line()[1][0]) if self.waiting_rows else 0.0

    @cached_property
    def in_time_rows(self) -> float:
        """Rows that were delivered within the target."""
        return float(
            sum(
                weight * (last - self._first_in_time(first, last, ended_s))
                for first, last, weight, ended_s in self._counted()
            )
        )

    @property
    def within_target(self) -> float:
        """The share of the delivered rows whose delay was within the target."""
        return self.in_time_rows / self.kept_rows if self.kept_rows else 0.0

    def quantile_s(self, q: float) -> float:
        """Return a quantile of the delay over delivered and waiting rows; see the module's text."""
        delays, weights = self._sorted
        if not delays.size:
            return 0.0
        reached = np.searchsorted(np.cumsum(weights), q * weights.sum())
        return float(delays[min(int(reached), delays.size - 1)])

    @property
    def worst_s(self) -> float:
        """The longest delay or age."""
        return float(self._sorted[0][-1]) if self._sorted[0].size else 0.0

    def delay_line(self) -> tuple[Floats, Floats]:
        """Return the delay of every delivered row against its arrival: a falling line per batch, then a gap."""
        arrived, delays = [], []
        for first, last, weight, ended_s in self._counted():
            if weight > 0.0:
                at = self._edges(first, last)
                arrived += [*at.tolist(), np.nan]
                delays += [*(ended_s - at).tolist(), np.nan]
        return np.array(arrived), np.array(delays)

    def behind_line(self) -> tuple[Floats, Floats]:
        """Return how far behind the query is at any second: the age of the oldest row that has no result yet.

        It rises with the clock and falls when a batch commits; just before, it is the delay of the batch's first
        row, which is the longest of the batch.
        """
        at: list[float] = []
        behind: list[float] = []
        before_s = 0.0
        waiting = [(batch.first_row, batch.ended_s) for batch in self.batches]
        if self.waiting_rows:
            waiting.append((self._first_waiting, self.until_s))
        for first, until_s in waiting:
            arrived_s = float(self.trace.times(first, first + 1)[0])
            since_s = max(before_s, arrived_s)
            if since_s > before_s:
                at, behind = [*at, before_s, since_s], [*behind, 0.0, 0.0]
            at, behind = [*at, since_s, until_s], [*behind, since_s - arrived_s, until_s - arrived_s]
            before_s = until_s
        return np.array(at), np.array(behind)

    def waiting_line(self) -> tuple[Floats, Floats]:
        """Return the age of the rows that were still waiting at the end against their arrival."""
        if not self.waiting_rows:
            return np.empty(0), np.empty(0)
        at = self._edges(self._first_waiting, self._first_waiting + self.waiting_rows)
        return at, self.until_s - at

    def _edges(self, first: int, last: int) -> Floats:
        """Return when the first and the last of a range of rows arrived."""
        return np.concatenate([self.trace.times(row, row + 1) for row in (first, last - 1)])

    def best_rows(self, capacity: float | CostTrace) -> int:
        """Return the most rows that any shedder could have delivered within the target.

        It knows the trace beforehand and serves ``capacity`` rows a second without any pause, or as many as the
        seconds per row allow that the machine took at each moment.
        """
        cost = capacity if isinstance(capacity, CostTrace) else constant(1.0 / capacity)
        arrived_s = self.trace.times(self.first_row, self.first_row + self.arrived_rows)
        return most_in_time(tokens(arrived_s, cost, 1.0), tokens(arrived_s + self.target_s, cost, 1.0))

    def least_lost_rows(self, capacity: float | CostTrace) -> int:
        """Return the rows that even that shedder would lose."""
        return self.arrived_rows - self.best_rows(capacity)

    def delivered_over_best(self, capacity: float | CostTrace) -> float:
        """Return the rows delivered within the target over the most that any shedder could have delivered."""
        return self.in_time_rows / max(self.best_rows(capacity), 1)

    @property
    def _first_waiting(self) -> int:
        """The first row that counts and was in no finished batch."""
        return max([self.first_row, *(batch.last_row for batch in self.batches)])

    def _first_in_time(self, first: int, last: int, ended_s: float) -> int:
        """Return the first row of a batch whose delay is within the target, by the delay's own definition.

        ``ended_s - target_s`` is rounded in another way than ``ended_s - t_i``, so rows right at the target are
        looked at one by one.
        """
        row = min(max(int(self.trace.count(ended_s - self.target_s)), first), last)

        def in_time(row: int) -> bool:
            return bool(ended_s - self.trace.times(row, row + 1)[0] <= self.target_s)

        while row > first and in_time(row - 1):
            row -= 1
        while row < last and not in_time(row):
            row += 1
        return row

    def _counted(self) -> list[tuple[int, int, float, float]]:
        """Return first row, last row, share kept and time of commit of what counts of each batch."""
        found = []
        for batch in self.batches:
            first = max(batch.first_row, self.first_row)
            if first < batch.last_row:
                found.append((first, batch.last_row, batch.keep_ratio, batch.ended_s))
        return found

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats]:
        """Return the delays in order, each with the number of rows it stands for."""
        parts = [
            (ended_s - self.trace.times(first, last), np.full(last - first, weight))
            for first, last, weight, ended_s in self._counted()
        ]
        if rows := self.waiting_rows:
            arrived = self.trace.times(self._first_waiting, self._first_waiting + rows)
            parts.append((self.until_s - arrived, np.ones(rows)))
        if not parts:
            return np.empty(0), np.empty(0)
        delays = np.concatenate([delay for delay, _ in parts])
        weights = np.concatenate([weight for _, weight in parts])
        order = np.argsort(delays, kind="stable")
        return delays[order], weights[order]
