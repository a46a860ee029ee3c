"""Figures 16 and 17: utility. Rows have types of different worth, and a match is worth that of its better row.

Both runs shed by rate, time correlation and direction; one of them also by utility. The gain is the worth of all
matches that it finds over the other's. Figure 16 has three types worth 1, 1/2^k and 1/3^k, Figure 17 types whose
worth follows a Zipf law, the best worth x times the least: 1/z^(log x / log Z) for z = 1, ..., Z. How frequent types
are:

    inverse         as 1 / worth, the natural case: rare rows are worth most
    uniform         all alike
    proportional    as worth

Basic windows are a fortieth of the window: fractions by type are made of whole ones, and coarse ones gain less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.join.feed import Feed, filled
from benchmarks.join.machine import Machine
from benchmarks.join.panels import Panel, draw
from benchmarks.join.scenario import Setting, streams
from benchmarks.join.virtual_time import STEP_S, Lengths, Payer, listed
from benchmarks.results import Figure
from spillway.core.arrays import Floats, Ints
from spillway.core.join import Shedding, Utility
from spillway.replay.traces import Rates

FREQUENCIES = ("inverse", "uniform", "proportional")
BASIC_WINDOW_S = 0.5
METRIC_SKEW = 2.0


class Worths:
    """Joins the same rows without utility, once, and with it, for given types."""

    def __init__(self, machine: Machine, lengths: Lengths, setting: Setting | None = None) -> None:
        self.machine, self.lengths, self.setting = machine, lengths, setting or Setting()
        self._uninformed: dict[int, tuple[Ints, Ints]] = {}

    def gain(self, worth: Floats, frequency: str) -> float:
        """Return the worth of what is found with utility over that without."""
        total = {True: 0.0, False: 0.0}
        for seed in range(self.lengths.seeds):
            rng = np.random.default_rng([seed, len(worth)])
            rows = [side.num_rows for side in self._streams(seed)]
            types = [rng.choice(len(worth), count, p=shares(worth, frequency)) for count in rows]
            if seed not in self._uninformed:  # it does not see types, so it finds the same whatever they are
                self._uninformed[seed] = self._pairs(seed, types, None)
            utility = Utility("kind", {z: float(each) for z, each in enumerate(worth)})
            for informed, pairs in (
                (True, self._pairs(seed, types, utility)),
                (False, self._uninformed[seed]),
            ):
                left, right = (worth[z[at]] for z, at in zip(types, pairs, strict=True))
                total[informed] += float(np.maximum(left, right).sum())
        return total[True] / total[False]

    @property
    def _end_s(self) -> float:
        return max(self.setting.within_s) + self.lengths.learn_s + self.lengths.count_s

    def _streams(self, seed: int) -> tuple[pa.Table, pa.Table]:
        return streams(self.setting, Rates((self.setting.rate,), (self._end_s,)), seed)

    def _pairs(self, seed: int, types: list[Ints], utility: Utility | None) -> tuple[Ints, Ints]:
        sides = zip(self._streams(seed), types, strict=True)
        feed = Feed(*(side.append_column("kind", pa.array(z)) for side, z in sides))
        shedding = Shedding(basic_window_s=BASIC_WINDOW_S, utility=utility)
        filled_s = max(self.setting.within_s)
        join = filled(self.setting.config(shedding, salt=seed), *feed.between(0.0, filled_s))
        payer = Payer(self.machine, self.setting, shedding)
        found = [payer.process(join, *batch) for batch in feed.batches(filled_s, self._end_s, STEP_S)]
        counted = pa.concat_tables(found[round(self.lengths.learn_s / STEP_S) :])
        return counted["left_row"].to_numpy(), counted["right_row"].to_numpy()


def shares(worth: Floats, frequency: str) -> Floats:
    """Return how frequent types are.

    >>> shares(np.array([1.0, 0.5]), "inverse").round(3).tolist()
    [0.333, 0.667]
    """
    weight = {"inverse": 1.0 / worth, "uniform": np.ones_like(worth), "proportional": worth}[frequency]
    return np.asarray(weight / weight.sum())


def figure_16(worths: Worths, out: Path | None, *, skews: Sequence[float]) -> Figure:
    """Vary the skew of three types' worth."""
    found = {
        frequency: [worths.gain(np.arange(1.0, 4.0) ** -k, frequency) for k in skews]
        for frequency in FREQUENCIES
    }
    inverse, uniform, proportional = (found[name] for name in FREQUENCIES)
    checks = {
        "rises_with_skew": inverse[-1] > inverse[0] + 0.02 and uniform[-1] > uniform[0] + 0.02,
        "stable_where_frequent_rows_are_worth_most": max(proportional) - min(proportional) < 0.15,
        "best_where_rare_rows_are_worth_most": inverse[-1] >= uniform[-1] >= proportional[-1],
    }
    return Figure(
        title="Gain in utility by the skew of what types are worth",
        paper="Rises with skew for uniform and inverse frequencies, most for inverse; level for proportional ones.",
        ours="; ".join(f"{name} {listed(values)}" for name, values in found.items())
        + f" times at a skew of {listed(skews, 1)}.",
        holds=all(checks.values()),
        numbers={"checks": checks, "skews": list(skews), "gain": found},
        files=draw(
            [
                Panel(
                    title="Three types",
                    x="skew of worth",
                    y="utility, with over without",
                    curves={name: (list(skews), values) for name, values in found.items()},
                )
            ],
            out,
            "join-16",
        ),
    )


def figure_17(worths: Worths, out: Path | None, *, types: Sequence[int], factors: Sequence[float]) -> Figure:
    """Vary how many types there are, rare ones worth most."""
    found = {
        f"{x:g}": [
            worths.gain(np.arange(1.0, n + 1) ** -(math.log(x) / math.log(n)), "inverse") for n in types
        ]
        for x in factors
    }
    checks = {
        "falls_at_first": all(values[-1] <= values[0] + 0.01 for values in found.values()),
        "then_stays_level": all(abs(values[-1] - values[-2]) < 0.1 for values in found.values()),
        "more_difference_gains_more": found[f"{max(factors):g}"][-1] > found[f"{min(factors):g}"][-1],
    }
    return Figure(
        title="Gain in utility by the number of types",
        paper="Falls at first as types get more, then stays level; the same for all differences in worth.",
        ours="; ".join(f"worth differs {x} times: {listed(values)}" for x, values in found.items())
        + f" with {', '.join(map(str, types))} types.",
        holds=all(checks.values()),
        numbers={"checks": checks, "types": list(types), "gain": found},
        files=draw(
            [
                Panel(
                    title="Rare types are worth most",
                    x="types",
                    y="utility, with over without",
                    log_x=True,
                    curves={f"{x} times": (list(types), values) for x, values in found.items()},
                )
            ],
            out,
            "join-17",
        ),
    )
