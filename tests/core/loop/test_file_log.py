"""The files of a batch: which they are, how many bytes, and what a look into them says of their rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.loop import file_log
from spillway.loop.file_log import files_between
from spillway.loop.file_sample import rows_per_byte


def entry(batch: int, *paths: str) -> list[str]:
    """Return the lines of some files as Spark writes them."""
    files = [{"path": path, "timestamp": 1794996137454, "batchId": batch} for path in paths]
    return [json.dumps(file, separators=(",", ":"), ensure_ascii=False) for file in files]


def write(source: Path, name: str, lines: list[str]) -> None:
    source.mkdir(parents=True, exist_ok=True)
    (source / name).write_text("\n".join(["v1", *lines]), encoding="utf-8")


def made(folder: Path, name: str, size: int) -> str:
    (folder / name).write_bytes(b"x" * size)
    return (folder / name).as_uri()


@pytest.mark.parametrize("block", [7, 64, 1 << 16])
def test_only_the_newest_files_of_a_compacted_log_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(file_log, "_BLOCK", block)
    old = [line for batch in range(9) for line in entry(batch, *[f"file:///old/{n}é.txt" for n in range(50)])]
    new = [made(tmp_path, f"é {n}%20.txt", n) for n in range(1, 4)]
    write(tmp_path / "log", "9.compact", old + entry(9, *new))
    files = files_between(tmp_path / "log", 8, 9)
    assert files is not None
    assert (files.count, files.size_bytes, set(files.sample)) == (3, 6.0, set(new))


def test_several_entries_add_up(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "log", str(number), entry(number, made(tmp_path, f"{number}.txt", 10)))
    files = files_between(tmp_path / "log", 0, 2)
    assert files is not None
    assert (files.count, files.size_bytes) == (2, 20.0)


def test_of_many_files_some_are_looked_at(tmp_path: Path) -> None:
    paths = [made(tmp_path, f"{n}.txt", 100 + n % 3) for n in range(2_000)]
    write(tmp_path / "log", "0", entry(0, *paths))
    files = files_between(tmp_path / "log", -1, 0)
    assert files is not None
    assert files.count == 2_000
    assert files.size_bytes == pytest.approx(2_000 * 101, rel=0.01)
    assert len(files.sample) == 500


def test_files_that_cannot_be_looked_at_are_counted(tmp_path: Path) -> None:
    far = ["s3a://bucket/a.txt", "hdfs://host/b.txt", "file:///nowhere/c.txt", "http://[broken/d", "\x00"]
    write(tmp_path / "log", "0", entry(0, *far))
    files = files_between(tmp_path / "log", -1, 0)
    assert files is not None
    assert (files.count, files.size_bytes) == (5, None)


def test_one_file_that_is_gone_is_taken_for_as_large_as_the_others(tmp_path: Path) -> None:
    write(tmp_path / "log", "0", entry(0, made(tmp_path, "a.txt", 10), "file:///nowhere/b.txt"))
    files = files_between(tmp_path / "log", -1, 0)
    assert files is not None
    assert files.size_bytes == 20.0


@pytest.mark.parametrize(
    "lines", [[], ["{"], ["{}"], ["[]"], ['{"path":"a"}'], ['{"path":"a","batchId":7}'], ["\ud7ff"]]
)
def test_a_torn_log_is_unknown(tmp_path: Path, lines: list[str]) -> None:
    write(tmp_path / "log", "0", lines)
    assert files_between(tmp_path / "log", -1, 0) is None
    assert files_between(tmp_path / "nowhere", -1, 0) is None


def test_rows_of_text_are_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a line\n" * 100_000)
    (tmp_path / "b.json").write_text('{"n": 1}\n{"n": 2}')
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(b"packed line\n" * 100))
    assert rows_per_byte([(tmp_path / "a.csv").as_uri()]) == pytest.approx(1 / 7, rel=0.01)
    assert rows_per_byte([(tmp_path / "b.json").as_uri()]) == pytest.approx(2 / 17)
    packed = (tmp_path / "c.json.gz").stat().st_size
    assert rows_per_byte([(tmp_path / "c.json.gz").as_uri()]) == pytest.approx(100 / packed)


def test_parquet_says_how_many_rows_it_has(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(12_345)}), tmp_path / "a.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    assert rows_per_byte([(tmp_path / "a.parquet").as_uri()]) == pytest.approx(12_345 / size)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\x00\n\n", b"PAR1", b"\x1f\x8bnot gzip", b"one" * 100_000])
def test_of_other_files_nothing_is_guessed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert rows_per_byte([(tmp_path / "a").as_uri(), "file:///nowhere", "s3a://bucket/b"]) is None
