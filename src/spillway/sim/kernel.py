"""The compiled heart of the virtual-time engine: one processor, one first-in-first-out queue per operator.

:func:`advance` plays the engine up to a given second and can go on from there, so a controller may be asked at
every period's end, in the middle of a row's processing. Time moves from event to event:

1. Rows that arrive while an operator works are admitted or dropped at their own time of arrival, against the
   number of rows that are outstanding at that time.
2. When the operator is done, the row goes to the operators that read from it, if the filter lets it pass, and
   leaves the network when its last piece has left.
3. The scheduler picks the next operator: the next one in turn that has a row (round robin, one row a turn), or
   the one that holds the oldest row (``fifo``).

A firing takes cost(o) · c(t) / H seconds of time, with c(t) the relative cost when it starts and H the true
headroom. Nothing is random: a row's fate is a hash of (seed, row, place).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spillway.core.kernel import kernel

# What becomes of a row.
COMING: Final = 0
DROPPED: Final = 1  # refused at the entry
INSIDE: Final = 2
DONE: Final = 3
REMOVED: Final = 4  # admitted, then taken out of a queue: lost

# Why advance returned.
ON_TIME: Final = 0
QUEUE_FULL: Final = 1  # call again with longer queues

ROUND_ROBIN: Final = 0
FIFO: Final = 1


class Plant(NamedTuple):
    """What stays the same during a run (arrays of length n are per row, of length m per operator)."""

    arrival_s: npt.NDArray[np.float64]  # n
    cost_s: npt.NDArray[np.float64]  # m: at a relative cost of 1
    selectivity: npt.NDArray[np.float64]  # m
    entries: npt.NDArray[np.int64]
    reader_starts: npt.NDArray[np.int64]  # m + 1
    readers: npt.NDArray[np.int64]
    downstream: npt.NDArray[np.float64]  # m: work still to come, as a part of a row
    relative_cost: npt.NDArray[np.float64]  # per cost step
    cost_step_s: float
    headroom: float
    schedule: int
    seed: np.uint64


class Rows(NamedTuple):
    """What is known of each row."""

    fate: npt.NDArray[np.int8]
    pieces: npt.NDArray[np.int32]  # parts of the row that are somewhere in the network
    left_s: npt.NDArray[np.float64]  # when its last piece left


class Queues(NamedTuple):
    """One ring of row numbers per operator."""

    ring: npt.NDArray[np.int64]  # m x capacity, a power of two
    head: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]


class Meters(NamedTuple):
    """What the monitor counts, per operator; set to nothing at every period's start."""

    read: npt.NDArray[np.int64]
    passed: npt.NDArray[np.int64]
    processor_s: npt.NDArray[np.float64]


CLOCK: Final = np.dtype(
    [
        ("now_s", "f8"),
        ("next_row", "i8"),  # the next one to arrive
        ("outstanding", "i8"),
        ("turn", "i8"),  # where round robin goes on
        ("operator", "i8"),  # the one at work, or -1
        ("row", "i8"),  # its row
        ("ends_s", "f8"),  # when it will be done
        ("arrived", "i8"),
        ("kept", "i8"),
        ("finished", "i8"),
        ("removed", "i8"),
        ("busy_s", "f8"),
        ("delay_sum_s", "f8"),
        ("worst_delay_s", "f8"),
    ]
)
"""Where a run stands, and the current period's counts."""


@kernel
def uniform(seed: np.uint64, row: int, place: int) -> float:
    """Return a number in [0, 1) that is a fixed hash of its arguments (the finaliser of SplitMix64)."""
    x = (
        seed
        + np.uint64(row) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(place) * np.uint64(0xD1B54A32D192ED03)
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def _push(queues: Queues, operator: int, row: int) -> bool:
    """Queue the row; return whether the queue is now full."""
    room = queues.ring.shape[1]
    queues.ring[operator, (queues.head[operator] + queues.size[operator]) & (room - 1)] = row
    queues.size[operator] += 1
    return bool(queues.size[operator] == room)


@kernel
def _arrive(
    plant: Plant, rows: Rows, queues: Queues, clock: Any, salt: np.uint64, keep: float, limit: float
) -> bool:
    """Admit or drop the next row to arrive; return whether a queue is now full."""
    row = clock.next_row
    clock.next_row += 1
    clock.arrived += 1
    if uniform(salt, row, -1) >= keep or clock.outstanding + 1 > limit:
        rows.fate[row] = DROPPED
        return False
    rows.fate[row] = INSIDE
    rows.pieces[row] = plant.entries.size
    clock.kept += 1
    clock.outstanding += 1
    full = False
    for entry in plant.entries:
        full |= _push(queues, entry, row)
    return full


@kernel
def _pick(plant: Plant, queues: Queues, turn: int) -> int:
    """Return the operator to run next, or -1 where all queues are empty."""
    m = plant.cost_s.size
    if plant.schedule == ROUND_ROBIN:
        for i in range(m):
            operator = turn + i
            if operator >= m:
                operator -= m
            if queues.size[operator] > 0:
                return operator
        return -1
    room = queues.ring.shape[1]
    best, oldest = -1, np.int64(0)
    for operator in range(m - 1, -1, -1):  # of one row's pieces the one that has come furthest
        if queues.size[operator] > 0:
            row = queues.ring[operator, queues.head[operator] & (room - 1)]
            if best < 0 or row < oldest:
                best, oldest = operator, row
    return best


@kernel
def _complete(plant: Plant, rows: Rows, queues: Queues, meters: Meters, clock: Any) -> bool:
    """Finish the firing that is under way; return whether a queue is now full."""
    operator, row = clock.operator, clock.row
    clock.now_s = clock.ends_s
    clock.operator = -1
    full = False
    if uniform(plant.seed, row, operator) < plant.selectivity[operator]:
        meters.passed[operator] += 1
        for i in range(plant.reader_starts[operator], plant.reader_starts[operator + 1]):
            rows.pieces[row] += 1
            full |= _push(queues, plant.readers[i], row)
    rows.pieces[row] -= 1
    if rows.pieces[row] == 0:
        clock.outstanding -= 1
        rows.left_s[row] = clock.now_s
        if rows.fate[row] == INSIDE:
            rows.fate[row] = DONE
            delay = clock.now_s - plant.arrival_s[row]
            clock.finished += 1
            clock.delay_sum_s += delay
            clock.worst_delay_s = max(clock.worst_delay_s, delay)
    return full


@kernel
def advance(
    plant: Plant,
    rows: Rows,
    queues: Queues,
    meters: Meters,
    state: npt.NDArray[np.void],
    until_s: float,
    salt: np.uint64,
    keep: float,
    limit: float,
) -> int:
    """Play the engine until ``until_s`` with a keep ratio and a bound on the rows outstanding."""
    clock = state[0]
    n = plant.arrival_s.size
    room = queues.ring.shape[1]
    last_step = plant.relative_cost.size - 1
    while True:
        if clock.operator >= 0:
            horizon = min(clock.ends_s, until_s)
            while clock.next_row < n and plant.arrival_s[clock.next_row] <= horizon:
                if _arrive(plant, rows, queues, clock, salt, keep, limit):
                    return QUEUE_FULL
            clock.busy_s += horizon - clock.now_s
            clock.now_s = horizon
            if clock.ends_s > until_s:
                return ON_TIME
            if _complete(plant, rows, queues, meters, clock):
                return QUEUE_FULL
        operator = _pick(plant, queues, clock.turn)
        if operator < 0:  # idle until a row comes
            if clock.next_row >= n or plant.arrival_s[clock.next_row] > until_s:
                clock.now_s = max(clock.now_s, until_s)
                return ON_TIME
            clock.now_s = max(clock.now_s, plant.arrival_s[clock.next_row])
            if _arrive(plant, rows, queues, clock, salt, keep, limit):
                return QUEUE_FULL
            continue
        row = queues.ring[operator, queues.head[operator] & (room - 1)]
        queues.head[operator] += 1
        queues.size[operator] -= 1
        step = min(int(clock.now_s / plant.cost_step_s), last_step)
        cost_s = plant.cost_s[operator] * plant.relative_cost[step]
        meters.read[operator] += 1
        meters.processor_s[operator] += cost_s
        clock.operator = operator
        clock.row = row
        clock.ends_s = clock.now_s + cost_s / plant.headroom
        clock.turn = operator + 1 if operator + 1 < plant.cost_s.size else 0


@kernel
def remove(
    plant: Plant,
    rows: Rows,
    queues: Queues,
    state: npt.NDArray[np.void],
    salt: np.uint64,
    load_rows: float,
) -> None:
    """Take pieces out of the queues, at random places, until their work amounts to ``load_rows`` rows.

    A row that lost a piece counts as lost, although its other pieces, if it has any, are processed.
    """
    clock = state[0]
    m, room = queues.ring.shape
    waiting = queues.size.sum()
    operators = np.empty(waiting, np.int64)
    places = np.empty(waiting, np.int64)
    found = 0
    for operator in range(m):
        for i in range(queues.size[operator]):
            operators[found] = operator
            places[found] = (queues.head[operator] + i) & (room - 1)
            found += 1
    gone = 0.0
    for i in range(waiting):
        if gone >= load_rows:
            break
        j = i + int(uniform(salt, i, -2) * (waiting - i))
        operators[i], operators[j] = operators[j], operators[i]
        places[i], places[j] = places[j], places[i]
        row = queues.ring[operators[i], places[i]]
        queues.ring[operators[i], places[i]] = -1
        gone += plant.downstream[operators[i]]
        if rows.fate[row] == INSIDE:
            rows.fate[row] = REMOVED
            clock.removed += 1
        rows.pieces[row] -= 1
        if rows.pieces[row] == 0:
            clock.outstanding -= 1
            rows.left_s[row] = clock.now_s
    for operator in range(m):
        kept = 0
        for i in range(queues.size[operator]):
            row = queues.ring[operator, (queues.head[operator] + i) & (room - 1)]
            if row >= 0:
                queues.ring[operator, (queues.head[operator] + kept) & (room - 1)] = row
                kept += 1
        queues.size[operator] = kept
