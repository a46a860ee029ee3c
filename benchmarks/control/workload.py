"""The arrivals and costs on which controllers are compared.

*Recorded.* Every usable file of arrivals in the data folder, whatever its name, is cut into spans of 400 s that lie
evenly over the recording. *Made up.* Bounded Pareto rates with several bias factors and seeds.

The load: each trace has a mean of 1.3, 1.6 or 2 times the 190 rows/s that the engine would take in at the base
cost with the whole processor, in turn. That is overload throughout, as in the paper's experiments, and with the
costs of Figure 14 (up to 2.5 times the base) and H = 0.97 it comes to 1.7 to 2.7 times what the engine can do.
Recordings are played faster or slower to get there, so bursts keep their height relative to the mean.

Every trace comes with a cost trace of its own seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spillway.errors import SpillwayError
from spillway.replay.costs import PAPER_CAPACITY_ROWS_S, CostTrace, varying
from spillway.replay.generators import pareto
from spillway.replay.loaders import arrival_files, load, spans
from spillway.replay.traces import Arrivals

DURATION_S = 400.0
LOADS = (1.3, 1.6, 2.0)
BETAS = (0.1, 0.25, 0.5, 1.0, 1.25, 1.5)


@dataclass(frozen=True, eq=False)
class Case:
    """A trace of arrivals with its costs; ``kind`` is ``recorded`` or ``pareto``. Each is itself only."""

    name: str
    kind: str
    trace: Arrivals
    cost: CostTrace
    seed: int


@dataclass(frozen=True)
class Workload:
    """The cases, and which files could not be used and why."""

    cases: tuple[Case, ...]
    unusable: dict[str, str]

    def of(self, kind: str) -> list[Case]:
        """Return the cases of one kind."""
        return [case for case in self.cases if case.kind == kind]

    @property
    def web(self) -> Case:
        """The case that stands for the paper's 'Web' trace: a recording at the middle load, or else "
        "a mild made-up one."""
        recorded = self.of("recorded")
        middle = LOADS[1] * PAPER_CAPACITY_ROWS_S
        return (
            min(recorded, key=lambda case: abs(mean_rate(case.trace) - middle), default=None) or mild_case()
        )


def workload(*, quick: bool, folder: Path | None = None) -> Workload:
    """Return all cases: few of each kind for a quick run, many for a full one."""
    files = arrival_files(folder)
    most = max(1, 8 // max(1, len(files))) if quick else 16
    rates = tuple(load * PAPER_CAPACITY_ROWS_S for load in LOADS)
    found: list[Case] = []
    unusable: dict[str, str] = {}
    for file in files:
        try:
            cut = spans(load(file), count=most, length_s=DURATION_S, rates=rates)
        except SpillwayError as error:
            unusable[file.name] = str(error)
            continue
        found += [
            Case(f"{file.stem}[{number}]", "recorded", trace, varying(seed=number), seed=number)
            for number, trace in enumerate(cut)
        ]
    seeds = range(1) if quick else range(6)
    found += [pareto_case(beta, seed) for seed in seeds for beta in BETAS]
    return Workload(tuple(found), unusable)


def mean_rate(trace: Arrivals) -> float:
    """Return a trace's rows per second."""
    return trace.total / trace.duration_s


@cache
def pareto_case(beta: float, seed: int, *, load: float | None = None) -> Case:
    """Return Pareto rates of a bias factor; the loads take turns unless one is given."""
    share = LOADS[(BETAS.index(beta) + seed) % len(LOADS)] if load is None else load
    trace = pareto(mean=share * PAPER_CAPACITY_ROWS_S, beta=beta, duration_s=DURATION_S, seed=1000 + seed)
    return Case(f"pareto(beta={beta:g}, seed={seed})", "pareto", trace, varying(seed=100 + seed), seed=seed)


@cache
def mild_case() -> Case:
    """Return a made-up trace with small and short bursts, where no recording is at hand."""
    rate = LOADS[1] * PAPER_CAPACITY_ROWS_S
    trace = pareto(mean=rate, beta=1.5, duration_s=DURATION_S, seed=7, peak_ratio=2.5, hold_periods=2)
    return Case("mild pareto", "pareto", trace, varying(seed=7), seed=7)
