"""Figure 7: how many rows have to be dropped, by window and rate, without and with an index; and what waiting does.

A join that drops rows keeps the share q of them that the machine can pay for (:func:`kept_share`). What comes out of
:mod:`~benchmarks.join.virtual_time` when such a join really runs is compared with it at one point.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from benchmarks.join.machine import Machine
from benchmarks.join.panels import Panel, draw
from benchmarks.join.scenario import Kind, Setting
from benchmarks.join.virtual_time import Lengths, doing_nothing, kept_share, listed, steady
from benchmarks.results import Figure

WINDOWS_S = (1.0, 5.0, 25.0, 125.0, 625.0)
RATES = (50.0, 100.0, 200.0, 300.0)
KINDS: dict[Kind, str] = {"overlap_scan": "no index", "overlap_index": "index"}


def dropped(machine: Machine, kind: Kind, rate: float, window_s: float) -> float:
    """Return the share of the rows that has to be dropped."""
    setting = Setting(kind=kind, rate=rate, window_s=window_s)
    return 1.0 - kept_share(machine, machine.cost(kind, dropping=True), setting)


def figure_7(machine: Machine, lengths: Lengths, out: Path | None) -> Figure:
    """Show the drop rates, and check one of them by a run."""
    share = {
        kind: {rate: [dropped(machine, kind, rate, w) for w in WINDOWS_S] for rate in RATES} for kind in KINDS
    }
    ran = steady(Setting(), "random", machine, lengths)
    counted, expected = ran.dropped_rows / ran.rows, dropped(machine, "overlap_scan", 500.0, 20.0)
    backlog = doing_nothing(Setting(), machine, lengths.count_s)
    scan, index = share["overlap_scan"], share["overlap_index"]
    checks = {
        "rises_with_the_window": all(of[r] == sorted(of[r]) for of in (scan, index) for r in RATES),
        "rises_with_the_rate": all(
            of[low][n] <= of[high][n]
            for of in (scan, index)
            for low, high in pairwise(RATES)
            for n in range(len(WINDOWS_S))
        ),
        "an_index_drops_less": all(a <= b for r in RATES for a, b in zip(index[r], scan[r], strict=True)),
        "an_index_is_not_enough": index[100.0][-1] > 0.0,
        "formula_as_counted": abs(counted - expected) < 0.02,
    }
    return Figure(
        title="Rows that have to be dropped, by window and rate",
        paper="Without an index half of the rows at 50 rows/s and 125 s; with one a quarter at 100 rows/s and 625 s.",
        ours=f"{scan[50.0][3]:.2f} and {index[100.0][4]:.2f} of the rows. At windows of {listed(WINDOWS_S, 0)} s and "
        f"100 rows/s: {listed(scan[100.0])} without an index, {listed(index[100.0])} with one. Who drops nothing at "
        f"500 rows/s is {backlog.delay_s:.0f} s behind after {lengths.count_s:.0f} s.",
        holds=all(checks.values()),
        numbers={
            "checks": checks,
            "windows_s": list(WINDOWS_S),
            "dropped_share": {
                KINDS[kind]: {f"{r:g}": row for r, row in of.items()} for kind, of in share.items()
            },
            "at_500": {"counted": counted, "expected": expected},
            "doing_nothing": {"delay_s": backlog.delay_s, "output_per_s": backlog.output_per_s},
        },
        files=draw(
            [
                Panel(
                    title=KINDS[kind],
                    x="window, s",
                    y="dropped rows/s, both streams",
                    log_x=True,
                    curves={
                        f"{rate:g} rows/s": (WINDOWS_S, [2.0 * rate * s for s in row])
                        for rate, row in of.items()
                    },
                )
                for kind, of in share.items()
            ],
            out,
            "join-7",
        ),
    )
