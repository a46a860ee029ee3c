"""A folder that is missing, torn, read-only or full: the query runs on, nothing is shed unlogged, and it is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, sliding
from spillway.core import control
from tests.spark.orders import PATIENCE_S, play, start
from tests.spark.window_rows import PER_BATCH, SECOND, brute, in_order, latest, live


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def replace_by_file(folder: Path) -> None:
    """As good as read-only or full, also for root: nothing can be created below a file."""
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def block_decisions(folder: Path) -> None:
    shutil.rmtree(folder / "decisions")
    (folder / "decisions").write_text("no room for decisions")


def tear_latest(folder: Path) -> None:
    (folder / "latest.json").write_text('{"published": {"decision": {"keep_ra')


def tear_next_decision(folder: Path) -> None:
    (folder / "decisions" / "2.json").write_text('{"version": 1, "batch": 2, "keep')


@pytest.mark.parametrize(
    ("harm", "lasting"),
    [
        (remove, False),
        pytest.param(tear_latest, False, marks=pytest.mark.long),
        (tear_next_decision, False),
        pytest.param(replace_by_file, True, marks=pytest.mark.long),
        (block_decisions, True),
    ],
)
def test_the_query_runs_on(
    spark: SparkSession, tmp_path: Path, harm: Callable[[Path], None], lasting: bool
) -> None:
    kept: dict[int, int] = {}
    logged: dict[int, bool] = {}
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=0.3)
    with Spillway("harm", 2.0, tmp_path, controller=controller) as shed:

        def take(frame: DataFrame, batch: int) -> None:
            kept[batch] = frame.count()
            logged[batch] = (tmp_path / "spillway" / "decisions" / f"{batch}.json").is_file()
            if batch == 1:
                shed.wait_for_batch(0)
                harm(tmp_path / "spillway")

        frame = shed.tuples(play(spark, rows=6_000, per_batch=1_000), key="id")
        query = start(frame, tmp_path, take)
        assert query.awaitTermination(PATIENCE_S)
        status = shed.status()
    assert sorted(kept) == list(range(6)), "no batch is missing"
    shed_in = {batch for batch, rows in kept.items() if rows < 1_000}
    assert {0, 1} <= shed_in
    assert all(logged[batch] for batch in shed_in), "nothing is shed without being logged"
    if harm is tear_next_decision:
        assert kept[2] == 1_000, "a decision that cannot be read sheds nothing"
        assert any("batch 2" in problem for problem in status.problems)
    if lasting:
        assert shed_in == {0, 1}
        assert any("nothing shed" in problem for problem in status.problems), "the status says so"
    else:
        assert 5 in shed_in, "it recovers"


def block_next_decisions(folder: Path) -> None:
    for batch in range(2, 9):
        (folder / "decisions" / f"{batch}.json").mkdir()


@pytest.mark.parametrize(
    "harm",
    [block_decisions, tear_next_decision, pytest.param(block_next_decisions, marks=pytest.mark.long)],
)
def test_windows_stay_whole_while_the_query_runs_on(
    spark: SparkSession, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """Where earlier decisions can be read they hold; where they are gone, what begins later is whole."""
    window = sliding("3 seconds", "1 second")
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    batches = []
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=0.3)
    with Spillway("harm", 2.0, tmp_path, controller=controller) as shed:

        def take(frame: DataFrame, batch: int) -> None:
            shed.wait_for_batch(batch - 1)
            for begin, *values in frame.collect():
                assert found.setdefault((begin, begin + window.size), tuple(values)) == tuple(values)
            batches.append(batch)
            if batch == 1:
                harm(tmp_path / "spillway")

        rows = shed.windows(live(spark), window, time="ts", max_gap=3).groupBy("window")
        totals = rows.agg(F.sum("id"), F.count("*")).withColumn("window", F.unix_micros("window.start"))
        assert start(totals, tmp_path, take).awaitTermination(PATIENCE_S)
        assert any("nothing shed" in problem for problem in shed.status().problems)
    assert batches == list(range(6)), "no batch is missing"
    exact = brute(window, until=latest() - 2 * SECOND)
    later = {key: value for key, value in found.items() if key[0] >= in_order(2 * PER_BATCH)}
    assert later.items() <= exact.items()
    assert later
    assert found.items() <= exact.items() or harm is block_decisions


def test_a_checkpoint_that_cannot_be_locked_still_works(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "spillway").write_text("in the way")
    rows: list[int] = []
    with Spillway("blocked", 2.0, tmp_path) as shed:
        frame = shed.tuples(play(spark, rows=2_000, per_batch=1_000), key="id")
        query = start(frame, tmp_path, lambda frame, _: rows.append(frame.count()))
        assert query.awaitTermination(PATIENCE_S)
        problems = shed.status().problems
        assert len(shed.history()) == 2, "what cannot be written stays in memory"
    assert rows == [1_000, 1_000]
    assert any("could not be locked" in problem for problem in problems)
