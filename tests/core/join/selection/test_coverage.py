"""The analysis of basic windows: against its limits, and against what the join finds where f is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.join import JoinConfig, Shedding, equality
from spillway.core.join.selection.coverage import caught, chosen, coverage, most, optimality

densities = st.lists(st.floats(0, 1), min_size=5, max_size=40).filter(lambda f: sum(f) > 0.01)


@given(
    f=densities,
    b=st.sampled_from([0.05, 0.13, 0.5, 1.0]),
    r=st.floats(0.01, 1),
    slide=st.sampled_from(["step", "smooth"]),
)
def test_nothing_beats_the_best_and_everything_is_all(f: list[float], b: float, r: float, slide: Any) -> None:
    assert coverage(f, b, slide).sum() == pytest.approx(np.mean(f), rel=1e-6)
    assert optimality(f, b, r, slide=slide) <= 1 + 1e-6
    assert most(f, 1.0) == pytest.approx(np.mean(f))
    assert caught(f, b, 1.0 + 2 * b, slide) == pytest.approx(np.mean(f), rel=1e-6)


def test_flat_windows_lose_nothing_and_finer_cuts_catch_more_of_a_peak() -> None:
    assert optimality(np.ones(50), 0.1, 0.3, slide="smooth") == pytest.approx(1)
    peak = np.exp(-30 * np.abs(np.linspace(0, 1, 600) - 0.6))
    values = [optimality(peak, b, 0.05) for b in (0.2, 0.1, 0.05, 0.02)]
    assert values == sorted(values)
    sharper = np.exp(-60 * np.abs(np.linspace(0, 1, 600) - 0.6))
    assert optimality(sharper, 0.1, 0.05) < optimality(peak, 0.1, 0.05)
    assert optimality(peak, 0.1, 0.05) < optimality(peak, 0.1, 0.3)


def test_what_is_chosen_by_the_formula() -> None:
    assert chosen(21, 0.05, 0.12) == (2, 0.4)
    assert chosen(21, 0.05, 3.0) == (21, 0.0)
    assert chosen(21, 0.05, 0.0) == (0, 0.0)


@pytest.mark.parametrize("slide", ["step", "smooth"])
@pytest.mark.parametrize(("b", "r"), [(0.1, 0.08), (0.05, 0.2)])
def test_the_join_finds_what_the_analysis_expects(slide: Any, b: float, r: float) -> None:
    """Each right row holds the number of one left row, drawn around an age of 0.7 of the window: f is known."""
    window, rate, seconds = 10.0, 100, 60
    rng = np.random.default_rng(7)
    left_times = np.arange(rate * seconds) / rate
    right_times = left_times + 0.5 / rate
    lag = window * np.clip(0.7 + 0.07 * rng.laplace(size=len(right_times)), 0.0, 1.0)
    copied = np.round((right_times - lag) * rate).astype(int)
    left = pa.table({"ts": left_times, "v": np.arange(len(left_times))})
    right = pa.table({"ts": right_times, "v": np.where(copied >= 0, copied, -1)})
    f = np.histogram(lag, bins=400, range=(0, window))[0]
    # one side only: right rows in the left window; the other window is of no length and takes no comparisons
    shedding = Shedding(
        basic_window_s=b * window, slide=slide, direction=False, period_s=2, sample=0.0, memory=0.98
    )
    config = JoinConfig(on=equality("v"), within_s=(window, 0.0), time="ts", shedding=shedding)
    warm, rest = 20 * rate, len(left) - 20 * rate
    join = config.build()
    join.process(left.slice(0, warm), right.slice(0, warm))
    everything = config.build(join.snapshot()).process(left.slice(warm, rest), right.slice(warm, rest))
    found = join.process(left.slice(warm, rest), right.slice(warm, rest), fraction=r)
    share = found.num_rows / everything.num_rows
    expected, best = caught(f, b, r, slide) / np.mean(f), most(f, r) / np.mean(f)
    assert expected - 0.03 <= share <= best + 0.03, (
        "a part is taken next to the better neighbour: more than any part"
    )
    if slide == "step":
        assert share == pytest.approx(expected, abs=0.04)
