"""Recorded news: stories of one service and of the others that share at least 3 of their ten keywords within 4 hours.

Stories come by the minute, not by the hundred a second, so what is learned has to be kept for months: a step a day,
of which little is forgotten. The budget is 4 % of all comparisons. Few stories match at all, so each method runs with
several salts. The best that any choice of ages could find is worked out from all matches, afterwards.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.results import Figure
from spillway.core.arrays import Floats
from spillway.core.join import Shedding, overlap, run
from spillway.errors import SpillwayError
from spillway.replay.news import news

WITHIN_S = 4 * 3600.0
FRACTION = 0.04

ON = overlap("words", at_least=3)
_LEARNING: dict[str, Any] = {"basic_window_s": 300.0, "period_s": 24 * 3600.0, "memory": 0.995}
METHODS = {
    "random": Shedding(drop_rows=True, period_s=24 * 3600.0),
    "rate": Shedding(time_correlation=False, direction=False, period_s=24 * 3600.0),
    "timecorr": Shedding(direction=False, **_LEARNING),
    "selective": Shedding(**_LEARNING),
}


@dataclass(frozen=True, kw_only=True)
class News:
    """Matches found, mean over salts, and what there is to find."""

    stories: tuple[int, int]
    comparisons: int
    all_matches: int
    found: dict[str, float]
    best: float

    @property
    def ratio(self) -> float:
        """Selection over a random drop."""
        return self.found["selective"] / max(1e-9, self.found["random"])


def measured(salts: int) -> News | str:
    """Join the news, or say why that cannot be."""
    try:
        left, right = news()
    except SpillwayError as error:
        return f"absent: {error}"
    if not left.num_rows or not right.num_rows:
        return "absent: one of the streams has no story"
    everything = run(left, right, on=ON, within_s=WITHIN_S, time="time", shedding=METHODS["rate"])
    apart = (
        _seconds(right)[everything["right_row"].to_numpy()]
        - _seconds(left)[everything["left_row"].to_numpy()]
    )
    comparisons = met(_seconds(left), _seconds(right), WITHIN_S)
    found = {
        name: float(
            np.mean(
                [
                    run(
                        *(left, right),
                        on=ON,
                        within_s=WITHIN_S,
                        time="time",
                        budget=FRACTION * comparisons,
                        shedding=shedding,
                        salt=salt,
                    ).num_rows
                    for salt in range(salts if name != "rate" else 1)
                ]
            )
        )
        for name, shedding in METHODS.items()
    }
    return News(
        stories=(left.num_rows, right.num_rows),
        comparisons=comparisons,
        all_matches=everything.num_rows,
        found=found,
        best=best_of(apart, _all_apart(_seconds(left), _seconds(right))),
    )


def met(left: Floats, right: Floats, within_s: float) -> int:
    """Return how many pairs lie within the windows.

    >>> met(np.array([0.0, 10.0]), np.array([4.0, 11.0, 30.0]), 5.0)
    2
    """
    low = np.searchsorted(left, right - within_s, side="left")
    return int((np.searchsorted(left, right + within_s, side="right") - low).sum())


def best_of(matched: Floats, compared: Floats) -> float:
    """Return what the best choice of ages finds over a random one, from how far apart pairs are; in slices of b.

    >>> best_of(np.full(50, 10.0), np.concatenate([np.full(50, 10.0), np.full(4950, 900.0)]))
    25.0
    """
    edges = np.arange(-WITHIN_S, WITHIN_S + 1.0, _LEARNING["basic_window_s"])
    hits, tried = (np.histogram(each, edges)[0] for each in (matched, compared))
    order = np.argsort(-hits / np.maximum(1, tried), kind="stable")
    budget = FRACTION * tried.sum()
    made = np.cumsum(tried[order])
    found = float(
        np.interp(budget, np.concatenate([[0], made]), np.concatenate([[0], np.cumsum(hits[order])]))
    )
    return found / FRACTION / max(1, int(hits.sum()))


def _all_apart(left: Floats, right: Floats) -> Floats:
    low = np.searchsorted(left, right - WITHIN_S, side="left")
    counts = np.searchsorted(left, right + WITHIN_S, side="right") - low
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
    return np.asarray(np.repeat(right, counts) - left[place])


def figure_of(found: News) -> Figure:
    """Return the numbers."""
    checks = {"selection_finds_more": found.ratio > 1.0}
    told = ", ".join(f"{name} {count:.0f}" for name, count in found.found.items())
    return Figure(
        title="Recorded news: at least 3 of 10 keywords in common, within 4 hours, 4 % of the comparisons",
        paper="Named as an application; not measured.",
        ours=f"{told} of {found.all_matches} matches: selection finds {found.ratio:.2f} times what a random drop "
        f"does. The best choice of ages, known afterwards, would find {found.best:.1f} times.",
        holds=all(checks.values()),
        numbers={"checks": checks, **asdict(found)},
    )


def _seconds(table: pa.Table) -> Floats:
    return np.asarray(table["time"].cast(pa.int64()).to_numpy() / 1e6)
