"""What is joined: the paper's streams and its queries (Section 6.1), and the ways to shed that are compared.

Unless a figure says otherwise: overlap of at least 3, 500 rows a second on each side, windows of 20 s (with an index
200 s, so that there is something to shed), basic windows of 1 s, a cycle of twice the window and a shift of 5/8 of
it. A row on the right then matches left ones that come 15 s later: left rows find their matches in the right window,
at three quarters of its length, and right rows find few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import pyarrow as pa

from spillway.core.join import JoinConfig, Predicate, Shedding, equality, overlap
from spillway.core.join.config import Access
from spillway.replay.sets import SetStream
from spillway.replay.traces import Rates

Kind = Literal["overlap_scan", "overlap_index", "overlap_sorted", "equi_scan", "equi_index"]

BASIC_WINDOW_S = 1.0
METHODS: Mapping[str, str | Shedding] = {
    "random": "random",
    "rate": "newest",
    "timecorr": Shedding(direction=False, basic_window_s=BASIC_WINDOW_S),
    "selective": Shedding(basic_window_s=BASIC_WINDOW_S),
}
"""Rows dropped at random; the newest part of the windows; the best part of each; that in the better direction."""

_ACCESS: Mapping[str, Access] = {"scan": "scan", "index": "index", "sorted": "sorted_index"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Two streams and a query; ``within_s`` is the length of the left and the right window.

    >>> setting = Setting(kind="equi_index", window_s=200.0)
    >>> setting.access, setting.on.kind, setting.stream(1).shift_s
    ('index', 'equality', 250.0)
    """

    kind: Kind = "overlap_scan"
    rate: float = 500.0
    window_s: float = 20.0
    one_window: bool = False
    skew: float = 0.8
    at_least: int = 3
    shift: float = 5 / 8

    @property
    def equi(self) -> bool:
        """Whether single values are joined."""
        return self.kind.startswith("equi")

    @property
    def access(self) -> Access:
        """How matches are found."""
        return _ACCESS[self.kind.partition("_")[2]]

    @property
    def on(self) -> Predicate:
        """The predicate."""
        return equality("items") if self.equi else overlap("items", at_least=self.at_least)

    @property
    def within_s(self) -> tuple[float, float]:
        """The windows."""
        return self.window_s, 0.0 if self.one_window else self.window_s

    @property
    def demand_per_s(self) -> float:
        """Comparisons a second that joining everything takes."""
        return self.rate**2 * sum(self.within_s)

    def stream(self, side: int) -> SetStream:
        """Return the left (0) or the right (1) stream."""
        cycle = 2.0 * self.window_s
        shift = self.shift * cycle if side else 0.0
        if self.equi:
            return SetStream(cycle_s=cycle, shift_s=shift, skew=self.skew, items=5000, mean=1.0, sd=0.0)
        return SetStream(cycle_s=cycle, shift_s=shift, skew=self.skew)

    def config(self, shedding: str | Shedding, salt: int = 0) -> JoinConfig:
        """Return the join."""
        return JoinConfig(
            on=self.on, within_s=self.within_s, time="time", shedding=shedding, access=self.access, salt=salt
        )


@lru_cache(maxsize=6)
def streams(setting: Setting, trace: Rates, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows of both sides; the last few are kept, since several methods run on the same rows."""
    left, right = (setting.stream(side).table(trace, seed=2 * seed + side) for side in (0, 1))
    return left, right


def selection(kind: Kind) -> str | Shedding:
    """Return selection with all adaptations for a kind of join.

    A hash index is probed whole or not at all, so that basic windows would only cost time there.
    """
    return Shedding(time_correlation=False) if kind == "equi_index" else METHODS["selective"]


def named(name: str, basic_window_s: float) -> str | Shedding:
    """Return one of the methods with other basic windows."""
    if name in ("random", "rate"):
        return METHODS[name]
    return Shedding(direction=name == "selective", basic_window_s=basic_window_s)
