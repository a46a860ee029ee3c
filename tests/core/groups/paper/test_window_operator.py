"""The window operator over both buffer designs: the paper's drawing, what each costs, late rows, restarts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from spillway.core.groups import Fired, Frequencies, Moments, OperatorConfig, WindowOperator, session
from spillway.core.windows import sliding, tumbling
from spillway.errors import SpillwayError


def operator(**options: Any) -> WindowOperator:
    return OperatorConfig(**{"window": sliding(15, 5), "shedder": "none", **options}).build()


def feed(target: WindowOperator, times: list[float]) -> list[Fired]:
    fired = []
    for key, time in enumerate(times):
        fired += target.arrive(time, group=key % 3, value=float(key), key=key)
    return fired


def times(fired: list[Fired]) -> dict[tuple[float, float], list[float]]:
    return {(window.start, window.end): [row.time for row in window.kept] for window in fired}


def test_a_row_is_stored_once_or_in_each_of_its_windows() -> None:
    """Figure 3: a row with time 70 is in the windows from 60, 65 and 70 (half-open ones of size 15)."""
    stored = {}
    for buffering in ("single", "multiple"):
        found = operator(buffering=buffering)
        found.arrive(70, key=1)
        stored[buffering] = found.work.stored
    assert stored == {"single": 1, "multiple": 3}


@pytest.mark.parametrize("buffering", ["single", "multiple"])
def test_a_watermark_delivers_what_has_ended(buffering: str) -> None:
    """Figure 4: at watermark 69 the window from 50 to 65 is due. 47 and 52 have been in all theirs then."""
    found = operator(buffering=buffering)
    feed(found, [47, 52, 61, 63, 66, 68, 70])
    assert times(found.watermark(60))[45, 60] == [47, 52]
    due = found.watermark(69)
    assert times(due) == {(50, 65): [52, 61, 63]}
    assert found.work.held == {"single": 5, "multiple": 7 * 3 - 5 - 3}[buffering]
    assert times(found.watermark(69)) == {}
    assert times(found.finish())[70, 85] == [70]


def test_the_concept_is_kept_on_arrival_so_that_one_scan_is_enough() -> None:
    work = {}
    for name, options in {
        "uniform": {"shedder": "uniform"},
        "concept": {"shedder": "concept"},
        "printed": {"shedder": "concept", "incremental": False},
    }.items():
        found = operator(window=tumbling(100), keep_ratio=0.1, buffering="multiple", **options)
        feed(found, list(range(1000)))
        found.finish()
        work[name] = found.work
    assert work["concept"].scanned == work["uniform"].scanned == 1000
    assert (work["concept"].passed, work["concept"].tallied) == (0, 1000)
    assert (work["printed"].passed, work["printed"].tallied) == (1000, 0)
    assert work["concept"].kept == work["printed"].kept == 100


def test_single_buffers_save_copies_and_multiple_ones_scans() -> None:
    single, multiple = (operator(window=sliding(100, 10), buffering=each) for each in ("single", "multiple"))
    for each in (single, multiple):
        for at in range(1000):
            each.arrive(at, key=at)
            if at % 10 == 9:
                each.watermark(at - 29)  # rows of later windows have come by then
        each.finish()
    assert (single.work.stored, multiple.work.stored) == (1000, 10_000)
    assert single.work.peak < 140 < multiple.work.peak
    assert multiple.work.scanned == 10_000 < single.work.scanned
    assert (single.work.evicted, single.work.held) == (1000, 0)


@pytest.mark.parametrize("buffering", ["single", "multiple"])
def test_late_rows_are_counted(buffering: str) -> None:
    found = operator(buffering=buffering)
    feed(found, [50, 58])
    found.watermark(65)
    found.arrive(63, key=10)  # its window from 50 has gone, two are open
    found.arrive(40, key=11)  # all its windows have gone
    assert (found.work.late, found.work.partly_late) == (1, 1)
    assert times(found.finish()) == {(55, 70): [58, 63], (60, 75): [63]}


@pytest.mark.parametrize("buffering", ["single", "multiple"])
def test_sessions_grow_join_and_end(buffering: str) -> None:
    found = operator(window=session(10), buffering=buffering)
    feed(found, [0, 30, 4, 50])
    assert times(found.watermark(14)) == {(0, 14): [0, 4]}
    found.arrive(22, key=10)
    found.arrive(45, key=11)  # joins 50, and not 30: that session ends at 40
    found.arrive(39, key=12)  # joins all
    found.arrive(3, key=13)  # its session has gone
    assert times(found.finish()) == {(22, 60): [22, 30, 39, 45, 50]}
    assert found.work.late == 1


@pytest.mark.parametrize("buffering", ["single", "multiple"])
def test_count_windows_fire_when_they_are_full(buffering: str) -> None:
    found = operator(window=sliding(4, 2), counted=True, buffering=buffering)
    fired = feed(found, [9.0] * 9)
    assert times(fired) == {(0, 4): [0, 1, 2, 3], (2, 6): [2, 3, 4, 5], (4, 8): [4, 5, 6, 7]}
    assert found.finish() == []


def test_a_fired_window_tells_its_concept_and_its_reason() -> None:
    found = operator(window=tumbling(100), shedder="concept", rule="equal", keep_ratio=0.06)
    feed(found, list(range(100)))
    window = found.finish()[0]
    assert window.concept == Frequencies({0: 34, 1: 33, 2: 33})
    assert (window.arrived, len(window.kept)) == (100, 6)
    assert {row.group: row.weight for row in window.kept} == {0: 17.0, 1: 16.5, 2: 16.5}
    assert window.reason == "6 of 100 rows, equal, at least 1 a group; 0 of 3 groups whole."


def test_a_scalar_keeps_what_its_accuracy_needs() -> None:
    chosen = np.random.default_rng(0)
    found = operator(window=tumbling(1000), shedder="concept", by_group=False, accuracy="5 % at 95 %")
    for at in range(2000):
        value = chosen.normal(100.0, 10.0) if at < 1000 else chosen.normal(100.0, 50.0)
        found.arrive(at, group=at % 5, value=value, key=at)
    calm, wild = found.finish()
    assert isinstance(calm.concept, Moments)
    assert calm.concept.mean == pytest.approx(100.0, rel=0.02)
    assert (len(calm.kept), len(wild.kept)) == (pytest.approx(15, abs=2), pytest.approx(278, abs=25))
    assert {row.group for row in calm.kept} == {None}


def test_a_scalar_without_an_accuracy_knows_what_it_kept() -> None:
    found = operator(window=tumbling(100), shedder="concept", by_group=False, keep_ratio=0.1)
    feed(found, list(range(100)))
    assert found.snapshot()["windows"][0]["sample"] is None, "no value is read before the window is due"
    (window,) = found.finish()
    assert isinstance(window.concept, Moments)
    assert (window.arrived, window.concept.count) == (100, 10)
    assert window.concept.mean == pytest.approx(np.mean([row.value for row in window.kept]))


@pytest.mark.parametrize("shedder", ["none", "uniform"])
def test_without_concepts_nothing_is_known_of_groups(shedder: str) -> None:
    found = operator(window=tumbling(100), shedder=shedder, keep_ratio=0.3)
    feed(found, list(range(100)))
    (window,) = found.finish()
    assert (window.arrived, window.concept) == (100, None)
    assert found.work.tallied == 0
    assert len(window.kept) == 100 if shedder == "none" else 10 < len(window.kept) < 60


def test_groups_of_mixed_types_are_told_apart() -> None:
    found = operator(window=tumbling(100), shedder="concept", keep_ratio=0.2)
    groups = [1, "1", 1.5, None, ("a", 1), (None, "a"), 2]
    for at in range(98):
        found.arrive(at, group=groups[at % 7], value=1.0, key=at)
    (window,) = found.finish()
    assert {row.group for row in window.kept} == set(groups)


def test_an_open_window_holds_a_bounded_sample() -> None:
    found = operator(window=tumbling(10**6), shedder="concept", keep_ratio=0.01, sample_rows=50, pilot=True)
    feed(found, list(range(3000)))
    state = found.snapshot()
    assert [len(window["sample"]["items"]) for window in state["windows"]] == [50]
    assert len(state["windows"][0]["frequencies"]) == 3


def test_no_sample_is_kept_unless_it_is_asked_for() -> None:
    found = operator(window=tumbling(1000), shedder="concept", keep_ratio=0.1)
    feed(found, list(range(100)))
    assert [window["sample"] for window in found.snapshot()["windows"]] == [None]


@pytest.mark.parametrize("pilot", [False, True])
def test_the_rule_goes_by_earlier_windows_and_with_a_pilot_by_this_one(pilot: bool) -> None:
    """Group 0 is always 1 and needs a row; group 1 varies. Only a pilot knows that in the first window."""
    found = operator(window=tumbling(400), shedder="concept", keep_ratio=0.1, pilot=pilot)
    chosen = np.random.default_rng(4)
    for at in range(800):
        found.arrive(at, group=at % 2, value=1.0 if at % 2 == 0 else chosen.gamma(2.0), key=at)
    kept = [sum(row.group == 1 for row in window.kept) for window in found.finish()]
    assert kept[0] > 25 if pilot else kept[0] == 20
    assert kept[1] > 25


@pytest.mark.parametrize("buffering", ["single", "multiple"])
@pytest.mark.parametrize("window", [sliding(20, 10), session(3)], ids=repr)
def test_a_restart_goes_on_exactly(buffering: str, window: Any) -> None:
    config = OperatorConfig(window=window, keep_ratio=0.4, buffering=buffering, pilot=True, salt=5)  # type: ignore[arg-type]
    chosen = np.random.default_rng(1)
    rows = [
        (int(at), ("g", int(g)), float(v))
        for at, g, v in zip(
            chosen.integers(0, 15, 200) + np.arange(200),
            chosen.integers(0, 4, 200),
            chosen.random(200),
            strict=True,
        )
    ]
    steady, shaken = config.build(), config.build()
    outputs: tuple[list[Fired], list[Fired]] = ([], [])
    for key, (at, group, value) in enumerate(rows):
        for place, each in enumerate((steady, shaken)):
            outputs[place].extend(each.arrive(at, group=group, value=value, key=key))
            outputs[place].extend(each.watermark(at - 15) if key % 20 == 19 else [])
        if key % 37 == 36:
            shaken = config.build(json.loads(json.dumps(shaken.snapshot())))
    for place, each in enumerate((steady, shaken)):
        outputs[place].extend(each.finish())
    assert outputs[0] == outputs[1]
    assert steady.work == shaken.work
    with pytest.raises(SpillwayError, match="state"):
        config.build({"kind": "spread"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 7}, "windows such as"),
        ({"shedder": "concepts"}, "did you mean 'concept'"),
        ({"buffering": "double"}, "buffering = 'double'"),
        ({"rule": "even"}, "rule = 'even'"),
        ({"draw": "odd"}, "draw = 'odd'"),
        ({"keep_ratio": 2}, "keep_ratio = 2"),
        ({"sample_rows": 0}, "rows = 0"),
        ({"accuracy": "1 % at 95 %"}, "pass by_group=False"),
        ({"accuracy": "exact", "by_group": False}, "such as '1 % at 95 %'"),
        ({"window": session(4), "counted": True}, "a size in rows"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpillwayError, match=said):
        operator(**options)


def test_a_row_needs_a_time() -> None:
    for time in (None, float("nan")):
        with pytest.raises(SpillwayError, match="a finite number"):
            operator().arrive(time, key=1)
