"""Loop and decision together through a burst of five times the capacity, on a made-up batch engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spillway.core import control
from spillway.core.control import Controller
from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import decide
from spillway.loop.loop import Loop
from spillway.loop.offsets import BatchSize
from spillway.loop.reports import BatchReport, StageReport

FIXED_S, COST_S, SKIP_S = 0.3, 20e-6, 0.5e-6
CAPACITY = 40_000.0  # rows a second, in batches of a second and a half
TARGET_S = 3.0


@dataclass(frozen=True)
class Outcome:
    worst_delay_s: float
    kept_rows: int
    empty_batches: int


def arrived(at_s: float) -> int:
    """Rows that have arrived: half of the capacity, five times as much from 20 s to 40 s, half again."""
    phases = ((0.0, 20.0, 0.5), (20.0, 40.0, 5.0), (40.0, 200.0, 0.5))
    return int(sum(max(0.0, min(at_s, end) - start) * load * CAPACITY for start, end, load in phases))


def burst(tmp_path: Path, controller: str, known: str = "units") -> Outcome:
    """Play it. ``known`` is what can be found out of a batch: its units, its cut, or only that it runs."""
    options: dict[str, Any] = {"engine": "batched"} if controller == "deadline" else {}

    def make(state: dict[str, Any] | None) -> Controller:
        return control.make(
            controller, target_delay_s=TARGET_S, period_s=TARGET_S / 2, headroom=1.0, state=state, **options
        )

    loop = Loop("burst", make, Folder(tmp_path), mode="enforce", finished=Folder(tmp_path / "decisions"))
    loop.add_stage(0.0)
    now, last_cut = 0.5, 0.0
    worst, total, empty = 0.0, 0, 0
    for batch in range(1000):
        rows = arrived(now) - arrived(last_cut)
        waited = now - last_cut if batch else None
        sizes = {
            "units": BatchSize(rows, counts_rows=True, waited_s=waited, cut_s=now),
            "cut": BatchSize(waited_s=waited, cut_s=now),
            "nothing": BatchSize(seen_s=now),
        }
        kept = int(rows * decide(loop.published, batch, sizes[known]).keep_ratio)
        busy = FIXED_S + COST_S * kept + SKIP_S * (rows - kept)
        if kept:
            worst = max(worst, now + busy - last_cut)
        total, empty = total + kept, empty + (kept == 0)
        loop.take(
            BatchReport(
                query="query",
                run="run",
                batch=batch,
                started_s=now,
                busy_s=busy,
                units=float(rows) if known == "units" else None,
                backlog_units=0.0 if known == "units" else None,
                stages=(StageReport(arrived=rows, kept=kept, first_arrival_s=last_cut),),
            )
        )
        now, last_cut = now + busy, now
        if now > 70.0:
            break
    return Outcome(worst, total, empty)


@pytest.mark.parametrize(
    ("known", "late"), [("units", 0.02), ("cut", 0.15), ("nothing", 0.15)], ids=["units", "cut", "nothing"]
)
def test_deadline_holds_the_target_whatever_is_known_of_a_batch(
    tmp_path: Path, known: str, late: float
) -> None:
    found = burst(tmp_path, "deadline", known)
    assert found.worst_delay_s <= TARGET_S * (1.0 + late)
    assert found.empty_batches == 0
    assert found.kept_rows > 1_500_000, "three quarters of what the machine could have done in that time"


@pytest.mark.parametrize("known", ["units", "nothing"])
@pytest.mark.parametrize("controller", ["ctrl", "baseline", "aurora"])
def test_the_controllers_of_the_paper_shed_on_a_batch_engine_too(
    tmp_path: Path, controller: str, known: str
) -> None:
    plain = burst(tmp_path / "none", "none")
    found = burst(tmp_path / controller, controller, known)
    assert plain.worst_delay_s > 40.0
    assert found.worst_delay_s < plain.worst_delay_s / 4
    assert found.kept_rows > 1_500_000
