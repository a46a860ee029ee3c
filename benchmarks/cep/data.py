"""The paper's synthetic streams (Table II): one event each microsecond, drawn by Python's own generator.

======  ====================  =====================================================================================
stream  attribute             values
======  ====================  =====================================================================================
DS1     ``type``              A, B, C or D, alike; with ``b_share`` B has that share and the others the rest, alike
        ``V``                 1..10 for A and B, ``c_values`` for C, 0 or 1 for D; from event ``drift_at`` on
                              ``drift_values`` for C
        ``ID``                1..10
DS2     ``type``, ``ID``      as in DS1
        ``x``, ``y``          for A and B: in (0, 2] with probability 1/3, in (2, 4] with 2/3; 0 for others
        ``v``                 for B 2 or 5, for C 3 or 5, for D 5 or 2: the first with probability 1/3; 0 for A
======  ====================  =====================================================================================

The draws of an event are its type, its value and its ID, in this order: with seed 42 that is the stream that other
engines were measured on.

>>> ds1 = DS1().table(3, seed=42)
>>> ds1["type"].to_pylist(), ds1["V"].to_pylist(), ds1["ID"].to_pylist()
(['A', 'B', 'A'], [1, 4, 9], [5, 3, 2])
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spillway.core.checks import require_number

_OTHERS = "ACD"


class Stream(Protocol):
    """Something that events can be drawn from."""

    def table(self, events: int, seed: int) -> pa.Table:
        """Return events with ``ts`` and ``type``."""


@dataclass(frozen=True, kw_only=True)
class DS1:
    """The first data set; the paper varies the values of C and the share of B."""

    c_values: tuple[int, int] = (2, 10)
    b_share: float | None = None
    drift_at: int | None = None
    drift_values: tuple[int, int] = (12, 20)

    def __post_init__(self) -> None:
        if self.b_share is not None:
            require_number("b_share", self.b_share, 0.0, 1.0)

    def table(self, events: int, seed: int) -> pa.Table:
        """Return the first events of a seed."""
        draw = random.Random(seed)
        ranges = {"A": (1, 10), "B": (1, 10), "C": self.c_values, "D": (0, 1)}
        types, values, ids = [], [], []
        for number in range(events):
            if number == self.drift_at:
                ranges["C"] = self.drift_values
            types.append(self._type(draw))
            values.append(draw.randint(*ranges[types[-1]]))
            ids.append(draw.randint(1, 10))
        return pa.table({"ts": _times(events), "type": types, "V": values, "ID": ids})

    def _type(self, draw: random.Random) -> str:
        if self.b_share is None:
            return "ABCD"[draw.randrange(4)]
        return "B" if draw.random() < self.b_share else _OTHERS[draw.randrange(3)]


@dataclass(frozen=True, kw_only=True)
class DS2:
    """The second data set: runs of different states take different amounts of work."""

    def table(self, events: int, seed: int) -> pa.Table:
        """Return the first events of a seed."""
        draw = random.Random(seed)
        values = {"A": (0.0, 0.0), "B": (2.0, 5.0), "C": (3.0, 5.0), "D": (5.0, 2.0)}
        columns: dict[str, list[Any]] = {name: [] for name in ("type", "x", "y", "v", "ID")}
        for _ in range(events):
            kind = "ABCD"[draw.randrange(4)]
            placed = kind in "AB"
            event = (
                kind,
                _place(draw) if placed else 0.0,
                _place(draw) if placed else 0.0,
                values[kind][draw.random() >= 1 / 3],
                draw.randint(1, 10),
            )
            for column, value in zip(columns.values(), event, strict=True):
                column.append(value)
        return pa.table({"ts": _times(events), **columns})


def _place(draw: random.Random) -> float:
    low = 0.0 if draw.random() < 1 / 3 else 2.0
    return low + 2.0 * (1.0 - draw.random())


def _times(events: int) -> pa.Array:
    return pa.array(range(1, events + 1), pa.timestamp("us"))
