"""Stored states of controllers, prices and the loop: how they were made, and what is decided from them."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from spillway.core import control
from spillway.core.control import Controller, CostModelConfig, Sample, UnitCostConfig
from spillway.core.groups.accuracy import Accuracy
from spillway.core.tuples import GRID
from spillway.core.windows import DropConfig
from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import Published, decide
from spillway.loop.kinds.groups import GroupSpec
from spillway.loop.kinds.windows import WindowSpec
from spillway.loop.loop import Loop
from spillway.loop.offsets import BatchSize
from spillway.loop.reports import BatchReport, StageReport, WorkReport
from tests.core.stored_rows import US


def periods(first: int, count: int) -> list[Sample]:
    """Return periods of a burst."""
    return [
        Sample(
            at_s=float(n),
            period_s=1.0,
            arrived_rows=1_000.0 + 400.0 * (n % 4),
            kept_rows=900.0 + 50.0 * (n % 3),
            backlog_rows=150.0 * (n % 5),
            cost_s=0.0008 + 0.00001 * (n % 6),
            fixed_s=0.1,
            skip_s=1e-6,
            busy_s=0.9,
            finished_rows=900.0,
            delay_s=0.8 + 0.1 * (n % 3),
            worst_delay_s=1.5 + 0.2 * (n % 4),
            unit_s=5e-8,
            waited_s=1.0,
            idle_s=0.05,
            spread=0.1,
        )
        for n in range(first, first + count)
    ]


CONTROLLERS: dict[str, dict[str, Any]] = {
    "ctrl": {},
    "baseline": {},
    "aurora": {},
    "deadline": {},
    "deadline_batched": {"engine": "batched"},
    "fixed": {"keep_ratio": 0.4},
    "none": {},
}


def controller_of(name: str, state: Any = None) -> Controller:
    """Return a controller at its beginning or as it was."""
    kind = name.removesuffix("_batched")
    return control.make(kind, target_delay_s=2.0, headroom=0.9, state=state, **CONTROLLERS[name])


def make_controller(name: str) -> Any:
    """Return what a controller knows after a dozen periods."""
    controller = controller_of(name)
    for sample in periods(0, 12):
        controller.step(sample)
    return controller.snapshot()


def steer(name: str, state: Any) -> Any:
    """Return the next decisions; in which words is left out."""
    controller = controller_of(name, state)
    snapshot = controller.snapshot()
    decisions = [controller.step(sample) for sample in periods(12, 4)]
    return [snapshot, *({**asdict(each), "reason": ""} for each in decisions)]


def make_costs() -> Any:
    """Return what is known of rows and of units of work after a dozen batches."""
    costs, unit = CostModelConfig().build(), UnitCostConfig().build()
    price(costs, unit, range(12))
    return {"cost_model": costs.snapshot(), "unit_cost": unit.snapshot()}


def go_on_pricing(state: Any) -> Any:
    """Return the next prices."""
    costs, unit = CostModelConfig().build(state["cost_model"]), UnitCostConfig().build(state["unit_cost"])
    assert {"cost_model": costs.snapshot(), "unit_cost": unit.snapshot()} == state
    return price(costs, unit, range(12, 16))


def price(costs: Any, unit: Any, batches: range) -> list[Any]:
    """Return what rows and units are taken to cost after each of some batches."""
    told = []
    for n in batches:
        arrived, kept, work = 8_000.0 + 900.0 * (n % 7), 5_000.0 + 700.0 * (n % 5), 2e6 + 3e5 * (n % 4)
        busy_s = 0.2 + 3e-5 * kept + 1e-6 * (arrived - kept)
        found = costs.update(arrived_rows=arrived, kept_rows=kept, busy_s=busy_s, overhead_s=0.05)
        told.append([*asdict(found).values(), unit.update(units=work, work_s=0.002 + 2e-8 * work)])
    return told


WINDOW = WindowSpec(
    granule_us=US,
    slide_us=US,
    inner_us=0,
    span_us=3 * US,
    delay_ms=2_000,
    max_gap=3,
    together=DropConfig(max_gap=3).batch,
    shares_left=(1.0, 0.8, 0.5, 0.25),
)
GROUPS = GroupSpec(rule="variance", at_least=3, window_s=4.0, accuracy=Accuracy(0.05, 0.9), of="route bigint")


STAGES: dict[str, dict[str, Any]] = {
    "rows": {"floor": 0.1},
    "groups": {"groups": GROUPS},
    "windows": {"window": WINDOW},
    "join": {"works": True},
    "match": {"works": True},
}


@contextmanager
def a_loop(kinds: Sequence[str], latest: Any = None) -> Iterator[Loop]:
    """A loop over stages of some kinds, at its beginning or with what was published before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        if latest is not None:
            folder.write("latest.json", json.dumps(latest))
        make = partial(controller_of, "deadline_batched")
        loop = Loop("stored", make, folder, mode="enforce", finished=Folder(folder.root / "decisions"))
        for kind in kinds:
            loop.add_stage(**STAGES[kind], chained=kind == "groups")
        yield loop


def a_report(kinds: Sequence[str], batch: int) -> BatchReport:
    """Return what a batch tells of some stages."""
    arrived, kept = 9_000 + 500 * (batch % 4), 4_000 + 300 * (batch % 3)
    started_s = 1_000.0 + 2.0 * batch
    work = WorkReport(demanded=4e6, spent=2.5e6, wall_s=0.05, pairs=40, runs=90, waiting=7, state_bytes=1_000)
    rows = StageReport(
        arrived=arrived,
        kept=kept + 2_000,
        protected=180,
        quantiles=tuple(-math.inf if n == 0 else float(n // 3) for n in range(len(GRID))),
        first_arrival_s=started_s - 1.0,
        mean_arrival_s=started_s - 0.5,
        tasks=2,
    )
    groups = StageReport(
        arrived=kept + 2_000,
        kept=kept,
        groups=tuple((1_000 + n, 2_000 // (n + 1)) for n in range(9)),
        sample=tuple((1_000 + n % 9, float(n * n % 11)) for n in range(120)),
        times_s=tuple(n * 0.02 for n in range(100)),
        tasks=2,
    )
    windows = StageReport(arrived=arrived, kept=kept, passed=kept, latest_us=round(started_s * 1e6))
    found = dict.fromkeys(STAGES, StageReport(arrived=kept, kept=kept, work=work))
    found |= {"rows": rows, "groups": groups, "windows": windows}
    return BatchReport(
        query="query",
        run="run",
        batch=batch,
        started_s=started_s,
        busy_s=0.4 + 4e-5 * kept,
        units=float(arrived),
        backlog_units=0.0,
        counts_rows=True,
        input_rows=arrived,
        overhead_s=0.1,
        stages=tuple(found[kind] for kind in kinds),
    )


def make_latest(kinds: Sequence[str]) -> Any:
    """Return ``latest.json`` after a dozen batches."""
    with a_loop(kinds) as loop:
        for batch in range(12):
            loop.take(a_report(kinds, batch))
        assert loop.problems == []
        return json.loads((loop._folder.root / "latest.json").read_text())


SIZE = BatchSize(
    120_000.0, counts_rows=True, waited_s=2.0, cut_s=1_024.0, watermark_ms=1_020_000, ended_s=1_023.0
)


def go_on_deciding(kind: str, latest: Any) -> Any:
    """Return what a restart knows of its stage, what it tells the next batch, and the one after its report."""
    with a_loop([kind], latest) as loop:
        assert loop.problems == []
        stages = loop.published.to_dict()["stages"]
        told = [decide(loop.published, 12, SIZE)]
        loop.take(a_report([kind], 12))
        assert loop.problems == []
        later = replace(SIZE, cut_s=1_026.0, watermark_ms=1_022_000)
        told.append(decide(loop.published, 13, later, told[0]))
    return [stages, *(json.loads(each.to_json()) for each in told)]


def read_published(latest: Any) -> Any:
    """Return all that is read of what was published, and what it tells the next batch."""
    published = Published.from_dict(json.loads(json.dumps(latest["published"])))
    assert json.loads(json.dumps(published.to_dict())) == latest["published"]
    return json.loads(decide(published, 12, SIZE).to_json())
