"""The same on Spark Connect: no handle into the JVM is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.orders import expected

ROOT = Path(__file__).resolve().parents[2]


def test_a_query_on_spark_connect_keeps_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # a free port instead of the well-known one
    }
    checkpoint = tmp_path / "checkpoint"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.spark.connecting", str(checkpoint)],
        cwd=tmp_path,
        env=environment,
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["problems"] == []
    assert report["arrived"] == [3000] * 4
    assert all(delay > 0 for delay in report["delays"])
    tables = [expected(checkpoint, batch, utility="score", never="vip") for batch in range(4)]
    assert report["kept"] == [table.num_rows for table in tables]
    mine = pa.concat_tables([table.select(["id", "weight"]) for table in tables])
    out = pq.read_table(tmp_path / "out")
    assert out.sort_by("id").to_pylist() == mine.sort_by("id").to_pylist()
