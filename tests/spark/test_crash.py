"""A real ``kill -9`` at each point of a batch's life: what is replayed is what was told the first time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.spark.crashing import POINTS
from tests.spark.orders import expected

ROOT = Path(__file__).resolve().parents[2]


def crash(checkpoint: Path, out: Path, point: str, batch: int, keep: float) -> int:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.spark.crashing",
            str(checkpoint),
            str(out),
            point,
            str(batch),
            str(keep),
        ],
        cwd=out,
        env=environment,
        start_new_session=True,
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def test_each_batch_is_delivered_as_it_was_told_however_often_it_runs(tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    out.mkdir()
    keeps = [0.2, 0.5, 0.3, 0.6, 0.4]
    for batch, (point, keep) in enumerate(zip(POINTS, keeps, strict=True), start=1):
        assert crash(checkpoint, out, point, batch, keep) == -signal.SIGKILL, point
    assert crash(checkpoint, out, "never", -1, 0.9) == 0

    attempts: defaultdict[int, list[list[list[float]]]] = defaultdict(list)
    for file in out.glob("*.json"):
        attempts[int(file.name.split(".")[0])].append(json.loads(file.read_text()))
    assert sorted(attempts) == list(range(8)), "no batch is missing"
    assert len(attempts[4]) == 2, "a batch that died after its sink was delivered twice"
    for batch, deliveries in attempts.items():
        table = expected(checkpoint, batch, utility="score", never="vip")
        rows = sorted(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True))
        for delivered in deliveries:
            assert [tuple(row) for row in delivered] == rows, f"batch {batch}"
    shares = [len(attempts[batch][0]) / 1000 for batch in range(8)]
    assert max(shares) - min(shares) > 0.3, "the controllers of the runs really differed"
