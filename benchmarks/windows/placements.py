"""Figures 10 and 11: the drop after the aggregates, in the middle, and at the input.

    Figure 10    delay -> tumbling(10) -> delay -> tumbling(100) -> delay                    B = 10
    Figure 11    delay -> split -> delay -> tumbling(10) -> delay                            B = 10
                               \\-> delay -> tumbling(20) -> delay                           B = 10

All delays take the same work in all: one behind a window of 100 takes 100 times as long per tuple. The paper gives
neither the windows nor the delays of Figure 11; these are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.control.runs import geometric_mean
from benchmarks.results import Figure
from benchmarks.windows.counted_work import (
    OVERHEAD,
    Chance,
    Curve,
    curve,
    delay,
    errors,
    needed_share,
    one_sided,
)
from spillway.core.windows import tumbling
from spillway.core.windows.paper.plan import Aggregated, Drop, Keep, Plan, Split, with_drop
from spillway.core.windows.placement.load_savings import WindowDrop
from spillway.report.plots import CYCLE, panels, save

EXCESS = (0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 0.65, 0.8, 1.0, 1.5, 2.0)
MAX_GAP = 10
COST = 5.0

Rates = Mapping[str, Sequence[float | None]]

_PIPELINE: Plan = (
    delay(COST),
    Aggregated(tumbling(10)),
    delay(10 * COST),
    Aggregated(tumbling(100)),
    delay(100 * COST),
)
_SIZES = (10, 20)


def figure_10(out: Path | None, *, rows: int) -> Figure:
    """Compare the three places in a pipeline."""
    most = MAX_GAP / (MAX_GAP + 1)
    early = WindowDrop(size=109, slide=100, max_gap=MAX_GAP).early_share
    found = {
        "rdrop": curve(_PIPELINE, lambda p: (*_PIPELINE[:4], Keep(Chance(p)), _PIPELINE[4]), rows),
        "nested1": curve(_PIPELINE, lambda p: with_drop(_PIPELINE, Drop(p, MAX_GAP), before=2), rows),
        "nested2": curve(_PIPELINE, lambda p: with_drop(_PIPELINE, Drop(p, MAX_GAP)), rows),
    }
    expected = {
        "rdrop": _expected((0.0, 0.0, 1.0), OVERHEAD / 100, 1.0),
        "nested1": _expected((0.0, 1.0, 1.0), OVERHEAD / 10, most),
        "nested2": _expected((early, 1.0, 1.0), OVERHEAD, most),
    }
    rates = needed(found)
    ends = found["rdrop"].ends
    low = next(iter(ratios(rates, "rdrop", "nested2").values()), 0.0)
    more = {"rdrop_comparable_at_low_load": low <= 1.5, "rdrop_ends_near_65_percent": 0.6 <= ends <= 0.7}
    return _figure(
        "Drop rate in a pipeline, by the place of the drop",
        "RDrop is comparable at low rates and delivers nothing beyond an excess of 65 %; Nested2 drops no more "
        "than Nested1 at any load.",
        f"RDrop needs {over(rates, 'rdrop', 'nested2'):.1f} times what Nested2 drops, at low loads too, and does not "
        f"do beyond an excess of {100 * ends:.0f} %: a third of the work is behind it. For 65 % it would have to be "
        "two fifths.",
        rates,
        expected,
        draw(rates, "windows-10", out),
        more,
    )


def figure_11(out: Path | None, *, rows: int) -> Figure:
    """Compare the three places around a split."""
    shared, gaps = tumbling(10) | tumbling(20), [MAX_GAP, MAX_GAP]
    size, slide = shared.drop_units()
    windows = WindowDrop(size=size, slide=slide, max_gap=shared.drop_gap(gaps))
    plan = _fan_out(lambda branch: branch)
    found = {
        "split_rdrop": curve(plan, lambda p: _fan_out(lambda b: (*b[:2], Keep(Chance(p)), b[2])), rows),
        "split_windrop": curve(plan, lambda p: _fan_out(lambda b: (Drop(p, MAX_GAP), *b)), rows),
        "shared_windrop": curve(plan, lambda p: with_drop(plan, Drop(p, gaps)), rows),
    }
    most = MAX_GAP / (MAX_GAP + 1)
    after = OVERHEAD * sum(1 / size for size in _SIZES)
    expected = {
        "split_rdrop": _expected((0.0, 0.0, 1.0, 0.0, 1.0), after, 1.0),
        "split_windrop": _expected((0.0, 1.0, 1.0, 1.0, 1.0), 2 * OVERHEAD, most),
        "shared_windrop": _expected((windows.early_share, 1.0, 1.0, 1.0, 1.0), OVERHEAD, windows.most),
    }
    rates = needed(found)
    return _figure(
        "Total drop rate of a fan-out, by the place of the drop",
        "Shedding at the earliest point gives the smallest drop rate, after the aggregates the largest.",
        f"Split_RDrop needs {over(rates, 'split_rdrop', 'shared_windrop'):.1f} times what Shared_WinDrop drops, "
        f"Split_WinDrop {over(rates, 'split_windrop', 'shared_windrop'):.2f} times. "
        f"The windows of the shared drop are ({size}, {slide}), its B is {windows.max_gap}.",
        rates,
        expected,
        draw(rates, "windows-11", out),
        {},
    )


def needed(curves: Mapping[str, Curve]) -> dict[str, list[float | None]]:
    """Return the drop rate of each place at each excess load."""
    return {name: [found.needed(x) for x in EXCESS] for name, found in curves.items()}


def in_order(rates: Rates) -> bool:
    """Whether each place drops no more than the one before it, at every load; what cannot be shed counts as all.

    >>> in_order({"after": [0.5, None], "middle": [0.4, 0.9], "input": [0.4, 0.5]})
    True
    """
    rows = [[1.0 if rate is None else rate for rate in each] for each in rates.values()]
    return all(
        low <= high + 1e-9 for highs, lows in pairwise(rows) for high, low in zip(highs, lows, strict=True)
    )


def ratios(rates: Rates, above: str, below: str) -> dict[str, float]:
    """Return the ratio of two places' drop rates by excess load, where both are defined."""
    pairs = zip(EXCESS, rates[above], rates[below], strict=True)
    return {f"{x:g}": one / other for x, one, other in pairs if one is not None and other}


def over(rates: Rates, above: str, below: str) -> float:
    """Return the geometric mean of the ratios."""
    return geometric_mean(ratios(rates, above, below).values())


def last_load(rates: Sequence[float | None]) -> float:
    """Return the largest excess load that can be shed, 0 if none."""
    return max((x for x, rate in zip(EXCESS, rates, strict=True) if rate is not None), default=0.0)


def draw(rates: Rates, name: str, out: Path | None) -> list[str]:
    """Draw drop rates against the excess load."""
    if out is None:
        return []
    with panels(1, 1, width=6.0, height=3.2) as (figure, [axis]):
        for colour, (place, values) in zip(CYCLE, rates.items(), strict=False):
            shown = [(100 * x, rate) for x, rate in zip(EXCESS, values, strict=True) if rate is not None]
            axis.plot(*zip(*shown, strict=True), marker="o", markersize=3, color=colour, label=place)
        axis.set(xlabel="excess rate (%)", ylabel="drop rate", ylim=(0, 1), title="Drop rate needed")
        axis.legend()
        return save(figure, out, name)


def _figure(
    title: str,
    paper: str,
    ours: str,
    rates: Rates,
    expected: Rates,
    files: list[str],
    more: Mapping[str, bool],
) -> Figure:
    first, middle, last = rates
    checks = {
        "earlier_drops_no_more": in_order(rates),
        "later_gives_up_first": last_load(rates[first]) < last_load(rates[middle]) <= last_load(rates[last]),
        **more,
    }
    pairs = [pair for name in rates for pair in zip(rates[name], expected[name], strict=True)]
    return Figure(
        title=title,
        paper=paper,
        ours=ours,
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "excess": list(EXCESS),
            "drop_rate": {name: list(values) for name, values in rates.items()},
            "expected": {name: list(values) for name, values in expected.items()},
            "formula_errors": errors(pairs),
            "only_one_defined": one_sided(pairs),
            "rdrop_over_windrop": ratios(rates, first, last),
        },
        files=files,
    )


def _expected(saved: Sequence[float], overhead: float, most: float) -> list[float | None]:
    parts = [(COST, share) for share in saved]
    return [needed_share(parts, overhead=overhead, excess=x, most=most) for x in EXCESS]


def _fan_out(change: Callable[[Plan], Plan]) -> Plan:
    """Return the plan of Figure 11 with something done to each branch."""
    branches = tuple(change((delay(COST), Aggregated(tumbling(size)), delay(size * COST))) for size in _SIZES)
    return (delay(COST), Split(branches))
