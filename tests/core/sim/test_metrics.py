"""The paper's four metrics on runs small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from spillway.sim import Outcome, Targets, measure


def outcome(arrivals, delays, targets=2.0, period_s=1.0):
    return Outcome(
        arrival_s=np.array(arrivals),
        delay_s=np.array(delays),
        targets=Targets.of(targets),
        period_s=period_s,
        samples=(),
        decisions=(),
        elapsed_s=10.0,
    )


def test_the_metrics_of_four_rows():
    found = measure(outcome([0.0, 0.5, 1.0, 1.5], [1.0, 2.0, np.nan, 3.5]))
    assert (found.rows, found.delivered_rows, found.late_rows) == (4, 3, 1)
    assert found.acc_violation_s == found.overshoot_s == 1.5
    assert found.loss_ratio == 0.25
    assert found.mean_delay_s == pytest.approx(6.5 / 3)


def test_each_row_counts_against_the_target_of_its_arrival():
    found = measure(outcome([0.0, 1.0], [2.0, 2.0], Targets(((0.0, 1.0), (1.0, 3.0)))))
    assert (found.late_rows, found.acc_violation_s) == (1, 1.0)


def test_no_rows_no_violation():
    for rows in ([], [np.nan]):
        found = measure(outcome([0.0] * len(rows), rows))
        assert (found.acc_violation_s, found.late_rows, found.overshoot_s, found.mean_delay_s) == (0, 0, 0, 0)
    assert found.loss_ratio == 1.0


def test_the_series_averages_over_the_rows_that_arrived_in_a_period():
    ends, y = outcome([0.1, 0.9, 2.5, 3.0], [1.0, 3.0, 5.0, np.nan]).delay_series_s()
    assert ends.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(y, [2.0, np.nan, 5.0])
    _, halves = outcome([0.1, 0.9], [1.0, 3.0]).delay_series_s(0.5)
    assert halves.tolist() == [1.0, 3.0]
