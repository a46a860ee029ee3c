"""How fast one core compares, and what a row and a unit of work cost: measured, through the join itself.

The windows are filled first, which is not timed. Then batches of a second are joined in full, and again with nothing
to compare. The difference over the units of work is what one of them takes, and the rest over the rows is what a
row takes: reading it, storing it, letting it go. The least of several turns counts, since other work only adds to it.

==================  =========================================================================================
path                what is timed
==================  =========================================================================================
``bitset``          the scan over sets of 5 of 100 items: popcount of two words
``scan``            the scan over sets of 5 of 10,000 items: signatures, then a merge of what they let through
``merge``           the scan without bits: a merge of sorted items for each comparison, as in the paper
``single``          the scan over single values
``index``           the inverted index over sets of 5 of 100 items: rows covered, not postings
``sorted_index``    the same with lists sorted by identifier
==================  =========================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from benchmarks.join.feed import Feed
from benchmarks.join.scenario import Kind, Setting
from spillway.core.join import JoinConfig, Shedding
from spillway.core.join.access.finder import Scanning
from spillway.replay.sets import SetStream
from spillway.replay.traces import Rates

Clock = Callable[[], float]

MANY_ITEMS = 10_000


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of one core for a row and for a unit of the budget, and the units that a comparison takes."""

    row_s: float
    unit_s: float
    units_per_comparison: float = 1.0

    @property
    def comparisons_per_s(self) -> float:
        """Comparisons a second, or rows that an index covers."""
        return 1.0 / (self.unit_s * self.units_per_comparison)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How much is timed: seconds of the stream, and in how many turns."""

    seconds: int = 4
    turns: int = 3


@dataclass(frozen=True)
class _Took:
    seconds: float
    rows: int
    units: int
    comparisons: int


def measure(
    config: JoinConfig, feed: Feed, timing: Timing, *, bits: bool = True, clock: Clock = time.perf_counter
) -> Cost:
    """Return what rows and units cost a join; without ``bits`` a scan merges for each comparison."""
    return in_turns([config], feed, timing, bits=bits, clock=clock)[0]


def in_turns(
    configs: Sequence[JoinConfig],
    feed: Feed,
    timing: Timing,
    *,
    bits: bool = True,
    clock: Clock = time.perf_counter,
) -> list[Cost]:
    """Return what rows and units cost several joins, in turns, so that what else the machine does falls on all."""
    runs: list[list[tuple[_Took, _Took]]] = [[] for _ in configs]
    for _ in range(timing.turns):
        for config, of in zip(configs, runs, strict=True):
            full, idle = (_timed(config, feed, timing, fraction, bits, clock) for fraction in (1.0, 0.0))
            of.append((full, idle))
    return [_cost(of) for of in runs]


def _cost(runs: Sequence[tuple[_Took, _Took]]) -> Cost:
    full_s, idle_s = (min(pair[at].seconds for pair in runs) for at in (0, 1))
    one = runs[0][0]
    return Cost(
        row_s=idle_s / one.rows,
        unit_s=max(1e-12, full_s - idle_s) / one.units,
        units_per_comparison=one.units / one.comparisons,
    )


def _timed(
    config: JoinConfig, feed: Feed, timing: Timing, fraction: float, bits: bool, clock: Clock
) -> _Took:
    join = config.build()
    if not bits:
        join.finder = Scanning(0)
    begin = max(config.windows) / 1e6
    join.process(*feed.between(0.0, begin), fraction=0.0)
    took, rows, units, comparisons = 0.0, 0, 0, 0
    for left, right in feed.batches(begin, begin + timing.seconds, 1.0):
        start = clock()
        join.process(left, right, fraction=fraction)
        took += clock() - start
        rows += join.work.rows
        units += join.work.spent
        comparisons += join.work.comparisons
    return _Took(took, rows, units, comparisons)


def cost_of(setting: Setting, timing: Timing, *shedding: str | Shedding) -> list[Cost]:
    """Return what rows and units cost, by way to shed; a comparison of a scan is a merge, as in the paper."""
    scan = setting.access == "scan"
    feed = _feed([setting.stream(side) for side in (0, 1)], setting, timing)
    if scan and setting.equi:  # sets of one item, so that these are merged too
        feed = Feed(_listed(feed.left), _listed(feed.right))
    return in_turns([setting.config(each) for each in shedding], feed, timing, bits=not scan)


def kernel_speeds(timing: Timing, *, rate: float = 1_000.0, window_s: float = 10.0) -> dict[str, float]:
    """Return comparisons a second by path."""
    sets, values = (
        Setting(rate=rate, window_s=window_s),
        Setting(kind="equi_scan", rate=rate, window_s=window_s),
    )
    many = [SetStream(cycle_s=2 * window_s, items=MANY_ITEMS) for _ in (0, 1)]
    paths: dict[str, tuple[Setting, list[SetStream] | None, bool]] = {
        "bitset": (sets, None, True),
        "scan": (sets, many, True),
        "merge": (_at(sets, "overlap_scan", rate / 5), None, False),
        "single": (values, None, True),
        "index": (_at(sets, "overlap_index", rate), None, True),
        "sorted_index": (_at(sets, "overlap_sorted", rate), None, True),
    }
    found = {}
    for name, (setting, stream, bits) in paths.items():
        given = stream or [setting.stream(side) for side in (0, 1)]
        feed = _feed(given, setting, timing)
        found[name] = measure(setting.config("newest"), feed, timing, bits=bits).comparisons_per_s
    return found


def _feed(stream: Sequence[SetStream], setting: Setting, timing: Timing) -> Feed:
    return _made(tuple(stream), setting.rate, max(setting.within_s) + timing.seconds)


@lru_cache(maxsize=4)
def _made(stream: tuple[SetStream, ...], rate: float, lasts_s: float) -> Feed:
    return Feed(*(each.table(Rates((rate,), (lasts_s,)), seed=side) for side, each in enumerate(stream)))


def _listed(table: pa.Table) -> pa.Table:
    values = table["items"].combine_chunks()
    ends = pa.array(range(len(values) + 1), pa.int32())
    return pa.table({"time": table["time"], "items": pa.ListArray.from_arrays(ends, values)})


def _at(setting: Setting, kind: Kind, rate: float) -> Setting:
    return Setting(kind=kind, rate=rate, window_s=setting.window_s)
