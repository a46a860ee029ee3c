"""Checkpoints of an earlier version go on: their unfinished batch is done again as it was told, and so are the next.

The checkpoints were made by ``tests/data/make_checkpoints.py``, which says how. Each holds a decision of batch 2 and
no commit of it. What lies beside it was delivered by the version that made it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.stored_queries import CHECKPOINTS, QUERIES, STOPPED_IN, run


@pytest.mark.parametrize("kind", QUERIES)
def test_a_stored_checkpoint_goes_on(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(CHECKPOINTS / kind, checkpoint)
    told = {file.name: file.read_bytes() for file in decisions(checkpoint)}
    assert f"{STOPPED_IN}.json" in told
    assert not (checkpoint / "commits" / str(STOPPED_IN)).exists()

    found = run(spark, kind, checkpoint)

    assert found.problems == ()
    expected = json.loads((CHECKPOINTS / f"{kind}.json").read_text(encoding="utf-8"))
    assert min(found.rows) == STOPPED_IN < max(found.rows), "that batch is done again, and others follow"
    assert {str(batch): rows for batch, rows in found.rows.items()} == expected
    assert found.history == list(range(max(found.rows) + 1)), "also what was measured before can be read"
    kept = {file.name: file.read_bytes() for file in decisions(checkpoint)}
    assert {name: kept[name] for name in told} == told, "what was told holds"


def decisions(checkpoint: Path) -> list[Path]:
    """Return what batches were told, also of their groups."""
    folder = checkpoint / "spillway"
    return sorted([*folder.glob("decisions/*.json"), *folder.glob("rations/*.json")])
