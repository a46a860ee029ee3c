"""Figures 8 to 10: rate adaptation. Streams that are in step (no shift), and a window on one of them.

Rates are 100 rows a second, 500 from the 60th second on, 300 from the 75th, and 100 again from the 105th. The chance
of a match falls with age, so the newest part of the window is its best, and a join that adapts to the rate alone
finds more than one that drops rows. Figure 8 also has the fraction as the paper's Algorithm 1 sets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.join.machine import Machine
from benchmarks.join.panels import Panel, draw
from benchmarks.join.scenario import Setting
from benchmarks.join.virtual_time import Outcome, along, fed_back, listed
from benchmarks.results import Figure
from spillway.replay.traces import Rates

TRACE = Rates((100.0, 500.0, 300.0, 100.0), (60.0, 15.0, 30.0, 30.0))
BUSY, LESS_BUSY, CALM = (62, 75), (80, 105), (30, 60)
"""Seconds at 500, at 300 and at 100 rows a second, without those in which rates or windows still change."""


def in_step(*, skew: float = 0.8, window_s: float = 20.0) -> Setting:
    """Return the setting of these figures."""
    return Setting(skew=skew, window_s=window_s, shift=0.0, one_window=True)


def fractions_left(outcome: Outcome) -> list[float]:
    """Return r by second, of the window that there is."""
    return [left for left, _ in outcome.fractions]


def figures_8_9(machine: Machine, out: Path | None) -> tuple[Figure, Figure]:
    """Run along the trace with rate adaptation and with rows dropped."""
    setting = in_step()
    adapted, random = (along(setting, method, machine, TRACE) for method in ("newest", "random"))
    r, learned = fractions_left(adapted), fed_back(setting, "newest", machine, TRACE)
    return _figure_8(r, learned, out), _figure_9(adapted, random, out)


def _figure_8(r: list[float], learned: list[float], out: Path | None) -> Figure:
    calm, busy, less = (sum(r[low:high]) / (high - low) for low, high in (CALM, BUSY, LESS_BUSY))
    checks = {
        "all_is_compared_when_calm": calm > 0.99,
        "falls_when_busy": busy < 0.5 * calm,
        "between_when_less_busy": busy < less < calm,
        "back_to_all_at_the_end": r[-1] > 0.99,
        "algorithm_1_falls_and_rises": min(learned[60:105]) < 0.3 and learned[-1] > min(learned[60:105]),
    }
    seconds = list(range(1, len(r) + 1))
    return Figure(
        title="Stream rates and the fraction r",
        paper="r is 1 at 100 rows/s, falls when the rate jumps to 500, rises at 300 and goes back to 1.",
        ours=f"r is {calm:.2f}, {busy:.2f}, {less:.2f} and {r[-1]:.2f}, from the second of the jump on. By "
        f"Algorithm 1, which learns from lost rows: down to {min(learned):.2f}, {learned[-1]:.2f} at the end.",
        holds=all(checks.values()),
        numbers={"checks": checks, "r": r, "r_algorithm_1": learned},
        files=draw(
            [
                Panel(
                    title="Fraction r",
                    x="s",
                    y="r",
                    curves={"from a budget": (seconds, r), "Algorithm 1": (seconds[: len(learned)], learned)},
                    markers=False,
                ),
                Panel(title="Rates", x="s", y="rows/s", curves={"each stream": _steps()}, markers=False),
            ],
            out,
            "join-8",
        ),
    )


def _figure_9(adapted: Outcome, random: Outcome, out: Path | None) -> Figure:
    ratio = {
        name: adapted.output_between(*part) / max(1e-9, random.output_between(*part))
        for name, part in (("100", CALM), ("500", BUSY), ("300", LESS_BUSY))
    }
    checks = {
        "same_when_calm": abs(ratio["100"] - 1.0) < 0.02,
        "better_when_busy": ratio["500"] >= 1.5,
        "better_when_less_busy": ratio["300"] >= 1.25,
        "more_so_when_busier": ratio["500"] > ratio["300"],
    }
    return Figure(
        title="Output with rate adaptation and with rows dropped, streams in step",
        paper="About 100 % more at 500 rows/s, about 50 % more at 300.",
        ours=f"{100 * (ratio['500'] - 1):.0f} % more at 500 rows/s, {100 * (ratio['300'] - 1):.0f} % more at 300.",
        holds=all(checks.values()),
        numbers={"checks": checks, "ratio": ratio, "rate": adapted.pairs, "random": random.pairs},
        files=draw([_over_time({"rate adaptation": adapted, "rows dropped": random})], out, "join-9"),
    )


def figure_10(
    machine: Machine, out: Path | None, *, skews: Sequence[float], windows_s: Sequence[float]
) -> Figure:
    """Vary skew and window."""
    found: dict[float, dict[str, list[float]]] = {}
    for window in windows_s:
        runs = {
            name: [along(in_step(skew=k, window_s=window), method, machine, TRACE) for k in skews]
            for name, method in (("rate", "newest"), ("random", "random"))
        }
        found[window] = {name: [each.output_per_s for each in of] for name, of in runs.items()}
    gain = {w: [a / b for a, b in zip(of["rate"], of["random"], strict=True)] for w, of in found.items()}
    first, last = gain[windows_s[0]], gain[windows_s[-1]]
    checks = {
        "never_worse": all(each > 0.98 for of in gain.values() for each in of),
        "rises_with_skew": all(of[-1] > of[0] for of in gain.values()),
        "rises_with_the_window": sum(last) > sum(first),
    }
    return Figure(
        title="Mean output with rate adaptation by skew and window, streams in step",
        paper="The improvement rises with skew and with the window.",
        ours="; ".join(f"{w:g} s: {listed(of)} times" for w, of in gain.items())
        + f" at κ = {listed(skews, 1)}.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "skews": list(skews),
            "output_per_s": {f"{w:g}": of for w, of in found.items()},
        },
        files=draw(
            [
                Panel(
                    title="Mean output",
                    x="κ",
                    y="pairs/s",
                    curves={
                        f"{w:g} s, {name}": (list(skews), values)
                        for w, of in found.items()
                        for name, values in of.items()
                    },
                )
            ],
            out,
            "join-10",
        ),
    )


def _over_time(runs: dict[str, Outcome]) -> Panel:
    curves = {
        name: (list(range(1, len(of.pairs) + 1)), [float(n) for n in of.pairs]) for name, of in runs.items()
    }
    return Panel(title="Output", x="s", y="pairs/s", curves=curves, markers=False)


def _steps() -> tuple[list[float], list[float]]:
    x, y, at = [0.0], [TRACE.rates[0]], 0.0
    for rate, span in zip(TRACE.rates, TRACE.spans_s, strict=True):
        x += [at, at + span]
        y += [rate, rate]
        at += span
    return x, y
