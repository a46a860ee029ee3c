"""Concepts of windows per query, what two of them share, and how far they are apart."""

from __future__ import annotations

import math

import pytest

from spillway.core.groups import (
    Frequencies,
    Moments,
    Sides,
    distance,
    drift,
    overlap,
    result_distance,
    result_drift,
    result_overlap,
    top,
)
from spillway.errors import SpillwayError


def test_a_concept_is_that_of_its_parts() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    both, whole = Moments.of(values[:2]).merged(Moments.of(values[2:])), Moments.of(values)
    assert (both.count, both.mean, both.variance) == pytest.approx((6, whole.mean, whole.variance))
    assert Moments().merged(Moments()) == Moments()
    parts = Frequencies.of("aab").merged(Frequencies.of("bc"))
    assert parts == Frequencies({"a": 2, "b": 2, "c": 1})
    sides = Sides(Frequencies.of("ab"), Frequencies.of("b")).merged(Sides(Frequencies(), Frequencies.of("c")))
    assert (sides.matching, sides.right.rows) == ({"b"}, 2)


def test_null_keys_never_match() -> None:
    assert Sides(Frequencies.of([None, 1]), Frequencies.of([None, 2])).matching == set()


def test_groups_share_and_differ() -> None:
    a, b = Frequencies({"x": 3, "y": 1}), Frequencies({"y": 2, "z": 2})
    assert overlap(a, b) == pytest.approx(1 / 3)
    assert distance(a, b) == pytest.approx((0.75 + 0.25 + 0.5) / 2)
    assert (overlap(a, a), distance(a, a)) == (1.0, 0.0)
    assert distance(a, Frequencies({"x": 300, "y": 100})) == 0.0
    assert (overlap(a, Frequencies()), distance(a, Frequencies())) == (0.0, 1.0)
    assert (overlap(Frequencies(), Frequencies()), distance(Frequencies(), Frequencies())) == (1.0, 0.0)


def test_scalars_share_and_differ() -> None:
    a, b = Moments(10, 0.0, 9.0), Moments(10, 2.0, 9.0)  # variance 1, means 2 apart
    assert overlap(a, b) == pytest.approx(math.exp(-0.5))
    assert distance(a, b) == pytest.approx(math.sqrt(1 - math.exp(-0.5)))
    assert (overlap(a, a), distance(a, a)) == (1.0, 0.0)
    same, other = Moments(5, 3.0, 0.0), Moments(5, 4.0, 0.0)
    assert (overlap(same, same), overlap(same, other), distance(same, other)) == (1.0, 0.0, 1.0)
    assert (overlap(Moments(), Moments()), overlap(Moments(), a)) == (1.0, 0.0)


def test_joins_share_the_keys_that_can_match() -> None:
    a = Sides(Frequencies({"x": 1, "y": 1}), Frequencies({"x": 1, "z": 9}))
    b = Sides(Frequencies({"x": 1, "y": 1}), Frequencies({"x": 1, "y": 9}))
    assert overlap(a, b) == 0.5
    assert distance(a, b) == pytest.approx((0.0 + 0.9) / 2)


def test_results_share_and_differ_as_in_figure_2() -> None:
    a, b = top({"p": 5.0, "q": 4.0, "r": 3.0, "s": 1.0}, 3), top({"p": 9.0, "q": 2.0, "s": 8.0, "t": 7.0}, 3)
    assert (set(a), set(b)) == ({"p", "q", "r"}, {"p", "s", "t"})
    assert result_overlap(a, b) == pytest.approx(1 / 3)
    assert result_distance(a, b) == pytest.approx(2 / 3)
    assert (result_overlap(set(), set()), result_distance(set(), set())) == (1.0, 0.0)
    assert top({"b": 1.0, "a": 1.0}, 1) == {"a"}
    found = result_drift([a, b, b])
    assert (found.overlap, found.distance) == pytest.approx((2 / 3, 1 / 3))


def test_drift_is_the_mean_over_windows() -> None:
    found = drift([Frequencies.of("ab"), Frequencies.of("abab"), Frequencies.of("cc")])
    assert found.overlaps == (1.0, 0.0)
    assert (found.overlap, found.distance) == (0.5, 0.5)
    assert math.isnan(drift([Frequencies.of("a")]).overlap)


def test_concepts_of_different_queries_cannot_be_compared() -> None:
    for measure in (overlap, distance):
        with pytest.raises(SpillwayError, match="Moments and Frequencies are concepts of different queries"):
            measure(Moments(), Frequencies())
    with pytest.raises(SpillwayError, match="k = 0"):
        top({}, 0)
