"""Results files: whole or not at all, and nothing in them that JSON cannot say."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import Figure, Request, Results, available, suite
from benchmarks.results import commit_id, write_atomically
from spillway.errors import SpillwayError


def test_the_json_form_has_the_agreed_keys(tmp_path):
    figure = Figure(title="t", paper="p", ours="o", holds=True, numbers={"a": [1.0]}, files=["x.png"])
    results = Results(
        suite="control", metrics={"m": 2}, figures={"12": figure}, config={"quick": True}, seconds=1.5
    )
    results.write(tmp_path / "deep" / "r.json")
    found = json.loads((tmp_path / "deep" / "r.json").read_text())
    assert list(found) == ["suite", "metrics", "figures", "config", "commit", "seconds"]
    assert found["figures"]["12"]["holds"] is True
    assert found["metrics"] == {"m": 2}
    assert found["commit"] is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1"])
def test_a_metric_is_a_finite_number(value):
    with pytest.raises(SpillwayError, match=r"metrics\['m'\]"):
        Results(suite="control", metrics={"m": value})


def test_what_json_cannot_say_is_refused():
    with pytest.raises(SpillwayError, match="cannot be written as JSON"):
        Results(suite="control", metrics={}, config={"x": float("nan")}).to_json()


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_atomically(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SpillwayError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


def test_a_folder_in_the_way_is_reported(tmp_path):
    with pytest.raises(SpillwayError, match="cannot be written"):
        write_atomically(tmp_path, "text")


def test_the_commit_is_a_hash_or_nothing():
    found = commit_id()
    assert found is None or re.fullmatch("[0-9a-f]{40}", found)


def test_suites_are_found_by_name():
    assert "control" in available()
    assert callable(suite("control"))
    with pytest.raises(SpillwayError, match="did you mean 'control'"):
        suite("contorl")
    Request().tell("nobody listens", 1, 2)
