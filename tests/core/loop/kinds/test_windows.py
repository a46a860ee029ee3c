"""Decisions about windows, batch by batch: a window is never told two things."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spillway.loop.kinds.windows import WindowDecision, WindowSpec, decide_windows

SECOND = 1_000_000
SPEC = WindowSpec(
    granule_us=SECOND,
    slide_us=SECOND,
    inner_us=0,
    span_us=2 * SECOND,
    delay_ms=3000,
    max_gap=4,
    together=4,
    shares_left=(1.0, 0.2),
)


def is_kept(told: WindowDecision, number: int) -> bool:
    at = number - told.first
    return not 0 <= at < len(told.kept) or told.kept[at] == "1"


def after(
    latest_us: int, before: WindowDecision, p: float = 0.6, spec: WindowSpec = SPEC, **more: object
) -> WindowDecision:
    options = {
        "watermark_ms": latest_us // 1000 - SPEC.delay_ms,
        "seen_us": latest_us,
        "waited_s": (1.0, 1.0),
        "keep_share": 1.0 - p,
        "seed": 7,
        **more,
    }
    return decide_windows(spec, before, **options)  # type: ignore[arg-type]


def test_before_there_is_a_watermark_nothing_is_dropped() -> None:
    assert (
        decide_windows(
            SPEC,
            WindowDecision(),
            watermark_ms=None,
            seen_us=None,
            waited_s=(None, None),
            keep_share=0.1,
            seed=1,
        )
        == WindowDecision()
    )


@pytest.mark.parametrize("seen", [None, 10**9 * SECOND + 60 * SECOND], ids=["no report", "not our watermark"])
def test_where_what_was_seen_is_in_doubt_nothing_is_dropped(seen: int | None) -> None:
    told = after(10**9 * SECOND, WindowDecision(), 0.9, seen_us=seen)
    assert "0" not in told.kept


def test_windows_that_the_watermark_has_passed_are_forgotten() -> None:
    told = WindowDecision()
    for number in range(200):
        told = after((10**9 + 5 * number) * SECOND, told)
    assert len(told.kept) < 30


def test_rows_beyond_the_horizon_stay_kept() -> None:
    first = after(10**9 * SECOND, WindowDecision(), 0.8)
    second = after((10**9 + 500) * SECOND, first, 0.8)
    decided = first.first + len(first.kept)
    assert all(is_kept(second, number) for number in range(decided, 10**9 + 500))
    assert "0" in second.kept, "and what comes after is dropped again"


def test_a_row_of_the_far_future_takes_no_memory() -> None:
    told = after(10**9 * SECOND, WindowDecision(), 0.8)
    far = after(4 * 10**9 * SECOND, told, 0.8)
    assert len(far.kept) <= len(told.kept)
    assert "0" in far.kept, "what was dropped stays dropped"
    beyond = after((4 * 10**9 + 1) * SECOND, far, 0.8)
    assert len(beyond.kept) < 30


def test_another_arrangement_does_not_open_windows_that_lack_rows() -> None:
    told = after(10**9 * SECOND, WindowDecision(), 0.8)
    assert "0" in told.kept
    longer = replace(SPEC, slide_us=2 * SECOND)
    fresh = after((10**9 + 3) * SECOND, told, 0.0, spec=longer)
    begun = (10**9 + 3) // 2
    assert not is_kept(fresh, begun)
    assert is_kept(fresh, begun + 3)


def test_with_several_sources_only_complete_reports_allow_a_drop() -> None:
    for known, dropped in ((True, True), (False, False)):
        told = after(10**9 * SECOND, WindowDecision(), 0.8, all_seen=known)
        assert ("0" in told.kept) is dropped


def test_p_follows_at_once_after_a_long_pause() -> None:
    """Three days down: windows are decided for three days ahead, but only until the next batch knows better."""
    told = after(10**9 * SECOND, WindowDecision(), 0.8)
    told = after((10**9 + 3) * SECOND, told, 0.8, waited_s=(3.0, 259_200.0))
    assert told.kept.count("0") > 1_000
    calm = after((10**9 + 6) * SECOND, told, 0.0)
    assert calm.kept.count("0") <= 12, "what lies ahead is decided anew"


def test_after_a_batch_without_rows_the_pace_is_still_known() -> None:
    told = WindowDecision()
    for number in range(0, 50, 10):
        told = after((10**9 + number) * SECOND, told, 0.8)
    idle = after((10**9 + 40) * SECOND, told, 0.8)
    ahead = idle.first + len(idle.kept) - (10**9 + 40)
    assert ahead >= 10, "as far as the last batch with rows went"


def test_a_batch_that_took_no_time_says_little_of_the_pace() -> None:
    told = after(10**9 * SECOND, WindowDecision(), 0.8, waited_s=(None, 5e-324))
    told = after((10**9 + 500) * SECOND, told, 0.8, waited_s=(5e-324, 0.0))
    assert len(told.kept) < 1_000
