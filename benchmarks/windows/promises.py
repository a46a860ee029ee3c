"""What is promised, looked for where it might be broken: random cases and recorded timestamps, against brute force.

- *subset violation*: a window that is delivered with a value which the exact answer does not have there;
- *gap violation*: a run of more missing results than the leaf's ``max_gap``.

The oracle knows windows by their definition only, [k slide, k slide + size), and fills them row by row. The aggregate
is a hash of everything that a window has seen, in order, so that no two contents look the same.

Beside it stands what a random drop of tuples does, which keeps no such promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa

from spillway.core.windows import Arrangement, Level, Stamp, run, sliding, tumbling

Answer = dict[int, Any]

_MOST_SLIDE = 60
_MOST_LEAVES = 4


@dataclass(frozen=True, slots=True)
class Found:
    """What came of some cases: delivered and exact windows, and violations."""

    cases: int = 0
    windows: int = 0
    delivered: int = 0
    subset_violations: int = 0
    gap_violations: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(
            self.cases + other.cases,
            self.windows + other.windows,
            self.delivered + other.delivered,
            self.subset_violations + other.subset_violations,
            self.gap_violations + other.gap_violations,
        )


def fingerprint(values: list[Any]) -> int:
    """Return a number that tells any two windows apart: order, number and content of what is in them."""
    return hash(tuple(values))


def random_cases(count: int, seed: int) -> Found:
    """Try random arrangements, streams, p and B."""
    rng = Random(seed)
    total = Found()
    for _ in range(count):
        arrangement = random_arrangement(rng)
        _, slide = arrangement.drop_units()
        gap = rng.randint(1, 4)
        gaps = [gap * slide // leaf.slide for leaf in arrangement.leaves()]
        if rng.random() < 0.2:
            gaps = [rng.randint(1, 4) for _ in gaps]  # too small for a common drop: one in each branch
        stamp: Stamp = rng.choice(("start", "end"))
        p = rng.choice((rng.random(), 1.0))
        times = random_times(rng)
        total += check(times, arrangement, p=p, gaps=gaps, salt=rng.randrange(10**6), stamp=stamp)
    return total


def random_arrangement(rng: Random, depth: int = 2) -> Arrangement:
    """Return windows, or a pipeline or fan-out of two arrangements, of a size that brute force can do."""
    while True:
        found = _arrangement(rng, depth)
        if found.drop_units()[1] <= _MOST_SLIDE and len(found.paths()) <= _MOST_LEAVES:
            return found


def random_times(rng: Random) -> list[float]:
    """Return sorted times: every unit, whole numbers with ties and silences, or any numbers."""
    kind = rng.randrange(3)
    if kind == 0:
        return [float(t) for t in range(rng.randint(1, 80))]
    if kind == 1:
        return sorted(float(rng.randint(-20, 120)) for _ in range(rng.randint(1, 60)))
    return sorted(rng.uniform(-20, 120) for _ in range(rng.randint(1, 40)))


def check(
    times: Sequence[Any],
    arrangement: Arrangement,
    *,
    p: float,
    gaps: Sequence[int],
    salt: int,
    stamp: Stamp = "start",
) -> Found:
    """Run one case and compare it with brute force; times are numbers, or microseconds for durations."""
    kind = pa.timestamp("us") if arrangement.timed else pa.float64()
    table = pa.table({"ts": pa.array(times, kind), "id": range(len(times))})
    shed = run(
        table,
        arrangement,
        time="ts",
        drop_probability=p,
        max_gap=list(gaps),
        aggregate=fingerprint,
        salt=salt,
        stamp=stamp,
    )
    answer = exact(arrangement.levels(), list(zip(times, range(len(times)), strict=True)), stamp)
    leaves = arrangement.leaves()
    starts = shed["start"].cast(pa.int64()).to_pylist()
    branches = shed["branch"].to_pylist() if len(leaves) > 1 else [0] * len(starts)
    delivered: list[Answer] = [{} for _ in leaves]
    wrong = 0
    for branch, start, value in zip(branches, starts, shed["value"].to_pylist(), strict=True):
        number, rest = divmod(start, leaves[branch].slide)
        wrong += rest != 0 or number in delivered[branch] or answer[branch].get(number) != value
        delivered[branch][number] = value
    late = sum(long_gaps(a, d, gap) for a, d, gap in zip(answer, delivered, gaps, strict=True))
    return Found(1, sum(map(len, answer)), len(starts), wrong, late)


def exact(levels: Sequence[Level], stream: list[tuple[Any, Any]], stamp: Stamp) -> list[Answer]:
    """Return the answer of each leaf without shedding, by window number."""
    answers: list[Answer] = []
    for level in levels:
        size, slide = level.window.size, level.window.slide
        inside: dict[int, list[Any]] = {}
        for time, value in stream:
            first = int((time - size) // slide)
            for k in range(first - 1, first + size // slide + 4):
                if k * slide <= time < k * slide + size:
                    inside.setdefault(k, []).append(value)
        results = {k: fingerprint(values) for k, values in sorted(inside.items())}
        shift = size - 1 if stamp == "end" else 0
        passed = [(k * slide + shift, value) for k, value in results.items()]
        answers += exact(level.below, passed, stamp) if level.below else [results]
    return answers


def long_gaps(answer: Answer, delivered: Answer, gap: int) -> int:
    """Return the number of runs of missing results that are longer than allowed.

    >>> long_gaps({0: 1, 1: 1, 2: 1, 5: 1}, {0: 1, 5: 1}, gap=1)
    1
    """
    missing = [k not in delivered for k in sorted(answer)]
    return sum(gone and len(list(run)) > gap for gone, run in groupby(missing))


def changed_by_tuple_drop(p: float, *, rows: int, seed: int) -> dict[str, float]:
    """Return the share of windows whose value changes when tuples are dropped at random, by aggregate function.

    The query is that of Figure 10 over readings of a sensor, with one function at both levels. A window that is gone
    altogether counts as missing and not as changed.
    """
    rng = Random(seed)
    readings = [20.0 + rng.gauss(0.0, 2.0) for _ in range(rows)]
    kept = [row for row in range(rows) if rng.random() >= p]
    query = tumbling(10) >> tumbling(100)
    shares = {}
    for function in ("sum", "mean", "min", "max"):
        whole, part = (
            run(
                pa.table({"ts": pa.array(some, pa.int64()), "value": [readings[row] for row in some]}),
                query,
                time="ts",
                aggregate=function,
            )
            for some in (list(range(rows)), kept)
        )
        right = dict(zip(whole["start"].to_pylist(), whole["value"].to_pylist(), strict=True))
        given = dict(zip(part["start"].to_pylist(), part["value"].to_pylist(), strict=True))
        shares[function] = sum(right[start] != value for start, value in given.items()) / max(len(given), 1)
    return shares


def _arrangement(rng: Random, depth: int) -> Arrangement:
    kind = rng.randrange(4) if depth else rng.randrange(2)
    if kind == 0:
        return tumbling(rng.randint(1, 8))
    if kind == 1:
        slide = rng.randint(1, 6)
        return sliding(slide + rng.randint(0, 6), slide)
    left, right = _arrangement(rng, depth - 1), _arrangement(rng, depth - 1)
    return left >> right if kind == 2 else left | right
