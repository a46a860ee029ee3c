"""Figures 14 and 15: the size of basic windows, and what selection gains by rate, without and with an index.

With an index the windows are 200 s long, as in the paper, since there is nothing to shed in shorter ones. What comes
out without basic windows at all ("none") is that of rate and join direction alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.join.machine import Machine
from benchmarks.join.panels import Panel, draw
from benchmarks.join.scenario import Kind, Setting, named, selection
from benchmarks.join.virtual_time import Lengths, Outcome, listed, steady
from benchmarks.results import Figure
from spillway.core.join import Shedding

INDEX_WINDOW_S = 200.0
KINDS: Mapping[Kind, str] = {
    "overlap_scan": "overlap",
    "equi_scan": "equality",
    "overlap_index": "overlap, index",
    "equi_index": "equality, index",
}
NONE = Shedding(time_correlation=False)

Size = float | None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of basic windows that are tried, in seconds, the skews, and the windows where there is an index."""

    scan_s: Sequence[float] = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    index_s: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0)
    skews: Sequence[float] = (0.6, 0.8, 1.0)
    index_skews: Sequence[float] = (0.6, 0.8)
    index_window_s: float = INDEX_WINDOW_S


def setting_of(
    kind: Kind, *, rate: float = 500.0, skew: float = 0.8, index_window_s: float | None = None
) -> Setting:
    """Return the setting of a kind, with the windows that the paper has for it."""
    window_s = 20.0 if kind.endswith("scan") else index_window_s or INDEX_WINDOW_S
    return Setting(kind=kind, rate=rate, skew=skew, window_s=window_s)


def figure_14(machine: Machine, lengths: Lengths, sizes: Sizes, out: Path | None) -> Figure:
    """Vary the size of basic windows."""
    found: dict[str, dict[str, dict[Size, float]]] = {}
    cases: dict[str, tuple[Kind, Sequence[float], Sequence[float]]] = {
        "no index": ("overlap_scan", sizes.scan_s, sizes.skews),
        "time order": ("overlap_index", sizes.index_s, sizes.index_skews),
        "identifier order": ("overlap_sorted", sizes.index_s, sizes.index_skews),
    }
    for name, (kind, lengths_s, skews) in cases.items():
        found[name] = {}
        for skew in skews:
            setting = setting_of(kind, skew=skew, index_window_s=sizes.index_window_s)
            tried: list[Size] = [*lengths_s, None]
            found[name][f"{skew:g}"] = {
                b: steady(
                    setting, NONE if b is None else named("selective", b), machine, lengths
                ).output_per_s
                for b in tried
            }
    scan, ordered, sorted_ = (found[name]["0.8"] for name in cases)
    small, large = min(sizes.index_s), max(sizes.index_s)
    checks = {
        "small_is_better_without_an_index": scan[min(sizes.scan_s)] > scan[max(sizes.scan_s)],
        "basic_windows_gain": max(scan.values()) > 1.5 * scan[None]
        and max(ordered.values()) > 1.5 * ordered[None],
        "large_is_worse_with_an_index": max(ordered.values()) > 1.1 * ordered[large],
        "the_smallest_is_not_best_with_an_index": ordered[small] < max(ordered.values()),
        "identifier_order_is_worse": all(sorted_[b] < ordered[b] for b in sizes.index_s),
        "more_so_with_large_ones": sorted_[large] / ordered[large] < sorted_[small] / ordered[small],
    }
    return Figure(
        title="Output by the size of basic windows",
        paper="Small ones are better; with an index very small ones cost more than they gain, and lists sorted by "
        "identifier are much worse, above all in large basic windows.",
        ours=f"κ = 0.8, no index: {_by_size(scan)}. Index in time order: {_by_size(ordered)}. By identifier: "
        f"{_by_size(sorted_)}.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "output_per_s": {
                name: {skew: {_name(b): v for b, v in of.items()} for skew, of in by_skew.items()}
                for name, by_skew in found.items()
            },
        },
        files=draw(
            [
                _sizes_panel("no index", {"κ = " + k: of for k, of in found["no index"].items()}),
                _sizes_panel(
                    "index",
                    {
                        f"{name}, κ = {k}": of
                        for name in ("time order", "identifier order")
                        for k, of in found[name].items()
                    },
                ),
            ],
            out,
            "join-14",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Selection and a random drop of rows, at one rate."""

    selective: Outcome
    random: Outcome

    @property
    def ratio(self) -> float:
        """Output with selection over that of a random drop."""
        return self.selective.output_per_s / max(1e-9, self.random.output_per_s)


def gain(setting: Setting, machine: Machine, lengths: Lengths) -> Gain:
    """Run both on the same rows."""
    return Gain(
        selective=steady(setting, selection(setting.kind), machine, lengths),
        random=steady(setting, "random", machine, lengths),
    )


def gains(
    machine: Machine, lengths: Lengths, index_lengths: Lengths, rates: Sequence[float]
) -> dict[str, dict[float, Gain]]:
    """Run all kinds of join at all rates."""
    return {
        kind: {
            rate: gain(
                setting_of(kind, rate=rate), machine, lengths if kind.endswith("scan") else index_lengths
            )
            for rate in rates
        }
        for kind in KINDS
    }


def figure_15(found: Mapping[str, Mapping[float, Gain]], out: Path | None) -> Figure:
    """Show the gain by rate."""
    ratios = {kind: {rate: each.ratio for rate, each in of.items()} for kind, of in found.items()}
    top = max(ratios["overlap_scan"])
    last = {kind: of[top] for kind, of in ratios.items()}
    checks = {
        "up_to_500_percent_more_without_an_index": last["overlap_scan"] >= 5.5,
        "overlap_gains_more_than_equality": last["overlap_scan"] > last["equi_scan"] > 1.0,
        "overlap_with_an_index_gains_twice": last["overlap_index"] >= 2.0,
        "equality_with_an_index_gains_nothing": 0.97 <= last["equi_index"] <= 1.05,
        "gain_rises_with_the_rate": all(
            list(ratios[kind].values()) == sorted(ratios[kind].values())
            for kind in ("overlap_scan", "overlap_index")
        ),
    }
    shed = {
        kind: 1.0 - of[top].selective.comparisons / of[top].selective.demand for kind, of in found.items()
    }
    return Figure(
        title="Output with selection over that of a random drop, by rate",
        paper="Up to 500 % more without an index, most for overlap; about 100 % for overlap with one, from 300 "
        "rows/s on; no gain and no loss for equality with one.",
        ours="; ".join(f"{KINDS[kind]} {listed(list(of.values()))}" for kind, of in _known(ratios).items())
        + f" times at {listed(list(ratios['overlap_scan']), 0)} rows/s. Left out at {top:g}: "
        + ", ".join(f"{100 * share:.1f} %" for share in shed.values())
        + " of the comparisons.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "ratio": {kind: {f"{rate:g}": v for rate, v in of.items()} for kind, of in ratios.items()},
            "left_out": shed,
            "dropped_rows": {
                kind: {f"{rate:g}": each.random.dropped_rows / each.random.rows for rate, each in of.items()}
                for kind, of in found.items()
            },
        },
        files=draw(
            [
                Panel(
                    title="Selection over random drop",
                    x="rows/s, each stream",
                    y="output ratio",
                    curves={
                        KINDS[kind]: (list(of), list(of.values())) for kind, of in _known(ratios).items()
                    },
                )
            ],
            out,
            "join-15",
        ),
    )


def _known(of: Mapping[str, Mapping[float, float]]) -> dict[Kind, Mapping[float, float]]:
    return {kind: of[kind] for kind in KINDS}


def _name(b: Size) -> str:
    return "none" if b is None else f"{b:g}"


def _by_size(of: Mapping[Size, float]) -> str:
    return ", ".join(f"{value:.0f} ({_name(b)})" for b, value in of.items())


def _sizes_panel(title: str, curves: Mapping[str, Mapping[Size, float]]) -> Panel:
    shown = {}
    for label, of in curves.items():
        x = [b for b in of if b is not None]
        shown[label] = ([*x, 3.0 * max(x)], list(of.values()))
    return Panel(title=title, x="basic window, s (last: none)", y="pairs/s", log_x=True, curves=shown)
