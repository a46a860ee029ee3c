"""Figures 11 to 13: time correlation and join direction, along the trace of Figure 8 with shifted streams.

Left rows find their matches in the right window, three quarters of its length ago. So the newest part of the windows
is a poor choice, the best part of both a better one, and the best part of the right window alone the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.join.machine import Machine
from benchmarks.join.panels import Panel, draw
from benchmarks.join.rates import BUSY, CALM, LESS_BUSY, TRACE
from benchmarks.join.scenario import METHODS, Setting
from benchmarks.join.virtual_time import Outcome, along, listed
from benchmarks.results import Figure

ADAPTED = {"rate": "rate", "timecorr": "and time correlation", "selective": "and join direction"}


def figures_11_12(machine: Machine, out: Path | None) -> tuple[Figure, Figure]:
    """Run along the trace with one, two and three adaptations."""
    runs = {name: along(Setting(), METHODS[name], machine, TRACE) for name in ADAPTED}
    return _figure_11(runs["selective"], out), _figure_12(runs, out)


def _figure_11(run: Outcome, out: Path | None) -> Figure:
    parts = (CALM, BUSY, LESS_BUSY)
    left, right = (
        [sum(of[low:high]) / (high - low) for low, high in parts] for of in zip(*run.fractions, strict=True)
    )
    checks = {
        "all_is_compared_when_calm": min(left[0], right[0]) > 0.9,
        "the_poor_window_is_left_out_first": max(left[1:]) < 0.01 < min(right[1:]),
        "the_good_one_falls_with_the_rate": right[1] < right[2] < right[0],
    }
    seconds = list(range(1, len(run.fractions) + 1))
    return Figure(
        title="Stream rates and the fractions r_1 and r_2",
        paper="The fraction of the window that yields less falls first, and to nothing; the other one then.",
        ours=f"At 100, 500 and 300 rows/s: {listed(left)} of the left window, which yields less, and {listed(right)} "
        "of the right one.",
        holds=all(checks.values()),
        numbers={"checks": checks, "fractions": [list(pair) for pair in run.fractions]},
        files=draw(
            [
                Panel(
                    title="Fractions",
                    x="s",
                    y="r",
                    curves={
                        f"{name} window": (seconds, list(of))
                        for name, of in zip(("left", "right"), zip(*run.fractions, strict=True), strict=True)
                    },
                    markers=False,
                )
            ],
            out,
            "join-11",
        ),
    )


def _figure_12(runs: dict[str, Outcome], out: Path | None) -> Figure:
    busy = {name: run.output_between(*BUSY) for name, run in runs.items()}
    less = {name: run.output_between(*LESS_BUSY) for name, run in runs.items()}
    gains = {
        rate: (of["timecorr"] / max(of["rate"], 1e-9), of["selective"] / max(of["timecorr"], 1e-9))
        for rate, of in (("500", busy), ("300", less))
    }
    checks = {
        "time_correlation_gains_half": min(each[0] for each in gains.values()) >= 1.5,
        "direction_gains_more": min(each[1] for each in gains.values()) >= 1.2,
    }
    seconds = list(range(1, len(runs["rate"].pairs) + 1))
    return Figure(
        title="Output with time correlation and join direction",
        paper="Time correlation gains about 50 % over the rate alone, join direction another 40 %.",
        ours=f"{gains['500'][0]:.1f} and {gains['500'][1]:.2f} times at 500 rows/s; {gains['300'][0]:.1f} and "
        f"{gains['300'][1]:.2f} times at 300.",
        holds=all(checks.values()),
        numbers={"checks": checks, "gains": gains, "pairs": {name: run.pairs for name, run in runs.items()}},
        files=draw(
            [
                Panel(
                    title="Output",
                    x="s",
                    y="pairs/s",
                    curves={ADAPTED[n]: (seconds, [float(v) for v in run.pairs]) for n, run in runs.items()},
                    markers=False,
                )
            ],
            out,
            "join-12",
        ),
    )


def figure_13(machine: Machine, out: Path | None, *, skews: Sequence[float]) -> Figure:
    """Vary skew, with a threshold of 4."""
    found = {
        name: [along(Setting(skew=k, at_least=4), METHODS[name], machine, TRACE).output_per_s for k in skews]
        for name in ADAPTED
    }
    gain = [of_all / of_rate for of_all, of_rate in zip(found["selective"], found["rate"], strict=True)]
    checks = {
        "in_order": all(
            a < b < c for a, b, c in zip(found["rate"], found["timecorr"], found["selective"], strict=True)
        ),
        "gain_rises_with_skew": gain == sorted(gain),
    }
    return Figure(
        title="Mean output by skew, at least 4 items in common",
        paper="The improvement by time correlation and join direction rises with skew, which does not help the rate "
        "alone.",
        ours=f"All adaptations over the rate alone: {listed(gain)} times at κ = {listed(skews, 1)}.",
        holds=all(checks.values()),
        numbers={"checks": checks, "skews": list(skews), "output_per_s": found},
        files=draw(
            [
                Panel(
                    title="Mean output",
                    x="κ",
                    y="pairs/s",
                    log_y=True,
                    curves={ADAPTED[name]: (list(skews), values) for name, values in found.items()},
                )
            ],
            out,
            "join-13",
        ),
    )
