"""Input-based baselines under a bound that they do not hold by feedback: a fixed share of the events instead.

Discarding events shows up to a window later, and more events or fewer do not undo a burst that is there. So a share
that follows the latency passes a bound on a percentile, or on the latency of matches, time and again. To compare at
the same bound, such a baseline is given the largest fixed share with which the bound holds in 95 % of the intervals,
found by halving on the very events that are counted. No one could know it beforehand: that is in its favour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spillway.core.arrays import Floats
from spillway.core.cep.shedding import Outcome
from spillway.core.cep.shedding.baselines import by_selectivity
from spillway.core.cep.shedding.draws import draws
from spillway.core.cep.shedding.enforcer import type_numbers
from spillway.core.cep.shedding.simulation import tracked

if TYPE_CHECKING:
    from benchmarks.cep.case import Prepared
    from spillway.core.cep.shedding.load_monitor import Over

HELD = 0.95
INPUT_BASED = ("random_input", "selective_input")
_HALVINGS = 6
_LEAST = 1e-3
_ROWS = 20_000


def with_fixed_share(
    case: Prepared, name: str, bound_s: float, over: Over, percentile: float | None, salt: int
) -> Outcome:
    """Return what comes out with the largest share of events that holds the bound."""
    low, high = np.log(_LEAST), 0.0
    best = _outcome(case, _kept(case, name, _LEAST), over, salt)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _outcome(case, _kept(case, name, float(np.exp(middle))), over, salt)
        if found.held(bound_s, case.smooth, percentile, case.since) >= HELD:
            best, low = found, middle
        else:
            high = middle
    return best


def _kept(case: Prepared, name: str, keep: float) -> Floats:
    """Return the share of events that stays, by type of the query and for other types."""
    if name == "random_input":
        return np.full(len(case.learned.selectivity), keep)
    return by_selectivity(keep, case.learned.selectivity)


def _outcome(case: Prepared, kept: Floats, over: Over, salt: int) -> Outcome:
    """Process the events that stay, without any check, with the program that is compiled for the others already."""
    patterns, table = tracked(case.config, case.learned).build(), case.table
    kinds = type_numbers(table[case.config.type], patterns.plan.types)
    keep = draws(np.arange(len(kinds)), salt) < kept[kinds]
    work, matches = [], []
    for start in range(0, len(kinds), _ROWS):
        patterns.process(table.slice(start, _ROWS), keep=keep[start : start + _ROWS])
        work.append(patterns.work.per_row)
        matches.append(patterns.work.matches_per_row)
    patterns.flush()
    times = np.concatenate(work) * np.array(case.units)[kinds]
    return Outcome(
        times=times,
        measured=np.ones(len(kinds), np.bool_) if over == "all" else case.able & keep,
        matches=np.concatenate(matches),
        kept=keep,
        smoothed=np.empty(0),
        shed_runs=0,
        offered_runs=0,
        found=None,
    )
