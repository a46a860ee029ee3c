"""Both kinds of trace against their definition, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.errors import SpillwayError
from spillway.replay.traces import Rates, Times

spans = st.lists(
    st.tuples(st.one_of(st.just(0.0), st.floats(0.01, 500.0)), st.floats(0.05, 20.0)), min_size=1, max_size=8
)
recorded = st.lists(st.floats(0.0, 100.0), max_size=60).map(sorted)


def rates_of(pairs: list[tuple[float, float]]) -> Rates:
    return Rates(tuple(rate for rate, _ in pairs), tuple(span for _, span in pairs))


def arrivals_by_walking(trace: Rates) -> list[float]:
    """Walk through the spans and note when the integral of the rate passes each whole number."""
    found: list[float] = []
    start = rows = 0.0
    for rate, span in zip(trace.rates, trace.spans_s, strict=True):
        while rate and len(found) + 1 <= rows + rate * span + 1e-9:
            found.append(min(start + (len(found) + 1 - rows) / rate, start + span))
        start, rows = start + span, rows + rate * span
    return found


@settings(max_examples=100, deadline=None)
@given(spans)
def test_rows_arrive_when_the_integral_of_the_rate_reaches_them(pairs):
    trace = rates_of(pairs)
    slow = arrivals_by_walking(trace)
    assert trace.total == len(slow)
    np.testing.assert_allclose(trace.times(0, trace.total), slow, atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(spans, st.lists(st.floats(-1.0, 200.0), min_size=1, max_size=10))
def test_count_and_times_agree_exactly(pairs, moments):
    trace = rates_of(pairs)
    times = trace.times(0, trace.total)
    assert (np.diff(times) >= 0.0).all()
    assert trace.total == 0 or 0.0 <= times[0] <= times[-1] <= trace.duration_s
    at = np.concatenate((moments, times, np.nextafter(times, -1.0)))
    expected = np.searchsorted(times, at, side="right")
    np.testing.assert_array_equal(trace.count(at), expected)
    assert trace.count(float(at[0])) == expected[0]


@settings(max_examples=50, deadline=None)
@given(spans, st.floats(0.5, 300.0))
def test_scaling_rates_keeps_the_time_and_the_shape(pairs, rate):
    trace = rates_of([*pairs, (10.0, 1.0)])
    scaled = trace.scaled(rate=rate)
    assert scaled.spans_s == trace.spans_s
    assert scaled.total == pytest.approx(rate * trace.duration_s, abs=1.001)
    np.testing.assert_allclose(
        np.array(scaled.rates) * trace.rates[-1], np.array(trace.rates) * scaled.rates[-1]
    )


@settings(max_examples=50, deadline=None)
@given(spans, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_slice_of_rates_holds_the_rows_of_its_time(pairs, one, other):
    trace = rates_of(pairs)
    start, stop = sorted((one * trace.duration_s, other * trace.duration_s))
    if stop - start < 1e-3:
        return
    part = trace.slice(start, stop)
    assert part.duration_s == pytest.approx(stop - start)
    assert part.total == pytest.approx(trace.count(stop) - trace.count(start), abs=1)


@settings(max_examples=50, deadline=None)
@given(spans)
def test_rates_survive_json(pairs):
    trace = rates_of(pairs)
    assert Rates.from_json(trace.to_json()) == trace


def test_a_hundred_million_rows_cost_nothing():
    trace = Rates((100_000.0, 0.0, 400_000.0), (500.0, 100.0, 125.0))
    assert trace.total == 100_000_000
    assert trace.times(99_999_999, 100_000_000).tolist() == [725.0]
    assert trace.times(50_000_000, 50_000_001)[0] == pytest.approx(600.0, abs=1e-5)
    assert trace.count(550.0) == trace.count(500.0) == 50_000_000


@settings(max_examples=50, deadline=None)
@given(recorded, st.integers(1, 4))
def test_recorded_times_are_counted_sliced_and_repeated(times, again):
    trace = Times(times, duration_s=101.0)
    assert [trace.count(t) for t in (-1.0, 50.0, 101.0)] == [
        sum(x <= t for x in times) for t in (-1.0, 50.0, 101.0)
    ]
    part = trace.slice(20.0, 60.0)
    np.testing.assert_allclose(part.times(0, part.total), [t - 20.0 for t in times if 20.0 <= t < 60.0])
    longer = trace.repeat(again)
    assert longer.total == again * len(times)
    assert longer.slice(101.0 * (again - 1), 101.0 * again).total == len(times)


def test_scaling_recorded_times_changes_the_clock_and_no_row():
    trace = Times([0.0, 1.0, 3.0, 8.0], duration_s=10.0)
    faster = trace.scaled(rate=0.8)
    assert faster.duration_s == pytest.approx(5.0)
    np.testing.assert_allclose(faster.times(0, 4), [0.0, 0.5, 1.5, 4.0])


def test_traces_are_values():
    assert Times([1.0, 2.0]) == Times(np.array([1.0, 2.0])) != Times([1.0, 2.0], duration_s=3.0)
    assert len({Times([1.0]), Times([1.0]), Times([2.0])}) == 2
    own = np.array([1.0, 2.0])
    trace = Times(own)
    own[0] = -5.0
    assert trace.times(0, 2).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        trace.arrivals_s[0] = 0.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Times([2.0, 1.0]), "sort them"),
        (lambda: Times([0.0, float("nan")]), "finite"),
        (lambda: Times([[1.0]]), "one dimension"),
        (lambda: Times(["soon"]), "numbers"),
        (lambda: Times([5.0], duration_s=4.0), "duration_s = 4.0"),
        (lambda: Times([]).scaled(rate=5.0), "no rows"),
        (lambda: Times([1.0]).times(0, 2), "0 <= first <= last <= 1"),
        (lambda: Times([1.0]).slice(3.0, 2.0), "start_s < stop_s"),
        (lambda: Times([1.0]).repeat(0), "whole number >= 1"),
        (lambda: Rates((1.0,), ()), "one for each"),
        (lambda: Rates((-1.0,), (1.0,)), "rates = -1.0"),
        (lambda: Rates((1.0,), (0.0,)), "spans_s = 0.0"),
        (lambda: Rates((float("inf"),), (1.0,)), "finite"),
        (lambda: Rates("abc", (1.0,)), "list of numbers"),
        (lambda: Rates((1.0,), (1.0,)).scaled(rate=-2.0), "rate = -2.0"),
        (lambda: Rates.from_json("[]"), "expected JSON"),
        (lambda: Rates.from_json('{"rates": [1], "spans_s": [0]}'), "spans_s = 0.0"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_reason(make, words):
    with pytest.raises(SpillwayError, match=words):
        make()
