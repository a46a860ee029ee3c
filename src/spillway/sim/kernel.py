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


class World(NamedTuple):
    """The arrays of a run: tables of rows and operators, and what they refer to."""

    rows: npt.NDArray[np.void]  # of ROW
    operators: npt.NDArray[np.void]  # of OPERATOR
    ring: npt.NDArray[np.int64]  # a queue of row numbers per operator; its length is a power of two
    entries: npt.NDArray[np.int64]  # the operators that every row enters
    readers: npt.NDArray[np.int64]  # who reads from an operator: see OPERATOR
    relative_cost: npt.NDArray[np.float64]  # per cost step
    clock: npt.NDArray[np.void]  # one CLOCK


ROW: Final = np.dtype(
    [
        ("arrival_s", "f8"),
        ("left_s", "f8"),  # when its last piece left
        ("pieces", "i8"),  # parts of the row that are somewhere in the network
        ("fate", "i8"),
    ]
)

OPERATOR: Final = np.dtype(
    [
        ("cost_s", "f8"),  # at a relative cost of 1
        ("selectivity", "f8"),
        ("downstream", "f8"),  # work still to come for a row that waits here, as a part of a whole row's
        ("first_reader", "i8"),  # its readers are readers[first_reader:last_reader]
        ("last_reader", "i8"),
        ("head", "i8"),  # its queue: where it begins in the ring, and how long it is
        ("size", "i8"),
        ("read", "i8"),  # what the monitor counts in a period
        ("passed", "i8"),
        ("processor_s", "f8"),
    ]
)

CLOCK: Final = np.dtype(
    [
        ("cost_step_s", "f8"),  # what the run was started with
        ("headroom", "f8"),
        ("schedule", "i8"),
        ("seed", "u8"),
        ("now_s", "f8"),  # where it stands
        ("next_row", "i8"),  # the next one to arrive
        ("outstanding", "i8"),
        ("turn", "i8"),  # where round robin goes on
        ("operator", "i8"),  # the one at work, or -1
        ("row", "i8"),  # its row
        ("ends_s", "f8"),  # when it will be done
        ("arrived", "i8"),  # what the monitor counts in a period
        ("kept", "i8"),
        ("finished", "i8"),
        ("busy_s", "f8"),
        ("delay_sum_s", "f8"),
        ("worst_delay_s", "f8"),
    ]
)


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
def _push(operators: Any, ring: Any, number: int, row: int) -> bool:
    """Queue the row at an operator; return whether that queue is now full."""
    room = ring.shape[1]
    operator = operators[number]
    ring[number, (operator.head + operator.size) & (room - 1)] = row
    operator.size += 1
    return bool(operator.size == room)


@kernel
def _arrive(
    rows: Any, operators: Any, ring: Any, entries: Any, clock: Any, salt: np.uint64, keep: float, limit: float
) -> bool:
    """Admit or drop the next row to arrive; return whether a queue is now full."""
    number = clock.next_row
    row = rows[number]
    clock.next_row += 1
    clock.arrived += 1
    if uniform(salt, number, -1) >= keep or clock.outstanding + 1 > limit:
        row.fate = DROPPED
        return False
    row.fate = INSIDE
    row.pieces = entries.size
    clock.kept += 1
    clock.outstanding += 1
    full = False
    for entry in entries:
        full |= _push(operators, ring, entry, number)
    return full


@kernel
def _pick(operators: Any, ring: Any, schedule: int, turn: int) -> int:
    """Return the operator to run next, or -1 where all queues are empty."""
    m, room = ring.shape
    if schedule == ROUND_ROBIN:
        for i in range(m):
            number = turn + i
            if number >= m:
                number -= m
            if operators[number].size > 0:
                return number
        return -1
    best, oldest = -1, np.int64(0)
    for number in range(m - 1, -1, -1):  # of one row's pieces the one that has come furthest
        if operators[number].size > 0:
            row = ring[number, operators[number].head & (room - 1)]
            if best < 0 or row < oldest:
                best, oldest = number, row
    return best


@kernel
def _complete(rows: Any, operators: Any, ring: Any, readers: Any, clock: Any) -> bool:
    """Finish the firing that is under way; return whether a queue is now full."""
    operator, row = operators[clock.operator], rows[clock.row]
    clock.now_s = clock.ends_s
    full = False
    if uniform(clock.seed, clock.row, clock.operator) < operator.selectivity:
        operator.passed += 1
        for i in range(operator.first_reader, operator.last_reader):
            row.pieces += 1
            full |= _push(operators, ring, readers[i], clock.row)
    clock.operator = -1
    row.pieces -= 1
    if row.pieces == 0:
        clock.outstanding -= 1
        row.left_s = clock.now_s
        if row.fate == INSIDE:
            row.fate = DONE
            delay = clock.now_s - row.arrival_s
            clock.finished += 1
            clock.delay_sum_s += delay
            clock.worst_delay_s = max(clock.worst_delay_s, delay)
    return full


@kernel
def _advance(
    rows: Any,
    operators: Any,
    ring: Any,
    entries: Any,
    readers: Any,
    relative_cost: Any,
    clocks: Any,
    until_s: float,
    salt: np.uint64,
    keep: float,
    limit: float,
) -> int:
    """See :func:`advance`."""
    clock = clocks[0]
    m, room = ring.shape
    last_step = relative_cost.size - 1
    while True:
        if clock.operator >= 0:
            horizon = min(clock.ends_s, until_s)
            while clock.next_row < rows.size and rows[clock.next_row].arrival_s <= horizon:
                if _arrive(rows, operators, ring, entries, clock, salt, keep, limit):
                    return QUEUE_FULL
            clock.busy_s += horizon - clock.now_s
            clock.now_s = horizon
            if clock.ends_s > until_s:
                return ON_TIME
            if _complete(rows, operators, ring, readers, clock):
                return QUEUE_FULL
        number = _pick(operators, ring, clock.schedule, clock.turn)
        if number < 0:  # idle until a row comes
            if clock.next_row >= rows.size or rows[clock.next_row].arrival_s > until_s:
                clock.now_s = max(clock.now_s, until_s)
                return ON_TIME
            clock.now_s = max(clock.now_s, rows[clock.next_row].arrival_s)
            if _arrive(rows, operators, ring, entries, clock, salt, keep, limit):
                return QUEUE_FULL
            continue
        operator = operators[number]
        clock.operator = number
        clock.row = ring[number, operator.head & (room - 1)]
        operator.head += 1
        operator.size -= 1
        step = min(int(clock.now_s / clock.cost_step_s), last_step)
        cost_s = operator.cost_s * relative_cost[step]
        operator.read += 1
        operator.processor_s += cost_s
        clock.ends_s = clock.now_s + cost_s / clock.headroom
        clock.turn = number + 1 if number + 1 < m else 0


@kernel
def _remove(rows: Any, operators: Any, ring: Any, clocks: Any, salt: np.uint64, load_rows: float) -> None:
    """See :func:`remove`."""
    clock = clocks[0]
    m, room = ring.shape
    waiting = 0
    for number in range(m):
        waiting += operators[number].size
    places = np.empty((waiting, 2), np.int64)
    found = 0
    for number in range(m):
        for i in range(operators[number].size):
            places[found, 0] = number
            places[found, 1] = (operators[number].head + i) & (room - 1)
            found += 1
    gone = 0.0
    for i in range(waiting):
        if gone >= load_rows:
            break
        j = i + int(uniform(salt, i, -2) * (waiting - i))
        number, place = places[j, 0], places[j, 1]
        places[j] = places[i]
        row = rows[ring[number, place]]
        ring[number, place] = -1
        gone += operators[number].downstream
        if row.fate == INSIDE:
            row.fate = REMOVED
        row.pieces -= 1
        if row.pieces == 0:
            clock.outstanding -= 1
            row.left_s = clock.now_s
    for number in range(m):
        operator = operators[number]
        kept = 0
        for i in range(operator.size):
            row_number = ring[number, (operator.head + i) & (room - 1)]
            if row_number >= 0:
                ring[number, (operator.head + kept) & (room - 1)] = row_number
                kept += 1
        operator.size = kept


def advance(world: World, until_s: float, salt: np.uint64, keep: float, limit: float) -> int:
    """Play the engine until ``until_s`` with a keep ratio and a bound on the rows outstanding."""
    return _advance(*world, until_s, salt, keep, limit)


def remove(world: World, salt: np.uint64, load_rows: float) -> None:
    """Take pieces out of the queues, at random places, until their work amounts to ``load_rows`` rows.

    A row that lost a piece counts as lost, although its other pieces, if it has any, are processed.
    """
    _remove(world.rows, world.operators, world.ring, world.clock, salt, load_rows)
