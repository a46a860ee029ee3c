"""The size of a batch, read from offset logs as Spark writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import Published
from spillway.loop.offsets import BYTES, FILES, Advance, BatchSize, advance, parse, size_of
from spillway.spark.control_row import ControlRow


def write_log(checkpoint: Path, batch: int, at_ms: int, *offsets: object) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at_ms, "conf": {}})]
    lines += [json.dumps(offset) for offset in offsets]
    (folder / str(batch)).write_text("\n".join(lines))


def test_rows_and_wait_of_a_later_batch(tmp_path: Path) -> None:
    write_log(tmp_path, 3, 10_000, {"rows": 100, "epoch": 5.0})
    write_log(tmp_path, 4, 11_500, {"rows": 1300, "epoch": 5.0})
    assert size_of(tmp_path, 4) == BatchSize(1200.0, counts_rows=True, waited_s=1.5, cut_s=11.5)


def test_the_first_batch_counts_from_zero(tmp_path: Path) -> None:
    write_log(tmp_path, 0, 10_000, {"rows": 100})
    assert size_of(tmp_path, 0) == BatchSize(100.0, counts_rows=True, waited_s=None, cut_s=10.0)


def test_the_first_batch_of_kafka_counts_from_where_it_began(tmp_path: Path) -> None:
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('v1\n{"clicks":{"0":1000,"1":2000}}')
    write_log(tmp_path, 0, 10_000, {"clicks": {"0": 1010, "1": 2005}})
    assert size_of(tmp_path, 0).units == 15.0


def test_several_sources_add_up_and_one_uncountable_spoils_it(tmp_path: Path) -> None:
    write_log(tmp_path, 0, 0, {"rows": 1}, {"t": {"0": 5}})
    write_log(tmp_path, 1, 0, {"rows": 3}, {"t": {"0": 9}})
    assert size_of(tmp_path, 1).units == 6.0
    write_log(tmp_path, 2, 0, {"rows": 3}, {"logOffset": 9})
    assert size_of(tmp_path, 2).units is None


def test_a_missing_predecessor_leaves_the_size_unknown(tmp_path: Path) -> None:
    write_log(tmp_path, 7, 1000, {"rows": 10})
    assert size_of(tmp_path, 7) == BatchSize(cut_s=1.0)


def test_a_clock_that_jumped_back_gives_no_negative_wait(tmp_path: Path) -> None:
    write_log(tmp_path, 0, 10_000, {"rows": 1})
    write_log(tmp_path, 1, 4_000, {"rows": 2})
    assert size_of(tmp_path, 1).waited_s == 0.0


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v1\nnot json\n{}", "\x00\xff", "v1\n[]\n5"])
def test_a_torn_log_is_no_size(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "1").write_text(text, encoding="latin-1")
    assert size_of(tmp_path, 1).units is None
    assert size_of(tmp_path, 2) == BatchSize()


@pytest.mark.parametrize("offset", [None, True, "x", [], {}, {"t": {}}, {"t": {"0": "x"}}, {"rows": "7"}])
def test_what_cannot_be_counted(offset: object) -> None:
    assert advance([offset], [offset]) is None


def test_the_rate_source_counts_seconds() -> None:
    assert advance([17], [0]) == Advance(17.0, counts_rows=False)


@pytest.mark.parametrize(
    ("ends", "units"),
    [
        ({"t": {"0": 50, "1": 30}}, 60.0),
        ({"t": {"0": 50, "1": 30, "2": 7}}, 67.0),  # a partition was added
        ({"t": {"0": 50}}, 40.0),  # one is gone
        ({"t": {"0": 5, "1": 3}}, None),  # the topic was made anew
        ({"t": {"0": 5, "1": 900}}, None),  # what one partition goes back is not hidden by another
    ],
)
def test_partitions_are_counted_each_on_its_own(tmp_path: Path, ends: object, units: float | None) -> None:
    write_log(tmp_path, 3, 10_000, {"t": {"0": 10, "1": 10}})
    write_log(tmp_path, 4, 11_500, ends)
    assert size_of(tmp_path, 4).units == units


def test_the_commit_log_says_when_the_batch_before_ended(tmp_path: Path) -> None:
    write_log(tmp_path, 3, 10_000, {"rows": 100})
    write_log(tmp_path, 4, 11_500, {"rows": 1300})
    assert size_of(tmp_path, 4).ended_s is None
    entry = tmp_path / "commits" / "3"
    entry.parent.mkdir()
    entry.write_text("v1\n{}")
    os.utime(entry, (10.5, 10.5))
    assert size_of(tmp_path, 4).ended_s == 10.5


def test_parse_takes_what_spark_prints() -> None:
    assert parse('{"rows": 3}') == {"rows": 3}
    assert parse("None") is None
    assert parse(None) is None


def write_named_log(checkpoint: Path, batch: int, at_ms: int, **offsets: object) -> None:
    """Write an entry as Spark 4.3 does with spark.sql.streaming.offsetLog.formatVersion=2."""
    folder = checkpoint / "offsets"
    folder.mkdir(exist_ok=True)
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": at_ms, "conf": {}, "sourceMetadataInfo": {}}
    lines = ["v2", json.dumps(metadata)]
    lines += [f"{name}:{json.dumps(offset, separators=(',', ':'))}" for name, offset in offsets.items()]
    (folder / str(batch)).write_text("\n".join(lines))


def write_files(checkpoint: Path, source: str, entry: int, *paths: str) -> None:
    folder = checkpoint / "sources" / source
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": entry}) for path in paths]
    (folder / str(entry)).write_text("\n".join(["v1", *lines]))


def test_version_2_names_its_sources_in_any_order(tmp_path: Path) -> None:
    write_named_log(tmp_path, 3, 10_000, clicks={"offset": 100, "timestamp": 1}, orders={"t": {"0": 5}})
    write_named_log(tmp_path, 4, 11_500, orders={"t": {"0": 45}}, clicks={"offset": 300, "timestamp": 2})
    assert size_of(tmp_path, 4) == BatchSize(240.0, counts_rows=True, waited_s=1.5, cut_s=11.5, sources=2)


def test_a_named_kafka_source_counts_from_where_it_began(tmp_path: Path) -> None:
    (tmp_path / "sources" / "clicks").mkdir(parents=True)
    (tmp_path / "sources" / "clicks" / "0").write_text('\x00v1\n{"clicks":{"0":1000}}')
    write_named_log(tmp_path, 0, 0, clicks={"clicks": {"0": 1010}})
    assert size_of(tmp_path, 0).units == 10.0


def test_a_source_that_has_given_nothing_yet_has_no_rows(tmp_path: Path) -> None:
    write_log(tmp_path, 0, 0, {"rows": 10}, {"rows": 1})
    log = tmp_path / "offsets" / "0"
    log.write_text("\n".join([*log.read_text().splitlines()[:3], "-"]))
    assert size_of(tmp_path, 0).units == 10.0
    write_log(tmp_path, 1, 0, {"rows": 30}, {"rows": 5})
    assert size_of(tmp_path, 1).units == 25.0
    write_named_log(tmp_path, 2, 0, a={"rows": 10})
    write_named_log(tmp_path, 3, 0, a={"rows": 30}, b={"rows": 5})
    assert size_of(tmp_path, 3).units == 25.0


def test_another_version_of_the_log_is_named_instead_of_read(tmp_path: Path) -> None:
    write_log(tmp_path, 0, 1_000, {"rows": 10})
    log = tmp_path / "offsets" / "0"
    log.write_text(log.read_text().replace("v1", "v3", 1))
    size = size_of(tmp_path, 0)
    assert (size.units, size.cut_s) == (None, None)
    assert "version 'v3'" in size.note
    assert "estimated" in size.note
    assert size_of(tmp_path, 1).note == "", "there is no log of that batch, which is another matter"


def test_the_control_row_carries_the_unknown_version_to_the_status(tmp_path: Path) -> None:
    write_log(tmp_path, 0, 1_000, {"rows": 10})
    log = tmp_path / "offsets" / "0"
    log.write_text(log.read_text().replace("v1", "v3", 1))
    folder = tmp_path / "spillway"
    Folder(folder).write("latest.json", json.dumps({"published": Published().to_dict()}))
    row = ControlRow(folder=str(folder), checkpoint=str(tmp_path), stage=0)
    decision, note = row.decision_for(0, None)
    assert decision is not None
    assert "version 'v3'" in note


def test_a_file_source_is_measured_in_the_bytes_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "in put").mkdir()
    (tmp_path / "in put" / "100% a.txt").write_bytes(b"x" * 70)
    (tmp_path / "in put" / "b.txt").write_bytes(b"x" * 30)
    address = f"file://{tmp_path}/in%20put"
    write_files(tmp_path, "0", 0, "file:///gone.txt")
    write_files(tmp_path, "0", 1, f"{address}/100%25%20a.txt", f"{address}/b.txt")
    write_log(tmp_path, 0, 0, {"logOffset": 0})
    write_log(tmp_path, 1, 0, {"logOffset": 1})
    size = size_of(tmp_path, 1)
    assert (size.units, size.measured_in, size.counts_rows) == (100.0, BYTES, False)
    first = size_of(tmp_path, 0)
    assert (first.units, first.measured_in) == (1.0, FILES), "what cannot be looked at is counted"


def test_bytes_and_rows_are_not_added_up(tmp_path: Path) -> None:
    write_files(tmp_path, "1", 0, "file:///gone.txt")
    write_log(tmp_path, 0, 0, {"rows": 10}, {"logOffset": 0})
    assert size_of(tmp_path, 0).units is None


@pytest.mark.parametrize("offset", ["x", None, {"logOffset": "3"}, {"logOffset": 7}, {"logOffset": None}])
def test_a_file_offset_without_its_log_is_no_size(tmp_path: Path, offset: object) -> None:
    write_log(tmp_path, 0, 0, {"logOffset": 0})
    write_log(tmp_path, 1, 0, offset)
    assert size_of(tmp_path, 1).units is None
