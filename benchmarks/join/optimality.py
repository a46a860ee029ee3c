"""Figures 5 and 6, and φ: how likely matches are by age, and how much of the best is found.

φ is measured on the very rows that the join was given. They are joined in full, and their matches counted by window
and age, in slices of a four hundredth of the window. The best that a join could have made of its comparisons is the
matches in the slices that have most of them. These are known only afterwards, so this is a little more than any join
could have found, and φ a little too low.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.join.feed import Feed
from benchmarks.join.machine import Machine
from benchmarks.join.panels import Panel, draw
from benchmarks.join.scenario import METHODS, Setting, streams
from benchmarks.join.truth import AGES, Truth, truth_of
from benchmarks.join.virtual_time import STEP_S, Lengths, Outcome, listed, steady
from benchmarks.results import Figure
from spillway.core.arrays import Floats
from spillway.core.join.selection.coverage import most, optimality
from spillway.replay.traces import Rates

SKEWS = (0.6, 0.8)
LENGTHS = (0.2, 0.1, 0.05, 0.025, 0.0125)
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


def matches_by_age(setting: Setting, lengths: Lengths, *, seed: int = 0) -> Truth:
    """Join a part of the streams in full, and return its matches by window and age as a share of comparisons."""
    filled_s = max(setting.within_s) + lengths.learn_s
    feed = Feed(*streams(setting, Rates((setting.rate,), (filled_s + lengths.count_s,)), seed))
    join = setting.config("newest").build()
    join.process(*feed.between(0.0, filled_s), fraction=0.0)
    counts, demand = np.zeros((2, AGES)), 0
    left, right = (table["time"].to_numpy() for table in (feed.left, feed.right))
    for batch in feed.batches(filled_s, filled_s + lengths.count_s, STEP_S):
        found = join.process(*batch)
        demand += join.work.demand
        apart = right[found["right_row"].to_numpy()] - left[found["left_row"].to_numpy()]
        for side, ages in enumerate((apart[apart > 0.0], -apart[apart <= 0.0])):
            slices = np.minimum(AGES - 1, (ages / setting.window_s * AGES).astype(np.int64))
            counts[side] += np.bincount(slices, minlength=AGES)
    by_comparison = counts / (demand / counts.size)
    return Truth(by_comparison[0], by_comparison[1])


def phi_of(setting: Setting, machine: Machine, lengths: Lengths) -> float:
    """Return the output over the best that was possible with as many comparisons on the same rows."""
    found, best = 0.0, 0.0
    one = Lengths(learn_s=lengths.learn_s, count_s=lengths.count_s)
    for seed in range(lengths.seeds):
        outcome = steady(setting, METHODS["selective"], machine, one, seed=seed)
        all_matches = matches_by_age(setting, one, seed=seed)
        both = np.concatenate([all_matches.left, all_matches.right])
        found += sum(outcome.pairs)
        best += most(both, outcome.comparisons / outcome.demand) * outcome.demand
    return found / best


def figure_5(out: Path | None) -> Figure:
    """Work out φ by the size of basic windows and the load, for two distributions."""
    f = {skew: truth_of(Setting(skew=skew)).right for skew in SKEWS}
    found = {skew: [[optimality(f[skew], b, r) for b in LENGTHS] for r in FRACTIONS] for skew in SKEWS}
    table = {skew: np.array(values) for skew, values in found.items()}
    low, high = (table[skew] for skew in SKEWS)
    checks = {
        "less_load_capacity_is_worse": bool((low[0] < low[-1]).all() and (high[0] < high[-1]).all()),
        "more_skew_is_worse": bool(high.mean() < low.mean()),
        "smaller_basic_windows_are_better": bool((np.diff(table[0.8].mean(axis=0)) > 0).all()),
    }
    at = FRACTIONS.index(0.1)
    return Figure(
        title="Optimality by load and size of basic windows, Section 5.1.1",
        paper="Optimality falls with fewer resources and with more skew; small basic windows mend it.",
        ours=f"At r' = 0.1 and b/w of {listed(LENGTHS, 3)}: {listed(found[0.6][at])} at κ = 0.6, "
        f"{listed(found[0.8][at])} at κ = 0.8.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "b_over_w": list(LENGTHS),
            "fractions": list(FRACTIONS),
            "phi": {str(skew): values for skew, values in found.items()},
        },
        files=draw(
            [
                Panel(
                    title=f"κ = {skew:g}",
                    x="b / w",
                    y="φ",
                    log_x=True,
                    curves={
                        f"r' = {r:g}": (LENGTHS, row) for r, row in zip(FRACTIONS, found[skew], strict=True)
                    },
                )
                for skew in SKEWS
            ],
            out,
            "join-5",
        ),
    )


def figure_6(lengths: Lengths, out: Path | None) -> Figure:
    """Join in full and show how likely matches are by age, beside the truth."""
    shown: dict[float, Floats] = {}
    numbers: dict[str, Any] = {}
    for skew in SKEWS:
        setting = Setting(skew=skew)
        shown[skew] = _coarse(matches_by_age(setting, lengths).right)
        true = _coarse(truth_of(setting).right)
        numbers[f"{skew:g}"] = {"counted": shown[skew].tolist(), "true": true.tolist()}
    peaks = {skew: float((np.argmax(f) + 0.5) / len(f)) for skew, f in shown.items()}
    steep = {skew: float(f.max() / f.mean()) for skew, f in shown.items()}
    checks = {
        "peak_at_three_quarters": all(abs(peak - 0.75) < 0.06 for peak in peaks.values()),
        "higher_with_skew": steep[0.8] > steep[0.6],
    }
    ages = (np.arange(len(shown[0.8])) + 0.5) / len(shown[0.8]) * Setting().window_s
    return Figure(
        title="Chance of a match by age in the window",
        paper="One peak, away from both ends of the window, much higher at κ = 0.8 than at 0.6.",
        ours=f"Peaks at {listed([peaks[skew] for skew in SKEWS])} of the window, "
        f"{listed([steep[k] for k in SKEWS], 1)} times the mean at κ = 0.6 and 0.8.",
        holds=all(checks.values()),
        numbers={"checks": checks, "by_skew": numbers},
        files=draw(
            [
                Panel(
                    title=f"κ = {skew:g}",
                    x="age in the right window, s",
                    y="chance of a match",
                    curves={
                        "counted": (ages.tolist(), numbers[f"{skew:g}"]["counted"]),
                        "true": (ages.tolist(), numbers[f"{skew:g}"]["true"]),
                    },
                )
                for skew in SKEWS
            ],
            out,
            "join-6",
        ),
    )


def best_of(skews: tuple[float, ...], fraction: float) -> Mapping[str, float]:
    """Return the most that any choice of ages could find, over a random choice, by κ."""
    return {f"{skew:g}": truth_of(Setting(skew=skew)).best(fraction) for skew in skews}


def output_ratio(one: Outcome, other: Outcome) -> float:
    """Return the output of one over another's."""
    return sum(one.pairs) / max(1, sum(other.pairs))


def _coarse(f: Floats, bins: int = 40) -> Floats:
    return np.asarray(f.reshape(bins, -1).mean(axis=1))
