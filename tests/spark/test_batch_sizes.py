"""The size of a batch on real Spark: both versions of the offset log, and sources of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from spillway import Spillway
from spillway.core.control import Decision, Sample
from tests.spark.orders import Sink, play, run, start, told

LIMIT = 2_000
VERSION_2 = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
NAMED = {**VERSION_2, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}


class Limit:
    """Lets so many rows into a batch, whatever it has measured."""

    def step(self, sample: Sample) -> Decision:  # noqa: ARG002
        return Decision(queue_limit_rows=LIMIT)


@contextmanager
def configured(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def write_lines(folder: Path, name: str, lines: int) -> None:
    """Put a file of so many lines in its place at once; Spark must not find it half written."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(f"line {n:06}\n" for n in range(lines)))
    hidden.rename(folder / name)


def lines(spark: SparkSession, folder: Path, files_per_batch: int = 1_000) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", files_per_batch).text(str(folder))


def assert_cut(checkpoint: Path, kept: Sink, batch: int, rows: int, error: float = 0.02) -> None:
    decision = told(checkpoint, batch)
    assert decision.expected_rows == pytest.approx(rows, rel=error)
    assert len(kept[batch]) == pytest.approx(LIMIT, rel=0.15)


@pytest.mark.parametrize(("settings", "name"), [(VERSION_2, None), (NAMED, "clicks")])
def test_version_2_of_the_offset_log_is_read(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], name: str | None
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with configured(spark, settings), Spillway("v2", 2.0, checkpoint, controller=Limit()) as shed:
        if name is None:
            rows = play(spark, rows=16_000, per_batch=8_000)
        else:
            write_lines(tmp_path / "in", "a.txt", 8_000)
            write_lines(tmp_path / "in", "b.txt", 8_000)
            rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).name(name)
            rows = rows.load(str(tmp_path / "in"))
        kept = run(shed.tuples(rows), checkpoint, shed)
        problems = shed.status().problems
    log = (checkpoint / "offsets" / "1").read_text().splitlines()
    assert log[0] == "v2"
    assert log[2].startswith(f"{name or 0}:")
    assert problems == ()
    for batch in (0, 1):
        assert_cut(checkpoint, kept, batch, 8_000)


def test_the_size_of_version_2_counts_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    with (
        configured(spark, VERSION_2),
        Spillway("v2", 2.0, tmp_path, controller=Limit(), arrival="timestamp") as shed,
    ):
        run(shed.tuples(play(spark, rows=9_000, per_batch=3_000), key="id"), tmp_path, shed)
        history = shed.history()
    assert history["expected_rows"].to_pylist() == [3_000.0] * 3
    assert all(waited > 0.0 for waited in history["waited_s"].to_pylist()[1:])


def test_an_unknown_version_of_the_offset_log_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """Spark itself writes none, so Spillway is given a folder that has one, and the query another."""
    folder = tmp_path / "given"
    (folder / "offsets").mkdir(parents=True)
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
    for batch in range(4):
        (folder / "offsets" / str(batch)).write_text(f'v7\n{metadata}\n{{"rows":3000}}')
    with Spillway("v7", 2.0, folder, controller=Limit()) as shed:
        kept = run(shed.tuples(play(spark), key="id"), tmp_path / "other", shed)
        status = shed.status()
    assert sum(len(rows) for rows in kept.values()) > 0
    assert any("offset log has version 'v7'" in problem for problem in status.problems)
    assert not any("has no entry" in problem for problem in status.problems)


def test_a_burst_of_files_is_cut_in_the_batch_that_brings_it(spark: SparkSession, tmp_path: Path) -> None:
    """The folder's name needs escapes in Spark's log, and the entry of its tenth batch is a compacted one."""
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "in put%20é"
    bursts, last = {2: 10, 9: 300}, 11
    kept = Sink()
    with Spillway("files", 2.0, checkpoint, controller=Limit()) as shed:

        def take(frame: DataFrame, batch: int) -> None:
            assert shed.wait_for_batch(batch - 1)
            kept.take(frame, batch)
            for number in range(bursts.get(batch + 1, batch < last)):
                write_lines(folder, f"{batch + 1}-{number}.txt", 1_000)

        write_lines(folder, "0.txt", 1_000)
        query = start(shed.tuples(lines(spark, folder)), checkpoint, take, processingTime="0 seconds")
        query.processAllAvailable()
        query.stop()
        history, problems = shed.history(), shed.status().problems
    assert (checkpoint / "sources" / "0" / "9.compact").is_file()
    assert problems == ()
    assert history["arrived_rows"].to_pylist() == [1_000 * bursts.get(batch, 1) for batch in range(last + 1)]
    for batch in range(last + 1):
        if batch in bursts:
            assert_cut(checkpoint, kept, batch, 1_000 * bursts[batch])
        else:
            assert len(kept[batch]) == 1_000, "what fits is kept"


def test_the_first_batch_of_a_folder_full_of_files_is_cut(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    for number in range(20):
        write_lines(tmp_path / "in", f"{number}.txt", 1_000)
    with Spillway("backlog", 2.0, checkpoint, controller=Limit()) as shed:
        kept = run(shed.tuples(lines(spark, tmp_path / "in", files_per_batch=15)), checkpoint, shed)
    assert sorted(kept) == [0, 1]
    assert_cut(checkpoint, kept, 0, 15_000)
    assert_cut(checkpoint, kept, 1, 5_000)


def test_the_first_batch_of_parquet_files_is_cut(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        pq.write_table(
            pa.table({"id": range(number * 10_000, (number + 1) * 10_000)}), folder / f"{number}.parquet"
        )
    with Spillway("parquet", 2.0, checkpoint, controller=Limit()) as shed:
        frame = spark.readStream.schema("id bigint").parquet(str(folder))
        kept = run(shed.tuples(frame, key="id"), checkpoint, shed)
    assert_cut(checkpoint, kept, 0, 30_000)


def test_a_restart_goes_on_with_what_was_learned_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """Half of the rows are filtered out in front, which no look into a file can show."""
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "in"
    for rows in (1_000, 20_000):
        write_lines(folder, f"{rows}.txt", rows)
        with Spillway("again", 2.0, checkpoint, controller=Limit()) as shed:
            frame = lines(spark, folder).where("cast(substring(value, 6) as int) % 2 = 0")
            kept = run(shed.tuples(frame), checkpoint, shed)
    assert_cut(checkpoint, kept, 1, 10_000, error=0.1)


def test_rows_of_files_and_of_another_source_are_estimated(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    write_lines(tmp_path / "in", "a.txt", 1_000)
    orders = play(spark, rows=6_000, per_batch=3_000).selectExpr("string(id) value")
    with Spillway("both", 2.0, checkpoint, controller=Limit()) as shed:
        run(shed.tuples(lines(spark, tmp_path / "in").union(orders)), checkpoint, shed)
        problems = shed.status().problems
    assert told(checkpoint, 0).units is None, "bytes and rows cannot be added up"
    assert not told(checkpoint, 1).rows_known
    assert problems == ()
