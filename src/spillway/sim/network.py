"""A query network: operators with a share of the cost and a selectivity, wired as a directed acyclic graph.

Every row enters each operator that has no inputs. An operator passes a row on to all operators that read from
it, with a probability that is its selectivity. So row by row the work differs, while its mean is fixed:

    visits(o) = Σ over the inputs i of o of  visits(i) · selectivity(i)        (1 at an entry)
    cost(o)   = c · share(o) / Σ_p visits(p) · share(p)

where c is the mean processor time per row: the shares only say how it is spread over the operators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from spillway.errors import SpillwayError, invalid, unknown


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: where its rows come from, what a row costs it, and how many of them it passes on.

    ================= ==================================================================
    ``name``          to be wired by
    ``inputs``        names of the operators it reads from; none: it is an entry
    ``share``         its cost per row, relative to the other operators' (above 0)
    ``selectivity``   the part of its rows that it passes on, from 0 to 1
    ================= ==================================================================
    """

    name: str
    inputs: tuple[str, ...] = ()
    share: float = 1.0
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0.0):
            raise invalid(f"{self.name}.share", self.share, "a number above 0")
        if not 0.0 <= self.selectivity <= 1.0:
            raise invalid(f"{self.name}.selectivity", self.selectivity, "a number from 0 to 1")
        if len(set(self.inputs)) != len(self.inputs):
            raise invalid(f"{self.name}.inputs", self.inputs, "each operator once")


@dataclass(frozen=True)
class Network:
    """Operators in an order in which each comes after its inputs.

    >>> net = Network((Operator("parse"), Operator("filter", ("parse",), selectivity=0.25),
    ...                Operator("join", ("filter",), share=4.0)))
    >>> net.visits.tolist(), net.costs_s(1.0).tolist()
    ([1.0, 1.0, 0.25], [0.3333333333333333, 0.3333333333333333, 1.3333333333333333])
    """

    operators: tuple[Operator, ...]
    visits: npt.NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.operators:
            raise invalid("operators", self.operators, "at least one operator")
        place: dict[str, int] = {}
        visits = np.zeros(len(self.operators))
        for number, operator in enumerate(self.operators):
            for name in operator.inputs:
                if name not in place:
                    raise unknown(f"{operator.name}.inputs", name, place)
            if operator.name in place:
                raise SpillwayError(f"operators: {operator.name!r} is there twice.")
            place[operator.name] = number
            sources = [place[name] for name in operator.inputs]
            passed = [visits[i] * self.operators[i].selectivity for i in sources]
            visits[number] = sum(passed) if sources else 1.0
        visits.setflags(write=False)
        object.__setattr__(self, "visits", visits)

    def __len__(self) -> int:
        return len(self.operators)

    def costs_s(self, row_cost_s: float) -> npt.NDArray[np.float64]:
        """Return each operator's cost per row it reads, such that a row of the stream costs ``row_cost_s``."""
        shares = np.array([operator.share for operator in self.operators])
        return np.asarray(row_cost_s * shares / (self.visits @ shares))

    @property
    def entries(self) -> npt.NDArray[np.int64]:
        """Numbers of the operators that every row enters."""
        return np.array(
            [i for i, operator in enumerate(self.operators) if not operator.inputs], dtype=np.int64
        )

    @property
    def readers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Who reads from operator o: ``numbers[starts[o]:starts[o + 1]]``."""
        place = {operator.name: number for number, operator in enumerate(self.operators)}
        read_by: list[list[int]] = [[] for _ in self.operators]
        for number, operator in enumerate(self.operators):
            for name in operator.inputs:
                read_by[place[name]].append(number)
        starts = np.cumsum([0, *map(len, read_by)])
        return starts.astype(np.int64), np.array(list(chain.from_iterable(read_by)), dtype=np.int64)

    @property
    def downstream(self) -> npt.NDArray[np.float64]:
        """The mean work still to come for a row that waits at operator o, as a part of a whole row's work."""
        costs = self.costs_s(1.0)
        starts, readers = self.readers
        work = costs.copy()
        for o in range(len(self) - 1, -1, -1):
            for reader in readers[starts[o] : starts[o + 1]]:
                work[o] += self.operators[o].selectivity * work[reader]
        return work


def paper_network() -> Network:
    """Return 14 operators of fixed cost with filters, a fan-out and a union, as in the paper's experiments.

    The paper gives the number of operators and says that costs and selectivities are fixed; the wiring is ours,
    after its Figure 2: two queries share a parsed stream, one of them splits it and joins the parts again::

        parse ─ clean ┬─ big ──── score ─┐
                      ├─ small ── round ─┴─ union ─ enrich ─ top ─ alert
                      └─ valid ── project ─ recent ─ count
    """
    operators = (
        Operator("parse", share=2.0),
        Operator("clean", ("parse",), share=1.0),
        Operator("big", ("clean",), share=0.5, selectivity=0.5),
        Operator("score", ("big",), share=1.5),
        Operator("small", ("clean",), share=0.5, selectivity=0.4),
        Operator("round", ("small",), share=0.5),
        Operator("union", ("score", "round"), share=0.5),
        Operator("enrich", ("union",), share=2.0),
        Operator("top", ("enrich",), share=1.0, selectivity=0.6),
        Operator("alert", ("top",), share=1.0),
        Operator("valid", ("clean",), share=0.5, selectivity=0.8),
        Operator("project", ("valid",), share=1.0),
        Operator("recent", ("project",), share=0.5, selectivity=0.7),
        Operator("count", ("recent",), share=1.5),
    )
    return Network(operators)


def single_operator() -> Network:
    """Return the network of one operator: the paper's virtual queue itself."""
    return Network((Operator("all"),))
