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

from tests.spark.connecting import MAX_GAP, WINDOW
from tests.spark.orders import expected
from tests.spark.test_windows import check
from tests.spark.window_rows import SECOND, brute, latest

ROOT = Path(__file__).resolve().parents[2]


def test_queries_on_spark_connect_keep_the_same_rows_and_windows(tmp_path: Path) -> None:
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
    assert report["told"] == "there is nothing at this path"
    assert report["problems"] == []
    assert report["arrived"] == [3000] * 4
    assert all(delay > 0 for delay in report["delays"])
    tables = [expected(checkpoint, batch, utility="score", never="vip") for batch in range(4)]
    assert report["kept"] == [table.num_rows for table in tables]
    mine = pa.concat_tables([table.select(["id", "weight"]) for table in tables])
    out = pq.read_table(tmp_path / "out")
    assert out.sort_by("id").to_pylist() == mine.sort_by("id").to_pylist()

    assert report["join"]["problems"] == []
    assert sum(report["join"]["pairs"]) == 400
    joined = pq.read_table(tmp_path / "pairs").to_pylist()
    assert sorted((row["id_left"], row["id_right"]) for row in joined) == [(n, n) for n in range(400)]

    assert report["match"]["problems"] == []
    assert sum(report["match"]["matches"]) == 80
    matched = pq.read_table(tmp_path / "matches").to_pylist()
    assert sorted((row["id"], row["last"]) for row in matched) == [(5 * n, 5 * n + 4) for n in range(80)]

    assert report["windows"]["problems"] == []
    assert report["windows"]["dropped"] > 0
    totals = pq.read_table(tmp_path / "totals").to_pylist()
    found = {(row["window"], row["window"] + WINDOW.size): (row["id"], row["n"]) for row in totals}
    assert len(found) == len(totals)
    check(brute(WINDOW, until=latest() - 2 * SECOND), found, MAX_GAP)
