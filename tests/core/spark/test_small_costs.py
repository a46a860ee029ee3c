"""What keeps a batch's fixed time small, without a JVM: one call for an event, few columns, a small heap."""

from __future__ import annotations

import gc
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent

from spillway.spark import worker_heap
from spillway.spark.control_row import PREFIX, ControlColumns, ControlRow
from spillway.spark.listener import OneCallListener

PROGRESS = {
    "id": "6a8c1c7e-3f5c-4a57-9a10-0c7c3b1de001",
    "runId": "6a8c1c7e-3f5c-4a57-9a10-0c7c3b1de002",
    "name": None,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 7,
    "batchDuration": 120,
    "durationMs": {"triggerExecution": 120},
    "stateOperators": [],
    "sources": [],
    "sink": {"description": "noop", "numOutputRows": -1},
    "observedMetrics": {"spillway.x": {"arrived": 1000, "kept": 900}},
}


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Keep the event."""
        self.events.append(event)


def test_an_event_comes_over_in_one_call() -> None:
    heard = Heard()
    jvm_event = SimpleNamespace(json=lambda: json.dumps({"progress": PROGRESS}))
    OneCallListener(heard).onQueryProgress(jvm_event)  # type: ignore[arg-type]
    progress = heard.events[0].progress
    assert (progress.batchId, progress.durationMs["triggerExecution"]) == (7, 120)
    assert progress.observedMetrics["spillway.x"].asDict() == {"arrived": 1000, "kept": 900}


def test_an_event_in_an_unknown_text_comes_over_as_pyspark_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, read = Heard(), object()
    monkeypatch.setattr(QueryProgressEvent, "fromJObject", lambda _: read)
    OneCallListener(heard).onQueryProgress(SimpleNamespace(json=lambda: "{}"))  # type: ignore[arg-type]
    assert heard.events == [read]


def test_a_plan_reads_only_the_columns_that_it_uses(tmp_path: Path) -> None:
    columns = ControlColumns(ControlRow(str(tmp_path), None, 0), (f"{PREFIX}note", f"{PREFIX}salt"))
    assert columns.schema == f"{PREFIX}salt bigint not null, {PREFIX}note string"
    [row] = pickle.loads(pickle.dumps(columns))(iter([pa.record_batch({"col1": [0]})]))
    assert row.schema.names == [f"{PREFIX}salt", f"{PREFIX}note"]
    assert row.num_rows == 1


def test_a_worker_freezes_what_it_has_loaded_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(worker_heap, "_calls", 0)
    for _ in range(10):
        worker_heap.freeze_modules()
    assert len(frozen) == 3
