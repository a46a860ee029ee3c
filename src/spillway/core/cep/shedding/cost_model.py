"""The cost model: the matches that a run brings and the work it takes, by state, class and age (Sections IV-A, V-B).

The window is cut into Z time slices. A run is in slice z while its first row is between z and z + 1 slices old, and
so is every run made from it. Per state, class and slice the model holds what a run does during one slice:

    g   ``gain``    complete matches made from it, directly or through runs made from it
    o   ``own``     work of examining it
    c   ``cost``    work of examining it and all runs made from it

and what it will do in the rest of its life, from the middle of its slice on (Equations 3 and 4):

    Γ+(z) = g(z)/2 + g(z+1) + ... + g(Z-1)          Γ-(z) = c(z)/2 + c(z+1) + ... + c(Z-1)

**Shares.** With N runs alive in a group, the group's share of all matches and of all work to come is (Equations 5, 7)

    Δ+ = N Γ+ / Σ N Γ+ (over the groups of the states from which matches come)        Δ- = N O / Σ N O

where O is the rest of ``own``: what shedding the group saves by itself. The worth of a group is Γ+ / Γ-, matches per
work, including the work of runs made from it; it decides whether new runs are made (see hybrid).

**Adaptation.** Over a stretch of the stream the engine counts matches and examinations, and how long runs were alive:
E, in runs times slices. At the end of a stretch, with weight w,

    g_new = (1 - w) g_old + w (matches counted) / E                and likewise o and c

Groups with hardly any runs (E below ``least``) keep their values, because nothing was observed. A stretch with fewer
than 300 matches says less about gains, and its weight for gains is reduced in proportion: one without any match would
make all groups look worthless.

**Resource cost.** Ω, the cost of examining a run in a state, weighs the examinations: the number of conditions that
are tested there, or the length of the run, or 1. See :func:`resource_costs`.

**Deviations.** In the paper Δ- is the share of Γ-, which includes the work of runs that are yet to be made. That work
is saved only later, after the latency has been measured many times, so shedding by Γ- oscillates: it sheds too little
at first and too much a window later. The paper counts the runs made, weighted with Ω. But a run is examined again and
again during its life, and this takes the time, so examinations are counted instead. The paper keeps sums per class;
here values are per run, so that they remain valid when the number of runs changes, as it does when runs are shed.

======  ==============================================================================
symbol  meaning
======  ==============================================================================
Z       ``slices``
N       ``alive``: runs per state, class and slice
E       ``exposure``: runs that were alive, times how long, in slices
w       ``weight`` of what was counted last
Ω       ``resource``: cost of examining a run, by state
======  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Bools, Floats
from spillway.core.cep.plan.plan import Plan
from spillway.errors import invalid, unknown

Resource = Literal["conditions", "length", "none"]
Omega = Floats | Literal["length"]
FEW_MATCHES = 300.0
"""Fewer matches say little about what groups bring: there would be hardly one for each group."""


class Counts(NamedTuple):
    """What the engine counted over a stretch, by state, class and slice.

    ``alive`` are the runs now. The others are sums: matches completed through runs of the group, work of examining
    them (``own``), and of examining them or runs made from them (``tested``), both weighted with Ω.
    """

    alive: Floats
    completed: Floats
    own: Floats
    tested: Floats


@dataclass
class CostModel:
    """Gain, own cost and cost of a run per slice. ``last`` are the states from which a match can be completed."""

    gain: Floats
    own: Floats
    cost: Floats
    last: Bools
    weight: float = 0.5
    least: float = 2.0

    def __post_init__(self) -> None:
        if not (self.gain.shape == self.own.shape == self.cost.shape and self.gain.ndim == 3):
            raise invalid("gain", self.gain.shape, "values by state, class and slice, as own and cost")
        if self.last.shape != self.gain.shape[:1]:
            raise invalid("last", self.last.shape, "one truth value per state")
        self.seen = (self.cost > 0.0) | (self.gain > 0.0)
        self.exposure = np.zeros_like(self.gain)

    @classmethod
    def empty(cls, states: int, classes: int, slices: int, weight: float = 0.5) -> CostModel:
        """Return a model without any knowledge, for a pattern without repetition at its end."""
        gain, own, cost = (np.zeros((states, classes, slices)) for _ in range(3))
        return cls(gain, own, cost, np.arange(states) == states - 1, weight)

    @property
    def slices(self) -> int:
        """How many time slices a window has."""
        return int(self.gain.shape[2])

    def expose(self, alive: Floats, share_of_slice: float) -> None:
        """Note that these runs were alive for some part of a slice."""
        self.exposure += alive * share_of_slice

    def adapt(self, counts: Counts) -> None:
        """Adapt to what was counted since the last call. First observations of a group count in full."""
        E = self.exposure
        told = self.least <= E
        matches = float(counts.completed.sum(axis=(1, 2)).max())
        for table, counted, weight in (
            (self.gain, counts.completed, self.weight * min(1.0, matches / FEW_MATCHES)),
            (self.own, counts.own, self.weight),
            (self.cost, counts.tested, self.weight),
        ):
            w = np.where(self.seen, weight, 1.0)[told]
            table[told] = (1 - w) * table[told] + w * counted[told] / E[told]
        self.seen |= told
        self.exposure = np.zeros_like(E)

    def ahead(self, table: Floats) -> Floats:
        """Return the sum over the rest of a run's life, from the middle of its slice on."""
        return table[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - table / 2

    def load(self, alive: Floats, only_last: bool = False, takes: Floats | None = None) -> float:
        """Return the work of these runs by themselves: per slice, or with ``takes`` as the work of each run."""
        per_state = (alive * (self.own if takes is None else takes)).sum(axis=(1, 2))
        return float(per_state[self.last].sum() if only_last else per_state.sum())

    def shares(self, alive: Floats) -> tuple[Floats, Floats]:
        """Return Δ+ and Δ- of all groups."""
        gain, own = self.ahead(self.gain), self.ahead(self.own)
        matches = float((alive * gain)[self.last].sum())
        work = float((alive * own).sum())
        loss = alive * gain / matches if matches > 0 else np.zeros_like(gain)
        return loss, alive * own / work if work > 0 else np.zeros_like(own)

    def worth(self) -> Floats:
        """Return the matches per work of all groups: infinite where nothing was observed, to keep these."""
        gain, cost = self.ahead(self.gain), self.ahead(self.cost)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.seen & (cost > 0), gain / cost, np.inf)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {
            "gain": self.gain,
            "own": self.own,
            "cost": self.cost,
            "last": self.last,
            "seen": self.seen,
            "exposure": self.exposure,
            "parameters": np.array([self.weight, self.least]),
        }

    @classmethod
    def restore(cls, state: Mapping[str, npt.NDArray[Any]]) -> CostModel:
        """Return the model of a snapshot."""
        weight, least = state["parameters"].tolist()
        gain, own, cost = (state[name].astype(np.float64) for name in ("gain", "own", "cost"))
        model = cls(gain, own, cost, state["last"].astype(np.bool_), weight, least)
        model.seen = state["seen"].astype(np.bool_)
        model.exposure = state["exposure"].astype(np.float64)
        return model


def resource_costs(kind: Resource | Sequence[float], conditions: Sequence[int]) -> Omega:
    """Return Ω per state: the number of conditions tested where its runs are examined, or the given costs.

    Where an element repeats, the state does not determine the length of a run: ``"length"`` is returned as it is, and
    the engine counts the lengths.

    >>> resource_costs("conditions", [1, 5]).tolist(), resource_costs("none", [1, 5]).tolist()
    ([1.0, 5.0], [1.0, 1.0])
    >>> resource_costs([1.0, 2.5], [1, 5]).tolist(), resource_costs("length", [1, 5])
    ([1.0, 2.5], 'length')
    """
    if not isinstance(kind, str):
        given = np.array(kind, np.float64)
        if given.shape != (len(conditions),) or not (given > 0.0).all():
            raise invalid("resource", kind, f"a number above 0 for each of the {len(conditions)} states")
        return given
    if kind == "conditions":
        return np.maximum(1.0, np.array(conditions, np.float64))
    if kind == "length":
        return kind
    if kind == "none":
        return np.ones(len(conditions))
    raise unknown("resource", kind, ("conditions", "length", "none"))


def conditions_of(plan: Plan) -> list[int]:
    """Return how many conditions are tested where a run of each state is examined."""
    found = [0] * len(plan.elements)
    for step in plan.steps:
        if step.source is not None:
            found[step.source] += len(step.tests) + len(step.keys)
    return found
