"""Samples for property tests: plausible ones, and anything that a Sample can hold at all."""

from __future__ import annotations

from hypothesis import strategies as st

from spillway.core.control import Sample

_huge = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 1.0, 1e9, 1e300, 1.7e308]),
    st.floats(0.0, 1.7e308, allow_nan=False, allow_infinity=False),
)
_signed = st.floats(-1e308, 1e308, allow_nan=False, allow_infinity=False)


def nonsense() -> st.SearchStrategy[Sample]:
    """Any Sample whatever: clocks that jump, periods of no length, costs beyond all measure."""
    return st.builds(
        Sample,
        at_s=_signed,
        period_s=_huge,
        arrived_rows=_huge,
        kept_rows=_huge,
        backlog_rows=_huge,
        cost_s=st.none() | _huge,
        fixed_s=_huge,
        skip_s=_huge,
        busy_s=st.none() | _huge,
        finished_rows=st.none() | _huge,
        delay_s=st.none() | _signed,
        worst_delay_s=st.none() | _signed,
        protected_rows=_huge,
        unit_s=st.none() | _huge,
        work_s=_huge,
        spread=_huge,
        pace=_huge,
        waited_s=st.none() | _huge,
        idle_s=_huge,
    )


def plausible() -> st.SearchStrategy[Sample]:
    """A period as an engine would report it, empty ones and ones without a measurement among them."""
    rows = st.integers(0, 5000)
    return st.builds(
        lambda at, period, arrived, share, backlog, cost, done, worst, waited, idle, spread: Sample(
            at_s=at,
            period_s=period,
            arrived_rows=arrived,
            kept_rows=int(arrived * share),
            backlog_rows=backlog,
            cost_s=cost,
            fixed_s=0.2,
            skip_s=1e-6,
            busy_s=None if cost is None else done * cost,
            finished_rows=done,
            worst_delay_s=worst,
            waited_s=waited,
            idle_s=0.0 if waited is None else idle * waited,
            spread=spread,
        ),
        st.floats(0, 1e6),
        st.floats(0.2, 3.0),
        rows,
        st.floats(0, 1),
        rows,
        st.none() | st.floats(1e-6, 1e-1),
        rows,
        st.none() | st.floats(0.0, 10.0),
        st.none() | st.floats(0.0, 12.0),
        st.floats(0.0, 1.0),
        st.floats(0.0, 4.0),
    )


def usual(
    *, cost_s: float = 0.005, arrived: float = 400, backlog: float = 300, headroom: float = 0.97
) -> Sample:
    """A period of sustained overload on a pipelined engine."""
    capacity = headroom / cost_s
    return Sample(
        at_s=1.0,
        period_s=1.0,
        arrived_rows=arrived,
        kept_rows=min(arrived, capacity),
        backlog_rows=backlog,
        cost_s=cost_s,
        finished_rows=capacity,
    )
