"""Chances of groups in a batch: by the rows of a window, wherever they can be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spillway.core.groups.census import Census
from spillway.loop.decision import Stage
from spillway.loop.kinds.groups import GroupSpec, Sharing, decide_groups
from spillway.loop.reports import BatchReport, StageReport
from spillway.loop.stage_updates import learn

CENSUS = Census.counted(100_000, [1, 2], [98_000, 2_000])


def chances(
    *, window_s: float | None, per_event_s: float | None = None, rows_per_s: float | None = None
) -> dict[int, float]:
    spec = GroupSpec(rule="proportional", at_least=8, window_s=window_s)
    (found,) = decide_groups([Sharing(spec, CENSUS, 0.1, per_event_s)], rows=100_000.0, rows_per_s=rows_per_s)
    assert found is not None
    return {1: 1.0, 2: 1.0, **dict(zip(found.keys, found.chances, strict=True))}


def test_a_group_has_its_rows_in_every_window_of_a_batch() -> None:
    assert chances(window_s=None)[2] == pytest.approx(0.1, rel=0.01)
    assert chances(window_s=10.0, per_event_s=100.0)[2] == pytest.approx(0.4), (
        "8 of the 20 rows that a window has"
    )
    assert chances(window_s=10.0, per_event_s=1e9)[2] == pytest.approx(0.1, rel=0.01)


def test_without_event_time_a_window_is_no_shorter_than_a_batch() -> None:
    assert chances(window_s=10.0, rows_per_s=100.0)[2] == pytest.approx(0.1, rel=0.01)
    assert chances(window_s=10.0, rows_per_s=None)[2] == pytest.approx(0.1, rel=0.01)


def test_the_pace_of_event_time_is_not_that_of_stragglers() -> None:
    stage = Stage(groups=GroupSpec(rule="equal", at_least=8, window_s=10.0))
    report = BatchReport(
        query="q",
        run="r",
        batch=1,
        started_s=0.0,
        busy_s=1.0,
        units=1_000.0,
        backlog_units=0.0,
        stages=(StageReport(arrived=1_000, kept=1_000, times_s=(-9e9, *(n / 10 for n in range(198)), 9e9)),),
    )

    def pace(times_s: tuple[float, ...]) -> float | None:
        seen = replace(report.stages[0], times_s=times_s)
        return learn([stage], replace(report, stages=(seen,)), None, print)[0].rows_per_event_s

    assert pace(report.stages[0].times_s) == pytest.approx(50.0, rel=0.03)
    assert pace((5.0,) * 100) is None, "all at once"
    assert pace((1.0, 2.0)) is None, "too few to tell"
