"""Arrangements as values: the paper's examples, the algebra of drop windows, and what is refused."""

from __future__ import annotations

import pickle
from datetime import timedelta

import numpy as np
import pytest

from spillway.core.windows import Arrangement, Level, sliding, tumbling
from spillway.durations import _UNITS, seconds
from spillway.errors import SpillwayError

A0, A1, A2 = sliding(4, 1), sliding(3, 2), sliding(3, 3)


@pytest.mark.parametrize(
    ("arrangement", "expected"),
    [
        (A1, (3, 2)),
        (A1 >> A2, (5, 3)),  # Figure 4
        (A1 | A2, (7, 6)),  # Figure 5
        (A0 >> (A1 | A2), (10, 6)),  # composite, the fan-out first
        ((A0 >> A1) | (A0 >> A2), (10, 6)),  # composite, the pipelines first
        (A0 >> A1, (6, 2)),
        (A0 >> A2, (6, 3)),
        (A0 >> A1 >> A2, (8, 3)),
        ((A1 | A2) >> tumbling(12), (14, 12)),
        ((A1 | A2) >> (A1 | tumbling(4)), (7, 4)),
        (A0 | A1 | A2, (9, 6)),
        (tumbling(10) >> tumbling(100), (109, 100)),
    ],
    ids=repr,
)
def test_the_window_of_the_drop(arrangement: Arrangement, expected: tuple[int, int]) -> None:
    assert arrangement.drop_window() == expected


def test_it_does_not_matter_how_parts_are_grouped() -> None:
    assert (A0 >> A1) >> A2 == A0 >> (A1 >> A2)
    assert (A0 | A1) | A2 == A0 | (A1 | A2)
    assert ((A1 | A2) >> tumbling(6)).levels() == ((A1 >> tumbling(6)) | (A2 >> tumbling(6))).levels()


@pytest.mark.parametrize(
    ("text", "size", "slide"),
    [
        ("tumbling('5 minutes')", 300_000_000, 300_000_000),
        ("sliding('1 hour', '90 s')", 3_600_000_000, 90_000_000),
    ],
)
def test_durations_are_whole_microseconds(text: str, size: int, slide: int) -> None:
    window = eval(text, {"tumbling": tumbling, "sliding": sliding})
    assert window.drop_window() == (size, slide)
    assert window.timed
    assert not A1.timed
    assert repr(window) == text


@pytest.mark.parametrize("number", ["1", "2.5", "90"])
@pytest.mark.parametrize("unit", sorted(_UNITS))
def test_durations_are_read_as_everywhere_else(number: str, unit: str) -> None:
    plural = "s" if len(unit) > 2 else ""
    for text in (f"{number} {unit}", f"{number}{unit.upper()}{plural}", f"1 day, {number} {unit} and 3 ms"):
        expected = seconds("size", text) * 1e6
        if abs(expected - round(expected)) < 1e-3:
            assert tumbling(text).size == round(expected)


def test_large_and_odd_lengths_are_exact() -> None:
    assert tumbling(2**53 + 1).size == 2**53 + 1
    assert tumbling(3 * (2**53 + 1), unit=3).size == 2**53 + 1
    assert tumbling(0.3, unit=0.1).size == 3
    assert tumbling(1e10, unit=0.1).size == 10**11
    assert tumbling("1 week") == tumbling("7 days") == tumbling("1w")
    assert tumbling("10000 days 1 us").size == 10_000 * 86_400 * 10**6 + 1


def test_all_forms_of_a_number() -> None:
    assert tumbling(3) == tumbling(3.0) == tumbling(np.int64(3)) == sliding(3, 3)
    assert tumbling(timedelta(seconds=3)) == tumbling("3 s")
    assert sliding(0.5, 0.25, unit=0.25).drop_units() == (2, 1)
    assert (tumbling(0.5, unit=0.25) >> tumbling(1, unit=0.25)).drop_window() == (1.25, 1)


@pytest.mark.parametrize(
    "text",
    [
        "tumbling(5)",
        "sliding(3, 2)",
        "sliding(3, 3)",
        "sliding(0.5, 0.25, unit=0.25)",
        "sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3))",
        "(tumbling(2) | tumbling(3)) >> tumbling(6)",
        "tumbling(2) >> tumbling(4) | tumbling(3)",
        "tumbling('5 minutes') >> tumbling('1 hour')",
    ],
)
def test_a_repr_reads_as_it_was_written(text: str) -> None:
    arrangement = eval(text, {"tumbling": tumbling, "sliding": sliding})
    assert repr(arrangement) == text
    assert eval(repr(arrangement), {"tumbling": tumbling, "sliding": sliding}) == arrangement


def test_they_are_values() -> None:
    query = A0 >> (A1 | A2)
    assert len({query, A0 >> (A1 | A2), A0 >> A1 | A2}) == 2
    assert pickle.loads(pickle.dumps(query)) == query
    with pytest.raises(AttributeError):
        query.stages = ()  # type: ignore[attr-defined]


def test_levels_paths_and_leaves() -> None:
    query = A0 >> (A1 | A2)
    assert query.levels() == (Level(A0, (Level(A1), Level(A2))),)
    assert query.paths() == ((A0, A1), (A0, A2))
    assert query.leaves() == (A1, A2)


def test_gaps_scale_over_a_fan_out() -> None:
    assert (A1 | A2).gaps(np.int64(6)) == (6, 6)
    assert (A1 | A2).gaps([np.int32(6), 2]) == (6, 2)
    assert all(type(gap) is int for gap in A1.gaps(np.int64(6)))
    assert A1.drop_gap(4) == 4
    assert (A0 >> A1).drop_gap(4) == 4  # the leaf's own, whatever is before it
    assert (A1 | A2).drop_gap(6) == 2  # 6 windows of A1 are 2 of the drop, 6 of A2 are 3
    assert (A1 | A2).drop_gap((9, 2)) == 1
    assert (A1 | A2).drop_gap((9, 1)) == 0  # one window of the drop is two of A2
    assert (A0 >> (A1 | A2)).drop_gap((3, 2)) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sliding(3, 4), "slide = '4' is not allowed: expected at most the size, 3"),
        (lambda: sliding("1 minute", "2 minutes"), "at most the size, '1 minute'"),
        (lambda: tumbling(0), "size = 0 is not allowed: expected a number > 0"),
        (lambda: tumbling(-1), "expected a number > 0"),
        (lambda: tumbling(float("nan")), "expected a number > 0"),
        (lambda: tumbling(True), "expected a number > 0"),
        (lambda: tumbling(None), "or a duration such as '5 minutes'"),  # type: ignore[arg-type]
        (lambda: tumbling("0 seconds"), "a positive duration"),
        (lambda: tumbling("5 minuets"), "did you mean 'minute'"),
        (lambda: tumbling("8 mss"), "did you mean 'ms'"),
        (lambda: tumbling("8 ss"), "did you mean 's'"),
        (lambda: tumbling("0.5 us"), "a whole number of microseconds"),
        (lambda: tumbling(2.5), "pass unit= a step"),
        (lambda: tumbling(10_000_000_000.5), "pass unit= a step"),
        (lambda: tumbling(2**53 + 1, unit=2), "pass unit= a step"),
        (lambda: tumbling("1 day 0.5 us"), "a whole number of microseconds"),
        (lambda: tumbling("99999999999 weeks"), "at most 50 million days"),
        (lambda: tumbling("9" * 400 + " days"), "a positive duration"),
        (lambda: tumbling(2**63), "at most 2^62 units of 1"),
        (lambda: tumbling(10**400), "a number > 0"),
        (lambda: tumbling(3, unit=0), "unit = 0 is not allowed"),
        (lambda: sliding("1 minute", 2), "mix a number and a duration"),
        (lambda: tumbling("1 minute") >> tumbling(2), "mixes units, durations and numbers in units of 1"),
        (lambda: tumbling(1, unit=0.5) | tumbling(2), "mixes units"),
        (lambda: tumbling(2) >> 3, "the right side is no window"),
        (lambda: tumbling(2).drop_gap(0), "max_gap = 0 is not allowed"),
        (lambda: tumbling(2).drop_gap(1.5), "max_gap = 1.5"),  # type: ignore[arg-type]
        (lambda: tumbling(2).drop_gap("3"), "max_gap = '3'"),  # type: ignore[arg-type]
        (lambda: (A1 | A2).drop_gap([1]), "the leaves are sliding(3, 2), sliding(3, 3)"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(make: object, message: str) -> None:
    with pytest.raises(SpillwayError) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)
