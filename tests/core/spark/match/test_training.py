"""What a pattern has learned, and how it sheds: once for the life of a checkpoint, and told where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep import Shed
from spillway.errors import SpillwayError
from spillway.spark.control_row import ControlRow
from spillway.spark.match import plan as match
from spillway.spark.match import training_rows, training_stretch
from spillway.spark.match.plan import MatchPlan
from spillway.spark.match.shedding_choice import SheddingSpec, spec_of
from spillway.spark.match.training_rows import learned_before
from tests.core.cep.oracle import Match
from tests.core.spark.match.test_shard import HEAVY, found, knows, logic, rides
from tests.core.spark.shards.match_shards import MatchShards, Numbered

BUDGET = 3_000.0
LONG = replace(HEAVY, within_us=200)


def settled(folder: Path, history: pa.Table | None, spec: Any = None, planned: int = 0) -> MatchShards:
    """Call ``match`` as far as the checkpoint is asked, and return its shards; ``planned`` are earlier batches."""
    made = logic(LONG, sharing=Numbered(str(folder / "spillway"), 0), spec=spec)
    df: Any = SimpleNamespace(schema=())
    plan = MatchPlan(df=df, logic=made, key=None, arrival=None, shards=None, history=history)
    (folder / "offsets").mkdir(exist_ok=True)
    for batch in range(planned):
        (folder / "offsets" / str(batch)).write_text("")
    plan.settle(ControlRow(str(folder / "spillway"), str(folder), 0))
    return MatchShards(made, shards=2, forgetful=True)


def later(table: pa.Table, value: int) -> pa.Table:
    """A history in which other rows are worth something: it has no v below a value."""
    high = np.maximum(table["v"].to_numpy(), value)
    return table.set_column(table.schema.get_field_index("v"), "v", pa.array(high))


def batches(shards: MatchShards, first: int, last: int) -> list[Match]:
    """Feed the shards some batches of one stream, with a budget."""
    parts = []
    for batch in range(first, last):
        sharing = shards.logic.sharing
        assert isinstance(sharing, Numbered)
        sharing.batches.append(batch)
        parts += shards.feed(rides(3_000).slice(300 * batch, 300), BUDGET)
    return found(parts)


def test_a_history_that_has_grown_changes_nothing_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = rides(900, seed=5), later(rides(900, seed=6), 1)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    shards = settled(tmp_path / "one", one)
    batches(shards, 0, 3)
    assert knows(shards) == [True, True]
    before = {key: state.value for key, state in shards.states.items()}
    result = batches(shards, 3, 6)
    assert len(result) > 20
    elsewhere = settled(tmp_path / "other", other)
    batches(elsewhere, 0, 3)
    assert batches(elsewhere, 3, 6) != result, "another history would have found others"

    monkeypatch.setattr(match, "learned_before", lambda *_: pytest.fail("learned again"))
    for history in (other, None):
        again = settled(tmp_path / "one", history, planned=4)
        for key, value in before.items():
            again.states[key] = type(shards.states[key])()
            again.states[key].value = value
        assert batches(again, 3, 6) == result


def test_a_history_that_comes_later_is_for_batches_that_were_not_planned_yet(tmp_path: Path) -> None:
    shards = settled(tmp_path, None)
    batches(shards, 0, 1)
    assert knows(shards) == [False, False]
    restarted = settled(tmp_path, rides(900, seed=5), planned=2)
    restarted.states = shards.states
    batches(restarted, 1, 2)
    assert knows(restarted) == [False, False], "the batch may have run without it"
    batches(restarted, 2, 3)
    assert knows(restarted) == [True, True]


def test_another_shedding_on_a_checkpoint_is_refused(tmp_path: Path) -> None:
    settled(tmp_path, None, SheddingSpec("hybrid"))
    told = r"shedding = None is not allowed: expected 'hybrid', with which .* began.*a new checkpoint"
    with pytest.raises(SpillwayError, match=told):
        settled(tmp_path, None, SheddingSpec("none"))
    with pytest.raises(SpillwayError, match=r"shedding, slices = 8 is not allowed: expected 4, with which"):
        settled(tmp_path, None, SheddingSpec("hybrid", slices=8))
    settled(tmp_path, None, SheddingSpec("hybrid"))


def test_a_checkpoint_that_does_not_say_how_it_sheds_still_starts(tmp_path: Path) -> None:
    (tmp_path / "spillway" / "joins").mkdir(parents=True)
    (tmp_path / "spillway" / "joins" / "0.json").write_text("{}")
    for strategy in ("hybrid", "state"):
        settled(tmp_path, None, SheddingSpec(strategy))


def test_a_refused_history_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(SpillwayError, match="history"):
        settled(tmp_path, rides(10))
    assert not (tmp_path / "spillway").exists()


def test_a_shard_that_cannot_learn_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_stretch, "MOST_ROWS", 150)
    shards = MatchShards(logic(LONG), shards=1)
    for at in range(0, 3_000, 300):
        shards.feed(rides(3_000).slice(at, 300), BUDGET)
    assert knows(shards) == [False]
    assert len(shards.notes) == 4, "of ten times after the first, second, fourth and eighth"
    assert "1.5 windows have more than 150 rows" in shards.notes[0]
    assert "match(history=...)" in shards.notes[0]


def test_what_a_history_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    config, spec = logic(LONG).config, SheddingSpec()
    with pytest.raises(SpillwayError, match=r"history = '100 rows over 0.49 windows'.*1.5 windows or more"):
        learned_before(config, rides(100), spec)
    kinds = rides(900)
    without = kinds.set_column(1, "type", pa.array(["C"] * 900))
    with pytest.raises(SpillwayError, match=r"^the history has no rows with which the pattern begins"):
        learned_before(config, without, spec)

    def fails(*_: Any) -> None:
        raise ValueError("Input X contains infinity")

    wide = config.schema.append(pa.field("u", pa.uint64()))
    huge = replace(config, query="PATTERN SEQ(A a, B b) WHERE a.u < b.u WITHIN 200 us", schema=wide)
    with pytest.raises(SpillwayError, match=r"^history: attribute 'u': a value does not fit into 64 bits"):
        learned_before(huge, kinds.append_column("u", pa.array([2**64 - 1] * 900, pa.uint64())), spec)

    monkeypatch.setattr(training_rows, "learned_from", fails)
    with pytest.raises(SpillwayError, match="history: its 900 rows cannot be learned from: Input X contains"):
        learned_before(config, kinds, spec)


def test_the_options_of_a_shed_reach_the_shards_and_what_they_learn(tmp_path: Path) -> None:
    shed = Shed(select="greedy", resource="length", slices=2, clusters=3, delay_events=7)
    shards = settled(tmp_path, rides(900, seed=5), spec_of(shed))
    result = batches(shards, 0, 6)
    assert len(set(result)) == len(result) > 20
    key, state = next(iter(shards.states.items()))
    shedder = shards.logic.of_shard(key).begin(state.get).shedder
    assert shedder.strategy.config.select == "greedy"
    assert shedder.strategy.watch.trigger.config.delay_events == 7
    assert shedder._enforcer.resource == "length"
    assert shedder._learned.gain.shape[1:] == (training_stretch.CLASSES, 2)
    config, past = shards.logic.config, rides(900, seed=5)
    few, many = (learned_before(config, past, spec_of(Shed(slices=2, clusters=n))) for n in (1, 10))
    assert few.gain.shape == many.gain.shape
    assert not np.allclose(few.gain, many.gain)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bound_s": 1.0}, r"shedding, bound_s = 1.0 .*the budget of a batch.*Spillway\(target_delay="),
        ({"bound_ratio": 0.5, "history": rides(9)}, r"shedding, bound_ratio = 0.5 .*target_delay="),
        ({"history": rides(9)}, r"shedding, history = 'Table' .*match\(history=\.\.\.\)"),
        ({"percentile": 95.0}, "shedding, percentile = 95.0"),
        ({"over": "completing"}, "shedding, over = 'completing'.*latency of matches"),
        ({"smooth_events": 10}, "shedding, smooth_events = 10"),
        ({"check_events": 10}, "shedding, check_events = 10"),
        ({"index": "none"}, r"shedding, index = 'none'.*match\(index=\.\.\.\)"),
        ({"unit_s": 1.0}, "shedding, unit_s = 1.0"),
        ({"salt": 3}, "shedding, salt = 3"),
    ],
)
def test_what_only_means_something_in_memory_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said):
        spec_of(Shed(**options))


def test_a_shed_without_options_is_its_name() -> None:
    assert spec_of(Shed()) == spec_of("hybrid")
    assert spec_of(Shed(strategy="none")) == spec_of(None)
    with pytest.raises(SpillwayError, match="did you mean 'hybrid'"):
        spec_of("hybird")
