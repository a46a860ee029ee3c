"""What window-aware shedding promises, over random arrangements, streams, p and B, against brute force.

The oracle below reads an arrangement's structure and nothing else of the code under test: it makes each level's
windows from their definition and fills them row by row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.windows import Arrangement, Level, Stamp, reach, run, sliding, tumbling

Stream = list[tuple[float, Any]]


def fingerprint(values: list[Any]) -> str:
    """An aggregate that tells any two windows apart: order, number and content of what it has seen."""
    return "<" + " ".join(map(str, values)) + ">"


def windows_by_definition(stream: Stream, size: int, slide: int) -> dict[int, list[Any]]:
    """Every window [k slide, k slide + size) that has a tuple, with what is in it."""
    found: dict[int, list[Any]] = {}
    for k in range(-200, 400):
        inside = [value for time, value in stream if k * slide <= time < k * slide + size]
        if inside:
            found[k] = inside
    return found


def exact(levels: tuple[Level, ...], stream: Stream, stamp: Stamp) -> list[dict[int, str]]:
    """The answer of each leaf without shedding, by window number."""
    answers: list[dict[int, str]] = []
    for level in levels:
        size, slide = level.window.size, level.window.slide
        results = {k: fingerprint(inside) for k, inside in windows_by_definition(stream, size, slide).items()}
        shift = size - 1 if stamp == "end" else 0
        passed: Stream = [(k * slide + shift, value) for k, value in sorted(results.items())]
        answers += exact(level.below, passed, stamp) if level.below else [results]
    return answers


single = st.integers(1, 6).flatmap(
    lambda slide: st.integers(slide, slide + 6).map(lambda size: sliding(size, slide))
)
arrangements = st.recursive(
    single | st.integers(1, 8).map(tumbling),
    lambda inner: st.tuples(inner, inner, st.booleans()).map(
        lambda parts: parts[0] >> parts[1] if parts[2] else parts[0] | parts[1]
    ),
    max_leaves=4,
).filter(lambda found: found.drop_window()[1] <= 60 and len(found.paths()) <= 4)
whole_times = st.lists(st.integers(-20, 120), max_size=60)
real_times = st.lists(st.floats(-20, 120), max_size=40)
stamps = st.sampled_from(["start", "end"])


@dataclass
class Case:
    arrangement: Arrangement
    times: list[float]
    p: float
    gap: int
    salt: int
    stamp: Stamp


cases = st.builds(
    Case,
    arrangements,
    (whole_times | real_times).map(sorted),
    st.floats(0, 1),
    st.integers(1, 4),
    st.integers(0, 10_000),
    stamps,
)


def delivered(
    case: Case, p: float, gaps: list[int] | None = None
) -> tuple[list[dict[int, str]], list[dict[int, str]], list[int]]:
    """What is delivered and what is exact, by leaf and window number, and the bound of each leaf.

    Unless they are given, bounds allow ``case.gap`` windows of the common drop.
    """
    leaves = case.arrangement.leaves()
    _, slide = case.arrangement.drop_units()
    gaps = [case.gap * slide // leaf.slide for leaf in leaves] if gaps is None else gaps
    table = pa.table({"ts": pa.array(case.times, pa.float64()), "id": range(len(case.times))})
    answer = run(
        table,
        case.arrangement,
        time="ts",
        drop_probability=p,
        max_gap=gaps,
        aggregate=fingerprint,
        salt=case.salt,
        stamp=case.stamp,
    ).to_pylist()
    found: list[dict[int, str]] = [{} for _ in leaves]
    for row in answer:
        at = row.get("branch", 0)
        number, rest = divmod(row["start"], leaves[at].slide)
        assert rest == 0
        assert row["end"] - row["start"] == leaves[at].size
        assert number not in found[at]
        found[at][int(number)] = row["value"]
    stream: Stream = list(zip(case.times, range(len(case.times)), strict=True))
    return found, exact(case.arrangement.levels(), stream, case.stamp), gaps


@given(cases)
def test_without_drops_the_answer_is_exact(case: Case) -> None:
    found, expected, _ = delivered(case, 0.0)
    assert found == expected


@given(cases)
def test_what_is_delivered_is_a_part_of_the_exact_answer(case: Case) -> None:
    found, expected, _ = delivered(case, case.p)
    for leaf, answer in zip(found, expected, strict=True):
        assert leaf.items() <= answer.items()


@given(cases)
def test_no_more_results_are_missing_in_a_row_than_allowed(case: Case) -> None:
    dense = replace(case, times=[float(t) for t in range(80)])
    for each, p in ((case, case.p), (dense, case.p), (dense, 1.0)):
        found, expected, gaps = delivered(each, p)
        for leaf, answer, gap in zip(found, expected, gaps, strict=True):
            missing = [k not in leaf for k in sorted(answer)]
            assert max((len(list(run)) for gone, run in groupby(missing) if gone), default=0) <= gap


@given(cases, st.integers(1, 3))
def test_bounds_that_are_too_small_for_a_common_drop_hold_too(case: Case, gap: int) -> None:
    """Then each branch has a drop of its own."""
    small = replace(case, times=[float(t) for t in range(80)])
    for p in (case.p, 1.0):
        found, expected, _ = delivered(small, p, [gap] * len(case.arrangement.leaves()))
        for leaf, answer in zip(found, expected, strict=True):
            assert leaf.items() <= answer.items()
            missing = [k not in leaf for k in sorted(answer)]
            assert max((len(list(run)) for gone, run in groupby(missing) if gone), default=0) <= gap


@given(cases)
def test_a_window_is_delivered_if_and_only_if_its_drop_window_is_kept(case: Case) -> None:
    """So p holds for every branch, and a filter on window numbers does the same on Spark."""
    found, expected, _ = delivered(case, case.p)
    _, slide = case.arrangement.drop_units()
    fate: dict[int, bool] = {}
    for leaf, answer, window in zip(found, expected, case.arrangement.leaves(), strict=True):
        for k in answer:
            assert fate.setdefault(k * window.slide // slide, k in leaf) == (k in leaf)


@given(cases, st.data())
def test_only_what_a_kept_window_reaches_is_needed(case: Case, data: st.DataObject) -> None:
    """Rows outside the reach of the kept windows may be taken away: the answer for those stays as it was."""
    _, slide = case.arrangement.drop_units()
    kept = data.draw(st.sets(st.integers(-10, 30), max_size=5))
    found = reach(case.arrangement, case.stamp)
    stream: Stream = list(zip(case.times, range(len(case.times)), strict=True))
    rest = [(t, v) for t, v in stream if any(k in kept for k in found.kept_by(t, slide))]
    levels = case.arrangement.levels()
    full, part = (exact(levels, each, case.stamp) for each in (stream, rest))
    for window, before, after in zip(case.arrangement.leaves(), full, part, strict=True):
        for k in range(-200, 400):
            if k * window.slide // slide in kept:
                assert before.get(k) == after.get(k)


@pytest.mark.few
@pytest.mark.parametrize("gap", [1, 3])
@pytest.mark.parametrize(
    "arrangement",
    [
        tumbling(2),
        sliding(3, 1),
        sliding(3, 2) >> sliding(3, 3),
        sliding(3, 2) | sliding(3, 3),
        sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_delivered_share_tends_to_one_minus_p(arrangement: Arrangement, gap: int, share: float) -> None:
    _, slide = arrangement.drop_units()
    p = share * gap / (gap + 1)
    rows = slide * 3000
    gaps = [gap * slide // leaf.slide for leaf in arrangement.leaves()]
    table = pa.table({"ts": range(rows)})
    answer = run(table, arrangement, time="ts", drop_probability=p, max_gap=gaps, salt=5).to_pylist()
    counts = Counter(row.get("branch", 0) for row in answer)
    for at, leaf in enumerate(arrangement.leaves()):
        assert counts[at] / (rows / leaf.slide) == pytest.approx(1 - p, abs=0.04)


@given(cases, st.lists(st.sampled_from("abc"), min_size=1, max_size=7))
def test_with_coins_of_their_own_every_group_is_promised_all_of_it(case: Case, pattern: list[str]) -> None:
    """A group is delivered as if it were alone: exact windows, and no more than the bound missing in a row."""
    leaves = case.arrangement.leaves()
    _, slide = case.arrangement.drop_units()
    gaps = [case.gap * slide // leaf.slide for leaf in leaves]
    groups = [pattern[n % len(pattern)] for n in range(len(case.times))]
    answer = run(
        pa.table(
            {
                "ts": pa.array(case.times, pa.float64()),
                "g": pa.array(groups, pa.string()),
                "id": range(len(groups)),
            }
        ),
        case.arrangement,
        time="ts",
        group="g",
        drop_probability=case.p,
        max_gap=gaps,
        aggregate=fingerprint,
        salt=case.salt,
        stamp=case.stamp,
        own_coins=True,
    ).to_pylist()
    for group in set(pattern):
        stream: Stream = [(t, n) for n, t in enumerate(case.times) if groups[n] == group]
        expected = exact(case.arrangement.levels(), stream, case.stamp)
        for at, (full, leaf, gap) in enumerate(zip(expected, leaves, gaps, strict=True)):
            found = {
                int(row["start"] // leaf.slide): row["value"]
                for row in answer
                if row["g"] == group and row.get("branch", 0) == at
            }
            assert found.items() <= full.items()
            missing = [k not in found for k in sorted(full)]
            assert max((len(list(run)) for gone, run in groupby(missing) if gone), default=0) <= gap
