"""Which rows and windows are needed, against the definition followed window by window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spillway.core.windows import Arrangement, Level, sliding, tumbling
from spillway.core.windows.needs import (
    STEPS,
    Kept,
    allowed,
    granule_of,
    inner_of,
    open_windows,
    shares_left,
    span_of,
)


@st.composite
def windows(draw: st.DrawFn) -> Arrangement:
    slide = draw(st.integers(1, 5))
    return sliding(f"{draw(st.integers(slide, 12))} us", f"{slide} us")


@st.composite
def arrangements(draw: st.DrawFn) -> Arrangement:
    parts = draw(st.lists(windows(), min_size=1, max_size=3))
    shape = draw(st.sampled_from(["pipeline", "fan-out", "both"]))
    if shape == "fan-out" or len(parts) == 1:
        found = parts[0]
        for part in parts[1:]:
            found = found | part
        return found
    rest = parts[1]
    for part in parts[2:]:
        rest = rest | part if shape == "both" else rest >> part
    return parts[0] >> rest


def is_kept(start: int, kept: Kept) -> bool:
    at = start // kept.slide - kept.first
    return not 0 <= at < len(kept.bits) or kept.bits[at] == "1"


def starts_around(t: int, level: Level) -> list[int]:
    size, slide = level.window.size, level.window.slide
    return [s for s in range(t - size + 1, t + 1) if s % slide == 0]


def is_allowed(level: Level, start: int, kept: Kept) -> bool:
    if not level.below:
        return is_kept(start, kept)
    stamp = start + level.window.size - 1
    return any(is_allowed(below, s, kept) for below in level.below for s in starts_around(stamp, below))


@given(
    arrangement=arrangements(),
    bits=st.text("01", min_size=1, max_size=12),
    first=st.integers(-5, 5),
    since=st.integers(-30, 30),
)
def test_every_granule_and_every_window_as_by_definition(
    arrangement: Arrangement, bits: str, first: int, since: int
) -> None:
    kept = Kept(arrangement.drop_units()[1], first, bits)
    g = granule_of(arrangement)
    for level in arrangement.levels():
        slide = level.window.slide
        found = allowed(level, since, 8, g, kept).tolist()
        assert found == [is_allowed(level, number * slide, kept) for number in range(since, since + 8)]
        counts = open_windows(level, since, 10, g, kept).tolist()
        for granule, count in zip(range(since, since + 10), counts, strict=True):
            for t in (granule * g, granule * g + g - 1):
                assert count == sum(is_allowed(level, s, kept) for s in starts_around(t, level))


def test_lengths_of_a_nested_arrangement() -> None:
    nested = tumbling("5 minutes") >> (tumbling("1 hour") | sliding("30 minutes", "10 minutes"))
    minute = 60_000_000
    assert granule_of(nested) == 5 * minute
    assert span_of(nested) == 65 * minute
    assert inner_of(nested) == 5 * minute


def test_an_inner_window_is_needed_as_long_as_one_of_the_outer_ones_is() -> None:
    """With gaps of three of twelve overlapping windows nothing can go; with gaps of forty most of it can."""
    nested = tumbling("5 minutes") >> sliding("1 hour", "5 minutes")
    (inner,) = nested.levels()
    assert min(shares_left(nested, inner, 3)) == 1.0 - 0.1 * 0.75, "only what lies behind the inner aggregate"
    shares = shares_left(nested, inner, 40)
    assert shares[0] == 1.0
    assert list(shares) == sorted(shares, reverse=True)
    # of 41 windows in a row one is left, which needs 12 of the 41 inner ones
    assert abs(shares[-1] - (0.9 * 12 / 41 + 0.1 / 41)) < 0.02


def test_before_one_aggregate_what_is_left_is_what_is_not_dropped() -> None:
    window = sliding("10 seconds", "2 seconds")
    shares = shares_left(window, window.levels()[0], 3)
    assert shares[0] == 1.0
    assert shares[-1] == 0.25
    assert shares[STEPS // 3] == 1.0 - 0.75 * (STEPS // 3) / STEPS
