"""Streams of sets that share their items some time apart, as in the join paper's experiments (Section 6.1).

Every row is a set of items 1 to L. Which items are popular moves on with time: at time T the most popular one is a,
the next a + 1, and so on, around and around.

    a         =  1 + ⌊L ((T - τ) mod ς) / ς⌋
    P(a + k)  ∝  (k + 1)^-κ                           k = 0, 1, ..., L - 1
    |set|     ~  Normal(μ, σ), rounded, 1 to L        its items are drawn one after the other, each once

Two streams with time shifts τ that differ by Δ have rows in common that are Δ apart, or ς - Δ the other way round.
With L = 5000, μ = 1 and σ = 0 the sets are single values.

Arrivals are spread at random over each span of a trace, so that no two streams arrive in step.

======  ================  ==========================================
symbol  in the code       meaning
======  ================  ==========================================
L       ``items``         items that there are
κ       ``skew``          exponent of the items' popularity
ς       ``cycle_s``       time after which the popular items return
τ       ``shift_s``       by how much this stream is behind
μ, σ    ``mean``, ``sd``  size of a set
======  ================  ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spillway.core.arrays import Floats, Ints
from spillway.core.checks import require_number, require_whole
from spillway.replay.traces import Rates

_CHUNK = 20_000


@dataclass(frozen=True, kw_only=True)
class SetStream:
    """A stream as in the module's text.

    >>> from spillway.replay.traces import Rates
    >>> made = SetStream(cycle_s=40.0, shift_s=25.0).table(Rates((100.0,), (10.0,)), seed=1)
    >>> made.num_rows, made.column_names, made["items"][0].as_py()
    (1000, ['time', 'items'], [23, 37, 38, 53])
    """

    cycle_s: float
    shift_s: float = 0.0
    skew: float = 0.8
    items: int = 100
    mean: float = 5.0
    sd: float = 1.0

    def __post_init__(self) -> None:
        require_number("cycle_s", self.cycle_s, 0.0, above=True)
        require_number("shift_s", self.shift_s)
        require_number("skew", self.skew, 0.0)
        require_whole("items", self.items, 1, 10**6)
        require_number("mean", self.mean, 1.0)
        require_number("sd", self.sd, 0.0)

    @property
    def single(self) -> bool:
        """Whether rows are single values, not sets."""
        return self.mean == 1.0 and self.sd == 0.0

    def table(self, trace: Rates, *, seed: int) -> pa.Table:
        """Return the rows that arrive by a trace: ``time`` in seconds and ``items``, a list or a single number."""
        rng = np.random.default_rng(seed)
        times = arrivals(trace, rng)
        ranks, sizes = self.draw(rng, len(times))
        places = (ranks + self.leader(times)[:, None]) % self.items + 1
        if self.single:
            return pa.table({"time": times, "items": places[:, 0]})
        width = places.shape[1]
        places[np.arange(width) >= sizes[:, None]] = self.items + 1  # beyond all items, to be cut off
        places.sort(axis=1)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        held = pa.array(places[np.arange(width) < sizes[:, None]])
        return pa.table({"time": times, "items": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), held)})

    def leader(self, times: Floats) -> Ints:
        """Return a - 1, the number from 0 of the most popular item."""
        part = ((times - self.shift_s) % self.cycle_s) / self.cycle_s
        return np.minimum(self.items - 1, np.floor(self.items * part)).astype(np.int64)

    def draw(self, rng: np.random.Generator, rows: int) -> tuple[Ints, Ints]:
        """Return the ranks of rows' items, as many columns as the largest set has, and the sizes of the sets."""
        popularity = np.arange(1, self.items + 1) ** -self.skew
        if self.single:
            drawn = rng.choice(self.items, rows, p=popularity / popularity.sum())
            return drawn[:, None].astype(np.int64), np.ones(rows, np.int64)
        sizes = np.clip(np.rint(rng.normal(self.mean, self.sd, rows)), 1, self.items).astype(np.int64)
        ranks = np.zeros((rows, int(sizes.max(initial=1))), np.int64)
        edges = np.cumsum(popularity / popularity.sum())
        for low in range(0, rows, _CHUNK):
            _first_distinct(rng, edges, sizes[low : low + _CHUNK], ranks[low : low + _CHUNK])
        return ranks, sizes


def _first_distinct(rng: np.random.Generator, edges: Floats, sizes: Ints, ranks: Ints) -> None:
    """Draw items one after the other, until each row has as many different ones as it should."""
    drawn = np.empty((0, len(sizes)), np.int32)  # one column a row: short rows are slow to work with
    lacking = np.arange(len(sizes))
    while len(lacking):
        more = np.searchsorted(edges[:-1], rng.random((2 * ranks.shape[1], len(lacking))), side="right")
        drawn = np.concatenate([drawn, more.astype(np.int32)])
        new = np.ones(drawn.shape, np.bool_)
        for at in range(1, len(drawn)):
            for before in range(at):
                new[at] &= drawn[before] != drawn[at]
        place = np.cumsum(new, axis=0, dtype=np.int32)
        enough = place[-1] >= sizes[lacking]
        draws, row = np.nonzero(new & (place <= sizes[lacking]) & enough)
        ranks[lacking[row], place[draws, row] - 1] = drawn[draws, row]
        drawn, lacking = drawn[:, ~enough], lacking[~enough]


def arrivals(trace: Rates, rng: np.random.Generator) -> Floats:
    """Return arrival times in seconds: as many in each span as the trace says, at random."""
    edges = np.concatenate([np.zeros(1), np.cumsum(trace.spans_s)])
    counts = np.diff(
        np.rint(np.concatenate([np.zeros(1), np.cumsum(np.multiply(trace.rates, trace.spans_s))]))
    )
    spans = [
        np.sort(rng.uniform(low, high, int(count)))
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return np.concatenate(spans)
