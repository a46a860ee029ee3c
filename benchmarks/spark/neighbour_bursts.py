"""``spillway bench spark --neighbours``: the burst with Spillway while another program uses a core.

================ ==========================================================================================
profile          neighbour, and what is played
================ ==========================================================================================
before           begins before the run and stays; five times the capacity that was measured beside it
middle           begins in the middle of the burst and stays; five times the capacity of the quiet machine
comes and goes   on and off for 2 to 8 s each, by a fixed seed; five times the capacity of the quiet machine
================ ==========================================================================================

Both capacities are measured in the same session. The least loss of a run is that at the capacity of the quiet machine
while the neighbour was off and at the capacity beside it while it was on. The metrics are those of the worst profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spillway.demo.burst import Burst
from spillway.demo.burst_plan import BurstPlan
from spillway.demo.burst_session import started
from spillway.demo.capacity import Tell
from spillway.demo.neighbour import comes_and_goes, from_second, throughout

SEED = 14
STEPS = 4
"""Runs, and the second capacity."""


def run(plan: BurstPlan, *, tell: Tell) -> dict[str, Burst]:
    """Start Spark, measure both capacities, and play each profile."""
    plan = shorter(plan)
    middle_s = plan.lead_s + plan.calm_s + plan.burst_s / 2
    bursts: dict[str, Burst] = {}
    with started(plan, neighbour=True, tell=tell) as ready:
        for schedule in (throughout(), from_second(middle_s), comes_and_goes(SEED, plan.play_s)):
            beside_all = schedule.busy(-1.0)
            bursts[schedule.name] = ready.play(
                ("spillway",),
                schedule=schedule,
                load_rows_per_s=ready.busy_rows_per_s if beside_all else None,
            )
    return bursts


def shorter(plan: BurstPlan) -> BurstPlan:
    """Return the plan with fewer turns at saturation: the idle ratio, which needs more, is not asked for here."""
    return replace(plan, limit_s=None, blocks=min(plan.blocks, 2))


def metrics(bursts: Mapping[str, Burst]) -> dict[str, float]:
    """Return the worst profile's figures by name."""
    return {
        "neighbours.loss_over_minimum": max(burst.loss_over_minimum for burst in bursts.values()),
        "neighbours.within_target": min(burst.runs["spillway"].within_target for burst in bursts.values()),
        "neighbours.delivered_over_best": min(
            burst.delivered_over_best("spillway") for burst in bursts.values()
        ),
    }


def profiles(bursts: Mapping[str, Burst]) -> dict[str, dict[str, Any]]:
    """Return each profile's figures, for the results file."""
    return {
        name: {
            "loss_over_minimum": burst.loss_over_minimum,
            "delivered_over_best": burst.delivered_over_best("spillway"),
            "within_target": burst.runs["spillway"].within_target,
            "rows_per_s": burst.capacity.rows_per_s,
            "busy_rows_per_s": burst.busy_rows_per_s,
            "busy": burst.runs["spillway"].busy,
            "speed": burst.speeds.get("spillway"),
        }
        for name, burst in bursts.items()
    }
