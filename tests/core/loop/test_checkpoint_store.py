"""Whole files or none: the folder in the checkpoint."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spillway.errors import CheckpointInUseError, SpillwayError
from spillway.loop.checkpoint_store import Folder, Lease, local_path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "spillway")


def test_what_is_written_is_read(folder: Folder) -> None:
    assert folder.read("latest.json") is None
    folder.write("latest.json", "one")
    folder.write("latest.json", "two")
    assert folder.read("latest.json") == "two"


def test_write_once_keeps_the_first(folder: Folder) -> None:
    assert folder.write_once("decisions/1.json", "first")
    assert not folder.write_once("decisions/1.json", "second")
    assert folder.read("decisions/1.json") == "first"


def test_of_many_writers_one_wins_and_all_read_it(folder: Folder) -> None:
    with ThreadPoolExecutor(16) as pool:
        wins = list(pool.map(lambda n: folder.write_once("decisions/9.json", str(n)), range(64)))
    assert sum(wins) == 1
    assert folder.read("decisions/9.json") == str(wins.index(True))


def test_write_once_without_hard_links(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert folder.write_once("decisions/1.json", "first")
    assert not folder.write_once("decisions/1.json", "second")
    assert folder.read("decisions/1.json") == "first"


def test_a_failed_write_leaves_nothing_behind(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("latest.json", "before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        folder.write("latest.json", "after")
    with pytest.raises(OSError, match="no space"):
        folder.write_once("other.json", "after")
    assert os.listdir(folder.root) == ["latest.json"]
    assert folder.read("latest.json") == "before"


def test_names_leave_out_what_is_not_whole(folder: Folder) -> None:
    folder.write("history/0.jsonl", "x")
    (folder.root / "history" / ".0.jsonl.tmp").write_text("half")
    assert folder.names("history") == ["0.jsonl"]
    assert folder.names("nothing") == []


def test_a_lease_is_held_by_one(folder: Folder) -> None:
    first, second = Lease(folder), Lease(folder)
    first.take()
    with pytest.raises(CheckpointInUseError, match=f"in use by process {os.getpid()}"):
        second.take()
    first.give_back()
    second.take()
    second.give_back()
    second.give_back()


@pytest.mark.parametrize("location", ["s3a://bucket/x", "hdfs://name/x", "abfss://a@b/c"])
def test_remote_checkpoints_are_refused_with_a_way_out(location: str) -> None:
    with pytest.raises(SpillwayError, match="mount it"):
        local_path("checkpoint", location)


def test_local_paths(tmp_path: Path) -> None:
    assert local_path("checkpoint", tmp_path) == tmp_path
    assert local_path("checkpoint", f"file:{tmp_path}") == tmp_path
    assert local_path("checkpoint", "file:///with%20space") == Path("/with space")
    with pytest.raises(SpillwayError, match="checkpoint"):
        local_path("checkpoint", " ")
