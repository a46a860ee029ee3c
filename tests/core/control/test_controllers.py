"""What holds for every controller: one suite, run against each of them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spillway.core.control import CONFIGS, Controller, Sample, make
from spillway.errors import SpillwayError
from tests.core.control import drawn_samples as draw

KINDS = [
    ("ctrl", {}),
    ("ctrl", {"anti_windup": "achieved"}),
    ("baseline", {}),
    ("aurora", {}),
    ("fixed", {"keep_ratio": 0.3}),
    ("none", {}),
    ("deadline", {}),
    ("deadline", {"engine": "batched"}),
]
QUICK = (Phase.explicit, Phase.generate)  # lists of samples take minutes to shrink
each = pytest.mark.parametrize(("name", "options"), KINDS, ids=str)
measuring = pytest.mark.parametrize("name", ["ctrl", "baseline", "aurora"])


@each
def test_it_is_a_controller(name, options):
    assert isinstance(make(name, target_delay_s=2.0, **options), Controller)


@each
@settings(max_examples=25, phases=QUICK)
@given(samples=st.lists(draw.nonsense() | draw.plausible(), max_size=12), target=st.floats(1e-3, 1e4))
def test_no_sample_breaks_it(name, options, samples, target):
    """Decision itself refuses NaN and what is out of range, so a step that returns has kept to it."""
    controller = make(name, target_delay_s=target, **options)
    for sample in samples:
        decision = controller.step(sample)
        assert decision.queue_limit_rows is None or decision.queue_limit_rows >= 1.0
        assert decision.target_delay_s == target
        assert decision.reason
        assert "nan" not in decision.reason
        assert "inf" not in decision.reason
        json.dumps(controller.snapshot(), allow_nan=False)


@each
@settings(max_examples=20, phases=QUICK)
@given(
    samples=st.lists(draw.plausible() | draw.nonsense(), min_size=1, max_size=12),
    split=st.integers(0, 12),
    retarget_at=st.integers(0, 12),
)
def test_any_split_gives_the_same_decisions(name, options, samples, split, retarget_at):
    whole = make(name, target_delay_s=2.0, **options)
    parts = make(name, target_delay_s=2.0, **options)
    for number, sample in enumerate(samples):
        if number == split:
            state = json.loads(json.dumps(parts.snapshot()))
            parts = make(name, target_delay_s=2.0, state=state, **options)
        if number == retarget_at:
            whole.retarget(3.0)
            parts.retarget(3.0)
        assert whole.step(sample) == parts.step(sample)
    assert whole.snapshot() == parts.snapshot()


@each
def test_the_state_is_bounded(name, options):
    controller = make(name, target_delay_s=2.0, **options)
    sizes = []
    for number in range(200):
        controller.step(draw.usual(arrived=300 + number))
        sizes.append(len(json.dumps(controller.snapshot())))
    assert max(sizes[100:]) <= sizes[99] + 200


@each
def test_a_target_in_force_outlives_a_restart_but_not_a_new_config(name, options):
    controller = make(name, target_delay_s=2.0, **options)
    controller.retarget(5.0)
    state = controller.snapshot()
    again = make(name, target_delay_s=2.0, state=state, **options)
    assert again.step(draw.usual()).target_delay_s == 5.0
    changed = make(name, target_delay_s=3.0, state=state, **options)
    assert changed.step(draw.usual()).target_delay_s == 3.0


@each
def test_a_foreign_or_torn_state_is_refused(name, options):
    state = make(name, target_delay_s=2.0, **options).snapshot()
    for wrong in (
        {},
        {**state, "kind": "something else"},
        {**state, "version": 99},
        {**state, "surplus": 1.0},
        {**state, "target_delay_s": math.nan},
        {**state, "target_delay_s": "2"},
        {key: value for key, value in state.items() if key != "target_delay_s"},
    ):
        with pytest.raises(SpillwayError):
            make(name, target_delay_s=2.0, state=wrong, **options)
    with pytest.raises(SpillwayError, match="snapshot"):
        make(name, target_delay_s=2.0, state=[1, 2], **options)


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf, True, "2 s"])
def test_a_wrong_target_raises_at_once_and_while_running(target):
    with pytest.raises(SpillwayError, match="target_delay_s"):
        make("deadline", target_delay_s=target)
    with pytest.raises(SpillwayError, match="target_delay_s"):
        make("deadline", target_delay_s=2.0).retarget(target)


@pytest.mark.parametrize("name", CONFIGS)
def test_unknown_options_raise_and_are_never_passed_through(name):
    with pytest.raises(SpillwayError, match="option"):
        make(name, target_delay_s=2.0, keep_ratoi=0.5)


def test_an_unknown_name_raises_with_the_nearest():
    with pytest.raises(SpillwayError, match="did you mean 'deadline'"):
        make("dedline", target_delay_s=2.0)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ctrl", {"period_s": 0.0}, "period_s"),
        ("ctrl", {"headroom": 1.5}, "headroom"),
        ("ctrl", {"headroom": 0.0}, "headroom"),
        ("ctrl", {"design": (0.7, 0.7)}, "PoleDesign"),
        ("ctrl", {"anti_windup": "achived"}, "did you mean 'achieved'"),
        ("fixed", {"keep_ratio": 1.1}, "keep_ratio"),
        ("deadline", {"engine": "batches"}, "did you mean 'batched'"),
        ("deadline", {"margin": 0.5}, "margin"),
        ("deadline", {"cold_cost_s": 0.0}, "cold_cost_s"),
        ("deadline", {"caution": -0.1}, "caution"),
        ("deadline", {"shortest": 0.0}, "shortest"),
        ("deadline", {"growth": 4.0}, "growth"),
    ],
)
def test_wrong_options_raise(name, options, says):
    with pytest.raises(SpillwayError, match=says):
        make(name, **{"target_delay_s": 2.0, **options})


@measuring
def test_rate_controllers_keep_everything_before_the_first_measurement(name):
    empty = Sample(at_s=1, period_s=1, arrived_rows=10_000, kept_rows=10_000, backlog_rows=9_000)
    decision = make(name, target_delay_s=2.0).step(empty)
    assert (decision.keep_ratio, decision.queue_limit_rows, decision.admit_rows) == (1.0, None, None)


@measuring
def test_rate_controllers_hold_the_last_cost(name):
    known, unknown = draw.usual(cost_s=0.005), draw.usual(cost_s=0.005)
    unknown = Sample.from_json(unknown.to_json().replace('"cost_s":0.005', '"cost_s":null'))
    one, two = make(name, target_delay_s=2.0), make(name, target_delay_s=2.0)
    one.step(known)
    two.step(known)
    assert one.step(known) == two.step(unknown)


@measuring
def test_rate_controllers_leave_the_queue_limit_alone(name):
    decision = make(name, target_delay_s=2.0).step(draw.usual())
    assert decision.queue_limit_rows is None
    assert decision.admit_rows is not None


def test_the_trivial_ones_are_trivial():
    sample = draw.usual(arrived=400)
    assert make("none", target_delay_s=2.0).step(sample).keep_ratio == 1.0
    fixed = make("fixed", target_delay_s=2.0, keep_ratio=0.25).step(sample)
    assert (fixed.keep_ratio, fixed.admit_rows) == (0.25, 100.0)
