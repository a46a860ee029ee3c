"""Decision.limit_for and keep_ratio_for: the rules by hand-made examples, and what holds for any decision."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import Decision, Sample
from spillway.errors import SpillwayError

# Half of the target for a batch, of which 0.2 s are fixed: 0.8 s for 800 rows, a millisecond each.
ROWS = Decision(queue_limit_rows=800.0, batch_s=1.0, fixed_s=0.2, target_delay_s=2.0)
PRICED = replace(ROWS, cost_s=0.001, skip_cost=0.1)


@pytest.mark.parametrize(
    ("waited_s", "limit"),
    [
        (1.0, 800.0),  # as planned
        (1.1, 725.0),  # 0.1 s too long: three quarters of that less for the rows
        (1.2, 650.0),
        (1.4, 550.0),  # a quarter of a batch less at most
        (1.6, 550.0),
        (1.99, 550.0),
        (2.0, 800.0),  # late whatever is done: the fresh rows behind them do not pay for it
        (60.0, 800.0),
        (0.9, 850.0),  # half of what was left over
        (0.7, 950.0),
        (0.5, 950.0),  # 0.15 of a batch at most
        (0.0, 950.0),
    ],
)
def test_a_batch_after_a_long_or_a_short_one(waited_s, limit):
    assert ROWS.limit_for(waited_s) == pytest.approx(limit)
    assert ROWS.keep_ratio_for(10_000, waited_s=waited_s) == pytest.approx(limit / 10_000)


def test_rows_get_a_sixth_of_the_target_however_long_the_batch_before_was():
    """0.4 s for rows, less 0.25 s, would be 0.15 s: a sixth of 2 s is 0.333 s."""
    tight = Decision(queue_limit_rows=400.0, batch_s=1.0, fixed_s=0.6, target_delay_s=2.0)
    assert tight.limit_for(1.3) == pytest.approx(400.0 * (2.0 / 6.0) / 0.4)


def test_a_decision_that_does_not_go_by_the_time_of_a_batch_has_one_limit():
    for decision in (
        Decision(queue_limit_rows=800.0, target_delay_s=2.0),
        Decision(queue_limit_rows=800.0, batch_s=1.0),
        Decision(queue_limit_rows=800.0, batch_s=0.2, fixed_s=0.2, target_delay_s=2.0),
    ):
        assert decision.limit_for(1.5) == 800.0
    assert ROWS.limit_for(None) == 800.0
    assert Decision(batch_s=1.0, target_delay_s=2.0).limit_for(1.0) is None


@pytest.mark.parametrize(
    ("trigger_s", "waited_s", "idle_s", "limit"),
    [
        (None, 5.0, 4.0, 4800.0),  # a trigger of 5 s shows at once, by the time that the query was idle
        (None, 5.0, 0.2, 800.0),  # a batch of 4.8 s before this one: no trigger
        (None, 1.8, 0.5, 1600.0),  # 1.8 s and 0.2 s are 2 s
        (None, 1.5, 0.5, 1300.0),  # less than a sixth of the target is left for rows
        (None, 1.4, 0.5, 800.0),
        (5.0, 0.5, 0.0, 4800.0),  # a trigger that is known holds for a batch of a new run as well
        (1.8, 1.8, 0.0, 1600.0),
        (1.4, 1.4, 1.0, 800.0),
        (0.0, 9.0, 8.9, 800.0),  # idle because no rows came: known to be no trigger
        (0.01, 9.0, 8.9, 800.0),
    ],
)
def test_where_the_trigger_alone_takes_the_target_a_batch_may_take_as_long_as_the_trigger(
    trigger_s, waited_s, idle_s, limit
):
    """0.2 s are fixed, a row takes a millisecond."""
    decision = replace(PRICED, trigger_s=trigger_s)
    assert decision.limit_for(waited_s, idle_s) == pytest.approx(limit)
    unsure = replace(decision, cost_s=None)
    assert unsure.limit_for(waited_s, idle_s) == pytest.approx(limit if limit == 800.0 else 2.0 * limit)


def test_waiting_for_the_trigger_is_not_a_batch_that_was_too_long():
    decision = Decision(queue_limit_rows=100.0, batch_s=1.0, fixed_s=0.2, trigger_s=1.4, target_delay_s=2.0)
    assert decision.limit_for(1.4, 0.7) == pytest.approx(100.0)
    assert decision.limit_for(1.5, 0.0) == pytest.approx(100.0 * 0.725 / 0.8)


def test_a_long_batch_that_no_report_has_told_of_yet_tells_how_slow_the_machine_is():
    """800 rows should take 1 s and took 2 s: twice as long, so (1 - 0.4) s for rows of 2 ms."""
    assert PRICED.limit_for(2.0, 0.0, (800.0, 800.0)) == pytest.approx(300.0)
    assert PRICED.limit_for(4.0, 0.0, (800.0, 800.0)) == pytest.approx(2.0 / 6.0 / 0.004), "a sixth of 2 s"
    assert PRICED.limit_for(4.0, 3.0, (800.0, 800.0)) == 3800.0, (
        "the query was idle: a trigger, not a long batch"
    )
    assert PRICED.limit_for(1.1, 0.0, (800.0, 800.0)) == PRICED.limit_for(1.1), (
        "what is a little longer is left to the rest"
    )
    assert PRICED.limit_for(1e6, 0.0, (1.0, 1.0)) > 0.0


def test_a_batch_that_took_long_to_read_and_drop_its_rows_tells_nothing_of_the_machine():
    """0.2 s, 100 rows of 1 ms and 37,000 of 0.1 ms take 4 s, as expected."""
    assert PRICED.limit_for(4.0, 0.0, (37_100.0, 100.0)) == 800.0


def test_where_the_cost_of_a_row_is_hardly_known_a_long_batch_tells_of_its_rows():
    """800 rows took 3.8 s more than the batch itself, where 0.8 s should go to rows."""
    assert ROWS.limit_for(4.0, 0.0, (800.0, 800.0)) == pytest.approx(800.0 * 0.8 / 3.8)
    assert ROWS.limit_for(4.0, 0.0, (100_000.0, 100_000.0)) == 800.0, "it says nothing against the limit"
    assert ROWS.limit_for(4.0, 0.0, (10.0, 10.0)) == 800.0, "ten rows say nothing of a row"
    assert ROWS.limit_for(1.25, 0.0, (800.0, 800.0)) == ROWS.limit_for(1.25), "not much longer than it should"


def test_dropped_rows_take_their_part_down_to_the_least():
    decision = Decision(queue_limit_rows=1000.0, skip_cost=0.1, least_rows=300.0)
    assert decision.keep_ratio_for(1000) == 1.0
    assert decision.keep_ratio_for(2000) * 2000 == pytest.approx((1000 - 200) / 0.9)
    assert decision.keep_ratio_for(9000) * 9000 == pytest.approx(300.0)
    assert Decision(queue_limit_rows=1000.0, skip_cost=0.1).keep_ratio_for(1e6) * 1e6 == pytest.approx(100.0)
    as_dear = Decision(queue_limit_rows=1000.0, skip_cost=1.0, least_rows=300.0)
    assert as_dear.keep_ratio_for(2000) == 1.0, "dropping saves nothing"
    assert Decision(queue_limit_rows=10.0, least_rows=1e9).keep_ratio_for(20) == 0.5, "never beyond the limit"


_amount = st.floats(0.0, 1e12)
_span = st.floats(0.0, 1e6)
decisions = st.builds(
    Decision,
    keep_ratio=st.floats(0, 1),
    queue_limit_rows=st.none() | _amount,
    skip_cost=st.floats(0, 1),
    least_rows=st.none() | _amount,
    batch_s=st.none() | _span,
    fixed_s=_span,
    trigger_s=st.none() | _span,
    sure_fixed_s=_span,
    sure_cost_s=st.none() | _span,
    cold=st.booleans(),
    target_delay_s=st.none() | st.floats(0.001, 1e4),
)


@given(decision=decisions, rows=_amount, more=_amount, waited_s=st.none() | _span, idle=st.floats(0, 1))
def test_any_decision_gives_a_share_and_no_larger_one_to_a_larger_batch(decision, rows, more, waited_s, idle):
    idle_s = idle * (waited_s or 0.0)
    limit = decision.limit_for(waited_s, idle_s)
    assert limit is None or (math.isfinite(limit) and limit >= 0.0)
    share = decision.keep_ratio_for(rows, waited_s=waited_s, idle_s=idle_s)
    assert 0.0 <= share <= decision.keep_ratio
    assert decision.keep_ratio_for(rows + more, waited_s=waited_s, idle_s=idle_s) <= share + 1e-9
    assert Decision.from_json(decision.to_json()) == decision


@pytest.mark.parametrize("field", ["least_rows", "batch_s", "trigger_s", "fixed_s"])
@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, "1"])
def test_a_decision_that_cannot_be_is_refused(field, wrong):
    with pytest.raises(SpillwayError, match=field):
        Decision(**{field: wrong})


@pytest.mark.parametrize("field", ["spread", "pace", "waited_s", "idle_s"])
@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_a_sample_that_cannot_be_is_refused(field, wrong):
    with pytest.raises(SpillwayError, match=field):
        Sample(at_s=0, period_s=0, arrived_rows=0, kept_rows=0, **{field: wrong})


WHOLE = Decision(queue_limit_rows=100, target_delay_s=2.0, batch_s=1.0, sure_fixed_s=0.2, sure_cost_s=0.001)


@pytest.mark.parametrize(
    ("rows", "waited_s", "kept"),
    [
        (600, 0.9, 1.0),  # in time after 0.9 + 0.8 s; meanwhile 533 rows come, which take 0.73 s
        (1_200, 0.9, None),  # 0.9 + 1.4 s are too long
        (600, 0.3, None),  # in time itself, but 1,600 rows come meanwhile
        (600, 2.5, None),  # late whatever is done
        (600, None, None),  # nobody knows how long rows have waited
    ],
)
def test_a_batch_that_is_in_time_as_a_whole_is_kept_whole(rows, waited_s, kept):
    limited = Decision(queue_limit_rows=100, target_delay_s=2.0, batch_s=1.0)
    expected = limited.keep_ratio_for(rows, waited_s=waited_s) if kept is None else kept
    assert WHOLE.keep_ratio_for(rows, waited_s=waited_s) == expected


def test_a_batch_that_would_be_in_time_is_limited_where_operators_have_a_budget():
    assert replace(WHOLE, work_budget=1e6).keep_ratio_for(600, waited_s=0.9) < 1.0


@given(st.floats(0.0, 1.0), st.floats(1.0, 1e7), st.floats(0.0, 5e4))
def test_the_dearer_a_dropped_row_the_fewer_are_dropped_beyond_reach(skip_cost, rows, least):
    """Beyond reach: to read and drop all rows takes longer than the limit."""
    decision = Decision(queue_limit_rows=1e5, skip_cost=skip_cost, least_rows=least)
    keep = decision.keep_ratio_for(rows)
    assert 0.0 <= keep <= 1.0
    if rows <= 1e5:
        assert keep == 1.0
    elif skip_cost * rows >= 1e5:
        assert keep >= 2.0 * skip_cost - 1.0
    else:
        taken = rows * keep + skip_cost * rows * (1.0 - keep)
        assert taken <= max(1e5, least + skip_cost * (rows - least)) * (1.0 + 1e-9)


def test_rows_that_wait_for_a_trigger_fill_the_batch_after_it():
    assert replace(WHOLE, trigger_s=1.0).fits_whole(600, 1.1)
    assert not replace(WHOLE, trigger_s=1.5).fits_whole(600, 1.1)


def test_a_query_that_starts_is_taken_to_be_half_busy_until_a_batch_tells_more():
    cold = Decision(target_delay_s=2.0, cold=True, queue_limit_rows=90_000.0)
    assert cold.fits_whole(1e6, 1.3)
    assert not cold.fits_whole(1e6, 1.4)
    assert not cold.fits_whole(1e9, 1.3), "no row is as cheap as that"
    assert cold.keep_ratio_for(1e9, waited_s=1.3) * 1e9 == pytest.approx(90_000.0)
    assert cold.fits_whole(3_000, 0.5, unreported=(2_000, 2_000)), "2,000 rows took 0.5 s"
    assert not cold.fits_whole(9_000, 0.5, unreported=(2_000, 2_000))
    assert cold.fits_whole(9_000, 0.5, unreported=(2, 2)), "two rows tell nothing"
