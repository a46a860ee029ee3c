"""A burst as Spark would have recorded it, made up from a fixed cost per row and per batch."""

from __future__ import annotations

from typing import Any

from spillway.demo.burst import Burst
from spillway.demo.burst_plan import BurstPlan
from spillway.demo.capacity import Capacity
from spillway.demo.run_record import Batch, Recording, Variant

PLAN = BurstPlan(lead_s=2.0, calm_s=4.0, burst_s=6.0, after_s=4.0, patience_s=2.0)
CAPACITY = Capacity(batch_rows=1_100, plain_s=(1.0, 1.1, 1.2), spillway_s=(1.1, 1.1, 1.2))
_FIXED_S, _ROW_S = 0.3, 0.7e-3


def burst() -> Burst:
    """Return both runs; the plain one is cut off with rows still waiting."""
    machine = {"cores": 2, "processor": "<a & b>", "system": "Linux", "spark": "4.3.0", "python": "3.11"}
    return Burst(
        plan=PLAN,
        capacity=CAPACITY,
        runs={"plain": play("plain"), "spillway": play("spillway")},
        machine=machine,
    )


def play(variant: Variant) -> Recording:
    """Return what a query with these costs would have done, keeping at most 1,000 rows a batch with Spillway."""
    trace = PLAN.trace(CAPACITY.rows_per_s)
    until_s = trace.duration_s + PLAN.patience_s
    batches: list[Batch] = []
    history: list[dict[str, Any]] = []
    read, clock = 0, 0.3
    while True:
        last = int(trace.count(clock))
        if last == read:
            break
        kept = min(last - read, 1_000) if variant == "spillway" else last - read
        ended_s = clock + _FIXED_S + _ROW_S * kept
        if ended_s > until_s:
            break
        number = len(batches)
        batches.append(
            Batch(
                number=number,
                first_row=read,
                last_row=last,
                began_s=clock,
                ended_s=ended_s,
                kept_rows=kept if variant == "spillway" else None,
            )
        )
        first_s = float(trace.times(read, read + 1)[0])
        history.append(entry(number, last - read, kept, clock, ended_s, ended_s - first_s))
        read, clock = last, ended_s
    return Recording(
        variant=variant,
        trace=trace,
        target_s=PLAN.target_s,
        from_s=PLAN.lead_s,
        until_s=until_s,
        batches=tuple(batches),
        history=tuple(history) if variant == "spillway" else (),
    )


def entry(
    batch: int, arrived: int, kept: int, began_s: float, ended_s: float, worst_s: float
) -> dict[str, Any]:
    """Return a line of the history, as far as reports read it."""
    return {
        "batch": batch,
        "at_s": 1e9 + ended_s,
        "period_s": ended_s - began_s,
        "arrived_rows": arrived,
        "kept_rows": kept,
        "dropped_rows": arrived - kept,
        "busy_s": ended_s - began_s,
        "worst_delay_s": worst_s,
        "target_delay_s": PLAN.target_s,
        "limit_rows": 1_000.0 if batch else None,
        "waited_s": None,
        "reason": "a row costs 700 µs <&> 1,000 fit" if batch else "no row has been timed yet, so at most 1",
    }
