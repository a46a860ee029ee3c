"""What an earlier version has stored is read whole, and what is restored from it goes on as that version did.

States of operators and controllers lie in ``tests/data/state``. What Spillway writes into a checkpoint is read from
``tests/data/checkpoints``, without Spark. ``tests/data/make_checkpoints.py`` made both.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from spillway.core.control import CostModelConfig, UnitCostConfig, make
from spillway.core.groups.census import Ration
from spillway.core.groups.quota import Drawn
from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import BatchDecision, Published
from spillway.loop.history import Entry, History
from spillway.spark.control_row import ControlRow
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import to_arrays
from spillway.spark.shards.grid import Grid
from tests.core.spark.shards.match_shards import Numbered
from tests.core.stored_states import CASES, alike, file_of, plain, unpacked

CHECKPOINTS = Path(__file__).resolve().parents[1] / "data" / "checkpoints"
KINDS = ("tuples", "groups", "windows", "join", "match", "counted")
STOPPED_IN = 2  # the batch that has a decision and no commit


@pytest.mark.parametrize("name", CASES)
def test_what_is_restored_goes_on_as_it_did(name: str) -> None:
    stored = json.loads(file_of(name).read_text(encoding="utf-8"))
    found = plain(CASES[name].go_on(unpacked(stored["state"])))
    assert alike(found, stored["result"]), found


def test_each_stored_state_has_its_case() -> None:
    assert {file.stem for file in file_of("any").parent.glob("*.json")} == set(CASES)


def files(kind: str, pattern: str) -> list[Path]:
    """Return the files that Spillway has in a stored checkpoint."""
    return sorted((CHECKPOINTS / kind / "spillway").glob(pattern))


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_published_is_read_whole(kind: str) -> None:
    (file,) = files(kind, "latest.json")
    latest = read(file)
    assert latest.keys() == {"published", "controller", "cost_model", "unit_cost"}
    published = Published.from_dict(read(file)["published"])
    assert plain(published.to_dict()) == latest["published"]
    controller = make("fixed", target_delay_s=2.0, headroom=1.0, state=latest["controller"])
    assert controller.snapshot() == latest["controller"]
    assert CostModelConfig().build(latest["cost_model"]).snapshot() == latest["cost_model"]
    assert UnitCostConfig().build(latest["unit_cost"]).snapshot() == latest["unit_cost"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_batches_were_told_is_read_whole(kind: str) -> None:
    found = files(kind, "decisions/*.json")
    assert [file.name for file in found] == [f"{batch}.json" for batch in range(STOPPED_IN + 1)]
    for file in found:
        assert json.loads(BatchDecision.from_json(file.read_text()).to_json()) == read(file)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_told_the_same_from_what_was_known(tmp_path: Path, kind: str) -> None:
    """Salts, chances, windows and budgets follow from what was published, the log and the batch before."""
    shutil.copytree(CHECKPOINTS / kind, tmp_path / "checkpoint")
    folder = tmp_path / "checkpoint" / "spillway"
    told = folder / "decisions" / f"{STOPPED_IN}.json"
    before = read(told)
    told.unlink()
    row = ControlRow(str(folder), str(folder.parent), 0)
    made, note = row.decision_for(STOPPED_IN, None)
    assert note == ""
    assert made is not None
    assert alike(json.loads(made.to_json()), before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_is_read_whole(kind: str) -> None:
    (file,) = files(kind, "history/0.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    notes: list[str] = []
    history = History(Folder(file.parents[1]), notes.append)
    assert history.table().to_pylist() == lines
    assert notes == []


def test_a_history_of_before_some_columns_is_read(tmp_path: Path) -> None:
    (file,) = files("match", "history/0.jsonl")
    line = json.loads(file.read_text().splitlines()[-1])
    later = {field.name for field in fields(Entry) if field.name in LATER}
    assert later == LATER
    early = {name: value for name, value in line.items() if name not in later}
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "0.jsonl").write_text(json.dumps({**early, "of_another_version": 1}) + "\n")
    (found,) = History(Folder(tmp_path), lambda _: None).table().to_pylist()
    assert {name: found[name] for name in early} == early
    assert not any(found[name] for name in later)


LATER = {  # than the first history
    *("early_dropped_rows", "windows_dropped", "work_demanded", "work_spent", "work_budget", "pairs"),
    *("next_work_budget", "late_rows", "unmatched_rows", "waiting_rows", "sampled_out_rows", "state_bytes"),
    *("unit_s", "matches", "shed_runs", "runs", "bound_rows", "bounded_rows"),
}


@pytest.mark.parametrize("kind", ["join", "match"])
def test_the_layout_of_shards_is_read_whole(kind: str) -> None:
    (file,) = files(kind, "joins/0.json")
    layout = read(file)
    grid = Grid(**{**layout, "keys": tuple(layout["keys"])})
    assert plain(asdict(grid)) == layout
    assert len(grid.keys) == 2


def test_the_shedding_of_a_pattern_is_read_whole() -> None:
    (file,) = files("match", "joins/0.shedding.json")
    assert plain(asdict(SheddingSpec(**read(file)))) == read(file)


def test_what_a_pattern_has_learned_is_read_whole() -> None:
    (file,) = files("match", "learned/0.txt")
    folder = str(file.parents[1])
    learned = Numbered(folder, 0, [STOPPED_IN]).known()
    assert learned is not None
    assert len(learned.trees) == len(learned.gain) == 3
    assert to_arrays(learned).keys() >= LEARNED
    assert Numbered(folder, 0, [0]).known() is None, "batches of before do not know it"


LEARNED = {"gain", "own", "cost", "selectivity", "trees.0.feature", "trees.2.right", "last.0.threshold"}


def test_rows_drawn_of_counted_groups_are_read_whole() -> None:
    found = files("counted", "rations/*.json")
    assert [file.name for file in found] == [f"{batch}.0.json" for batch in range(STOPPED_IN + 1)]
    for file in found:
        stored = read(file)
        drawn = Drawn.from_dict(stored)
        assert plain({"cut_s": stored["cut_s"], **asdict(drawn)}) == stored
    ration = Ration((1, -2), (0.5, 1.0), 0.25)
    assert Ration.from_dict(plain(asdict(ration))) == ration


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_machine_is_stored(kind: str) -> None:
    names = [file.name for file in (CHECKPOINTS / kind).rglob("*") if file.is_file()]
    assert names
    assert [name for name in names if name == "lease" or name.startswith(".")] == []
    assert not any(
        b"file:/" in file.read_bytes() for file in (CHECKPOINTS / kind).rglob("*") if file.is_file()
    )
