"""The size of a batch, read from offset logs as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spillway.spark.offsets import BatchSize, Position, parse, position, size_of


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
    assert position([offset]) is None


def test_the_rate_source_counts_seconds() -> None:
    assert position([17]) == Position(17.0, counts_rows=False)


def test_parse_takes_what_spark_prints() -> None:
    assert parse('{"rows": 3}') == {"rows": 3}
    assert parse("None") is None
    assert parse(None) is None
