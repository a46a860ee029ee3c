"""A query that dies at each point of a batch's life: what is replayed is what was told the first time.

At each point the query dies of an error, and once all of its Spark of a ``kill -9``. What is on disk is the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spillway.core.join import JoinConfig
from spillway.core.random import threshold
from spillway.core.row_hash import row_hashes
from spillway.spark.join.shard import Output, ShardLogic
from spillway.spark.shards.grid import Grid
from spillway.spark.shards.packets import ORDER
from tests.core.spark.shards.join_shards import Shards
from tests.spark import crashing
from tests.spark.crashing import BATCHES, JOINED, KINDS, MAX_GAP, POINTS, ROWS, WINDOW, Death, moment
from tests.spark.match import match_crash
from tests.spark.orders import PATIENCE_S, expected, orders, told
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
    assert sorted(attempts) == list(range(BATCHES)), "no batch is missing"
    for batch, deliveries in attempts.items():
        table = expected(folder / "checkpoint", batch, utility="score", never="vip")
        rows = sorted(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True))
        for delivery in deliveries:
            assert delivery == rows, f"batch {batch}"
    return attempts


def check_groups(folder: Path) -> None:
    """Of each tier the orders are kept whose hash is below one limit, the same in all attempts at a batch."""
    attempts = delivered(folder)
    assert sorted(attempts) == list(range(BATCHES)), "no batch is missing"
    for batch, deliveries in attempts.items():
        decision, table = told(folder / "checkpoint", batch), orders(1_000 * batch, 1_000)
        hashes = row_hashes([table["id"]], decision.salt, 1_000)
        weights = {tier: weight for _, tier, weight in deliveries[0]}
        assert set(weights) == {0, 1, 2, 3, 4}
        assert sum(1_000 / 5 / weight for weight in weights.values()) <= 1_000 * decision.keep_ratio + 1
        limits = {tier: threshold(1.0 / weight) for tier, weight in weights.items()}
        rows = zip(table["id"].to_pylist(), table["tier"].to_pylist(), hashes.tolist(), strict=True)
        kept = [(order, tier, weights[tier]) for order, tier, drawn in rows if drawn <= limits[tier]]
        for delivery in deliveries:
            assert [row[:2] for row in delivery] == [row[:2] for row in kept], f"batch {batch}"
            assert delivery == deliveries[0]


def check_windows(folder: Path) -> None:
    """A window is whole or missing, whatever died while it was open."""
    attempts = delivered(folder)
    assert sorted(attempts) == list(range(BATCHES + 1)), (
        "no batch is missing, nor the one that closes the last windows"
    )
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


def check_join(folder: Path) -> float:
    """The pairs of each batch are those that the shards find, without Spark, with the budgets that were told.

    Returns the mean share of the comparisons of a batch that were made.
    """
    attempts = delivered(folder)
    shards = Shards(crashed_join(), lasting_grid(folder), forgetful=True, part_of=part_of)
    spent = 0.0
    for batch in range(BATCHES):
        table = orders(1_000 * batch, 1_000).select(["id", "customer"])
        times = pa.array([moment(order) for order in table["id"].to_pylist()], pa.timestamp("us", "UTC"))
        table = table.add_column(1, "ts", times)
        rows = table.append_column(
            ORDER, pa.array(row_hashes([table["id"], table["ts"], table["customer"]], 0, 1_000))
        )
        budget = told(folder / "checkpoint", batch).work_budgets[0]
        found = shards.feed(rows, rows, budget=budget)
        spent += shards.counts["spent"] / shards.counts["demand"]
        pairs = sorted(zip(found["l"].to_pylist(), found["r"].to_pylist(), strict=True))
        assert len(set(pairs)) == len(pairs) > 50
        for delivery in attempts[batch]:
            assert delivery == pairs, f"batch {batch}"
    assert not any(delivery for delivery in attempts.get(BATCHES, [])), "nothing was left to come"
    return float(spent / BATCHES)


def crashed_join() -> ShardLogic:
    config = JoinConfig(on=JOINED, within_s=2.0, time="ts", late="drop", salt=zlib.crc32(b"crash"))
    output = Output(("l", "lt", "lc"), ("r", "rt", "rc"), "score")
    return ShardLogic(config, output, (2_000_000, 2_000_000))


def lasting_grid(folder: Path) -> Grid:
    found = json.loads((folder / "checkpoint" / "spillway" / "joins" / "0.json").read_text())
    return Grid(**{**found, "keys": tuple(found["keys"])})


def part_of(side: int, table: pa.Table) -> pa.Array:
    """Return Spark's choice of a row's part, which is by a hash of the row; null without a customer."""
    parts = (1, 2)[side]
    return pa.array(
        None if customer is None else hashed % parts
        for hashed, customer in zip(table[ORDER].to_pylist(), table["customer"].to_pylist(), strict=True)
    ).cast(pa.int32())


DEATHS = [*zip(POINTS, [1, 1, 2, 2, 3], [0.2, 0.7, 0.3, 0.6, 0.4], strict=True), ("never", -1, 0.9)]
SOME_DEATHS = [("after the decision", 1, 0.2), ("after the sink", 2, 0.6), ("never", -1, 0.9)]


@pytest.mark.parametrize(
    "deaths", [SOME_DEATHS, pytest.param(DEATHS, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_what_was_told_is_delivered_whatever_a_query_died_of(
    spark: SparkSession, tmp_path: Path, deaths: list[tuple[str, int, float]]
) -> None:
    """All queries die once at each point, and keep another share each time."""
    for point, batch, keep in deaths:
        begun = [crashing.begin(spark, what, tmp_path / what, keep, Death(point, batch)) for what in KINDS]
        for query, shed in begun:
            if point == "never":
                assert query.awaitTermination(PATIENCE_S)
                shed.close()  # the dead do not
            else:
                with pytest.raises(PySparkException, match="dead"):
                    query.awaitTermination(PATIENCE_S)
    check_windows(tmp_path / "windows")
    check_groups(tmp_path / "groups")
    assert check_join(tmp_path / "join") < 0.95, "some comparisons were shed"
    shed_by_match = match_crash.check(tmp_path / "match", delivered(tmp_path / "match"), BATCHES, moment)
    assert shed_by_match > 100, "some rows or partial matches were shed"
    attempts = check_tuples(tmp_path / "tuples")
    assert len(attempts[2]) == 2, "a batch that died after its sink was delivered twice"
    kept = [len(deliveries[0]) * BATCHES / ROWS for deliveries in attempts.values()]
    assert max(kept) - min(kept) > 0.3, "the controllers of the runs really differed"


def test_what_was_told_is_delivered_after_kill_9(tmp_path: Path) -> None:
    """All queries die with the machine, wherever they are when one of them has come to its point.

    How many batches of the others are decided before that depends on chance, and so does how much they shed.
    """
    assert crash(tmp_path, "windows", "after the sink", 3, 0.2) == -signal.SIGKILL
    assert crash(tmp_path, "windows", "never", -1, 0.9) == 0
    check_tuples(tmp_path / "tuples")
    check_groups(tmp_path / "groups")
    check_windows(tmp_path / "windows")
    check_join(tmp_path / "join")
    match_crash.check(tmp_path / "match", delivered(tmp_path / "match"), BATCHES, moment)
    assert len(delivered(tmp_path / "windows")[3]) == 2
