"""A real ``kill -9`` at each point of a batch's life: what is replayed is what was told the first time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.spark.crashing import MAX_GAP, POINTS, ROWS, WINDOW, moment
from tests.spark.orders import expected
from tests.spark.test_windows import decided

ROOT = Path(__file__).resolve().parents[2]
Delivery = list[tuple[float, ...]]


def crash(what: str, folder: Path, point: str, batch: int, keep: float) -> int:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    places = [str(folder / "checkpoint"), str(folder / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.crashing", what, *places, point, str(batch), str(keep)],
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


def survive(what: str, folder: Path, deaths: Iterable[tuple[str, int, float]]) -> dict[int, list[Delivery]]:
    """Die once at each point and batch, keeping another share each time; return what each batch delivered."""
    (folder / "out").mkdir()
    for point, batch, keep in deaths:
        assert crash(what, folder, point, batch, keep) == -signal.SIGKILL, point
    assert crash(what, folder, "never", -1, 0.9) == 0
    attempts: defaultdict[int, list[Delivery]] = defaultdict(list)
    for file in (folder / "out").glob("*.json"):
        rows = [tuple(row) for row in json.loads(file.read_text())]
        attempts[int(file.name.split(".")[0])].append(rows)
    return attempts


def test_each_batch_is_delivered_as_it_was_told_however_often_it_runs(tmp_path: Path) -> None:
    deaths = zip(POINTS, range(1, 6), [0.2, 0.5, 0.3, 0.6, 0.4], strict=True)
    attempts = survive("tuples", tmp_path, deaths)
    assert sorted(attempts) == list(range(8)), "no batch is missing"
    assert len(attempts[4]) == 2, "a batch that died after its sink was delivered twice"
    for batch, deliveries in attempts.items():
        table = expected(tmp_path / "checkpoint", batch, utility="score", never="vip")
        rows = sorted(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True))
        for delivered in deliveries:
            assert delivered == rows, f"batch {batch}"
    shares = [len(attempts[batch][0]) / 1000 for batch in range(8)]
    assert max(shares) - min(shares) > 0.3, "the controllers of the runs really differed"


def test_a_window_is_whole_or_missing_whatever_died_while_it_was_open(tmp_path: Path) -> None:
    # the second death is in batch 4, before its sink
    attempts = survive("windows", tmp_path, [("after the decision", 2, 0.2), ("after the commit", 3, 0.6)])
    assert sorted(attempts) == list(range(9)), "no batch is missing, nor the one that closes the last windows"

    exact: defaultdict[int, list[int]] = defaultdict(list)
    latest = max(moment(order) for order in range(ROWS))
    for order in range(ROWS):
        for begin in range(moment(order) // WINDOW.slide * WINDOW.slide, 0, -WINDOW.slide):
            if begin + WINDOW.size <= moment(order):
                break
            if begin + WINDOW.size <= latest - 2_000_000:
                exact[begin].append(order)
    delivered = [row for deliveries in attempts.values() for rows in deliveries for row in rows]
    found = {begin: (total, number) for begin, total, number in delivered}
    assert len(set(delivered)) == len(found), "no window comes twice with different values"
    assert found.items() <= {begin: (sum(ids), len(ids)) for begin, ids in exact.items()}.items()
    missing = "".join("." if begin in found else "x" for begin in sorted(exact))
    assert "x" in missing, "some windows were dropped"
    assert "x" * (MAX_GAP + 1) not in missing
    told = decided(tmp_path / "checkpoint")
    assert {begin // WINDOW.slide for begin in exact if told[begin // WINDOW.slide]} == {
        begin // WINDOW.slide for begin in found
    }, "what was told is what came"
