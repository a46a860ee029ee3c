"""A query that dies at each point of a batch's life: what is replayed is what was told the first time.

In most places the query dies of an error, and twice all of its Spark of a ``kill -9``. What is on disk is the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark import crashing
from tests.spark.crashing import KINDS, MAX_GAP, POINTS, ROWS, WINDOW, Death, moment
from tests.spark.orders import PATIENCE_S, expected
from tests.spark.test_windows import decided

ROOT = Path(__file__).resolve().parents[2]
Delivery = list[tuple[float, ...]]


def crash(folder: Path, what: str, point: str, batch: int, keep: float) -> int:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.crashing", str(folder), what, point, str(batch), str(keep)],
        cwd=folder,
        env=environment,
        start_new_session=True,
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def delivered(folder: Path) -> dict[int, list[Delivery]]:
    """Return what each attempt at each batch has delivered."""
    attempts: defaultdict[int, list[Delivery]] = defaultdict(list)
    for file in (folder / "out").glob("*.json"):
        rows = [tuple(row) for row in json.loads(file.read_text())]
        attempts[int(file.name.split(".")[0])].append(rows)
    return attempts


def check_tuples(folder: Path) -> dict[int, list[Delivery]]:
    """Each batch is delivered as it was told, however often it runs."""
    attempts = delivered(folder)
    assert sorted(attempts) == list(range(8)), "no batch is missing"
    for batch, deliveries in attempts.items():
        table = expected(folder / "checkpoint", batch, utility="score", never="vip")
        rows = sorted(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True))
        for delivery in deliveries:
            assert delivery == rows, f"batch {batch}"
    return attempts


def check_windows(folder: Path) -> None:
    """A window is whole or missing, whatever died while it was open."""
    attempts = delivered(folder)
    assert sorted(attempts) == list(range(9)), "no batch is missing, nor the one that closes the last windows"
    exact: defaultdict[int, list[int]] = defaultdict(list)
    latest = max(moment(order) for order in range(ROWS))
    for order in range(ROWS):
        for begin in range(moment(order) // WINDOW.slide * WINDOW.slide, 0, -WINDOW.slide):
            if begin + WINDOW.size <= moment(order):
                break
            if begin + WINDOW.size <= latest - 2_000_000:
                exact[begin].append(order)
    rows = [row for deliveries in attempts.values() for delivery in deliveries for row in delivery]
    found = {begin: (total, number) for begin, total, number in rows}
    assert len(set(rows)) == len(found), "no window comes twice with different values"
    assert found.items() <= {begin: (sum(ids), len(ids)) for begin, ids in exact.items()}.items()
    missing = "".join("." if begin in found else "x" for begin in sorted(exact))
    assert "x" in missing, "some windows were dropped"
    assert "x" * (MAX_GAP + 1) not in missing
    told = decided(folder / "checkpoint")
    assert {begin // WINDOW.slide for begin in exact if told[begin // WINDOW.slide]} == {
        begin // WINDOW.slide for begin in found
    }, "what was told is what came"


def test_what_was_told_is_delivered_whatever_a_query_died_of(spark: SparkSession, tmp_path: Path) -> None:
    """Both queries die once at each point, in batches 1 to 5, and keep another share each time."""
    shares = [0.2, 0.5, 0.3, 0.6, 0.4]
    for point, batch, keep in [*zip(POINTS, range(1, 6), shares, strict=True), ("never", -1, 0.9)]:
        begun = [crashing.begin(spark, what, tmp_path / what, keep, Death(point, batch)) for what in KINDS]
        for query, shed in begun:
            if point == "never":
                assert query.awaitTermination(PATIENCE_S)
                shed.close()  # the dead do not
            else:
                with pytest.raises(PySparkException, match="dead"):
                    query.awaitTermination(PATIENCE_S)
    check_windows(tmp_path / "windows")
    attempts = check_tuples(tmp_path / "tuples")
    assert len(attempts[4]) == 2, "a batch that died after its sink was delivered twice"
    kept = [len(deliveries[0]) / 1000 for deliveries in attempts.values()]
    assert max(kept) - min(kept) > 0.3, "the controllers of the runs really differed"


def test_what_was_told_is_delivered_after_kill_9(tmp_path: Path) -> None:
    for what, point, batch, keep in [
        ("tuples", "after the decision", 2, 0.6),
        ("windows", "after the sink", 6, 0.2),  # which the first run is far from
    ]:
        assert crash(tmp_path, what, point, batch, keep) == -signal.SIGKILL, point
    assert crash(tmp_path, "tuples", "never", -1, 0.9) == 0
    check_tuples(tmp_path / "tuples")
    check_windows(tmp_path / "windows")
    assert len(delivered(tmp_path / "windows")[6]) == 2
